"""The state behind the page, without a page."""

import numpy as np
import pytest

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.experiment._experiment import Experiment
from fuzzytwin.experiment._rows import Settings
from fuzzytwin.studio._history import RefusedError
from tests.studio.helpers import open_session, write_table, written


def test_what_is_decided_tells_how_many_wrong_labels_are_left(tmp_path):
    write_table(tmp_path / "t.csv", n=300, wrong=30)
    left, high = {}, {}
    for action in ("keep", "relabel"):
        session = open_session(tmp_path / "t.csv")
        rows = [int(row) for row in session.open_rows[:24]]
        expected = (1 - session.first_report.label_quality)[session.open_rows[24:]].sum()
        for row in rows:
            session.decide(row, action)
        left[action], high[action] = session.n_errors_left, session.n_errors_left_interval[1]
        assert session.n_errors_left_interval[0] <= left[action] <= high[action]
        while session.undo() is not None:
            pass
        assert session.n_errors_left == session.first_report.n_errors
        session.history.journal.close()
    assert left["keep"] < expected < left["relabel"]  # labels that proved right, or wrong
    assert high["keep"] < high["relabel"]


def test_the_list_ranks_rows_as_the_command_does(session, path):
    expected = Experiment(str(path), Settings("sick", id="name")).label_issues_frame()
    listed = [session.table.name_of(row) for row in session.open_rows]
    assert listed == expected["name"].tolist()
    own = session.quality[session.open_rows]
    np.testing.assert_allclose(own, expected["label_quality"], atol=1e-4)
    numbers = [session.table.number_of(row) for row in session.open_rows]
    assert numbers == [f"row {number}" for number in expected["row"]]


@pytest.mark.parametrize("given", [("sell",), ("relabel", 7), ("relabel", -1)])
def test_bad_decisions_are_refused(session, given):
    with pytest.raises(RefusedError):
        session.decide(3, *given)
    with pytest.raises(RefusedError):
        session.decide(10**6, "keep")
    assert not session.decisions


@pytest.mark.parametrize(
    ("classes", "keys"),
    [
        (("-1", "1"), {"1": 1}),
        (("a", "b"), {"1": 0, "2": 1}),
        (tuple("abcdefghijkl"), {str(k + 1): k for k in range(9)}),
    ],
)
def test_digits_are_keys_of_labels(tmp_path, classes, keys):
    session = open_session(written(tmp_path / "t.csv", n=300, wrong=0, classes=classes))
    assert session.keys == {key: k for key, k in keys.items() if k < len(session.class_names)}


def test_the_given_label_is_kept_however_it_is_said(session):
    session.decide(5, "relabel", int(session.table.codes[5]))
    assert session.decisions[5].action == session.history.journal.events[0]["action"] == "keep"


def test_label_errors_come_first(tmp_path):
    bad = set(write_table(tmp_path / "t.csv", n=300, wrong=30).tolist())
    session = open_session(tmp_path / "t.csv")
    assert len(bad & set(session.open_rows[:30].tolist())) >= 20
    flagged = np.flatnonzero(session.report.is_label_issue)
    assert set(session.rows_to_review.tolist()) == set(flagged.tolist())
    assert len(bad & set(session.rows_to_review.tolist())) >= len(session.rows_to_review) / 2
    row = int(session.rows_to_review[0])
    session.decide(row, "relabel")
    assert row not in session.rows_to_review
    assert row not in session.open_rows


def test_a_reviewed_row_shows_what_the_other_rows_say(session):
    row = int(session.open_rows[0])
    before = session.posterior[row].copy()
    other = session.alternative(row)
    session.decide(row, "keep")
    np.testing.assert_array_equal(session.posterior[row], before)
    assert session.report.posterior[row, session.label(row)] == 1.0
    assert session.alternative(row) == other


def test_labels_are_found_by_what_is_typed(tmp_path):
    names = ("address", "cancel", "refund", "scan", "can")
    session = open_session(written(tmp_path / "t.csv", n=300, wrong=0, classes=names))
    found = [session.class_names[code] for code in session.find_labels(" CAN")]
    assert found == ["can", "cancel", "scan"]
    assert session.find_labels("nothing") == []
    assert len(session.find_labels("")) == 5


def test_the_nearest_rows_of_a_class_do_not_hold_the_row_itself(session):
    row = int(session.open_rows[0])
    session.decide(3, "exclude")
    found = session.nearest(row, [0, 1])
    X = session.table.scaled_X
    for code, rows in found.items():
        own = session.labels.used & (session.labels.codes == code)
        own[row] = False
        distances = np.sort(np.linalg.norm(X[own] - X[row], axis=1))[:3]
        np.testing.assert_allclose([distance for _, distance in rows], distances)
        assert all(own[other] for other, _ in rows)


def test_contributions_add_up_to_the_way_between_planes_fitted_without_the_row(session):
    row = int(session.open_rows[0])
    values = session.contributions(row, 0, 1)
    assert session.table.columns == ["age", "size", "noise", "town"]
    np.testing.assert_allclose(session.contributions(row, 1, 0), -values, atol=1e-12)
    X, codes = session.table.scaled_X, session.labels.codes
    others = np.arange(len(X)) != row
    planes = FuzzyTwinSVC(alpha=10.0).fit(X[others], codes[others])
    f, _ = planes.plane_values([X[row], X.mean(axis=0)])
    at_row, at_mean = (f[:, 0] - f[:, 1]) / 2
    assert values.sum() == pytest.approx(at_row - at_mean)


def test_contributions_leave_out_the_group_of_the_row(tmp_path):
    path = tmp_path / "t.csv"
    write_table(path, n=80)
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    twice = [f"{line},g{i}" for i, line in enumerate(lines) for _ in range(2)]
    path.write_text("\n".join([f"{head},visit", *twice]), encoding="utf-8")
    session = open_session(path, id=None, groups="visit", drop=["name"])
    X, codes = session.table.scaled_X, session.labels.codes
    planes = FuzzyTwinSVC(alpha=10.0).fit(X[2:], codes[2:])
    parts = (planes.coef_[0] - planes.coef_[1]) @ (X[0] - X.mean(axis=0)) / 2
    assert session.contributions(0, 0, 1).sum() == pytest.approx(parts)


@pytest.mark.filterwarnings("ignore:all rows of class")
def test_no_contributions_if_too_few_rows_remain(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"p{i},{i % 7}.5,{i % 2},no" for i in range(20)]
    rows += [f"q{i},{8 + i}.5,v,yes" for i in range(3)]
    path.write_text("\n".join(["name,age,visit,sick", *rows]), encoding="utf-8")
    session = open_session(path, groups="visit")
    assert session.contributions(20, 1, 0) is None


def test_rows_without_a_label_are_no_rows_of_the_studio(tmp_path):
    path = tmp_path / "t.csv"
    write_table(path, classes=("a", "b", "c"))
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    lines[4] = lines[4].rpartition(",")[0] + ","
    path.write_text("\n".join([head, *lines]), encoding="utf-8")
    session = open_session(path)
    assert len(session.table) == 119
    assert session.table.name_of(4) == "p5"
    row = int(session.open_rows[0])
    session.decide(row, "relabel", code=2)
    assert session.label(row) == 2
