"""What the command refuses, before it serves anything, and what it says of the table."""

import json
import re
import sys

import numpy as np
import pandas as pd
import pytest

from fuzzytwin.cli import run
from fuzzytwin.experiment._rows import Settings
from fuzzytwin.studio._data import StudioTable
from fuzzytwin.studio._export import train_command
from tests.studio.helpers import noted, open_session, write_table


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--target", "sick"], 2, "DATA"),
        (["t.csv"], 2, "--target"),
        (["t.csv", "--target", "nothing"], 2, "'nothing'"),
        (["t.csv", "--target", "sick", "--id", "nothing"], 2, "--id"),
        (["none.csv", "--target", "sick"], 2, "none.csv"),
        (["t.csv", "--target", "sick", "--port", "99999"], 2, "--port"),
        (["t.csv", "--target", "name"], 2, "name"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_line(
    tmp_path, monkeypatch, capsys, arguments, code, words
):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "t.csv")
    assert run(["studio", *arguments, "--no-browser"]) == code
    error = capsys.readouterr().err
    assert words in error
    assert len(error.splitlines()) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["t.csv"]


def test_a_missing_toolkit_is_named_with_its_remedy(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "nicegui", None)
    assert run(["studio", "t.csv"]) == 1
    assert "studio]" in capsys.readouterr().err


def test_other_data_get_a_journal_of_their_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "t.csv")
    (tmp_path / "t.csv.reviews.jsonl").write_text(
        '{"fuzzytwin_reviews": 1, "target": "x"}\n', encoding="utf-8"
    )
    assert run(["studio", "t.csv", "--target", "sick", "--no-browser"]) == 2
    assert "other data" in capsys.readouterr().err


def test_a_table_too_large_to_read_whole_is_opened_as_a_sample_and_that_is_said(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("fuzzytwin.tables._reader.SAMPLE_ROWS", 100)
    monkeypatch.setattr("fuzzytwin.tables._reader.WHOLE_BYTES", 600 * 6 * 8)
    write_table(tmp_path / "t.csv", n=3000)
    session = open_session(tmp_path / "t.csv")
    table = session.table
    assert table.sampled
    assert len(table) == pytest.approx(600, abs=90)
    assert re.search(
        r"t\.csv holds more than 256 MiB of numbers: a random sample of \d+ of about [23],\d+ rows",
        table.studio_notes[0],
    )
    cells = pd.read_csv(tmp_path / "t.csv")
    row = int(session.open_rows[0])
    assert table.name_of(row) == cells["name"][table.numbers[row] - 2]
    session.decide(row, "keep")
    session.history.journal.close()
    monkeypatch.undo()
    whole = open_session(tmp_path / "t.csv")
    assert not whole.table.sampled
    assert not whole.table.studio_notes
    assert [whole.table.name_of(row) for row in whole.decisions] == [table.name_of(row)]


def test_a_sample_can_be_asked_for(tmp_path):
    write_table(tmp_path / "t.csv", n=1000)
    table = StudioTable(str(tmp_path / "t.csv"), Settings(target="sick"), 200)
    assert len(table) == pytest.approx(200, abs=50)
    assert table.studio_notes[0].startswith(f"a random sample of {len(table)} of about")
    assert not StudioTable(str(tmp_path / "t.csv"), Settings(target="sick"), 2000).sampled


def voted(path, n=300):
    """Write a table that three annotators labelled; one of them once said what no row has."""
    write_table(path, n=n, wrong=20)
    frame, rng = pd.read_csv(path), np.random.default_rng(1)
    other = frame["sick"].map({"no": "yes", "yes": "no"})
    for name in ("ann_a", "ann_b", "ann_c"):
        frame[name] = frame["sick"].where(rng.random(n) < 0.85, other)
    frame.loc[rng.random(n) < 0.2, "ann_c"] = None
    frame.loc[7, "ann_a"] = "maybe"
    frame.to_csv(path, index=False)
    return frame


@pytest.mark.parametrize("target", ["sick", None])
def test_votes_are_no_features_and_rank_the_rows(tmp_path, target):
    path = tmp_path / "t.csv"
    frame = voted(path)
    if target is None:
        frame.drop(columns="sick").to_csv(path, index=False)
    session = open_session(path, target=target, votes=["ann_*"])
    table = session.table
    assert table.columns == ["age", "size", "noise", "town"]
    assert table.label_issues.annotators.names[:3] == ["ann_a", "ann_b", "ann_c"]
    assert table.studio_notes == ["1 vote for a label that no row has (maybe) is not counted"]
    np.testing.assert_array_equal(table.label_issues.classes, table.classes)
    np.testing.assert_array_equal(table.label_issues.codes, table.codes)
    low, high = table.label_issues.n_errors_interval
    assert low <= table.label_issues.n_errors <= high
    row = int(session.open_rows[0])
    session.decide(row, "relabel")
    assert session.report.posterior[row, session.label(row)] == 1.0
    assert "ann_b" in train_command(session)
    session.history.journal.close()
    again = open_session(path, target=target, votes=["ann_*"])
    assert list(again.decisions) == [row]


def test_columns_that_look_like_votes_are_named(tmp_path):
    path = tmp_path / "t.csv"
    voted(path).replace("maybe", "no").assign(smoker=["no", "yes"] * 150).to_csv(path, index=False)
    table = StudioTable(str(path), Settings(target="sick", id="name"))
    (note,) = table.studio_notes
    assert "columns ann_a, ann_b, ann_c contain only labels of the target" in note
    assert "--votes" in note
    assert note in table.notes
    write_table(path)
    assert not StudioTable(str(path), Settings(target="sick", id="name")).studio_notes


def test_the_notes_of_label_issues_are_printed_when_the_studio_starts(
    tmp_path, monkeypatch, capsys
):
    noted(tmp_path / "t.csv")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fuzzytwin.studio._page.serve", lambda *arguments: None)
    assert run(["studio", "t.csv", "--target", "sick", "--id", "name", "--no-browser"]) == 0
    printed = capsys.readouterr().err.splitlines()
    assert run(["label-issues", "t.csv", "--target", "sick", "--id", "name", "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert len(notes) == 3
    assert printed == [f"note: {note}." for note in notes]
