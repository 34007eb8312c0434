"""FuzzyTwinSVC as a scikit-learn estimator: what goes in, what comes out."""

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fuzzytwin import CenterMembership, FuzzyTwinSVC, NeighborMembership
from fuzzytwin.core.distances import memberships_of
from tests.checks import scikit_learn_checks
from tests.twin.helpers import PLANES, WAYS, assert_same_model


@scikit_learn_checks(
    FuzzyTwinSVC(),
    FuzzyTwinSVC(planes="fuzzy", membership="center"),
    slow=[FuzzyTwinSVC(planes=planes, membership=way) for planes in PLANES for way in WAYS],
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# --- what comes out


@pytest.mark.parametrize("membership", WAYS)
@pytest.mark.parametrize("planes", PLANES)
def test_fitted_attributes(rows, planes, membership):
    X, y = rows
    model = FuzzyTwinSVC(planes=planes, membership=membership)
    assert model.fit(X, y) is model
    assert model.coef_.shape == (6, 4)
    assert model.intercept_.shape == (6,)
    pairs = [[0, 1], [1, 0], [0, 2], [2, 0], [1, 2], [2, 1]]
    assert model.plane_classes_.tolist() == pairs
    assert model.membership_.shape == (150,)
    assert ((model.membership_ > 0) & (model.membership_ <= 1)).all()
    assert model.rank_ == model.n_features_in_ == 4
    assert not hasattr(model, "feature_names_in_")
    assert hasattr(model, "width_coef_") == (planes == "fuzzy")
    if planes == "fuzzy":
        assert model.width_coef_.shape == (6, 4)
        assert (model.width_coef_ >= 0).all()
        assert (model.width_intercept_ >= 0).all()
    assert_allclose(model.moments_.own.weight, 50)
    assert_allclose(model.moments_.slack.weight, np.bincount(y, model.membership_))
    assert model.score(X, y) > 0.7


@pytest.mark.parametrize("rule", ["distance", "residual"])
@pytest.mark.parametrize("planes", PLANES)
def test_predictions_agree_with_each_other(rows, planes, rule):
    X, y = rows
    model = FuzzyTwinSVC(planes=planes, rule=rule).fit(X, y)
    u = model.predict_membership(X)
    assert u.shape == (150, 3)
    assert_allclose(u.sum(axis=1), 1)
    assert_array_equal(model.predict(X), model.classes_[u.argmax(axis=1)])
    assert_array_equal(model.decision_function(X), u)
    delta, gamma = model.fuzzy_distance(X)
    norms = np.linalg.norm(model.coef_, axis=1)
    assert_allclose(delta, np.abs(X @ model.coef_.T + model.intercept_) / norms, atol=1e-12)
    if planes == "crisp":
        assert_array_equal(gamma, np.zeros((150, 6)))
    else:
        g = np.abs(X) @ model.width_coef_.T + model.width_intercept_
        assert_allclose(gamma, g / norms, atol=1e-12)
    a = np.where(delta >= gamma, delta + gamma, delta) * (norms if rule == "residual" else 1)
    assert_allclose(u, memberships_of(a.T, 3).T, rtol=1e-9)


@pytest.mark.parametrize("planes", PLANES)
def test_binary_decision_is_positive_for_the_second_class(pair, planes):
    X, y = pair
    model = FuzzyTwinSVC(planes=planes).fit(X, np.where(y, "zebra", "ant"))
    score = model.decision_function(X)
    u = model.predict_membership(X)
    assert score.shape == (100,)
    assert_allclose(score, u[:, 1] - u[:, 0])
    assert_array_equal(model.predict(X), np.where(score > 0, "zebra", "ant"))
    assert (score[y == 1] > 0).mean() > 0.8
    assert (score[y == 0] < 0).mean() > 0.8


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 1]),
        np.array([-1, 1]),
        np.array(["no", "yes"]),
        np.array([False, True]),
        np.array(["a", "bcd"], dtype=object),
        np.array([-(10**12), 10**15]),
        np.array([0, 255], dtype=np.uint8),
        np.array([-128, 127], dtype=np.int8),
        np.array([-(2**15), 2**15 - 1], dtype=np.int16),
        np.array([2**64 - 2, 2**64 - 1], dtype=np.uint64),
        np.array([0.0, 1.0]),
        np.array([-1.0, 1.0], dtype=np.float32),
    ],
    ids=lambda labels: f"{labels.dtype}-{labels[0]}",
)
def test_label_kinds(pair, labels):
    X, y = pair
    expected = FuzzyTwinSVC().fit(X, y)
    model = FuzzyTwinSVC().fit(X, labels[y])
    assert_array_equal(model.classes_, labels)
    assert model.classes_.dtype == labels.dtype
    assert_same_model(model, expected)
    assert_array_equal(model.predict(X), labels[expected.predict(X)])
    streamed = FuzzyTwinSVC().partial_fit(X[:60], labels[y[:60]], classes=labels[::-1])
    assert_same_model(streamed.partial_fit(X[60:], labels[y[60:]]), expected)


