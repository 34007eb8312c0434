"""Identities of weights, groups, orders and memory layouts, on random tables.

A weight is an importance, and a row is left out with all of it. So a common factor of all weights
changes nothing, a weight of w is w copies of the row in one group, and neither the order of rows,
the names of groups nor the layout of memory matters. Sixty tables take minutes: by default
some of them are drawn, and all of them with the slow tests.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from fuzzytwin import FuzzyTwinCommittee, FuzzyTwinSVC, files
from fuzzytwin.committee import _first_pass, _ridge_members
from fuzzytwin.label_issues import find_label_issues

TABLES = [
    pytest.param(seed, marks=() if seed % 25 == 1 else pytest.mark.slow) for seed in range(60)
]
CLOSE = 1e-6

MEMBERS = [
    ["linear", "rbf", ("laplacian", {"length_scale_factor": 2.0})],
    ["linear", ("rbf", {"length_scale_factor": 0.5}), ("rbf", {"ard": True})],
    "auto",
]

pytestmark = pytest.mark.filterwarnings(
    "ignore:all rows of class", "ignore:about .* rows", "ignore:class .* of the rows, and coverage"
)


@dataclass
class Table:
    """Rows, and what is given with them to a fit."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    groups: np.ndarray | None
    membership: np.ndarray | None
    new: np.ndarray

    def given(self, **other):
        return {
            "sample_weight": self.weight, "groups": self.groups, "membership": self.membership,
        } | other  # fmt: skip

    def take(self, index, **other):
        """Take rows, some of them several times."""
        parts = {
            name: None if getattr(self, name) is None else getattr(self, name)[index]
            for name in ("X", "y", "weight", "groups", "membership")
        }
        return Table(**(parts | other), new=self.new)


