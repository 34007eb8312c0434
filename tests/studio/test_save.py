"""Exports say what the journal says."""

import csv
import io
import shlex

import numpy as np
import pandas as pd
import pytest

from fuzzytwin import store
from fuzzytwin.apps.cli import run
from fuzzytwin.apps.studio import save
from tests.studio.helpers import open_session, write_table


@pytest.fixture
def session(tmp_path):
    write_table(tmp_path / "t.csv")
    opened = open_session(tmp_path / "t.csv")
    for row, given in (
        (3, ("relabel",)),
        (5, ("leave out",)),
        (7, ("degree", None, 0.4)),
        (9, ("keep",)),
    ):
        opened.decide(row, *given)
    opened.undo()
    yield opened
    opened.journal.close()


def test_the_table_has_the_settled_labels(session):
    rows = list(csv.DictReader(io.StringIO(save.table_file(session).decode())))
    with open(session.table.path, newline="", encoding="utf-8") as file:
        given = list(csv.DictReader(file))
    assert [{k: r[k] for k in given[0]} for r in rows] == given
    other = {"no": "yes", "yes": "no"}
    for i, (row, old) in enumerate(zip(rows, given, strict=True)):
        if i == 3:
            expected = (other[old["sick"]], 1.0, "relabel")
        elif i == 5:
            expected = ("", None, "leave out")
        elif i == 7:
            expected = (old["sick"], 0.4, "degree")
        else:
            expected = (old["sick"], 1.0, "")
        degree = float(row["degree"]) if row["degree"] else None
        assert (row["label"], degree, row["decision"]) == expected


def test_the_model_file_predicts_as_the_studio_does(session, tmp_path):
    path = tmp_path / "m.skops"
    path.write_bytes(save.model_file(session))
    model = store.load(path)
    ours = session.live.model.predict_membership(session.table.X)
    np.testing.assert_allclose(model.predict_proba(session.table.rows.X), ours, rtol=1e-7)
    assert model.classes_.tolist() == ["no", "yes"]
    out = tmp_path / "p.csv"
    assert run(["predict", str(path), session.table.path, "--out", str(out)]) == 0
    assert run(["explain", str(path)]) == 0


def test_a_curved_model_can_be_taken_away_too(session, tmp_path):
    session.use("crisp", "rbf")
    path = tmp_path / "m.skops"
    path.write_bytes(save.model_file(session))
    ours = session.live.model.predict_membership(session.table.X)
    theirs = store.load(path).predict_proba(session.table.rows.X)
    np.testing.assert_allclose(theirs, ours, rtol=1e-6)
    assert run(["explain", str(path)]) == 0


def test_the_command_trains_on_the_exported_table(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / save.file_name(session, "table")).write_bytes(save.table_file(session))
    words = shlex.split(save.train_command(session))[1:]
    (tmp_path / save.file_name(session, "model")).write_bytes(b"")  # it may lie beside
    assert run(words) == 0
    again = store.load(tmp_path / words[words.index("--out") + 1]).predict(session.table.rows.X)
    settled = session.table.classes[session.codes]
    assert (again == settled)[session.live.used].mean() > 0.85


def test_the_report_names_every_decision_and_escapes(session):
    page = save.report_file(session).decode()
    assert "relabelled" in page
    assert "p5" in page
    assert "<script" not in page


def test_names_that_the_table_has_already_get_an_underscore(tmp_path):
    path = tmp_path / "t.csv"
    write_table(path)
    text = path.read_text(encoding="utf-8").replace("noise", "label", 1)
    path.write_text(text, encoding="utf-8")
    session = open_session(path)
    assert list(save.added_columns(session)) == ["label_", "degree", "decision"]
    session.journal.close()


def test_columns_of_lists_are_exported_as_text(tmp_path):
    write_table(tmp_path / "t.csv")
    frame = pd.read_csv(tmp_path / "t.csv").assign(tags=[["a", "b"]] * 120)
    frame.to_parquet(tmp_path / "t.parquet")
    session = open_session(tmp_path / "t.parquet")
    found = pd.read_csv(io.BytesIO(save.table_file(session)))
    assert found["tags"][0] == "['a', 'b']"
    session.journal.close()
