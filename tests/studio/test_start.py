"""What the command refuses, before it serves anything."""

import sys

import pytest

from fuzzytwin.apps.cli import run
from tests.studio.helpers import write_table


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--target", "sick"], 2, "give DATA too"),
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
    assert run(["studio"]) == 1
    assert "studio]" in capsys.readouterr().err


def test_other_data_get_a_journal_of_their_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "t.csv")
    (tmp_path / "t.csv.doubts.jsonl").write_text(
        '{"fuzzytwin_doubts": 1, "fingerprint": "x"}\n', encoding="utf-8"
    )
    assert run(["studio", "t.csv", "--target", "sick", "--no-browser"]) == 2
    assert "other data" in capsys.readouterr().err
