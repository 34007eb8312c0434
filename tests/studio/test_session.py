"""The state behind the page, without a page."""

import json

import numpy as np
import pandas as pd
import pytest

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.apps.studio.journal import JournalError, journal_path
from fuzzytwin.apps.studio.model import LiveModel, make_model
from fuzzytwin.apps.studio.session import Refused
from fuzzytwin.apps.study import Study
from fuzzytwin.apps.table_rows import Settings
from fuzzytwin.data.columns import TableError
from tests.studio.helpers import open_session, write_table


@pytest.fixture
def path(tmp_path):
    write_table(tmp_path / "t.csv")
    return tmp_path / "t.csv"


@pytest.fixture
def session(path):
    opened = open_session(path)
    yield opened
    opened.journal.close()


def reopened(session, path, **settings):
    session.journal.close()
    return open_session(path, **settings)


def fresh(session):
    """Fit a new model on the rows as they stand."""
    live, table = session.live, session.table
    used = np.array(
        [d.used if (d := session.decisions.get(i)) else True for i in range(len(table))]
    )
    codes = np.array([session.label(i) for i in range(len(table))])
    degrees = np.array([session.degree(i) for i in range(len(table))])
    model = FuzzyTwinSVC(*session.kind[:1]).set_params(**live.model.get_params())
    return model.fit(table.X[used], codes[used], membership=degrees[used]), used


@pytest.mark.parametrize("kind", [("crisp", "linear"), ("fuzzy", "linear"), ("crisp", "rbf")])
def test_the_model_is_always_that_of_a_fit_on_the_rows_as_they_stand(session, kind):
    session.use(*kind)
    rows = [int(row) for row in session.open_rows[:5]]
    session.decide(rows[0], "relabel")
    session.decide(rows[1], "degree", degree=0.3)
    session.decide(rows[2], "leave out")
    session.decide(rows[3], "keep")
    session.decide(rows[0], "leave out")
    session.decide(rows[4], "relabel")
    session.undo()
    session.undo()
    session.redo()
    model, used = fresh(session)
    assert not used[rows[0]]
    assert not used[rows[2]]
    if kind[1] == "linear":
        np.testing.assert_allclose(session.live.model.coef_, model.coef_, rtol=1e-8, atol=1e-10)
    X = session.table.X
    ours = session.live.model.predict_membership(X)
    np.testing.assert_allclose(ours, model.predict_membership(X), rtol=1e-6, atol=1e-8)
    session.live.refit()
    np.testing.assert_allclose(session.live.model.predict_membership(X), ours, rtol=1e-6)


def test_doubts_are_those_of_planes_that_never_saw_the_row(session):
    session.use("crisp", "linear")
    row = int(session.open_rows[0])
    others = np.arange(len(session.table)) != row
    model = FuzzyTwinSVC(alpha=10.0).fit(session.table.X[others], session.codes[others])
    expected = model.predict_membership(session.table.X[[row]])[0]
    np.testing.assert_allclose(session.memberships[row], expected, rtol=1e-9)
    without = session.live.without(row)
    np.testing.assert_allclose(without.coef_, model.coef_, rtol=1e-8)
    assert session.live.model is not without
    assert session.live.memberships().shape == (len(session.table), 2)


def test_wrong_labels_come_first_and_settling_them_raises_the_accuracy(tmp_path):
    bad = set(write_table(tmp_path / "t.csv", n=300, wrong=30).tolist())
    session = open_session(tmp_path / "t.csv")
    assert len(bad & set(session.open_rows[:30].tolist())) >= 20
    shown = [session.accuracy]
    for _ in range(30):
        row = int(session.open_rows[0])
        session.decide(row, "relabel" if row in bad else "keep")
        shown.append(session.accuracy)
    assert shown[-1] > shown[0] + 0.04
    low, high = session.wrong_left_interval
    assert low <= session.n_wrong_left <= high
    assert session.n_wrong_left < session.first_look.n_wrong
    assert session.given_accuracy == shown[0]
    session.journal.close()


