"""One kind of model file: made in Python or by the command line, used by both."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fuzzytwin import FuzzyTwinCommittee, FuzzyTwinSVC, ProximalSVC, files, store
from fuzzytwin.explain import explain
from fuzzytwin.tables import TablePreprocessor
from fuzzytwin.twin._prediction import class_values, last_step


def visits(n=160):
    rng = np.random.default_rng(0)
    ill = rng.random(n) < 0.4
    frame = pd.DataFrame({
        "visit": [f"v{i}" for i in range(n)],
        "dose": [f"{value:.2f}".replace(".", ",") for value in rng.normal(2.0 * ill)],
        "ward": rng.choice(["north", "south ", None], n),
        "stage": rng.integers(1, 5, n),
        "seen": pd.date_range("2020-01-01", periods=n).strftime("%Y-%m-%d"),
        "ill": ill.astype(int),
    })  # fmt: skip
    frame.loc[3, "dose"], frame.loc[4, "dose"] = "<0,5", None
    return frame


@pytest.fixture
def data(folder):
    visits().to_csv("t.csv", index=False, sep=";")
    return "t.csv"


def raw_frame(data):
    """Return the rows as pandas reads them, numbers with decimal commas as text."""
    return pd.read_csv(data, sep=";")


@pytest.mark.parametrize(
    "estimator",
    [
        FuzzyTwinCommittee(members=["linear", "rbf"]),
        FuzzyTwinSVC(calibration="loo"),
        FuzzyTwinSVC(planes="fuzzy"),
    ],
)
def test_a_pipeline_saved_from_python_works_on_the_command_line(run, data, estimator):
    X = raw_frame(data)
    y = X.pop("ill")
    model = make_pipeline(TablePreprocessor(numeric=["seen"]), estimator).fit(X, y)
    store.save(model, "m.skops")
    told = pd.DataFrame(json.loads(run("predict", "m.skops", data, "--json")))
    np.testing.assert_allclose(
        told.iloc[:, -2:], class_values(*last_step(model, X)), rtol=0, atol=1e-12
    )
    assert told["label"].tolist() == model.predict(X).tolist()
    score = json.loads(run("evaluate", "m.skops", data, "--target", "ill", "--json"))
    assert score["accuracy"] == pytest.approx(model.score(X, y))
    assert score["unknown_labels"] == []
    assert "dose" in run("explain", "m.skops", data)
    info = run("info", "m.skops")
    assert re.search(r"number columns +dose, .*seen", info)
    assert "ward (string)" in run("export", "m.skops", "m.onnx")
    if hasattr(model[-1], "conformity_scores_"):
        assert "set" in run("predict", "m.skops", data, "--coverage", "0.9").splitlines()[0]


def test_a_pipeline_reads_files_and_frames_in_batches(data):
    X = raw_frame(data)
    y = X.pop("ill")
    model = make_pipeline(TablePreprocessor(numeric=["seen"]), FuzzyTwinSVC()).fit(X, y)
    with pytest.warns(UserWarning, match="column 'dose': 1 cell, '<0,5', read as a limit"):
        files.predict(model, data, "file.csv")
    files.predict(model, [X[:90], X[90:]], "frames.csv")
    for name in ("file.csv", "frames.csv"):
        sep, decimal = (";", ",") if name == "file.csv" else (",", ".")  # as in the source
        values = pd.read_csv(name, sep=sep, decimal=decimal).iloc[:, -2:]
        np.testing.assert_allclose(values, class_values(*last_step(model, X)), rtol=0, atol=1e-12)


def test_a_model_without_probabilities_is_evaluated(run, data):
    X = raw_frame(data)
    y = X.pop("ill")
    model = make_pipeline(TablePreprocessor(), ProximalSVC()).fit(X, y)
    store.save(model, "m.skops")
    score = json.loads(run("evaluate", "m.skops", data, "--target", "ill", "--json"))
    assert score["accuracy"] == pytest.approx(model.score(X, y))


@pytest.mark.parametrize("words", [[], ["--stream"]])
def test_a_file_of_the_command_line_takes_a_raw_frame_in_python(run, data, words):
    run("train", data, "--target", "ill", "--folds", 2, "--numeric", "seen", *words)
    told = pd.DataFrame(json.loads(run("predict", "t.skops", data, "--json")))
    model = store.load("t.skops")
    X = raw_frame(data)
    expected = told.iloc[:, -2:].to_numpy()
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=0, atol=1e-12)
    assert model.predict(X[X.columns[::-1]]).tolist() == told["label"].tolist()
    with pytest.raises(ValueError, match="X has no column 'dose'"):
        model.predict(X.drop(columns="dose"))


def test_what_a_file_does_not_know_is_asked_for(refused, data):
    X = raw_frame(data)
    y = X.pop("ill")
    store.save(make_pipeline(TablePreprocessor(), FuzzyTwinSVC()).fit(X, y), "m.skops")
    refused("evaluate", "m.skops", data, match="missing --target: name the column of t.csv")
    refused("explain", "m.skops", match="contains no effects; use")
    numbers = X[["stage"]].to_numpy()
    store.save(make_pipeline(StandardScaler(), FuzzyTwinSVC()).fit(numbers, y), "n.skops")
    refused("predict", "n.skops", data, match="starts with a TablePreprocessor")


def test_info_says_that_a_file_holds_training_rows(run, data):
    run("train", data, "--target", "ill", "--folds", 2)
    info = " ".join(run("info", "t.skops").split())
    count = len(store.load("t.skops")[-1].landmarks_)
    assert f"{count} landmarks: scaled training rows" in info
    assert "Protect the file like the table." in info
    X = raw_frame(data)
    store.save(make_pipeline(TablePreprocessor(), FuzzyTwinSVC()).fit(X, X.pop("ill")), "p.skops")
    assert "landmarks" not in run("info", "p.skops")


@pytest.mark.parametrize(
    ("command", "key", "value"),
    [
        ("info", "schema", {"columns": "x"}),
        ("info", "schema", {"columns": [{"name": 3, "kind": "number"}]}),
        ("predict", "schema", {"columns": [{"name": 3, "kind": "number", "findings": [],
                                            "categories": []}]}),
        ("explain", "effects", ["x"]),
        ("explain", "classes", ["no", "yes"]),
        ("evaluate", "thresholds", {"class": "0", "scores": [{"threshold": None}]}),
    ],
)  # fmt: skip
def test_metadata_of_other_types_are_one_clear_error(refused, data, command, key, value):
    X = raw_frame(data)
    model = make_pipeline(TablePreprocessor(), FuzzyTwinCommittee(members=["linear"]))
    model.fit(X, X.pop("ill"))
    schema = {**model[0].schema_, "target": "ill"}
    effects = explain(model, X)
    metadata = {"schema": schema, "effects": effects, "classes": {"0": 1, "1": 1}, key: value}
    store.save(model, "m.skops", metadata=metadata)
    words = (command, "m.skops", *([data] if command in ("predict", "evaluate") else []))
    refused(*words, match="metadata of m.skops are not|not a schema .*train the model")
