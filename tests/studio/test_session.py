"""The state behind the page, without a page."""

import numpy as np
import pytest

from fuzzytwin.experiment._experiment import Experiment
from fuzzytwin.experiment._rows import Settings
from fuzzytwin.studio._history import RefusedError
from tests.studio.helpers import open_session, write_table


@pytest.fixture
def path(tmp_path):
    write_table(tmp_path / "t.csv")
    return tmp_path / "t.csv"


@pytest.fixture
def session(path):
    opened = open_session(path)
    yield opened
    opened.history.journal.close()


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


@pytest.mark.parametrize(
    "given", [("sell",), ("degree", None, 1.5), ("degree",), ("degree", None, float("nan")),
              ("relabel", 7), ("relabel", -1)]
)  # fmt: skip
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
    session.history.journal.close()


def test_the_given_label_is_kept_however_it_is_said(session):
    session.decide(5, "relabel", int(session.table.codes[5]))
    assert session.decisions[5].action == session.history.journal.events[0]["action"] == "keep"


def written(path, **options):
    write_table(path, **options)
    return path


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
    session.history.journal.close()


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
    session.history.journal.close()


def test_the_nearest_rows_of_a_class_do_not_hold_the_row_itself(session):
    row = int(session.open_rows[0])
    session.decide(3, "exclude")
    found = session.nearest(row, [0, 1])
    X = session.table.X
    for code, rows in found.items():
        own = session.labels.used & (session.labels.codes == code)
        own[row] = False
        distances = np.sort(np.linalg.norm(X[own] - X[row], axis=1))[:3]
        np.testing.assert_allclose([distance for _, distance in rows], distances)
        assert all(own[other] for other, _ in rows)