def test_what_is_decided_tells_how_many_wrong_labels_are_left(tmp_path):
    write_table(tmp_path / "t.csv", n=300, wrong=30)
    left, high = {}, {}
    for action in ("keep", "relabel"):
        session = open_session(tmp_path / "t.csv")
        rows = [int(row) for row in session.open_rows[:24]]
        expected = (1 - session.first_look.degrees)[session.open_rows[24:]].sum()
        for row in rows:
            session.decide(row, action)
        left[action], high[action] = session.n_wrong_left, session.wrong_left_interval[1]
        assert session.wrong_left_interval[0] <= left[action] <= high[action]
        while session.undo() is not None:
            pass
        assert session.n_wrong_left == session.first_look.n_wrong
        session.journal.close()
    assert left["keep"] < expected < left["relabel"]  # labels that proved right, or wrong
    assert high["keep"] < high["relabel"]


def test_the_list_ranks_rows_as_the_command_does(session, path):
    expected = Study(str(path), Settings("sick", id="name")).doubts_frame()
    listed = [session.table.name_of(row) for row in session.open_rows]
    assert listed == expected["name"].tolist()
    own = session.own[session.open_rows]
    np.testing.assert_allclose(own, expected["degree"], atol=1e-4)
    numbers = [session.table.number_of(row) for row in session.open_rows]
    assert numbers == [f"row {number}" for number in expected["row"]]


def as_version_1(journal, table):
    """Write a journal as the first version did: rows known by their numbers, from 1 on."""
    head, *lines = map(json.loads, journal.read_text(encoding="utf-8").splitlines())
    old = {"fuzzytwin_doubts": 1, "fingerprint": table.fingerprint, "target": head["target"]}
    for event in lines:
        for name in ("given", "id_column", "content", "copy", "decision"):
            event.pop(name, None)
        if "row" in event:
            event["row"] -= 1
    text = "".join(json.dumps(line) + "\n" for line in (old, *lines))
    journal.write_text(text, encoding="utf-8")


def test_the_journal_numbers_rows_as_the_page_does_and_reads_older_ones(session, path):
    session.decide(7, "keep")
    session.decide(8, "keep")
    session.undo()
    assert session.table.number_of(7) == "row 9"
    assert session.journal.events[0]["row"] == 9
    session.journal.close()
    journal = journal_path(path)
    as_version_1(journal, session.table)
    again = open_session(path)
    assert list(again.decisions) == [7]
    again.decide(9, "keep")
    assert again.journal.events[-1]["row"] == 11
    again = reopened(again, path)
    assert list(again.decisions) == [7, 9]
    again.journal.close()
    path.write_text(path.read_text().replace("Rom", "Bern"), encoding="utf-8")
    with pytest.raises(JournalError, match="older version"):
        open_session(path)


def test_nothing_is_lost_when_the_studio_is_opened_again(session, path):
    rows = [int(row) for row in session.open_rows[:4]]
    session.decide(rows[0], "relabel")
    session.decide(rows[1], "leave out")
    session.decide(rows[2], "degree", degree=0.25)
    session.decide(rows[3], "keep")
    session.undo()
    session.undo()
    again = reopened(session, path)
    assert again.decisions == session.decisions
    assert (again.done, again.undone) == (session.done, session.undone)
    np.testing.assert_allclose(again.own, session.own, rtol=1e-8)
    assert again.redo() == rows[2]
    assert again.decisions[rows[2]].degree == 0.25
    assert again.undo() == rows[2]
    assert again.undo() == rows[1]
    assert again.undo() == rows[0]
    assert again.undo() is None
    assert not again.decisions
    again.journal.close()


def test_a_new_decision_ends_what_could_be_redone(session):
    first, second = (int(row) for row in session.open_rows[:2])
    session.decide(first, "keep")
    session.undo()
    session.decide(second, "keep")
    assert session.redo() is None
    session.decide(second, "keep")  # the same again changes nothing
    assert len(session.done) == 1


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
    for action in ("relabel", "leave out"):
        with pytest.raises(Refused, match="Too few rows of yes"):
            session.decide(20, action)
    assert journal_path(path).read_bytes() == before
    assert not session.decisions
    session.decide(20, "degree", degree=0.0)
    session.decide(0, "relabel", code=1)
    session.decide(20, "leave out")
    session.journal.close()


