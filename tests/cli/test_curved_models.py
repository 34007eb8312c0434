"""Kernels and batches on the command line."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import fuzzytwin
from fuzzytwin import store
from tests.cli.helpers import CURVED, QUICK, crossed, refused, some, table


def test_curved_planes(run):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, 120))
    data = table("t.csv", a=a, b=b, y=(a * b > 0).astype(int))  # no line tells these apart
    words = ("--target", "y", "--kernel", "rbf", "--membership", "none", "--folds", 2)
    told = json.loads(run("train", data, *words, "--json"))
    assert told["score"]["accuracy"] > 0.85
    assert re.search(r"^a \(\+[\d.]+\)\s+[-+]\d.\d+", run("explain", "t.skops"), re.M)
    run("export", "t.skops", "t.onnx")
    streamed = json.loads(run("train", data, *words, "--stream", "--out", "s.skops", "--json"))
    assert streamed["score"]["accuracy"] > 0.7  # of twelve rows kept out


@pytest.mark.parametrize("search", ["--model=search", "--model=planes"])
def test_told_parameters_make_a_curved_model_again(run, folder, search):
    data = table("t.csv", **crossed())
    words = (*CURVED, search, "--folds", 2, "--seed", 3, "--report", "r.html")
    told = json.loads(run("train", data, *words, "--json"))
    model = store.load("t.skops")
    frame = pd.read_csv(data)
    again = fuzzytwin.FuzzyTwinSVC(**told["parameters"])
    again.fit(model[:-1].transform(frame[["a", "b"]]), frame["y"])
    np.testing.assert_allclose(again.predict_proba(model[:-1].transform(frame[["a", "b"]])),
                               model.predict_proba(frame[["a", "b"]]), atol=1e-6)  # fmt: skip
    phi = model[-1].landmark_map_
    assert told["landmarks"] == len(phi.landmarks) < told["parameters"]["n_landmarks"] == 300
    said = f"rbf, gamma {phi.gamma:.4g}, {len(phi.landmarks)} landmarks"
    assert re.search(rf"^kernel +{said}", run("info", "t.skops"), re.M)
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert f"kernel = rbf, gamma = {phi.gamma:.4g}, n_landmarks = 300, random_state = 3" in page
    assert f"{len(phi.landmarks)} landmarks" in page


def test_kernels_are_told_of_curved_models_alone(run):
    data = table("t.csv", **some())
    assert "kernel" not in run("train", data, "--target", "y", *QUICK)
    assert "kernel" not in run("info", "t.skops")
    out = run("train", data, *CURVED, *QUICK, "--force")
    assert re.search(r"^kernel +rbf, gamma 0\.\d+, 60 landmarks", out, re.M)
    cosine = run("train", data, "--target", "y", "--kernel", "cosine", *QUICK, "--force")
    assert re.search(r"^kernel +cosine, 60 landmarks", cosine, re.M)  # which has no gamma


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_what_to_try_next_works(run, kernel):
    data = table("t.csv", **some())
    out = run("train", data, "--target", "y", "--kernel", kernel, *QUICK)
    lines = re.findall(r"^  fuzzytwin (.+)$", out, re.M)
    assert len(lines) == 3
    for line in lines:
        run(*line.replace("NEW-DATA", data).split())


def test_batches_leave_the_given_parameters_alone(run, monkeypatch):
    data = table("t.csv", **some(700))
    words = ("train", data, "--target", "y", "--stream", "--json", "--force")
    told = json.loads(run(*words, "--model=planes"))
    assert told["parameters"]["alpha"] == fuzzytwin.FuzzyTwinSVC().alpha
    assert told["notes"] == []  # the first rows are all rows
    monkeypatch.setattr("fuzzytwin.tables._reader.SAMPLE_ROWS", 500)
    monkeypatch.setattr("fuzzytwin.tables._reader.WHOLE_BYTES", 0)
    monkeypatch.setattr("fuzzytwin.tables._reader.MIN_SAMPLE_ROWS", 500)
    tuned = json.loads(run(*words, "--membership", "none", "--folds", 2))
    first = "columns were inferred and parameters tuned from the first 500 rows"
    assert tuned["notes"] == [first]
    assert tuned["score"]["how"] == "2-fold cross-validation on the first 500 rows"
    assert tuned["rows"] == 700


@pytest.mark.parametrize("search", ["--model=search", "--model=planes"])
def test_landmarks_of_ordered_batches(run, monkeypatch, search):
    monkeypatch.setattr("fuzzytwin.tables._formats.BATCH_ROWS", 40)
    words = (*CURVED, search, "--folds", 2, "--stream", "--json")
    told = json.loads(run("train", table("t.csv", **crossed()), *words))
    model = store.load("t.skops")[-1]
    phi = model.landmark_map_
    assert told["landmarks"] == told["parameters"]["n_landmarks"] == len(phi.landmarks) > 290
    # A search may have learned one for each column.
    assert told["parameters"]["gamma"] == np.asarray(phi.gamma).tolist()
    assert told["parameters"]["gamma"] == np.asarray(model.gamma).tolist()
    assert np.ptp(phi.landmarks[:, 0]) > 3  # of rows with standard deviation 1: from end to end


def test_ordered_rows_in_batches(run, folder, monkeypatch):
    monkeypatch.setattr("fuzzytwin.tables._formats.BATCH_ROWS", 40)
    monkeypatch.setattr("fuzzytwin.tables._reader.SAMPLE_ROWS", 100)
    monkeypatch.setattr("fuzzytwin.tables._reader.WHOLE_BYTES", 0)
    columns, n = some(300), np.arange(300)
    words = ("--target", "y", "--stream", "--folds", 2)
    for match, y in {
        "one class only .0.0. among the first 100 rows": n >= 200,
        "class '1.0' .* one row only among the first 100 rows": n >= 99,
        "the label 2.0 in row 300 of t.csv, which is not": n % 2 + 2 * (n == 298),
        "missing in the first 100 rows": np.where(n < 100, np.nan, n % 2),
    }.items():  # fmt: skip
        columns["y"] = np.asarray(y, dtype=float)
        table("t.csv", **columns)
        refused(run, folder, "train", "t.csv", *words, match=f"{match}.*shuffle.*--no-stream")
    columns["y"] = (n >= 200).astype(int)
    run("train", table("t.csv", **columns), *words[:2], "--no-stream", *QUICK, "--force")
    columns = {**some(300), "late": np.maximum(n, 100), "void": np.where(n < 100, np.nan, n)}
    table("t.csv", **columns)
    out = " ".join(run("train", "t.csv", *words, "--force", "--model=planes").split())
    assert "late constant 1 0 the same value in the first 100 rows" in out
    assert "void empty 0 100 no value in the first 100 rows" in out
    few = {name: values[:100] for name, values in columns.items() if name != "void"}
    few["y"] = "yes"
    said = run("train", table("few.csv", **few), *words, code=2)
    assert "one class only (yes); give rows" in said  # these are all rows
    few["y"] = columns["y"][:100]
    out = run("train", table("few.csv", **few), *words, "--model=planes")
    assert "the same value in every row" in " ".join(out.split())
