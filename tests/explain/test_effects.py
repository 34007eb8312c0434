"""Effects of columns: every sign is the direction in which memberships move."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, scale
from sklearn.svm import LinearSVC

from fuzzytwin import GEPSVC, FuzzyTwinSVC, FuzzyTwinSVCCV, LeastSquaresTwinSVC, TwinSVC
from fuzzytwin.explain import (
    column_effects,
    explain,
    row_effects,
)

CANCER = load_breast_cancer(return_X_y=True)
MODELS = {
    "crisp": FuzzyTwinSVC(),
    "residual": FuzzyTwinSVC(C=0.01, rule="residual", alpha=0.1),
    "fuzzy": FuzzyTwinSVC(planes="fuzzy"),
    "rbf": FuzzyTwinSVC(kernel="rbf", n_landmarks=40, random_state=0),
}


def moved(model, X, j, by):
    Z = X.copy()
    Z[:, j] += by
    return model.predict_membership(Z).mean(axis=0)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
def test_signs_agree_with_moved_columns(name, load):
    X, y = load(return_X_y=True)
    X = scale(X)
    model = MODELS[name].fit(X, y)
    effects, strengths = column_effects(model, X)
    for j in range(X.shape[1]):
        change = moved(model, X, j, 0.5) - moved(model, X, j, -0.5)
        np.testing.assert_allclose(effects[:, j], change, atol=1e-10)
    assert (strengths >= abs(effects) - 1e-12).all()
    np.testing.assert_allclose(effects.sum(axis=0), 0, atol=1e-10)


def test_the_signs_of_coefficients_mislead():
    """Many columns have one sign in both planes, but cannot speak for both classes."""
    X, y = load_breast_cancer(return_X_y=True)
    model = FuzzyTwinSVC(C=0.01).fit(scale(X), y)
    assert (np.sign(model.coef_[0]) == np.sign(model.coef_[1])).sum() > 10
    effects, _ = column_effects(model, scale(X))
    np.testing.assert_array_equal(np.sign(effects[0]), -np.sign(effects[1]))


def test_the_effect_is_the_mean_slope_for_small_deviations():
    X, y = load_iris(return_X_y=True)
    X = scale(X) * [1e-4, 1, 1, 1]
    model = FuzzyTwinSVC(alpha=1e-3).fit(X, y)
    h = 1e-7
    slope = (moved(model, X, 0, h) - moved(model, X, 0, -h)) / (2 * h)
    np.testing.assert_allclose(column_effects(model, X)[0][:, 0], slope * 1e-4, rtol=2e-2)


def test_a_cross_has_strength_but_no_effect():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 2))
    model = FuzzyTwinSVC(kernel="rbf", alpha=10.0, random_state=0).fit(X, X[:, 0] * X[:, 1] > 0)
    effects, strengths = column_effects(model, X)
    assert abs(effects).max() < 0.05 < 0.2 < strengths.min()


def test_weights_are_repetitions():
    X, y = load_iris(return_X_y=True)
    w = np.arange(len(y)) % 3
    model = FuzzyTwinSVC().fit(X, y)
    heavy = column_effects(model, X, w)
    repeated = column_effects(model, np.repeat(X, w, axis=0))
    np.testing.assert_allclose(heavy, repeated, atol=1e-12)


def test_sparse_rows_and_other_classifiers():
    X, y = load_iris(return_X_y=True)
    model = FuzzyTwinSVC().fit(X, y)
    dense = column_effects(model, X)
    np.testing.assert_allclose(column_effects(model, sparse.csr_matrix(X)), dense, atol=1e-12)
    logistic = LogisticRegression(max_iter=1000).fit(X, y == 2)
    effects, _ = column_effects(logistic, X)
    np.testing.assert_array_equal(np.sign(effects[1]), np.sign(logistic.coef_[0]))


def test_rows_are_left_alone_and_many_are_sampled(monkeypatch):
    X, y = load_iris(return_X_y=True)
    kept, model = X.copy(), FuzzyTwinSVC().fit(X, y)
    whole = column_effects(model, X)[0]
    np.testing.assert_array_equal(X, kept)
    monkeypatch.setattr("fuzzytwin.explain._effects.MAX_ROWS", 100)
    part = column_effects(model, X)[0]
    np.testing.assert_allclose(part, column_effects(model, X[::-1])[0], atol=1e-12)
    assert (part != whole).all()
    np.testing.assert_allclose(part, whole, atol=0.05)


def test_constant_columns_have_no_effect():
    X, y = load_iris(return_X_y=True)
    X[:, 1] = 3.0
    effects, strengths = column_effects(FuzzyTwinSVC().fit(X, y), X)
    assert not effects[:, 1].any()
    assert not strengths[:, 1].any()


def test_explain_names_columns_the_strongest_first():
    data = load_iris(as_frame=True)
    model = make_pipeline(StandardScaler(), FuzzyTwinSVC(planes="fuzzy"))
    explained = explain(model.fit(data.data, data.target), data.data, data.target, top=3)
    assert [entry["class"] for entry in explained] == [0, 1, 2]
    for entry in explained:
        strengths = [column["strength"] for column in entry["columns"]]
        assert len(strengths) == 3
        assert strengths == sorted(strengths, reverse=True)
        assert entry["columns"][0]["name"] in data.data.columns
        assert entry["vagueness"] > 0


def test_vagueness_is_the_mean_width_at_own_rows():
    X, y = load_iris(return_X_y=True)
    model = FuzzyTwinSVC(planes="fuzzy")
    model.fit(X, y)
    for k, entry in enumerate(explain(model, X, y)):
        own = abs(X[y == k]).mean(axis=0)
        planes = model.plane_classes_[:, 0] == k
        coef = model.width_coef_[planes].mean(axis=0)
        width = own @ coef + model.width_intercept_[planes].mean()
        assert entry["vagueness"] == pytest.approx(width)
        parts = {column["name"]: column["vagueness"] for column in entry["columns"]}
        for j in range(4):
            assert parts[f"column {j}"] == pytest.approx(own[j] * coef[j])


def test_explain_takes_a_search_and_a_frame():
    data = load_iris(as_frame=True)
    frame = pd.DataFrame(scale(data.data), columns=list("abcd"))
    search = FuzzyTwinSVCCV(memberships=(None,), Cs=[1.0]).fit(frame, data.target)
    explained = explain(search, frame)
    assert {column["name"] for column in explained[0]["columns"]} == set("abcd")
    assert explained[0]["vagueness"] == 0


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
def test_effects_of_rows_are_changes_of_their_memberships(name, load):
    X, y = load(return_X_y=True)
    X = scale(X)
    model = MODELS[name].fit(X, y)
    rows = X[::40]
    found = row_effects(model, rows, background=X)
    for j in range(X.shape[1]):
        up, down = rows.copy(), rows.copy()
        up[:, j] += 0.5
        down[:, j] -= 0.5
        change = model.predict_membership(up) - model.predict_membership(down)
        np.testing.assert_allclose(found[:, :, j], change, atol=1e-10)
    whole = row_effects(model, X)
    np.testing.assert_allclose(whole.mean(axis=0), column_effects(model, X)[0], atol=1e-12)
    np.testing.assert_allclose(abs(whole).mean(axis=0), column_effects(model, X)[1], atol=1e-12)


def memberships(model, X):
    return model[-1].predict_membership(model[:-1].transform(X))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
def test_signs_agree_with_columns_moved_in_front_of_a_scaler(kernel, load):
    X, y = load(return_X_y=True)
    model = make_pipeline(StandardScaler(), FuzzyTwinSVC(kernel=kernel, random_state=0)).fit(X, y)
    effects, strengths = column_effects(model, X)
    for j in range(X.shape[1]):
        up, down = X.copy(), X.copy()
        up[:, j] += X[:, j].std() / 2
        down[:, j] -= X[:, j].std() / 2
        change = (memberships(model, up) - memberships(model, down)).mean(axis=0)
        np.testing.assert_allclose(effects[:, j], change, atol=1e-9)
    assert strengths.shape == effects.shape


def correlations(model, X, sample_weight=None):
    """Correlations (K, d) that `explain` gives: in the order of classes and columns."""
    frame = explain(model, X, sample_weight=sample_weight, as_frame=True)
    frame["position"] = frame["name"].str.extract(r"(\d+)").astype(int)
    return frame.pivot(index="class", columns="position", values="correlation").to_numpy()


def test_correlations_are_those_of_columns_and_memberships():
    X, y = CANCER
    w = np.arange(len(y)) % 3
    model = make_pipeline(StandardScaler(), FuzzyTwinSVC()).fit(X, y)
    found = correlations(model, X, w)
    u = memberships(model, np.repeat(X, w, axis=0))
    expected = np.corrcoef(u.T, np.repeat(X, w, axis=0).T)[:2, 2:]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    constant = np.column_stack([X[:, :2], np.ones(len(y))])
    assert not correlations(FuzzyTwinSVC().fit(constant, y), constant)[:, 2].any()


@pytest.mark.parametrize("model", [LeastSquaresTwinSVC(), TwinSVC(), GEPSVC()])
def test_closed_form_of_the_classics(model):
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    model.fit(X, y)
    effects, _ = column_effects(model, X)
    for j in range(4):
        change = moved(model, X, j, 0.5) - moved(model, X, j, -0.5)
        np.testing.assert_allclose(effects[:, j], change, atol=1e-10)


def test_bad_input():
    X, y = load_iris(return_X_y=True)
    model = FuzzyTwinSVC().fit(X, y)
    with pytest.raises(NotFittedError):
        column_effects(FuzzyTwinSVC(), X)
    with pytest.raises(ValueError, match="sample_weight has shape"):
        column_effects(model, X, [1.0])
    with pytest.raises(ValueError, match="background has 2 columns and X has 4"):
        row_effects(model, X, background=X[:, :2])
    with pytest.raises(ValueError, match="neither predict_membership nor predict_proba"):
        column_effects(LinearSVC().fit(X, y), X)


def test_no_rows_are_refused():
    X = np.random.default_rng(0).normal(size=(20, 2))
    model = FuzzyTwinSVC().fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match="X has no row"):
        column_effects(model, X[:0])


def test_values_are_named_after_their_own_column():
    """The value type_a of column job, beside a column job_type."""
    frame = pd.DataFrame({
        "job": ["type_a", "b", "c"] * 10, "job_type": ["x", "y", "y"] * 10,
        "age": np.arange(30.0), "code": [1.0, 2.0, 3.0] * 10,
    })  # fmt: skip
    y = np.arange(30) % 3 == 0
    encoder = OneHotEncoder(drop="if_binary")
    one_by_one = make_column_transformer(
        (OneHotEncoder(), ["job"]),
        (make_pipeline(SimpleImputer(strategy="most_frequent"), encoder), ["job_type"]),
        (OneHotEncoder(), [3]), (StandardScaler(), ["age"]), sparse_threshold=0,
    )  # fmt: skip
    model = make_pipeline(one_by_one, FuzzyTwinSVC()).fit(frame, y)
    names = {column["name"] for column in explain(model, frame)[0]["columns"]}
    assert names == {
        "job = type_a", "job = b", "job = c", "job_type = y", "code = 1", "code = 2", "code = 3",
        "standardscaler__age",
    }  # fmt: skip
    plain = make_pipeline(OneHotEncoder(sparse_output=False), FuzzyTwinSVC())
    plain.fit(frame[["job", "job_type"]], y)
    names = [column["name"] for column in explain(plain, frame[["job", "job_type"]])[0]["columns"]]
    assert "job = type_a" in names
    assert "job_type = x" in names


def test_an_explanation_of_one_class():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.where(X[:, 0] > 1.3, "ill", "well")
    model = FuzzyTwinSVC().fit(X, y)
    assert [entry["class"] for entry in explain(model, X, y, label="ill")] == ["ill"]
    with pytest.raises(ValueError, match=r"label='dead' is not a class.*'ill', 'well'"):
        explain(model, X, label="dead")


def test_an_explanation_as_a_frame():
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), FuzzyTwinSVC()).fit(X, y)
    frame = explain(model, X, y, top=2, as_frame=True)
    assert len(frame) == 6
    entries = explain(model, X, y, top=2)
    assert frame["name"].tolist() == [c["name"] for e in entries for c in e["columns"]]
    assert frame["class"].tolist() == [0, 0, 1, 1, 2, 2]