@pytest.mark.parametrize(
    "given", [("sell",), ("degree", None, 1.5), ("degree",), ("degree", None, float("nan")),
              ("relabel", 7), ("relabel", -1)]
)  # fmt: skip
def test_bad_decisions_are_refused(session, given):
    with pytest.raises(Refused):
        session.decide(3, *given)
    with pytest.raises(Refused):
        session.decide(10**6, "keep")
    assert not session.decisions


def test_a_decision_that_cannot_be_written_is_not_made(session, monkeypatch):
    coef = session.live.model.coef_
    row = int(session.open_rows[0])

    def full(event):
        raise OSError("no space")

    monkeypatch.setattr(session.journal, "append", full)
    with pytest.raises(OSError, match="no space"):
        session.decide(row, "relabel")
    assert not session.decisions
    assert not session.done
    np.testing.assert_allclose(session.live.model.coef_, coef, rtol=1e-9)


def test_a_journal_that_does_not_fit_is_refused(session, path):
    session.decide(0, "keep")
    session.journal.close()
    journal = journal_path(path)
    good = journal.read_text(encoding="utf-8")
    for old, new in (
        ("keep", "sell"),
        ('"degree": 1.0', '"degree": 7'),
        ('"label": "', '"label": "x'),
    ):
        journal.write_text(good.replace(old, new), encoding="utf-8")
        with pytest.raises(JournalError, match="line 2"):
            open_session(path)
    journal.write_text(good + '{"action": "redo"}\n', encoding="utf-8")
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
@pytest.mark.parametrize("named", [True, False])
def test_decisions_survive_changes_of_other_rows(tmp_path, edit, named):
    path, options = written(tmp_path / "t.csv"), {} if named else {"id": None, "drop": ["name"]}
    session = open_session(path, **options)
    actions = {30: "keep", 31: "relabel", 32: "leave out", 33: "degree"}
    for row, action in actions.items():
        session.decide(row, action, degree=0.5)
    session.decide(34, "keep")
    session.undo()
    before = {row: session.decisions[row] for row in actions}
    session.journal.close()
    edited(path, EDITS[edit])
    again = open_session(path, **options)
    names = again.table.table.cells.column("name").to_pylist()
    found = {names[again.table.index[row]]: made for row, made in again.decisions.items()}
    assert found == {f"p{row}": made for row, made in before.items()}
    assert not again.unapplied
    assert not again.journal_notes
    assert names[again.table.index[again.undo()]] == "p33"
    again.journal.close()
    once_more = open_session(path, **options)
    assert len(once_more.decisions) == 3
    once_more.journal.close()


def test_decisions_on_rows_that_are_gone_or_labelled_otherwise_are_told_and_not_applied(tmp_path):
    path = written(tmp_path / "t.csv")
    session = open_session(path)
    labels = [session.class_names[code] for code in session.table.codes]
    for row in range(30, 35):
        session.decide(row, "relabel")
    session.journal.close()
    other = {"no": "yes", "yes": "no"}

    def edit(frame):
        frame.loc[31, "sick"] = other[labels[31]]
        frame.loc[32, "age"] = "0.125"
        return frame.drop(index=30)

    edited(path, edit)
    again = open_session(path)
    assert [again.table.name_of(row) for row in again.decisions] == ["p32", "p33", "p34"]
    gone, changed = again.unapplied
    assert (gone.name, gone.reason) == ("p30", "its row is gone")
    assert changed.name == "p31"
    assert changed.reason == f"its given label was {labels[31]}, and is {other[labels[31]]} now"
    assert again.n_changed == 1
    assert "2 decisions cannot be applied: p30 (its row is gone)" in again.journal_notes[0]
    assert again.journal_notes[1].startswith("Other cells of 1 row changed")
    again.decide(int(changed.row), "keep")  # as it is now
    last = reopened(again, path)
    assert [one.name for one in last.unapplied] == ["p30"]
    while last.undo() is not None:
        pass
    undone = reopened(last, path)
    assert [one.name for one in undone.unapplied] == ["p30", "p31"]
    assert not undone.decisions
    undone.journal.close()


