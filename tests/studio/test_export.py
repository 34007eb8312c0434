"""Exports say what the journal says."""

import csv
import io
import shlex

import numpy as np
import pandas as pd
import pytest

from fuzzytwin import store
from fuzzytwin.cli import run
from fuzzytwin.studio import _export as export
from tests.studio.helpers import open_session, write_table

DECISIONS = {3: "relabel", 5: "exclude", 7: "keep", 9: "keep"}


def reviewed(path, **settings):
    """Open a session and review four rows; the last decision is undone."""
    session = open_session(path, **settings)
    for row, action in DECISIONS.items():
        session.decide(row, action)
    session.undo()
    return session


@pytest.fixture
def session(path):
    return reviewed(path)


def test_the_table_has_the_reviewed_labels(session):
    rows = list(csv.DictReader(io.StringIO(export.table_file(session).decode())))
    with open(session.table.path, newline="", encoding="utf-8") as file:
        given = list(csv.DictReader(file))
    assert [{k: r[k] for k in given[0]} for r in rows] == given
    other = {"no": "yes", "yes": "no"}
    for i, (row, old) in enumerate(zip(rows, given, strict=True)):
        if i == 3:
            expected = (other[old["sick"]], "relabel")
        elif i == 5:
            expected = ("", "exclude")
        elif i == 7:
            expected = (old["sick"], "keep")
        else:
            expected = (old["sick"], "")
        assert (row["reviewed_label"], row["decision"]) == expected


def test_the_commands_of_the_view_save_train_and_evaluate(session, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.reviewed.csv").write_bytes(export.table_file(session))
    assert run(shlex.split(export.train_command(session))[1:]) == 0
    trained = " ".join(capsys.readouterr().out.split())
    assert "cross-validated scores on these labels are too optimistic" in trained
    again = store.load("t.reviewed.skops").predict(session.table.rows.X)
    labels = session.table.classes[session.labels.codes]
    assert (again == labels)[session.labels.used].mean() > 0.85
    measure = export.evaluate_command(session)
    assert measure == "fuzzytwin evaluate t.reviewed.skops NEW-DATA --target sick"
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
    assert [line.rsplit(";", 2)[0] for line in lines] == given
    assert lines[8].endswith(";keep")


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


def test_a_workbook_leaves_as_csv(tmp_path):
    write_table(tmp_path / "t.csv")
    pd.read_csv(tmp_path / "t.csv").to_excel(tmp_path / "t.xlsx", index=False)
    session = reviewed(tmp_path / "t.xlsx")
    name, _, content = export.export_file(session, "table")
    assert name == "t.reviewed.csv"
    assert pd.read_csv(io.BytesIO(content))["decision"][5] == "exclude"


def test_the_report_names_every_decision_and_escapes(session):
    page = export.report_file(session).decode()
    assert "relabelled" in page
    assert "p5" in page
    assert "<script" not in page


def test_names_that_the_table_has_already_get_an_underscore(tmp_path):
    path = tmp_path / "t.csv"
    write_table(path)
    text = path.read_text(encoding="utf-8").replace("noise", "decision", 1)
    path.write_text(text, encoding="utf-8")
    session = open_session(path)
    assert export.added_columns(session) == ["reviewed_label", "decision_"]
    assert "decision_" in export.table_file(session).decode()


@pytest.mark.parametrize("name", ["trial.2024.csv", "TRIAL.2024.CSV", "v1.2.trial.csv"])
def test_files_keep_the_dots_of_the_name_of_the_data(tmp_path, name):
    write_table(tmp_path / name)
    session = open_session(tmp_path / name)
    stem = name[: -len(".csv")]
    assert [export.export_file(session, kind)[0] for kind in ("table", "report")] == [
        f"{stem}.reviewed.csv",
        f"{stem}.reviewed.html",
    ]
    assert f"{stem}.reviewed.skops" in export.train_command(session)


def test_nothing_else_is_exported(session):
    assert export.export_file(session, "nothing") is None
