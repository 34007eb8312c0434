"""The identities that hold everywhere, each as one test of public names.

a fit = sum of its passes        over any chunks
leave-one-out = refit            rows, groups, weights, degrees, kernels, fuzzy planes
chunks = memory                  partial_fit, merge and passes over batches
gram = moments                   solvers of one problem
search = GridSearchCV            every point, every metric
soft labels = expanded rows      a row for each class, in one group
order = none                     of rows, of columns, of the names of labels
engines = one fit                Dask here, Spark in tests/spark
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from fuzzytwin import (
    GEPSVC,
    FuzzyTwinCommittee,
    FuzzyTwinSVC,
    FuzzyTwinSVCCV,
    LeastSquaresSVC,
    LeastSquaresTwinSVC,
)
from fuzzytwin._passes import add

LANDMARKS = np.random.default_rng(5).normal(size=(6, 4))
MODELS = {
    "linear": {"alpha": 1.0},
    "no ridge": {"alpha": 0.0, "C": 0.4},
    "residual": {"alpha": 0.3, "rule": "residual", "C": 2.0},
    "balanced": {"alpha": 0.7, "class_weight": "balanced"},
    "fuzzy": {"alpha": 0.5, "planes": "fuzzy"},
    "kernel": {"alpha": 0.2, "kernel": "rbf", "gamma": 0.3, "n_landmarks": LANDMARKS},
}
models = pytest.mark.parametrize("parameters", MODELS.values(), ids=MODELS)


def table(seed, n=42, d=4, n_classes=3, *, repeats=0):
    """Make rows, labels, weights, degrees and groups; `repeats` rows more per group."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d)) + rng.normal(scale=1.5, size=(n_classes, d))[y]
    weight = rng.uniform(0.3, 3.0, n)
    degree = rng.uniform(0.2, 1.0, n)
    groups = rng.permutation(n) // (repeats + 1)
    return X, y, weight, degree, groups