def test_an_id_that_names_several_rows_is_told_apart_by_the_other_cells(tmp_path):
    path = written(tmp_path / "t.csv")
    edited(path, lambda frame: frame.assign(name=[f"p{i // 2}" for i in range(len(frame))]))
    session = open_session(path)
    session.decide(41, "leave out")
    session.journal.close()
    edited(path, lambda frame: frame.iloc[::-1])
    again = open_session(path)
    assert list(again.decisions) == [119 - 41]
    again.journal.close()


def test_equal_rows_are_interchangeable_and_each_has_its_own_decision(tmp_path):
    path = written(tmp_path / "t.csv")
    edited(
        path, lambda frame: pd.concat([frame.iloc[:20], frame.iloc[5:6], frame.iloc[5:6], frame])
    )
    options = {"id": None, "drop": ["name"]}
    session = open_session(path, **options)
    session.decide(20, "leave out")
    session.decide(21, "keep")
    again = reopened(session, path, **options)
    assert {row: made.action for row, made in again.decisions.items()} == {
        20: "leave out",
        21: "keep",
    }
    again.journal.close()
    edited(path, lambda frame: frame.sort_values("noise"))
    last = open_session(path, **options)
    assert sorted(made.action for made in last.decisions.values()) == ["keep", "leave out"]
    names = last.table.table.cells.column("name").to_pylist()
    assert [names[last.table.index[row]] for row in last.decisions] == ["p5", "p5"]
    last.journal.close()


def test_decisions_that_would_empty_a_class_of_the_changed_table_are_held_back(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"p{i},{i % 7}.5,no" for i in range(20)] + [f"q{i},{8 + i}.5,yes" for i in range(4)]
    path.write_text("\n".join(["name,age,sick", *rows]), encoding="utf-8")
    session = open_session(path)
    session.decide(20, "leave out")
    session.decide(21, "relabel")
    session.journal.close()
    edited(path, lambda frame: frame.drop(index=[22]))
    again = open_session(path)
    assert [again.table.name_of(row) for row in again.decisions] == ["q0"]
    assert [one.reason for one in again.unapplied] == ["too few rows of yes would remain"]
    again.journal.close()


def test_three_classes_weights_degrees_and_rows_without_a_label(tmp_path):
    path = tmp_path / "t.csv"
    write_table(path, classes=("a", "b", "c"))
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    lines[4] = lines[4].rpartition(",")[0] + ","
    more = [f"{line},{1 + i % 2},{0.5 + i % 3 / 4}" for i, line in enumerate(lines)]
    path.write_text("\n".join([f"{head},w,mu", *more]), encoding="utf-8")
    session = open_session(path, weight="w", degree="mu")
    table = session.table
    assert len(table) == 119
    assert table.index[4] == 5
    assert table.name_of(4) == "p5"
    used = np.ones(119, dtype=bool)
    model = FuzzyTwinSVC(session.kind[0], alpha=10.0)
    u = model.fit(table.X, table.codes, table.weight, table.degree)
    expected = u.loo_membership(table.X, table.codes, table.weight, table.degree)
    np.testing.assert_allclose(session.memberships[used], expected, rtol=1e-9)
    row = int(session.open_rows[0])
    assert session.alternative(row) != session.label(row)
    session.decide(row, "relabel", code=2)
    assert session.label(row) == 2
    assert session.confusion().sum() == 119
    assert len(session.nearest(row, 1)) == 3
    assert all(session.codes[r] == 1 and r != row for r, _ in session.nearest(row, 1))
    session.journal.close()