def random_table(seed, *, soft=True):
    """Draw rows of two to four classes, with weights, and with groups and degrees at times."""
    rng = np.random.default_rng(seed)
    n, d, K = int(rng.integers(24, 70)), int(rng.integers(2, 7)), int(rng.integers(2, 5))
    y = np.append(np.repeat(np.arange(K), 3), rng.integers(0, K, n - 3 * K))
    X = rng.normal(size=(n, d)) + rng.uniform(0.5, 2) * np.eye(d)[y % d]
    if rng.random() < 0.3:
        X[:, 0] = X[:, 0].round()
    if rng.random() < 0.2:
        X = np.hstack([X, X[:, :1] + X[:, 1:2]])  # a column that depends on others
    weight = rng.integers(1, 5, n).astype(float) if rng.random() < 0.5 else np.ones(n)
    groups = rng.integers(0, n // 3, n) if rng.random() < 0.5 else None
    membership, kind = None, rng.random()
    if kind < 0.25:
        membership = rng.uniform(0.2, 1, n)
    elif kind < 0.5 and soft:
        membership = np.array([0.7, 0.2, 0.1, 0.0])[(np.arange(K) - y[:, None]) % K]
    return Table(X, y, weight, groups, membership, rng.normal(size=(40, X.shape[1])))


def renamed_groups(table, rng):
    """Give groups other names, in another order."""
    numbers = rng.permutation(table.groups.max() + 1)
    return np.array([f"patient {number}" for number in numbers])[table.groups]


def committee(seed):
    weights = "balanced" if seed % 7 == 0 else None
    return FuzzyTwinCommittee(
        members=MEMBERS[seed % len(MEMBERS)], class_weight=weights, random_state=0
    )


def planes(seed):
    """Calibrated planes whose ridge follows from the rows."""
    kernel = ("linear", "rbf")[seed % 2]
    solver = "gram" if seed % 6 == 0 else "auto"
    landmarks = {"kernel": kernel, "n_landmarks": 1000, "solver": solver}
    return FuzzyTwinSVC(alpha="auto", calibration="loo", **landmarks)


def outcome(model, table):
    """Fit a model; return all that must not change: probabilities, sets and left-out values."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "each class has only one row")
        model = clone(model).fit(table.X, table.y, **table.given())
    left_out = getattr(model, "loo_proba_", None)
    if left_out is None:
        left_out = model.loo_membership(table.X, table.y, **table.given())
    sets = [
        model.predict_set(table.new, coverage, class_conditional=by_class)
        for coverage in (0.6, 0.83)
        for by_class in (False, True)
    ]
    return model.predict_proba(table.new), left_out, np.stack(sets)


def assert_same(found, expected, rows=slice(None), once=slice(None)):
    """Compare two outcomes: the left-out values of some rows of each."""
    np.testing.assert_allclose(found[0], expected[0], atol=CLOSE)
    np.testing.assert_allclose(found[1][rows], expected[1][once], atol=CLOSE)
    np.testing.assert_array_equal(found[2], expected[2])


def assert_same_reports(found, expected, rows=slice(None), once=slice(None)):
    np.testing.assert_allclose(found.label_quality[rows], expected.label_quality[once], atol=CLOSE)
    np.testing.assert_array_equal(found.is_label_issue[rows], expected.is_label_issue[once])
    np.testing.assert_array_equal(found.suggested_labels[rows], expected.suggested_labels[once])


MODELS = pytest.mark.parametrize("make", [committee, planes])


@MODELS
@pytest.mark.parametrize("seed", TABLES)
def test_a_common_factor_of_weights_changes_nothing(make, seed):
    table = random_table(seed)
    expected = outcome(make(seed), table)
    for factor in (2.0, 2.5, 10.0, 1e-3):
        heavier = table.take(slice(None), weight=factor * table.weight)
        assert_same(outcome(make(seed), heavier), expected)


@MODELS
@pytest.mark.parametrize("seed", TABLES)
def test_a_weight_of_w_is_w_copies_in_one_group(make, seed):
    table = random_table(seed)
    if table.groups is None:
        table.groups = np.arange(len(table.y))
    times = np.random.default_rng(seed).integers(1, 4, len(table.y))
    index = np.repeat(np.arange(len(times)), times)
    heavy = table.take(slice(None), weight=table.weight * times)
    found, expected = (outcome(make(seed), part) for part in (table.take(index), heavy))
    assert_same(found, expected, once=index)


@MODELS
@pytest.mark.parametrize("seed", TABLES)
def test_neither_order_nor_names_of_groups_nor_layout_matter(make, seed):
    table = random_table(seed)
    expected = outcome(make(seed), table)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(table.y))
    assert_same(outcome(make(seed), table.take(order)), expected, once=order)
    columns = table.take(slice(None), X=np.asfortranarray(table.X))
    assert_same(outcome(make(seed), columns), expected)
    if table.groups is not None:
        names = np.array(
            [f"patient {number}" for number in rng.permutation(table.groups.max() + 1)]
        )
        renamed = table.take(slice(None), groups=names[table.groups])
        assert_same(outcome(make(seed), renamed), expected)


@pytest.mark.parametrize("seed", TABLES)
def test_label_errors_do_not_depend_on_factors_copies_orders_and_names(seed):
    table = random_table(seed, soft=False)
    table.groups = np.arange(len(table.y)) if table.groups is None else table.groups
    rng = np.random.default_rng(seed)
    wrong = rng.choice(len(table.y), len(table.y) // 8, replace=False)
    table.y[wrong] = rng.permutation(table.y)[wrong]

    def report(part):
        return find_label_issues(part.X, part.y, sample_weight=part.weight, groups=part.groups)

    expected = report(table)
    for factor in (2.0, 2.5, 10.0, 1e-3):
        found = report(table.take(slice(None), weight=factor * table.weight))
        assert_same_reports(found, expected)
    order = rng.permutation(len(table.y))
    assert_same_reports(report(table.take(order)), expected, once=order)
    renamed = table.take(slice(None), groups=renamed_groups(table, rng))
    assert_same_reports(report(renamed), expected)
    times = rng.integers(1, 4, len(table.y))
    index = np.repeat(np.arange(len(times)), times)
    heavy = report(table.take(slice(None), weight=table.weight * times))
    assert_same_reports(report(table.take(index)), heavy, once=index)


@pytest.fixture
def n_sampled(request, monkeypatch):
    """Sample more rows than these: few of them, or as many as it is."""
    for module in (_first_pass, _ridge_members):
        monkeypatch.setattr(module, "SAMPLE_ROWS", request.param)
    return request.param


WHOLE_AND_SAMPLED = pytest.mark.parametrize(
    ("whole", "n_sampled"),
    [(False, 2000), *(pytest.param(True, n, marks=pytest.mark.slow) for n in (2000, 10_000))],
    indirect=["n_sampled"],
)


def many_rows(whole, n):
    """Draw more rows than a model of label errors is fitted to, with labels redrawn at times."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 5))
    X[np.arange(n), y] += 2
    redrawn = rng.random(n) < 0.1
    y[redrawn] = rng.integers(0, 3, redrawn.sum())
    X = np.round(64 * X) if whole else X
    return Table(X, y, rng.integers(1, 4, n).astype(float), np.arange(n) // 3, None, X[:1])


@WHOLE_AND_SAMPLED
def test_the_sample_of_many_rows_depends_on_their_content_alone(whole, n_sampled):
    """By row number and by the names of groups, flags went from 1,777 to 1,239."""
    table = many_rows(whole, n_sampled * 21 // 20)

    def report(part, groups=None):
        return find_label_issues(part.X, part.y, sample_weight=part.weight, groups=groups)

    expected = report(table)
    assert expected.is_label_issue.any()
    order = np.random.default_rng(1).permutation(len(table.y))
    assert_same_reports(report(table.take(order)), expected, once=order)
    assert_same_reports(report(table.take(slice(None), weight=2.5 * table.weight)), expected)
    assert_same_reports(report(table, groups=np.arange(len(table.y))[::-1]), expected)
    grouped = report(table, groups=table.groups)
    names = renamed_groups(table, np.random.default_rng(2))
    assert_same_reports(report(table, groups=names), grouped)
    index = np.repeat(np.arange(len(table.y)), table.weight.astype(int))
    copies = table.take(index, weight=np.ones(len(index)))
    assert_same_reports(report(copies, groups=copies.groups), grouped, once=index)


@WHOLE_AND_SAMPLED
def test_batches_and_dask_find_the_label_errors_of_rows_in_memory(whole, n_sampled, tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    from fuzzytwin.dask import find_label_issues as find_in_chunks

    table = many_rows(whole, n_sampled * 21 // 20)
    expected = find_label_issues(table.X, table.y, sample_weight=table.weight)
    columns = [f"x{number}" for number in range(5)]
    frame = pd.DataFrame(table.X, columns=columns).assign(y=table.y, w=table.weight)
    order = np.random.default_rng(3).permutation(len(frame))
    batches = [frame.iloc[part] for part in np.array_split(order, 7)]
    out = tmp_path / "found.parquet"
    files.find_label_issues(batches, out, target="y", features=columns, sample_weight="w")
    chunks = dd.from_pandas(frame, npartitions=3)
    in_chunks = find_in_chunks(chunks[columns], chunks["y"], sample_weight=chunks["w"])
    for found, rows in ((pd.read_parquet(out), order), (in_chunks.frame.compute(), slice(None))):
        np.testing.assert_allclose(found["label_quality"], expected.label_quality[rows], atol=CLOSE)
        np.testing.assert_array_equal(found["is_label_issue"], expected.is_label_issue[rows])
