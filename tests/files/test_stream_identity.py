"""In memory, in chunks and by files.*: one schema, one model, one list of label issues.

The table has categories, missing values, dates, decimal commas and limits, and as Parquet
embeddings.
"""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fuzzytwin import FuzzyTwinCommittee, files, find_label_issues, store
from fuzzytwin.cli import run
from fuzzytwin.tables import TableWarning, read_table
from tests.files.helpers import mixed_table

COLUMNS = ["given_label", "suggested_label", "label_quality", "is_label_issue", "rank"]


@pytest.fixture(params=["csv", "parquet"])
def path(request, tmp_path, monkeypatch):
    """A table of 240 rows that is read 50 rows at a time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fuzzytwin.tables._formats.BATCH_ROWS", 50)
    frame = mixed_table()
    if request.param == "csv":
        frame.drop(columns="embedding").to_csv("t.csv", sep=";", decimal=",", index=False)
        return "t.csv"
    frame.to_parquet("t.parquet", index=False)
    return "t.parquet"


def command(capsys, *words):
    assert run(list(map(str, words))) == 0, capsys.readouterr()
    return capsys.readouterr().out


def test_train_and_predict(path, capsys):
    words = ("train", path, "--target", "sick", "--numeric", "seen", "--folds", 2, "--json")
    facts = {}
    for name, option in (("memory", "--no-stream"), ("stream", "--stream")):
        facts[name] = json.loads(command(capsys, *words, option, "--out", f"{name}.skops"))
        command(capsys, "predict", f"{name}.skops", path, "--out", f"{name}.parquet", option)
    memory, stream = facts["memory"], facts["stream"]
    for key in ("schema", "rows", "classes", "score", "notes"):
        assert memory[key] == stream[key], key
    one, other = (pd.read_parquet(f"{name}.parquet") for name in facts)
    pd.testing.assert_frame_equal(one, other, rtol=1e-9, atol=1e-9)


def test_files_fit_and_predict_equal_the_fit_to_a_frame(path):
    frame = read_table(path).read().cells.to_pandas()
    X = frame.drop(columns=["sick"])
    whole = FuzzyTwinCommittee().fit(X, frame["sick"].to_numpy(str))
    model = files.fit(FuzzyTwinCommittee(), path, target="sick")
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), atol=1e-9)
    assert model.preprocessor_.schema_["columns"] == whole.preprocessor_.schema_["columns"]
    with pytest.warns(TableWarning, match="'<0,5' read as a limit"):
        files.predict(model, path, "p.parquet", keep="key")
    found = pd.read_parquet("p.parquet")
    np.testing.assert_allclose(found["probability_yes"], whole.predict_proba(X)[:, 1], atol=1e-9)
    store.save(model, "m.skops")
    np.testing.assert_allclose(store.load("m.skops").predict_proba(X), whole.predict_proba(X))


def test_files_find_label_issues_equals_the_one_in_memory(path):
    frame = read_table(path).read().cells.to_pandas()
    X = frame.drop(columns=["sick", "key"])
    expected = find_label_issues(X, frame["sick"].to_numpy(str)).to_frame()
    files.find_label_issues(path, "d.parquet", target="sick", id="key")
    found = pd.read_parquet("d.parquet")
    assert list(found) == ["id", *COLUMNS]
    assert found["id"].tolist() == frame["key"].tolist()
    pd.testing.assert_frame_equal(found[COLUMNS], expected, check_dtype=False, atol=1e-9)


def test_csv_files_are_written_in_the_style_of_the_source(path):
    if path.endswith("parquet"):
        path = read_table(path).read().cells.drop_columns("embedding")  # decimal commas, no style
    model = files.fit(FuzzyTwinCommittee(members=["linear"]), path, target="sick")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)  # of limits in files
        files.predict(model, path, "p.csv", keep="key")
        files.find_label_issues(path, "d.csv", target="sick", id="key")
    for name in ("p.csv", "d.csv"):
        header, row = Path(name).read_text().splitlines()[:2]
        if path == "t.csv":
            assert header.count(";") >= 3
            assert re.search(r";\d,\d+", row)
        else:
            assert header.count(",") >= 3
            assert re.search(r",\d\.\d+", row)