def test_evidence_adds_up_to_the_way_between_the_planes(session):
    row = int(session.open_rows[0])
    values = session.evidence(row, 0, 1)
    assert session.table.columns == ["age", "size", "noise", "town"]
    np.testing.assert_allclose(session.evidence(row, 1, 0), -values, atol=1e-12)
    model = session.live.without(row)
    f, _ = model.plane_values([session.table.X[row], session.table.X.mean(axis=0)])
    at, usual = (f[:, 0] - f[:, 1]) / 2
    assert values.sum() == pytest.approx(at - usual)
    # With C = 1 and no degrees, that is what the label is decided by.
    s = np.subtract(*session.live.model.plane_values(session.table.X)[0].T)
    session.use("crisp", "linear")
    predicted = session.live.model.predict(session.table.X)
    np.testing.assert_array_equal(predicted == 0, s > 0)
    assert session.usual("town", 0) in ("Rom", "Oslo")
    assert float(session.usual("age", 0)) < float(session.usual("age", 1))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_more_columns_than_rows(kernel):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2000))
    codes = (X[:, 0] + rng.normal(size=60) > 0).astype(int)
    everyone = np.ones(60, dtype=bool)
    live = LiveModel(make_model("crisp", kernel), X, codes, *np.ones((2, 60)), everyone)
    live.change(3, 1 - int(codes[3]), 1.0, True)
    live.change(5, int(codes[5]), 0.5, True)
    live.change(7, int(codes[7]), 1.0, False)
    u = live.memberships()
    expected = live.without(9).predict_membership(X[[9]])
    np.testing.assert_allclose(u[[9]], expected, rtol=1e-6)
    values = live.evidence(9, np.arange(2000), 0, 1)
    assert values.shape == (2000,)
    assert np.isfinite(values).all()


def test_evidence_of_curved_planes_is_what_moving_a_column_changes(session):
    session.use("crisp", "rbf")
    row, table = int(session.open_rows[0]), session.table
    model = session.live.without(row)
    x = table.X[row].copy()
    before = np.subtract(*model.plane_values([x])[0][0])
    x[table.origins == 1] = table.X.mean(axis=0)[table.origins == 1]
    lost = (before - np.subtract(*model.plane_values([x])[0][0])) / 2
    assert session.evidence(row, 0, 1)[1] == pytest.approx(lost)


def test_what_is_usual_depends_on_the_kind_of_column(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"{i % 5},{i % 3 > 0},{'ab'[i % 4 > 0]},{i / 7:.3f},{'no' if i < 60 else 'yes'}"
            for i in range(120)]  # fmt: skip
    path.write_text("\n".join(["code,flag,word,number,sick", *rows, "0,True,a,0,no"]), "utf-8")
    session = open_session(path, id=None)
    usual = {name: session.usual(name, 0) for name in session.table.columns}
    median = np.median([*(round(i / 7, 3) for i in range(60)), 0])
    assert usual == {"code": "0", "flag": "True", "word": "b", "number": f"{median:.4g}"}
    session.journal.close()


def test_cells_have_a_decimal_point_and_rows_are_found(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"x{i};{i % 7},25;1.00{i % 9},5;a,b;{'no' if i % 7 < 3 else 'yes'}" for i in range(40)]
    path.write_text("\n".join(["key;age;large;word;sick", *rows]), encoding="utf-8")
    session = open_session(path, id="key")
    table = session.table
    assert [table.cell(3, name) for name in ("age", "large", "word")] == ["3.25", "1003.5", "a,b"]
    assert table.find("X3").tolist() == [3, *range(30, 40)]
    assert table.find("row 41").tolist() == [39]
    assert table.find("nothing").tolist() == []
    session.journal.close()


def test_rows_of_a_group_do_not_vouch_for_each_other(tmp_path):
    path = tmp_path / "t.csv"
    write_table(path, n=80)
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    twice = [f"{line},g{i}" for i, line in enumerate(lines) for _ in range(2)]
    path.write_text("\n".join([f"{head},visit", *twice]), encoding="utf-8")
    session = open_session(path, id=None, groups="visit", drop=["name"])
    session.use("crisp", "linear")
    X, codes = session.table.X, session.codes
    others = np.arange(160) >= 2
    model = FuzzyTwinSVC(alpha=10.0).fit(X[others], codes[others])
    np.testing.assert_allclose(session.memberships[:2], model.predict_membership(X[:2]), rtol=1e-6)
    assert session.live.cross_validate(session.table.rows.groups) <= 1
    session.journal.close()


def test_tables_that_cannot_be_looked_at_are_refused(tmp_path):
    (tmp_path / "t.svm").write_text("1 1:0.5\n0 2:1\n", encoding="utf-8")
    with pytest.raises(TableError, match="LIBSVM"):
        open_session(tmp_path / "t.svm")
    write_table(tmp_path / "t.csv")
    with pytest.raises(TableError, match="--target"):
        open_session(tmp_path / "t.csv", target=None)
    with pytest.raises(TableError, match="nothing"):
        open_session(tmp_path / "t.csv", target="nothing")
    assert not journal_path(tmp_path / "t.csv").exists()