# --- what goes in


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_with_feature_names(rows, frame):
    X, y = rows
    columns = list("abcd")
    table = frame(dict(zip(columns, X.T, strict=True)))
    expected = FuzzyTwinSVC(membership="center").fit(X, y)
    model = FuzzyTwinSVC(membership="center").fit(table, y)
    assert_same_model(model, expected)
    assert_array_equal(model.predict(table), expected.predict(X))
    if not hasattr(StandardScaler().fit(table), "feature_names_in_"):
        pytest.skip("this scikit-learn cannot read the column names of such a new polars")
    assert_array_equal(model.feature_names_in_, columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[["b", "a", "c", "d"]])
    with pytest.warns(UserWarning, match="valid feature names"):
        model.predict(X)


@pytest.mark.parametrize("series", [pd.Series, pl.Series])
@pytest.mark.parametrize("labels", [np.arange(3), np.array(["x", "y", "z"], dtype=object)])
def test_series_as_labels_weights_and_degrees(rows, series, labels):
    X, y = rows
    s, mu = np.linspace(1, 2, 150), np.linspace(0.5, 1, 150)
    expected = FuzzyTwinSVC().fit(X, y, s, mu)
    model = FuzzyTwinSVC().fit(X, series(labels[y].tolist()), series(s), series(mu))
    assert_same_model(model, expected)
    assert_array_equal(model.predict(X), labels[expected.predict(X)])


def read_only(X, path):
    X = X.copy()
    X.flags.writeable = False
    return X


def mapped(X, path):
    np.save(path / "X.npy", X)
    return np.load(path / "X.npy", mmap_mode="r")


