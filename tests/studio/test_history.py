"""Decisions, and the journal that keeps them."""

import numpy as np
import pandas as pd
import pytest

from fuzzytwin.studio._history import RefusedError
from fuzzytwin.studio._journal import JournalError, journal_path
from tests.studio.helpers import open_session, write_table, written


def reopened(session, path, **settings):
    session.history.journal.close()
    return open_session(path, **settings)


def test_journals_number_rows_as_the_page_does(tmp_path):
    lines = written(tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "t.csv").write_text("\n".join([*lines[:5], "", "", *lines[5:]]), encoding="utf-8")
    session = open_session(tmp_path / "t.csv")
    session.decide(10, "exclude")
    assert session.table.numbers[10] == session.history.journal.events[0]["row"] == 14
    again = reopened(session, tmp_path / "t.csv")
    assert list(again.decisions) == [10]


def test_nothing_is_lost_when_the_studio_is_opened_again(session, path):
    rows = [int(row) for row in session.open_rows[:4]]
    session.decide(rows[0], "relabel")
    session.decide(rows[1], "exclude")
    session.decide(rows[2], "relabel")
    session.decide(rows[3], "keep")
    session.undo()
    session.undo()
    again = reopened(session, path)
    assert again.decisions == session.decisions
    assert (again.history.done, again.history.undone) == (
        session.history.done,
        session.history.undone,
    )
    np.testing.assert_allclose(again.quality, session.quality, rtol=1e-8)
    assert again.redo() == rows[2]
    assert again.decisions[rows[2]].action == "relabel"
    assert again.undo() == rows[2]
    assert again.undo() == rows[1]
    assert again.undo() == rows[0]
    assert again.undo() is None
    assert not again.decisions


def test_a_new_decision_ends_what_could_be_redone(session):
    first, second = (int(row) for row in session.open_rows[:2])
    session.decide(first, "keep")
    session.undo()
    session.decide(second, "keep")
    assert session.redo() is None
    session.decide(second, "keep")  # the same again changes nothing
    assert len(session.history.done) == 1


