"""files.predict writes what predict gives, from every form to every form."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fuzzytwin import FuzzyTwinSVC, ProximalSVC, files
from fuzzytwin.experiment._experiment import Experiment
from fuzzytwin.experiment._rows import Settings
from fuzzytwin.files._predict import prediction_table
from fuzzytwin.tables._preprocessor import fitted_to_schema
from fuzzytwin.twin._prediction import class_values, last_step
from tests.files.helpers import FEATURES, batches_of, in_memory, make_table, write


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("form", ["parquet", "csv", "folder", "function", "polars"])
def test_predictions(form, ending, tmp_path):
    frame = make_table().assign(key=np.arange(1500))
    model = in_memory(FuzzyTwinSVC(), frame)
    out = tmp_path / f"out.{ending}"
    source = write(frame, form, tmp_path)
    assert files.predict(model, source, out, keep=["key"], batch_rows=100) == len(frame)
    # Polars reads every digit; older versions of pandas round the last ones.
    found = pd.read_parquet(out) if ending == "parquet" else pl.read_csv(out).to_pandas()
    assert list(found) == ["key", "label", *(f"membership_{c}" for c in "abcde")]
    copied = frame["key"].astype(str) if (form, ending) == ("csv", "parquet") else frame["key"]
    assert_array_equal(found["key"], copied)
    assert_array_equal(found["label"], model.predict(frame[FEATURES]))
    assert_allclose(found.iloc[:, 2:], model.predict_membership(frame[FEATURES]), rtol=1e-12)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize("model", [ProximalSVC(), make_pipeline(StandardScaler(), ProximalSVC())])
def test_predictions_without_memberships_and_names(model, tmp_path):
    frame = make_table()
    X, y = frame[FEATURES].to_numpy(), frame["y"].to_numpy(object)
    model.fit(X, y)
    files.predict(model, [X[:700], X[700:]], tmp_path / "out.parquet")
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert list(found) == ["label"]
    assert_array_equal(found["label"], model.predict(X))


def test_predictions_never_lose_a_file(tmp_path):
    frame = make_table()
    model = in_memory(FuzzyTwinSVC(), frame)
    out = tmp_path / "out.csv"
    out.write_text("dear to me")
    with pytest.raises(FileExistsError, match=r"out.csv already exists"):
        files.predict(model, [frame], out)
    frame.loc[1234, "x2"] = np.inf
    with pytest.raises(ValueError, match=r"batch 7, row 35: column 'x2' holds inf"):
        files.predict(model, batches_of(frame), out, overwrite=True)
    assert out.read_text() == "dear to me"
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]
    files.predict(model, [frame[:10]], out, overwrite=True)
    assert len(pd.read_csv(out)) == 10
    with pytest.raises(ValueError, match="unknown ending"):
        files.predict(model, [frame], tmp_path / "out.svm")
    with pytest.raises(ValueError, match="no rows"):
        files.predict(model, [frame[:0]], tmp_path / "none.csv")
    assert not (tmp_path / "none.csv").exists()


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("wrap", [lambda p: p, lambda p: GridSearchCV(p, {"fuzzytwinsvc__C": [1]})])
def test_predictions_of_pipelines(named, wrap, tmp_path):
    frame = make_table()
    X = frame[FEATURES] if named else frame[FEATURES].to_numpy()
    model = wrap(make_pipeline(StandardScaler(), FuzzyTwinSVC(planes="fuzzy"))).fit(X, frame["y"])
    rows = frame[FEATURES].to_numpy()
    sources = [write(frame[FEATURES], "parquet", tmp_path), [rows[:700], rows[700:]]]
    for i, source in enumerate(sources):
        files.predict(model, source, tmp_path / f"{i}.parquet", batch_rows=400)
        found = pd.read_parquet(tmp_path / f"{i}.parquet")
        assert list(found) == ["label", *(f"membership_{c}" for c in "abcde")]
        assert_array_equal(found["label"], model.predict(X))
        assert_allclose(found.iloc[:, 1:], class_values(*last_step(model, X)), rtol=1e-12)


@pytest.mark.parametrize("form", ["parquet", "csv", "function"])
def test_predictions_by_names_with_text_and_gaps(form, tmp_path):
    """As the command line saves its models."""
    frame = make_table().assign(colour=np.array(["red", "blue", "green"])[np.arange(1500) % 3])
    frame.loc[[3, 1400], "x0"] = np.nan
    frame.loc[[5, 1300], "colour"] = np.nan
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    text = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    steps = [("number", numbers, FEATURES), ("text", text, ["colour"])]
    names = [*FEATURES, "colour"]
    model = make_pipeline(ColumnTransformer(steps), FuzzyTwinSVC()).fit(frame[names], frame["y"])
    source = write(frame, form, tmp_path)
    files.predict(model, source, tmp_path / "out.parquet", keep="y", batch_rows=400)
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert_array_equal(found["y"], frame["y"])
    assert_allclose(found.iloc[:, 2:], class_values(*last_step(model, frame[names])), rtol=1e-9)
    wrong = write(frame.assign(colour="mauve"), form, tmp_path)
    with pytest.raises(ValueError, match=r"rows [12] to .*Found unknown categories"):
        files.predict(model, wrong, tmp_path / "none.parquet")


def test_a_kept_column_is_never_overwritten(tmp_path):
    frame = make_table().assign(label="mine", predicted_label="mine too")
    model = in_memory(FuzzyTwinSVC(), frame)
    kept = ["label", "predicted_label"]
    files.predict(model, [frame], tmp_path / "out.parquet", keep=kept)
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert (found["label"] == "mine").all()
    assert (found["predicted_label"] == "mine too").all()
    assert_array_equal(found["predicted_predicted_label"], model.predict(frame[FEATURES]))


def test_calibrated_models_give_probabilities_and_sets_that_can_be_told_apart():
    rng = np.random.default_rng(0)
    y = np.array(["a", "b", "a|b"])[rng.integers(0, 3, 300)]
    X = rng.normal(size=(300, 2))
    model = FuzzyTwinSVC(calibration="loo").fit(X, y)
    table = prediction_table(model, X, coverage=0.9)
    assert [n for n in table.schema.names if n.startswith("prob")] == [
        "probability_a", "probability_a|b", "probability_b",
    ]  # fmt: skip
    told = [set(json.loads(words)) for words in table.column("set").to_pylist()]
    members = model.predict_set(X, 0.9)
    assert told == [set(model.classes_[row]) for row in members]


def test_gaps_and_unknown_values_are_reported_where_training_had_none(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "x": rng.normal(size=80), "sex": np.where(np.arange(80) % 3, "m", "f"),
        "y": np.where(np.arange(80) % 2, "yes", "no"),
    })  # fmt: skip
    frame.to_csv(tmp_path / "t.csv", index=False)
    rows = Experiment(str(tmp_path / "t.csv"), Settings(target="y")).rows
    prepare = fitted_to_schema(rows.schema, rows.X, scale=True)
    model = make_pipeline(prepare, FuzzyTwinSVC().fit(prepare.transform(rows.X), rows.y))
    later = frame.head(5).assign(sex=["f", None, None, "x", "m"], x=[1, 2, None, 4, 5])
    later.to_csv(tmp_path / "new.csv", index=False)
    with pytest.warns(UserWarning, match="column") as told:
        files.predict(model, tmp_path / "new.csv", tmp_path / "p.csv", schema=rows.schema.to_dict())
    texts = " ".join(str(one.message) for one in told)
    assert "column 'x': 1 cell is missing (none in training), filled with the median" in texts
    assert "column 'sex': 2 cells are missing (none in training)" in texts
    assert "column 'sex': 1 cell, 'x', not among the training rows" in texts
