"""The journal: nothing is lost, nothing foreign is taken in."""

import json
import os
import shutil
import stat

import pytest

from fuzzytwin.studio._journal import Journal, JournalError, journal_path
from tests.studio.helpers import open_session, write_table

EVENTS = [{"action": "keep", "row": 1}, {"action": "relabel", "row": 2, "label": "é\n<b>"}]

ABOUT = {"target": "y", "sheet": None, "columns": ["a", "b"]}


def write(path, events=EVENTS):
    with Journal(path, ABOUT) as journal:
        for event in events:
            journal.append(event)


def test_events_come_back_in_order(tmp_path):
    path = tmp_path / "j"
    write(path)
    write(path, [{"action": "undo"}])
    with Journal(path, ABOUT) as journal:
        assert journal.events == [*EVENTS, {"action": "undo"}]
    assert len(path.read_bytes().splitlines()) == 4
    assert json.loads(path.read_bytes().splitlines()[0])["target"] == "y"


@pytest.mark.parametrize("cut", [2, 7, 30])
def test_a_torn_last_line_is_cut_off_and_the_rest_is_kept(tmp_path, cut):
    path = tmp_path / "j"
    write(path)
    content = path.read_bytes()
    path.write_bytes(content[:-cut])  # as a process that was killed while it wrote leaves it
    write(path, [{"action": "keep", "row": 9}])
    with Journal(path, ABOUT) as journal:
        assert journal.events == [EVENTS[0], {"action": "keep", "row": 9}]


def test_a_last_decision_without_its_newline_is_kept(tmp_path):
    path = tmp_path / "j"
    write(path)
    content = path.read_bytes()
    path.write_bytes(content[:-1])  # as some editors save a file
    with Journal(path, ABOUT) as journal:
        assert journal.events == EVENTS
        journal.append({"action": "undo"})
    assert path.read_bytes().startswith(content)
    with Journal(path, ABOUT) as journal:
        assert journal.events == [*EVENTS, {"action": "undo"}]


def test_a_foreign_journal_without_its_newline_stays_as_it_is(tmp_path):
    path = tmp_path / "j"
    write(path)
    path.write_bytes(path.read_bytes()[:-1])
    before = path.read_bytes()
    with pytest.raises(JournalError, match="other data"):
        Journal(path, {**ABOUT, "target": "z"})
    assert path.read_bytes() == before


def test_a_torn_first_line_begins_again(tmp_path):
    path = tmp_path / "j"
    path.write_bytes(b'{"fuzzytwin_re')
    write(path)
    with Journal(path, ABOUT) as journal:
        assert journal.events == EVENTS


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace(b'"target": "y"', b'"target": "z"'), "other data"),
        (lambda text: text.replace(b'"sheet": null', b'"sheet": "2024"'), "--sheet"),
        (lambda text: text.replace(b'"row": 1', b'"row" 1'), "damaged in line 2"),
        (lambda text: text.replace(b'_reviews": 1', b'_reviews": 3'), "version"),
        (lambda text: b'{"a": 1}\n' + text, "not a journal"),
        (lambda text: b"[1]\n" + text, "not a journal"),
        (lambda text: text.replace(b"null", b"nul"), "damaged in line 1"),
        (lambda text: text.replace(b'"row": 1', b'"row" 1')[:-3], "damaged in line 2"),
    ],
)
def test_what_does_not_belong_is_refused_and_stays(tmp_path, change, words):
    path = tmp_path / "j"
    write(path)
    path.write_bytes(change(path.read_bytes()))
    before = path.read_bytes()
    with pytest.raises(JournalError, match=words):
        Journal(path, ABOUT)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [
        b"notes without an end of line",
        b"first line\nsecond line, unfinished",
        b'{"a": 1}',
        b'{"a": 1}\n{"b": ',
        b"{",
        b"\n",
        b"\x00\xff\nPK",
    ],
)
def test_a_file_that_is_no_journal_is_refused_and_stays_byte_for_byte(tmp_path, content):
    path = tmp_path / "j"
    path.write_bytes(content)
    with pytest.raises(JournalError, match="not a journal"):
        Journal(path, ABOUT)
    assert path.read_bytes() == content


def test_a_journal_is_open_in_one_studio_only(tmp_path):
    pytest.importorskip("fcntl")
    with (
        Journal(tmp_path / "j", ABOUT),
        pytest.raises(JournalError, match="open in another studio"),
    ):
        Journal(tmp_path / "j", ABOUT)


