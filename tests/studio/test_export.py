"""Exports say what the journal says."""

import csv
import io
import shlex
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fuzzytwin import FuzzyTwinCommittee, store
from fuzzytwin.cli import run
from fuzzytwin.studio import _export as export
from tests.studio.helpers import open_session, write_table

DECISIONS = {
    3: ("relabel",),
    5: ("exclude",),
    7: ("degree", None, 0.4),
    9: ("keep",),
}


def reviewed(path, **settings):
    """Open a session and review four rows; the last decision is undone."""
    session = open_session(path, **settings)
    for row, given in DECISIONS.items():
        session.decide(row, *given)
    session.undo()
    return session


@pytest.fixture
def session(tmp_path):
    write_table(tmp_path / "t.csv")
    opened = reviewed(tmp_path / "t.csv")
    yield opened
    opened.history.journal.close()


def test_the_table_has_the_reviewed_labels(session):
    rows = list(csv.DictReader(io.StringIO(export.table_file(session).decode())))
    with open(session.table.path, newline="", encoding="utf-8") as file:
        given = list(csv.DictReader(file))
    assert [{k: r[k] for k in given[0]} for r in rows] == given
    other = {"no": "yes", "yes": "no"}
    for i, (row, old) in enumerate(zip(rows, given, strict=True)):
        if i == 3:
            expected = (other[old["sick"]], 1.0, "relabel")
        elif i == 5:
            expected = ("", None, "exclude")
        elif i == 7:
            expected = (old["sick"], 0.4, "degree")
        else:
            expected = (old["sick"], 1.0, "")
        degree = float(row["degree"]) if row["degree"] else None
        assert (row["reviewed_label"], degree, row["decision"]) == expected


def test_degrees_are_exported_only_if_there_are_any(session):
    assert export.added_columns(session) == ["reviewed_label", "degree", "decision"]
    session.undo()
    assert export.added_columns(session) == ["reviewed_label", "decision"]
    assert "--degree" not in export.train_command(session)


def test_the_commands_of_the_view_save_train_and_evaluate(session, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.reviewed.csv").write_bytes(export.table_file(session))
    assert run(shlex.split(export.train_command(session))[1:]) == 0
    trained = " ".join(capsys.readouterr().out.split())
    assert "cross-validated scores on these labels are too optimistic" in trained
    measure = export.evaluate_command(session)
    assert measure == "fuzzytwin evaluate t.trained.skops NEW-DATA --target sick"
    write_table(tmp_path / "new.csv", seed=1)
    assert run(shlex.split(measure.replace("NEW-DATA", "new.csv"))[1:]) == 0
    assert "120 rows" in capsys.readouterr().out


def test_a_separator_and_a_decimal_comma_stay(tmp_path):
    path = tmp_path / "t.csv"
    write_table(path)
    pd.read_csv(path).to_csv(path, index=False, sep=";", decimal=",")
    session = reviewed(path)
    text = export.table_file(session).decode()
    given = path.read_text(encoding="utf-8").splitlines()
    lines = text.splitlines()
    assert [line.rsplit(";", 3)[0] for line in lines] == given
    assert lines[8].endswith(";0,4;degree")
    again = pd.read_csv(io.StringIO(text), sep=";", decimal=",")
    assert again["degree"].min() == 0.4
    session.history.journal.close()


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".tsv", ".csv.gz"])
def test_tables_leave_in_the_format_that_they_came_in(tmp_path, ending):
    write_table(tmp_path / "t.csv")
    frame = pd.read_csv(tmp_path / "t.csv")
    path = tmp_path / f"t{ending}"
    if ending == ".parquet":
        frame = frame.assign(tags=[["a", "b"]] * len(frame), number=np.arange(len(frame)) + 2**60)
        frame.to_parquet(path)
    elif ending == ".feather":
        frame.to_feather(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if "tsv" in ending else ",")
    session = reviewed(path)
    name, _, content = export.export_file(session, "table")
    assert name == f"t.reviewed{ending}"
    (tmp_path / name).write_bytes(content)
    if ending == ".parquet":
        again = pd.read_parquet(tmp_path / name)
        assert again["number"][1] == 2**60 + 1
        assert list(again["tags"][0]) == ["a", "b"]
    elif ending == ".feather":
        again = pd.read_feather(tmp_path / name)
    else:
        again = pd.read_csv(tmp_path / name, sep="\t" if "tsv" in ending else ",")
    assert again["decision"][5] == "exclude"
    assert pd.isna(again["reviewed_label"][5])
    np.testing.assert_array_equal(again["age"], frame["age"])
    session.history.journal.close()