# Widths of fuzzy planes stay those of the fit, as the docstring of loo_membership says.
@pytest.mark.parametrize("parameters", [MODELS[name] for name in MODELS if name != "fuzzy"])
@pytest.mark.parametrize("size", [1, 2, 9])  # nine rows are more than columns
@pytest.mark.parametrize("n_classes", [2, 3])
def test_leave_one_out_equals_a_refit_without_the_rows(parameters, size, n_classes):
    X, y, weight, degree, groups = table(1, n_classes=n_classes, repeats=size - 1)
    fixed = dict(parameters)
    if fixed.pop("class_weight", None):  # those of the fit stay, so that they are given here
        counts = np.bincount(y, weight)
        fixed["class_weight"] = dict(enumerate(counts.mean() / counts))
    model = FuzzyTwinSVC(**fixed).fit(X, y, weight, degree)
    memberships = model.loo_membership(X, y, weight, degree, groups if size > 1 else None)
    for group in np.unique(groups)[:: 10 // size]:
        others = groups != group
        refit = FuzzyTwinSVC(**fixed).fit(X[others], y[others], weight[others], degree[others])
        expected = refit.predict_membership(X[~others])
        assert_allclose(memberships[~others], expected, rtol=1e-7, atol=1e-9)


@models
@pytest.mark.parametrize("membership", [None, "given"])
def test_chunks_of_rows_and_merged_models_are_one_fit(parameters, membership):
    X, y, weight, degree, _ = table(2)
    degree = degree if membership else None
    whole = FuzzyTwinSVC(**parameters).fit(X, y, weight, degree)
    stream = FuzzyTwinSVC(**parameters)
    parts = []
    for chunk in np.array_split(np.random.default_rng(0).permutation(len(y)), 3):
        rows = X[chunk], y[chunk], weight[chunk], None if degree is None else degree[chunk]
        stream.partial_fit(*rows[:2], sample_weight=rows[2], membership=rows[3], classes=[0, 1, 2])
        part = FuzzyTwinSVC(**parameters).partial_fit(
            *rows[:2], sample_weight=rows[2], membership=rows[3], classes=[0, 1, 2]
        )
        parts.append(part)
    merged = parts[0].merge(parts[1]).merge(parts[2])
    for model in (stream, merged):
        assert_allclose(model.coef_, whole.coef_, rtol=1e-7, atol=1e-9)
        assert_allclose(model.intercept_, whole.intercept_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("folder", ["twin", "committee"])
def test_a_fit_in_memory_is_the_sum_of_its_passes_over_chunks(folder, monkeypatch):
    X, y, weight, _, _ = table(8, n=120)
    model = FuzzyTwinSVC(alpha=1.0) if folder == "twin" else FuzzyTwinCommittee(random_state=0)
    expected = clone(model).fit(X, y, weight)
    passes = []

    def in_chunks(rows):
        chunks = [rows.take(slice(start, start + 35)) for start in range(0, len(rows), 35)]

        def total(function, *shared):
            passes.append(function)
            return add(function(*shared, chunk) for chunk in chunks)

        return total

    monkeypatch.setattr(f"fuzzytwin.{folder}._fit.in_memory", in_chunks)
    fitted = model.fit(X, y, weight)
    assert passes
    found, expected = (model.decision_function(X) for model in (fitted, expected))
    assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("solver", ["gram", "iterative"])
def test_solvers_find_the_planes_of_moments(solver):
    X, y, weight, degree, _ = table(3, n=24, d=30)
    parameters = {"alpha": 0.5, "C": 0.7}
    planes = FuzzyTwinSVC(solver="moments", **parameters).fit(X, y, weight, degree)
    other = FuzzyTwinSVC(solver=solver, **parameters).fit(X, y, weight, degree)
    tolerance = 1e-8 if solver == "gram" else 1e-4
    assert_allclose(other.coef_, planes.coef_, rtol=tolerance, atol=tolerance)
    assert_allclose(other.intercept_, planes.intercept_, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_search_scores_every_point_as_grid_search_does(scoring, n_classes):
    X, y, *_ = table(4, n=60, n_classes=n_classes)
    Cs, alphas = [0.5, 2.0], [0.1, 10.0]
    cv = StratifiedKFold(3)
    search = FuzzyTwinSVCCV(
        Cs=Cs, alphas=alphas, memberships=[None, "center"], rules=["distance", "residual"],
        cv=cv, scoring=scoring,
    ).fit(X, y)  # fmt: skip
    points = search.cv_results_["params"]
    grid = [{name: [value] for name, value in point.items()} for point in points]
    expected = GridSearchCV(FuzzyTwinSVC(), grid, cv=cv, scoring=scoring).fit(X, y)
    scores = expected.cv_results_["mean_test_score"]
    assert len(points) >= len(Cs) * len(alphas) * 4
    assert_allclose(search.cv_results_["mean_test_score"], scores, rtol=1e-12)


def test_a_fit_on_dask_is_the_fit_in_memory():
    da = pytest.importorskip("dask.array")
    from fuzzytwin import dask as on_dask

    X, y, weight, _, _ = table(6, n=90)
    chunks = da.from_array(X, chunks=(25, 4)), da.from_array(y, chunks=25)
    planes = on_dask.FuzzyTwinSVC(alpha=1.0, membership="center").fit(
        *chunks, sample_weight=da.from_array(weight, chunks=25)
    )
    expected = FuzzyTwinSVC(alpha=1.0, membership="center").fit(X, y, weight)
    assert_allclose(planes.coef_, expected.coef_, rtol=1e-8, atol=1e-10)
    committee = on_dask.FuzzyTwinCommittee(random_state=0).fit(*chunks)
    in_memory = FuzzyTwinCommittee(random_state=0).fit(X, y)
    assert_allclose(
        np.asarray(committee.predict_proba(chunks[0])), in_memory.predict_proba(X), atol=1e-7
    )


def test_order_of_rows_changes_nothing_in_a_committee():
    X, y, weight, _, groups = table(7, n=120, repeats=1)
    order = np.random.default_rng(1).permutation(len(y))
    model = FuzzyTwinCommittee(random_state=0).fit(X, y, weight, groups=groups)
    other = FuzzyTwinCommittee(random_state=0).fit(
        X[order], y[order], weight[order], groups=groups[order]
    )
    assert_allclose(other.predict_proba(X), model.predict_proba(X), atol=1e-6)
    assert_array_equal(other.predict(X), model.predict(X))


ANY_ORDER = {
    **{name: FuzzyTwinSVC(**{"random_state": 0} | given) for name, given in MODELS.items()},
    "calibrated": FuzzyTwinSVC(alpha=1.0, membership="center", calibration="loo"),
    "neighbours": FuzzyTwinSVC(alpha=1.0, membership="neighbor"),
    "search": FuzzyTwinSVCCV(cv=3, memberships=(None, "center")),
    "LeastSquaresTwinSVC": LeastSquaresTwinSVC(alpha=1.0),
    "LeastSquaresSVC": LeastSquaresSVC(),
    "GEPSVC": GEPSVC(alpha=1.0),
    "committee": FuzzyTwinCommittee(members="planes"),
}
del ANY_ORDER["kernel"]  # landmarks that are given have an order of columns


@pytest.mark.parametrize("model", ANY_ORDER.values(), ids=ANY_ORDER)
def test_neither_the_order_of_columns_nor_the_names_of_labels_matter(model):
    X, y, _, _, _ = table(11, n=60)
    columns = [2, 0, 3, 1]
    first = clone(model).fit(X, np.array(["a", "b", "c"])[y])
    other = clone(model).fit(X[:, columns], np.array(["z", "y", "x"])[y])
    assert_array_equal(
        np.array(["z", "y", "x"])[np.searchsorted(first.classes_, first.predict(X))],
        other.predict(X[:, columns]),
    )
    for method in ("predict_membership", "predict_proba"):
        if hasattr(model, method) and hasattr(first, method):
            found = getattr(other, method)(X[:, columns])[:, ::-1]
            assert_allclose(found, getattr(first, method)(X), rtol=0, atol=1e-9)


def test_soft_labels_are_a_row_for_each_class_in_one_group():
    X, y, weight, _, _ = table(12)
    share = np.random.default_rng(0).dirichlet(np.ones(3), len(y))
    model = FuzzyTwinSVC(alpha=1.0, calibration="loo")
    soft = clone(model).fit(X, y, weight, membership=share)
    rows, classes = np.repeat(np.arange(len(y)), 3), np.tile(np.arange(3), len(y))
    given = X[rows], classes, (weight[:, None] * share).ravel()
    hard = clone(model).fit(*given, groups=rows)
    assert_allclose(soft.coef_, hard.coef_, rtol=0, atol=1e-12)
    assert_allclose(soft.predict_proba(X), hard.predict_proba(X), rtol=0, atol=1e-9)
    held_out = hard.loo_membership(*given, groups=rows)
    assert_allclose(
        soft.loo_membership(X, y, weight, membership=share), held_out[::3], rtol=0, atol=1e-12
    )