def test_a_line_that_could_not_be_written_leaves_no_half(tmp_path, monkeypatch):
    path = tmp_path / "j"
    with Journal(path, ABOUT) as journal:
        journal.append(EVENTS[0])
        before = path.read_bytes()

        def fails(handle):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", fails)
        with pytest.raises(OSError, match="space"):
            journal.append(EVENTS[1])
        monkeypatch.undo()
        assert path.read_bytes() == before
        assert journal.events == EVENTS[:1]


def test_a_file_of_nested_brackets_is_not_a_journal_and_stays(tmp_path):
    path = tmp_path / "t.csv.reviews.jsonl"
    path.write_bytes(b"[" * 200_000)
    with pytest.raises(JournalError, match="not a journal"):
        Journal(path, {"target": "y"})
    assert path.read_bytes() == b"[" * 200_000


MISHAPS = {
    "moved": lambda path: path.rename(path.with_name("elsewhere")),
    "deleted": lambda path: path.unlink(),
    "replaced": lambda path: os.replace(shutil.copy(path, f"{path}.copy"), path),
    "truncated": lambda path: os.truncate(path, 0),
    "appended to": lambda path: path.write_bytes(path.read_bytes() + b"x"),
}


@pytest.mark.skipif(os.name != "posix", reason="Windows keeps others from moving an open file")
@pytest.mark.parametrize("mishap", MISHAPS)
def test_nothing_is_saved_to_a_file_that_another_program_took_away(tmp_path, mishap):
    path = tmp_path / "j"
    with Journal(path, ABOUT) as journal:
        journal.append(EVENTS[0])
        MISHAPS[mishap](path)
        files = {file: file.read_bytes() for file in tmp_path.iterdir()}
        for event in EVENTS:
            with pytest.raises(OSError, match="by another program"):
                journal.append(event)
        assert journal.events == EVENTS[:1]
        assert {file: file.read_bytes() for file in tmp_path.iterdir()} == files


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [*lines[:2], *lines[3:]], "misses a line, or has one twice, in line 3"),
        (lambda lines: [*lines[:3], *lines[2:]], "misses a line, or has one twice, in line 4"),
        (lambda lines: [lines[0], lines[2], lines[1], lines[3]], "in line 2"),
        (lambda lines: [*lines[:2], lines[2].replace(b'"relabel"', b'["keep"]')], "damaged"),
    ],
    ids=["deleted", "doubled", "exchanged", "an action that is a list"],
)
def test_lines_that_are_missing_or_doubled_are_refused(tmp_path, change, words):
    path = tmp_path / "j"
    write(path, [*EVENTS, {"action": "undo"}])
    before = b"".join(change(path.read_bytes().splitlines(keepends=True)))
    path.write_bytes(before)
    with pytest.raises(JournalError, match=words):
        Journal(path, ABOUT)
    assert path.read_bytes() == before


@pytest.mark.parametrize("end", [b"\x00", b"\x0b", b"x", b'{"number": 3, "act'])
def test_an_unfinished_last_line_is_noted_and_kept_beside_the_journal(tmp_path, end):
    path = tmp_path / "j"
    write(path)
    content = path.read_bytes()
    whole = content[:-1] if len(end) == 1 else content  # a newline that was flipped
    path.write_bytes(whole + end)
    cut = (whole + end).splitlines()[-1]
    with Journal(path, ABOUT) as journal:
        (note,) = journal.notes
        assert "unfinished line was cut off" in note
        assert (tmp_path / "j.bak").read_bytes() == cut + b"\n"
        assert journal.events == (EVENTS[:1] if len(end) == 1 else EVENTS)
    with Journal(path, ABOUT) as journal:
        assert journal.notes == []


@pytest.mark.skipif(os.name != "posix", reason="Windows has no modes")
def test_a_journal_can_be_read_by_those_who_can_read_the_table(tmp_path):
    for mode in (0o600, 0o640, 0o644):
        path = tmp_path / f"{mode:o}.csv"
        write_table(path)
        path.chmod(mode)
        before = os.umask(0o022)
        try:
            session = open_session(path)
            session.history.journal.close()
        finally:
            os.umask(before)
        assert stat.S_IMODE(journal_path(path).stat().st_mode) == mode


def test_a_table_has_one_journal_whatever_links_lead_to_it(tmp_path):
    write_table(tmp_path / "t.csv")
    (tmp_path / "alias.csv").symlink_to(tmp_path / "t.csv")
    session = open_session(tmp_path / "alias.csv")
    assert session.history.journal.path == (tmp_path / "t.csv.reviews.jsonl").resolve()
    with pytest.raises(JournalError, match="open in another studio"):
        open_session(tmp_path / "t.csv")