def test_a_workbook_leaves_as_csv(tmp_path):
    write_table(tmp_path / "t.csv")
    pd.read_csv(tmp_path / "t.csv").to_excel(tmp_path / "t.xlsx", index=False)
    session = reviewed(tmp_path / "t.xlsx")
    name, _, content = export.export_file(session, "table")
    assert name == "t.reviewed.csv"
    assert pd.read_csv(io.BytesIO(content))["decision"][5] == "exclude"
    session.history.journal.close()


@pytest.mark.parametrize("trained", [False, True])
def test_the_model_file_is_the_committee_of_the_reviewed_labels(session, tmp_path, trained):
    if trained:
        session.update_model()
    path = tmp_path / "m.skops"
    path.write_bytes(export.model_file(session))
    model = store.load(path)
    table, labels = session.table, session.labels
    used = labels.used
    committee = FuzzyTwinCommittee().fit(
        table.X[used], table.classes[labels.codes[used]], membership=labels.degree[used]
    )
    assert isinstance(model[-1], FuzzyTwinCommittee)
    expected = committee.predict_proba(table.X)
    np.testing.assert_allclose(model.predict_proba(table.rows.X), expected, rtol=1e-9)
    assert model.classes_.tolist() == ["no", "yes"]
    out = tmp_path / "p.csv"
    assert run(["predict", str(path), table.path, "--out", str(out)]) == 0
    assert run(["explain", str(path)]) == 0
    assert run(["info", str(path)]) == 0


def test_the_command_trains_on_the_exported_table(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, _, content = export.export_file(session, "table")
    (tmp_path / name).write_bytes(content)
    words = shlex.split(export.train_command(session))[1:]
    assert run(words) == 0
    again = store.load(tmp_path / words[words.index("--out") + 1]).predict(session.table.rows.X)
    labels = session.table.classes[session.labels.codes]
    assert (again == labels)[session.labels.used].mean() > 0.85


def test_the_report_names_every_decision_and_escapes(session):
    page = export.report_file(session).decode()
    assert "relabelled" in page
    assert "p5" in page
    assert "<script" not in page
    session.update_model()
    assert "leave-one-out accuracy" in export.report_file(session).decode()


def test_names_that_the_table_has_already_get_an_underscore(tmp_path):
    path = tmp_path / "t.csv"
    write_table(path)
    text = path.read_text(encoding="utf-8").replace("noise", "decision", 1)
    path.write_text(text, encoding="utf-8")
    session = open_session(path)
    assert export.added_columns(session) == ["reviewed_label", "decision_"]
    assert "decision_" in export.table_file(session).decode()
    session.history.journal.close()


def test_nothing_else_is_exported(session):
    assert export.export_file(session, "nothing") is None


def test_a_file_that_is_being_written_is_announced(tmp_path, monkeypatch):
    write_table(tmp_path / "t.csv")
    session = open_session(tmp_path / "t.csv")
    told = []

    def slow(frozen):
        told.append([export.export_status(session, kind) for kind in export.FILES])
        return b""

    monkeypatch.setitem(export.FILES, "model", replace(export.FILES["model"], write=slow))
    assert export.export_status(session, "model") == ""
    export.export_file(session.snapshot(), "model")
    assert told == [["", "Training on the reviewed labels first: 0 s so far ...", ""]]
    assert export.export_status(session, "model") == ""
    session.history.journal.close()


def test_an_exported_model_has_effects_at_held_out_rows(tmp_path):
    write_table(tmp_path / "t.csv")
    session = open_session(tmp_path / "t.csv")
    session.update_model()
    effects = {column["name"]: column for column in session.model.effects[0]["columns"]}
    assert {"age", "size", "noise", "town = Rom"} <= set(effects)
    assert effects["town = Rom"]["value"] == "Rom"  # a category, not a number that rises
    session.history.journal.close()
