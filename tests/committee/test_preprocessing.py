"""Committees take data frames and arrays as they are: text, categories, dates, missing values."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from fuzzytwin import (
    FuzzyTwinCommittee,
    FuzzyTwinSVC,
    FuzzyTwinSVCCV,
    LeastSquaresSVC,
    MembershipWeighted,
    explain,
    store,
)
from fuzzytwin.tables import TablePreprocessor, TableWarning


def make_frame(n=120, seed=0):
    """Rows of every kind: numbers with missing values, text, categories, truth values, dates."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    dose = rng.normal(size=n) + 1.5 * y
    dose[::11] = np.nan
    return pd.DataFrame({
        "dose": dose,
        "age": rng.integers(20, 90, n),
        "ward": np.where(rng.uniform(size=n) < 0.3 + 0.4 * y, "north", "south"),
        "stage": pd.Categorical(rng.choice(["i", "ii", "iii"], n)),
        "smoker": rng.uniform(size=n) < 0.5,
        "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D"),
        "note": np.where(np.arange(n) % 7, "ok", None),
    }), np.where(y, "ill", "well")  # fmt: skip


def make_array(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    X[::9, 1] = np.nan
    return X, y


@pytest.fixture
def tables():
    return {
        "frame": make_frame(),
        "array": make_array(),
        "objects": (make_frame()[0][["dose", "ward", "note"]].to_numpy(), make_frame()[1]),
    }


def polars(frame):
    return pytest.importorskip("polars").from_pandas(frame)


def arrow(frame):
    return pytest.importorskip("pyarrow").Table.from_pandas(frame, preserve_index=False)


@pytest.mark.parametrize(
    "kind", ["frame", "array", pytest.param("objects", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("noise", [None, "auto"])
def test_it_is_a_pipeline_of_preprocessor_and_committee(tables, kind, noise):
    X, y = tables[kind]
    model = FuzzyTwinCommittee(noise=noise).fit(X, y)
    committee = FuzzyTwinCommittee(noise=noise)
    pipeline = make_pipeline(TablePreprocessor(scale=False), committee).fit(X, y)
    assert isinstance(model.preprocessor_, TablePreprocessor)
    assert model.n_features_in_ == X.shape[1]
    for method in ("predict_proba", "decision_function", "predict_log_proba", "predict_set"):
        expected = getattr(pipeline, method, None) or getattr(pipeline[-1], method)
        rows = X if hasattr(pipeline, method) else pipeline[0].transform(X)
        np.testing.assert_allclose(getattr(model, method)(X), expected(rows), rtol=0, atol=1e-12)
    assert (model.predict(X) == pipeline.predict(X)).all()
    np.testing.assert_allclose(model.loo_proba_, pipeline[-1].loo_proba_, atol=1e-12)


@pytest.mark.parametrize("to_form", [polars, arrow])
def test_every_kind_of_frame_gives_one_model(to_form):
    frame, y = make_frame()
    frame = frame.astype({"stage": str})
    expected = FuzzyTwinCommittee().fit(frame, y).predict_proba(frame)
    given = to_form(frame)
    found = FuzzyTwinCommittee().fit(given, y).predict_proba(given)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_plain_numbers_need_no_preprocessor():
    X, y = make_array()
    X = np.nan_to_num(X)
    forms = [
        X, X.tolist(), X.astype(object), X.astype(np.float32), sparse.csr_matrix(X),
        pd.DataFrame(X).rename(columns=str), pd.DataFrame(X).rename(columns=str).astype("Float64"),
        polars(pd.DataFrame(X).rename(columns=str)),
    ]  # fmt: skip
    for form in forms:
        assert FuzzyTwinCommittee(members=["linear"]).fit(form, y).preprocessor_ is None, type(form)


def test_a_fit_to_numbers_forgets_the_preprocessor():
    X, y = make_array()
    model = FuzzyTwinCommittee(members=["linear"]).fit(X, y)
    assert model.preprocessor_ is not None
    assert model.fit(np.nan_to_num(X), y).preprocessor_ is None


def test_new_categories_missing_values_and_columns_at_prediction():
    frame, y = make_frame()
    model = FuzzyTwinCommittee().fit(frame, y)
    later = frame.head(20).assign(extra=1)[[*frame.columns[::-1], "extra"]]
    np.testing.assert_allclose(
        model.predict_proba(later), model.predict_proba(frame.head(20)), atol=1e-12
    )
    later.loc[[0, 3], "ward"] = ["east", None]
    later["age"] = later["age"].astype(float).mask(np.arange(20) == 5)
    with pytest.warns(TableWarning) as caught:
        P = model.predict_proba(later)
    said = " ".join(str(warning.message) for warning in caught)
    assert "'ward'" in said
    assert "'age'" in said
    assert caught[0].filename == __file__
    assert np.isfinite(P).all()
    np.testing.assert_allclose(P.sum(axis=1), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # reported once
        np.testing.assert_array_equal(model.predict_proba(later), P)
    with pytest.raises(ValueError, match="dose"):
        model.predict(frame.drop(columns="dose"))


def test_missing_numbers_where_the_fit_had_none():
    X, y = make_array()
    X = np.nan_to_num(X)
    model = FuzzyTwinCommittee().fit(X, y)
    later = X[:5].copy()
    later[1, 2] = later[3, 0] = np.nan
    with pytest.warns(
        UserWarning, match="missing values in column 0, column 2, but the training rows"
    ):
        P = model.predict_proba(later)
    filled = np.where(np.isnan(later), model.mean_, later)
    np.testing.assert_array_equal(P, model.predict_proba(filled))
    later[0, 0] = np.inf
    with pytest.raises(ValueError, match="infinity in column 0"), pytest.warns(match="means"):
        model.predict(later)


def test_clone_and_cross_validation():
    frame, y = make_frame()
    model = FuzzyTwinCommittee(members=["linear", "rbf"])
    scores = cross_val_score(clone(model), frame, y, cv=4)
    pipeline = make_pipeline(TablePreprocessor(), model)
    np.testing.assert_allclose(scores, cross_val_score(pipeline, frame, y, cv=4))
    assert scores.mean() > 0.7


def test_labels_do_not_change_the_preprocessor():
    """So that leave-one-out values are those of rows whose labels were not used."""
    frame, y = make_frame()
    one = FuzzyTwinCommittee(members=["linear"]).fit(frame, y).preprocessor_
    other = FuzzyTwinCommittee(members=["linear"]).fit(frame, np.roll(y, 1)).preprocessor_
    assert one.schema_ == other.schema_
    np.testing.assert_array_equal(one.transform(frame), other.transform(frame))


def test_a_failed_fit_changes_nothing():
    frame, y = make_frame()
    model = FuzzyTwinCommittee(members=["linear"]).fit(frame, y)
    before = model.predict_proba(frame)
    with pytest.raises(ValueError, match="one class"):
        model.fit(frame[["ward", "dose"]], ["a"] * len(y))
    np.testing.assert_array_equal(model.predict_proba(frame), before)


def test_files_keep_text_columns(tmp_path):
    pytest.importorskip("skops")
    frame, y = make_frame()
    model = FuzzyTwinCommittee().fit(frame, y)
    store.save(model, tmp_path / "model.fuzzytwin")
    again = store.load(tmp_path / "model.fuzzytwin")
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))


def test_graphs_keep_text_columns():
    pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    frame, y = make_frame()
    frame = frame[["dose", "age", "ward", "stage"]]
    model = FuzzyTwinCommittee(members=["linear", "rbf"]).fit(frame, y)
    session = onnxruntime.InferenceSession(store.to_onnx(model).SerializeToString())
    inputs = {}
    for column in session.get_inputs():
        values = frame[column.name].to_numpy()
        text = "string" in column.type
        inputs[column.name] = values.astype(object if text else float).reshape(-1, 1)
    labels, P = session.run(None, inputs)
    np.testing.assert_allclose(P, model.predict_proba(frame), atol=1e-9)
    assert (labels == model.predict(frame)).all()


def test_effects_are_those_of_the_columns_that_the_committee_has():
    frame, y = make_frame()
    model = FuzzyTwinCommittee(members=["linear"]).fit(frame, y)
    committee = FuzzyTwinCommittee(members=["linear"])
    pipeline = make_pipeline(TablePreprocessor(scale=False), committee).fit(frame, y)
    for found, expected in zip(
        explain.column_effects(model, frame), explain.column_effects(pipeline, frame), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-12)
    assert explain.explain(model, frame) == explain.explain(pipeline, frame)


@pytest.mark.parametrize(
    "model",
    [
        FuzzyTwinSVC(),
        FuzzyTwinSVCCV(),
        LeastSquaresSVC(),
        MembershipWeighted(estimator=FuzzyTwinSVC()),
    ],
)
def test_other_estimators_name_the_remedy(model):
    frame, y = make_frame()
    with pytest.raises(ValueError, match=r"text in column 'ward'.*TablePreprocessor"):
        model.fit(frame[["age", "ward"]], y)


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas], ids=["polars", "arrow"])
def test_numbers_and_dates_of_other_frames(convert):
    frame, y = make_frame()
    frame = frame[["dose", "age", "seen"]]
    expected = FuzzyTwinCommittee(members="planes").fit(frame, y).predict_proba(frame)
    other = convert(frame)
    got = FuzzyTwinCommittee(members="planes").fit(other, y).predict_proba(other)
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_intervals_and_integers_of_any_size():
    frame, y = make_frame()
    intervals = pd.cut(frame["age"], 4)
    texts = frame[["dose"]].assign(age=intervals.astype(str))
    expected = FuzzyTwinCommittee(members="planes").fit(texts, y).predict_proba(texts)
    frame = frame[["dose"]].assign(age=intervals)
    np.testing.assert_array_equal(
        FuzzyTwinCommittee(members="planes").fit(frame, y).predict_proba(frame), expected
    )
    huge = frame.assign(key=[10**20 + i for i in range(len(frame))])
    with pytest.warns(TableWarning, match="'key'; X.to_numpy"):
        model = FuzzyTwinCommittee(members="planes").fit(huge, y)
    np.testing.assert_array_equal(model.predict_proba(huge), expected)


@pytest.mark.parametrize("columns", [["age", "age"], ["age", "ward", "age"]])
def test_columns_of_one_name_are_refused(columns):
    frame, y = make_frame()
    with pytest.raises(ValueError, match="X has 2 columns named 'age'; give each column"):
        FuzzyTwinCommittee().fit(frame[columns], y)


def test_rows_without_embeddings():
    frame, y = make_frame()
    vectors = np.random.default_rng(0).normal(size=(len(frame), 3)).tolist()
    vectors[::10] = [None] * len(vectors[::10])
    frame = frame[["dose"]].assign(vector=vectors)
    model = FuzzyTwinCommittee(members="planes").fit(frame, y)
    probabilities = model.predict_proba(frame)
    np.testing.assert_allclose(model.predict_proba(frame[::10]), probabilities[::10], atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(frame[:1]), probabilities[:1], atol=1e-12)


@pytest.mark.parametrize(("factor", "word"), [(1e307, "large"), (1e-305, "small")])
def test_numbers_out_of_range_are_refused(factor, word):
    frame, y = make_frame()
    frame["dose"] *= factor
    with pytest.raises(ValueError, match=rf"column 'dose' holds numbers so {word} .*drop=\['dose'"):
        FuzzyTwinCommittee().fit(frame, y)


@pytest.mark.parametrize("noise", [None, "auto"])
@pytest.mark.parametrize("kind", ["Int64", "boolean", "int64[pyarrow]"])
def test_labels_of_nullable_types(kind, noise):
    X, y = make_array()
    y[::9] = 1 - y[::9]
    shift = 0 if kind == "boolean" else 2**53
    labels = pd.Series(y + shift).astype(kind)
    model = FuzzyTwinCommittee(members="planes", noise=noise).fit(X, labels)
    assert model.classes_.tolist() == [shift, shift + 1]
    assert model.classes_.dtype == (bool if kind == "boolean" else np.int64)
    if noise is not None:
        plain = FuzzyTwinCommittee(members="planes", noise=noise).fit(X, y)
        np.testing.assert_array_equal(model.membership_, plain.membership_)