def test_a_journal_belongs_to_one_sheet(tmp_path):
    frame = pd.read_csv(written(tmp_path / "t.csv"))
    with pd.ExcelWriter(tmp_path / "t.xlsx") as writer:
        for sheet in ("one", "two"):
            frame.to_excel(writer, sheet_name=sheet, index=False)
    session = open_session(tmp_path / "t.xlsx", sheet="one")
    session.decide(3, "leave out")
    session.journal.close()
    with pytest.raises(JournalError, match="belongs to other data"):
        open_session(tmp_path / "t.xlsx", sheet="two")
    again = open_session(tmp_path / "t.xlsx", sheet="one")
    assert list(again.decisions) == [3]
    again.journal.close()


def written(path, **options):
    write_table(path, **options)
    return path


@pytest.mark.parametrize("n_groups", [2, 4])
def test_few_groups_give_fewer_folds(tmp_path, n_groups):
    frame = pd.read_csv(written(tmp_path / "t.csv"))
    frame.assign(visit=np.arange(len(frame)) % n_groups).to_csv(tmp_path / "t.csv", index=False)
    session = open_session(tmp_path / "t.csv", groups="visit")
    assert 0.5 < session.live.cross_validate(session.table.rows.groups) <= 1
    session.journal.close()


def test_no_accuracy_is_claimed_where_folds_leave_nothing_of_a_class(tmp_path):
    frame = pd.read_csv(written(tmp_path / "t.csv"))
    rare = np.arange(len(frame)) < 3
    frame = frame.assign(sick=np.where(rare, "yes", "no"))
    frame.to_csv(tmp_path / "t.csv", index=False)
    session = open_session(tmp_path / "t.csv")
    for row in (0, 1):
        session.decide(row, "degree", degree=0.0)
    assert np.isnan(session.live.cross_validate())
    session.journal.close()


def test_journals_number_rows_as_the_page_does(tmp_path):
    lines = written(tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "t.csv").write_text("\n".join([*lines[:5], "", "", *lines[5:]]), encoding="utf-8")
    session = open_session(tmp_path / "t.csv")
    session.decide(10, "leave out")
    assert session.table.numbers[10] == session.journal.events[0]["row"] == 14
    again = reopened(session, tmp_path / "t.csv")
    assert list(again.decisions) == [10]
    again.journal.close()


@pytest.mark.parametrize(
    ("classes", "keys"),
    [
        (("-1", "1"), {"-1": 0, "1": 1}),
        (("a", "b"), {"1": 0, "2": 1}),
        (tuple("abcdefghijkl"), {str(k + 1): k for k in range(12)}),
    ],
)
def test_every_class_has_a_key_or_a_button(tmp_path, classes, keys):
    session = open_session(written(tmp_path / "t.csv", n=300, wrong=0, classes=classes))
    assert session.keys == {key: k for key, k in keys.items() if k < len(session.class_names)}
    session.journal.close()


def test_the_given_label_is_kept_however_it_is_said(session):
    session.decide(5, "relabel", int(session.table.codes[5]))
    assert session.decisions[5].action == session.journal.events[0]["action"] == "keep"


def test_cells_of_a_decimal_comma_are_shown_as_they_are_read(tmp_path):
    frame = pd.read_csv(written(tmp_path / "t.csv"))
    pay = [f"{28 + i}.{642 - i}" for i in range(len(frame))]  # thousands
    frame.assign(pay=pay).to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    session = open_session(tmp_path / "t.csv")
    assert session.table.cell(0, "pay") == "28642"
    session.journal.close()


def test_a_decision_leaves_out_no_groups_where_none_are_given(session, monkeypatch):
    monkeypatch.delattr("fuzzytwin.core.ridge.LooFactor._leave_groups")
    session.use("crisp", "linear")
    session.decide(0, "leave out")
    assert np.isfinite(session.memberships).all()