LAYOUTS = {
    "read-only": read_only,
    "memory-mapped": mapped,
    "F-ordered": lambda X, path: np.asfortranarray(X),
    "every second row": lambda X, path: np.repeat(X, 2, axis=0)[::2],
    "every second column": lambda X, path: np.repeat(X, 2, axis=1)[:, ::2],
    "backwards": lambda X, path: X[::-1].copy()[::-1],
    "list": lambda X, path: X.tolist(),
    "int32": lambda X, path: X.astype(np.int32),
    "int8": lambda X, path: X.astype(np.int8),
    "float32": lambda X, path: X.astype(np.float32),
    "CSR": lambda X, path: sparse.csr_array(X),
    "CSC": lambda X, path: sparse.csc_matrix(X),
    "COO": lambda X, path: sparse.coo_array(X),
    "CSR float32": lambda X, path: sparse.csr_matrix(X, dtype=np.float32),
    "CSR int64": lambda X, path: sparse.csr_array(X.astype(np.int64)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("planes", "membership"), [("crisp", "center"), ("fuzzy", "hyperplane")])
def test_layouts(rows, tmp_path, layout, planes, membership):
    X, y = rows
    X = np.round(10 * X) * (np.abs(X) > 0.5)  # whole numbers, a third of them zero
    given = LAYOUTS[layout](X, tmp_path)
    before = given.copy() if hasattr(given, "copy") else given
    expected = FuzzyTwinSVC(planes=planes, membership=membership).fit(X, y)
    model = FuzzyTwinSVC(planes=planes, membership=membership).fit(given, y)
    assert_same_model(model, expected)
    assert_allclose(model.predict_membership(given), expected.predict_membership(X), rtol=1e-7)
    if sparse.issparse(given):
        before, given = before.toarray(), given.toarray()
    assert_array_equal(given, before)


def test_sparse_rows_with_entries_given_twice():
    """2 and -3 in one place are -1, also in abs(X)."""
    data, indices = np.tile([2.0, -3, 1, 1], 30), np.tile([0, 0, 2, 1], 30)
    S = sparse.csr_array((data, indices, np.arange(0, 121, 2)), shape=(60, 3))
    y = np.arange(60) % 2
    y[:7] = 0
    dense = S.toarray()
    model = FuzzyTwinSVC(planes="fuzzy").fit(S, y)
    expected = FuzzyTwinSVC(planes="fuzzy").fit(dense, y)
    assert_same_model(model, expected)
    assert_allclose(model.predict_membership(S), expected.predict_membership(dense), rtol=1e-9)
    assert_array_equal(S.data, data)


@pytest.mark.parametrize(("planes", "membership"), [("crisp", None), ("fuzzy", "center")])
def test_sparse_rows_are_never_dense_as_a_whole(planes, membership):
    columns = np.random.default_rng(0).integers(0, 300, (20_000, 3))  # density 0.01
    X = sparse.csr_array((np.ones(60_000), columns.ravel(), np.arange(0, 60_001, 3)), (20_000, 300))
    X.sum_duplicates()
    y = (X[:, [0]].toarray()[:, 0] > 0).astype(int)
    FuzzyTwinSVC(planes=planes, membership=membership).fit(X[:50], np.arange(50) % 2)  # imports
    tracemalloc.start()
    try:
        model = FuzzyTwinSVC(planes=planes, membership=membership).fit(X, y)
        model.predict(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < X.shape[0] * X.shape[1] * 8 / 2


def test_float32_has_the_accuracy_of_float64():
    """Columns far from zero, where sums in float32 would have no correct digit left."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(5000, 5)) + 1000).astype(np.float32)
    y = (X[:, 0] + X[:, 1] > 2000).astype(int)
    narrow = FuzzyTwinSVC(planes="fuzzy").fit(X, y)
    wide = FuzzyTwinSVC(planes="fuzzy").fit(X.astype(np.float64), y)
    assert_same_model(narrow, wide, rtol=1e-10)
    assert_allclose(
        narrow.predict_membership(X), wide.predict_membership(X.astype(np.float64)), rtol=1e-10
    )
    assert narrow.coef_.dtype == np.float64


# --- scikit-learn's tools


class Recorder(FuzzyTwinSVC):
    """Keeps what reached `fit`."""

    def fit(self, X, y, sample_weight=None, membership=None):
        super().fit(X, y, sample_weight, membership)
        self.received_ = sample_weight, membership
        return self


@pytest.mark.parametrize("planes", PLANES)
def test_metadata_reaches_fit(rows, planes):
    X, y = rows
    s, mu = np.linspace(1, 2, 150), np.linspace(0.2, 1, 150)
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        svc = Recorder(planes=planes).set_fit_request(sample_weight=True, membership=True)
        accuracy = get_scorer("accuracy").set_score_request(sample_weight=True)
        pipeline = make_pipeline(scaler, svc)
        pipeline.fit(X, y, sample_weight=s, membership=mu)
        assert_array_equal(pipeline[-1].received_[0], s)
        assert_array_equal(pipeline[-1].received_[1], mu)
        assert_array_equal(pipeline[-1].membership_, mu)
        expected = FuzzyTwinSVC(planes=planes).fit(pipeline[0].transform(X), y, s, mu)
        assert_same_model(pipeline[-1], expected)
        result = cross_validate(
            pipeline, X, y, params={"sample_weight": s, "membership": mu}, scoring=accuracy,
            return_estimator=True, return_indices=True,
        )  # fmt: skip
        for model, train in zip(result["estimator"], result["indices"]["train"], strict=True):
            assert_array_equal(model[-1].received_[0], s[train])
            assert_array_equal(model[-1].received_[1], mu[train])


def test_grid_search_over_nested_parameters(rows):
    X, y = rows
    grid = {"membership__k": [1, 5], "C": [0.1, 10.0], "membership": [NeighborMembership()]}
    search = GridSearchCV(FuzzyTwinSVC(), grid, cv=3).fit(X, y)
    results = search.cv_results_
    for i, params in enumerate(results["params"]):
        model = FuzzyTwinSVC(
            C=params["C"], membership=NeighborMembership(k=params["membership__k"])
        )
        alone = cross_validate(model, X, y, cv=3)["test_score"].mean()
        assert_allclose(results["mean_test_score"][i], alone)
    assert isinstance(search.best_estimator_.membership, NeighborMembership)
    assert search.best_estimator_.membership.k == search.best_params_["membership__k"]


@pytest.mark.parametrize("membership", [*WAYS, CenterMembership(decay="exponential", beta=2.0)])
@pytest.mark.parametrize("planes", PLANES)
def test_clone_and_pickle(rows, planes, membership):
    X, y = rows
    model = FuzzyTwinSVC(planes=planes, C=[1.0, 2, 3], membership=membership, rule="residual").fit(
        X, y
    )
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.predict_membership(X), model.predict_membership(X))
    fresh = clone(model)
    assert not hasattr(fresh, "coef_")
    assert repr(fresh) == repr(model) == repr(copy)
    assert_array_equal(fresh.fit(X, y).coef_, model.coef_)


def test_fit_leaves_the_parameters_alone(rows):
    X, y = rows
    C, membership = [1.0, 2.0, 3.0], NeighborMembership(k=3)
    model = FuzzyTwinSVC(C=C, membership=membership, class_weight={0: 2.0}).fit(X, y)
    assert model.C is C
    assert C == [1.0, 2.0, 3.0]
    assert model.membership is membership
    assert vars(membership) == vars(NeighborMembership(k=3))
