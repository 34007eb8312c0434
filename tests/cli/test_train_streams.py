"""``train --stream``, and what to try after ``train``."""

import json
import re

import numpy as np

from tests.cli.helpers import QUICK, some, table


def test_what_to_try_next_works(run):
    data = table("t.csv", **some())
    out = run("train", data, "--target", "y", *QUICK)
    lines = re.findall(r"^  fuzzytwin (.+)$", out, re.M)
    assert len(lines) == 3
    for line in lines:
        run(*line.replace("NEW-DATA", data).split())


def test_streams_name_the_rows_that_columns_were_inferred_from(run, monkeypatch):
    data = table("t.csv", **some(700))
    words = ("train", data, "--target", "y", "--stream", "--json", "--force", *QUICK)
    words += ("--report", "r.html")
    assert json.loads(run(*words))["notes"] == []  # the first rows are all rows
    monkeypatch.setattr("fuzzytwin.tables._reader.SAMPLE_ROWS", 500)
    monkeypatch.setattr("fuzzytwin.tables._reader.WHOLE_BYTES", 0)
    monkeypatch.setattr("fuzzytwin.tables._reader.MIN_SAMPLE_ROWS", 500)
    facts = json.loads(run(*words))
    assert facts["notes"] == ["columns were inferred from the first 500 rows"]
    assert facts["score"]["how"] == "2-fold cross-validation on the first 500 rows"
    assert facts["rows"] == 700


def test_ordered_rows_in_batches(run, refused, monkeypatch):
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
        refused("train", "t.csv", *words, match=f"{match}.*shuffle.*--no-stream")
    columns["y"] = (n >= 200).astype(int)
    run("train", table("t.csv", **columns), *words[:2], "--no-stream", *QUICK, "--force")
    columns = {**some(300), "late": np.maximum(n, 100), "void": np.where(n < 100, np.nan, n)}
    table("t.csv", **columns)
    out = " ".join(run("train", "t.csv", *words, "--force").split())
    assert "late number 1 0 the same value in the first 100 rows" in out
    assert "void empty 0 100 no value in the first 100 rows" in out
    few = {name: values[:100] for name, values in columns.items() if name != "void"}
    few["y"] = "yes"
    said = run("train", table("few.csv", **few), *words, code=2)
    assert "one class only (yes); give rows" in said  # these are all rows
    few["y"] = columns["y"][:100]
    out = run("train", table("few.csv", **few), *words)
    assert "the same value in every row" in " ".join(out.split())
