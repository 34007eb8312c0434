"""The journal: nothing is lost, nothing foreign is taken in."""

import json

import pytest

from fuzzytwin.studio._journal import Journal, JournalError

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
        (
            lambda text: text.replace(b'_reviews": 1', b'_reviews": 3'),
            "version",
        ),
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