def test_a_class_keeps_two_rows(tmp_path):
    path = tmp_path / "t.csv"
    lines = [
        "name,age,sick",
        *(f"p{i},{i % 7}.5,no" for i in range(20)),
        "q1,9.5,yes",
        "q2,8.5,yes",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    session = open_session(path)
    before = journal_path(path).read_bytes()
    for action in ("relabel", "exclude"):
        with pytest.raises(RefusedError, match="Too few rows of yes"):
            session.decide(20, action)
    assert journal_path(path).read_bytes() == before
    assert not session.decisions
    session.decide(0, "relabel", code=1)
    session.decide(20, "exclude")


def test_a_decision_that_cannot_be_written_is_not_made(session, monkeypatch):
    row = int(session.open_rows[0])

    def full(event):
        raise OSError("no space")

    monkeypatch.setattr(session.history.journal, "append", full)
    with pytest.raises(OSError, match="no space"):
        session.decide(row, "relabel")
    assert not session.decisions
    assert not session.history.done


def test_a_journal_that_does_not_fit_is_refused(session, path):
    session.decide(0, "keep")
    session.history.journal.close()
    journal = journal_path(path)
    good = journal.read_text(encoding="utf-8")
    for old, new in (("keep", "sell"), ('"label": "', '"label": "x')):
        journal.write_text(good.replace(old, new), encoding="utf-8")
        with pytest.raises(JournalError, match="line 2"):
            open_session(path)
    journal.write_text(good + '{"number": 2, "action": "redo"}\n', encoding="utf-8")
    with pytest.raises(JournalError, match="line 3"):
        open_session(path)
    journal.write_text(good, encoding="utf-8")
    write_table(path, seed=1)
    path.write_text(path.read_text().replace("p", "q"), encoding="utf-8")
    with pytest.raises(JournalError, match="other data"):
        open_session(path)


def edited(path, edit):
    """Change the rows of a file as a spreadsheet would."""
    edit(pd.read_csv(path, dtype=str)).to_csv(path, index=False)


EDITS = {
    "another row edited": lambda frame: frame.replace({"age": {frame["age"][50]: "0.5"}}),
    "sorted": lambda frame: frame.sort_values("size"),
    "rows removed": lambda frame: frame.drop(index=range(20)),
    "rows added": lambda frame: pd.concat(
        [frame.iloc[:9].assign(name="new", age="0.25", noise="0"), frame]
    ),
    "a column added": lambda frame: frame.assign(late=[str(i % 7) for i in range(len(frame))]),
    "columns in another order": lambda frame: frame[frame.columns[::-1]],
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("named", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_decisions_survive_changes_of_other_rows(tmp_path, edit, named):
    path, options = written(tmp_path / "t.csv"), {} if named else {"id": None, "drop": ["name"]}
    session = open_session(path, **options)
    actions = {30: "keep", 31: "relabel", 32: "exclude", 33: "keep"}
    for row, action in actions.items():
        session.decide(row, action)
    session.decide(34, "keep")
    session.undo()
    before = {row: session.decisions[row] for row in actions}
    session.history.journal.close()
    edited(path, EDITS[edit])
    again = open_session(path, **options)
    names = again.table.table.cells.column("name").to_pylist()
    found = {names[again.table.index[row]]: made for row, made in again.decisions.items()}
    assert found == {f"p{row}": made for row, made in before.items()}
    assert not again.history.unapplied
    assert not again.history.journal_notes
    assert names[again.table.index[again.undo()]] == "p33"
    again.history.journal.close()
    once_more = open_session(path, **options)
    assert len(once_more.decisions) == 3


def test_decisions_on_rows_that_are_gone_or_labelled_otherwise_are_told_and_not_applied(tmp_path):
    path = written(tmp_path / "t.csv")
    session = open_session(path)
    labels = [session.class_names[code] for code in session.table.codes]
    for row in range(30, 35):
        session.decide(row, "relabel")
    session.history.journal.close()
    other = {"no": "yes", "yes": "no"}

    def edit(frame):
        frame.loc[31, "sick"] = other[labels[31]]
        frame.loc[32, "age"] = "0.125"
        return frame.drop(index=30)

    edited(path, edit)
    again = open_session(path)
    assert [again.table.name_of(row) for row in again.decisions] == ["p32", "p33", "p34"]
    gone, changed = again.history.unapplied
    assert (gone.name, gone.reason) == ("p30", "its row is gone")
    assert changed.name == "p31"
    assert changed.reason == f"its given label was {labels[31]}, and is {other[labels[31]]} now"
    assert again.history.n_changed == 1
    first, second = again.history.journal_notes
    assert first.startswith("2 decisions of the journal cannot be applied: p30 (its row is gone)")
    assert second.startswith("Other cells of 1 row changed")
    again.decide(int(changed.row), "keep")  # as it is now
    last = reopened(again, path)
    assert [one.name for one in last.history.unapplied] == ["p30"]
    while last.undo() is not None:
        pass
    undone = reopened(last, path)
    assert [one.name for one in undone.history.unapplied] == ["p30", "p31"]
    assert not undone.decisions


def test_an_id_that_names_several_rows_is_told_apart_by_the_other_cells(tmp_path):
    path = written(tmp_path / "t.csv")
    edited(path, lambda frame: frame.assign(name=[f"p{i // 2}" for i in range(len(frame))]))
    session = open_session(path)
    session.decide(41, "exclude")
    session.history.journal.close()
    edited(path, lambda frame: frame.iloc[::-1])
    again = open_session(path)
    assert list(again.decisions) == [119 - 41]


def test_equal_rows_are_interchangeable_and_each_has_its_own_decision(tmp_path):
    path = written(tmp_path / "t.csv")
    edited(
        path, lambda frame: pd.concat([frame.iloc[:20], frame.iloc[5:6], frame.iloc[5:6], frame])
    )
    options = {"id": None, "drop": ["name"]}
    session = open_session(path, **options)
    session.decide(20, "exclude")
    session.decide(21, "keep")
    again = reopened(session, path, **options)
    assert {row: made.action for row, made in again.decisions.items()} == {
        20: "exclude",
        21: "keep",
    }
    again.history.journal.close()
    edited(path, lambda frame: frame.sort_values("noise"))
    last = open_session(path, **options)
    assert sorted(made.action for made in last.decisions.values()) == ["exclude", "keep"]
    names = last.table.table.cells.column("name").to_pylist()
    assert [names[last.table.index[row]] for row in last.decisions] == ["p5", "p5"]


def test_decisions_that_would_empty_a_class_of_the_changed_table_are_held_back(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"p{i},{i % 7}.5,no" for i in range(20)] + [f"q{i},{8 + i}.5,yes" for i in range(4)]
    path.write_text("\n".join(["name,age,sick", *rows]), encoding="utf-8")
    session = open_session(path)
    session.decide(20, "exclude")
    session.decide(21, "relabel")
    session.history.journal.close()
    edited(path, lambda frame: frame.drop(index=[22]))
    again = open_session(path)
    assert [again.table.name_of(row) for row in again.decisions] == ["q0"]
    assert [one.reason for one in again.history.unapplied] == ["too few rows of yes would remain"]


def test_a_line_that_was_cut_off_is_told(session, path):
    session.decide(3, "exclude")
    session.history.journal.close()
    with open(journal_path(path), "ab") as file:
        file.write(b'{"number": 2, "action": "ke')
    again = open_session(path)
    assert list(again.decisions) == [3]
    (note,) = again.history.journal_notes
    assert note.endswith("t.csv.reviews.jsonl.bak holds it.")


def test_a_journal_belongs_to_one_sheet(tmp_path):
    frame = pd.read_csv(written(tmp_path / "t.csv"))
    with pd.ExcelWriter(tmp_path / "t.xlsx") as writer:
        for sheet in ("one", "two"):
            frame.to_excel(writer, sheet_name=sheet, index=False)
    session = open_session(tmp_path / "t.xlsx", sheet="one")
    session.decide(3, "exclude")
    session.history.journal.close()
    with pytest.raises(JournalError, match="belongs to other data"):
        open_session(tmp_path / "t.xlsx", sheet="two")
    again = open_session(tmp_path / "t.xlsx", sheet="one")
    assert list(again.decisions) == [3]
