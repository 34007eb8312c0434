"""The committee that is trained on the reviewed labels, and contributions of columns."""

import time

import numpy as np
import pytest

from fuzzytwin import FuzzyTwinCommittee, FuzzyTwinSVC
from fuzzytwin.studio._model import Model, Trainer
from tests.studio.helpers import open_session, wait_for, write_table


@pytest.fixture
def session(tmp_path):
    write_table(tmp_path / "t.csv")
    opened = open_session(tmp_path / "t.csv")
    yield opened
    opened.history.journal.close()


def test_the_model_is_a_committee_of_the_reviewed_labels(session):
    rows = [int(row) for row in session.open_rows[:4]]
    session.decide(rows[0], "relabel")
    session.decide(rows[1], "degree", degree=0.3)
    session.decide(rows[2], "exclude")
    session.decide(rows[3], "keep")
    session.update_model()
    labels, table = session.labels, session.table
    used = labels.used
    assert not used[rows[2]]
    given = table.X[used], table.classes[labels.codes[used]], None, labels.degree[used]
    committee = FuzzyTwinCommittee().fit(*given)
    np.testing.assert_allclose(
        session.model.committee.predict_proba(table.X), committee.predict_proba(table.X), rtol=1e-9
    )
    np.testing.assert_allclose(session.model.probabilities, committee.loo_proba(*given), rtol=1e-9)
    assert session.model.confusion.sum() == used.sum()
    assert 0.7 < session.model.accuracy < 1


def test_reviews_raise_the_accuracy(tmp_path):
    bad = set(write_table(tmp_path / "t.csv", n=300, wrong=30).tolist())
    session = open_session(tmp_path / "t.csv")
    session.update_model()
    before = session.model.accuracy
    for _ in range(30):
        row = int(session.open_rows[0])
        session.decide(row, "relabel" if row in bad else "keep")
    session.update_model()
    assert session.model.accuracy > before + 0.04
    session.history.journal.close()


def test_the_status_says_how_many_decisions_the_model_does_not_have(session):
    assert session.model_status == "the model is being trained"
    session.update_model()
    assert session.model_status == "model up to date"
    for row in (3, 4):
        session.decide(row, "exclude")
    assert session.model_status == "model from 2 decisions ago, updated when you pause"
    session.update_model()
    assert session.model_status == "model up to date"


def test_a_model_that_cannot_be_trained_is_reported(session, monkeypatch):
    def fail(table, labels):
        raise ValueError("too few rows")

    monkeypatch.setattr("fuzzytwin.studio._session.Model.fit", fail)
    session.update_model()
    assert session.model is None
    assert session.model_status == "no model: too few rows"


def test_decisions_do_not_wait_for_training(session, monkeypatch):
    """Train in a thread that takes a second; decisions made meanwhile are trained on later."""
    monkeypatch.setattr("fuzzytwin.studio._model.PAUSE_SECONDS", 0.1)
    trained = []
    original = Model.fit.__func__

    def slow(cls, table, labels):
        time.sleep(0.5)
        trained.append(labels)
        return original(cls, table, labels)

    monkeypatch.setattr(Model, "fit", classmethod(slow))
    with Trainer(session):
        wait_for(lambda: session.model_is_current)
        begin = time.perf_counter()
        session.decide(3, "exclude")
        session.decide(4, "exclude")
        assert time.perf_counter() - begin < 0.4
        assert session.model_status == "model from 2 decisions ago, updated when you pause"
        wait_for(lambda: session.model_status == "model from 2 decisions ago, being updated")
        wait_for(lambda: session.model_is_current)
    assert session.model.labels is session.labels
    assert trained[-1] is session.labels


def test_contributions_add_up_to_the_way_between_planes_fitted_without_the_row(session):
    row = int(session.open_rows[0])
    values = session.contributions(row, 0, 1)
    assert session.table.columns == ["age", "size", "noise", "town"]
    np.testing.assert_allclose(session.contributions(row, 1, 0), -values, atol=1e-12)
    X, codes = session.table.X, session.labels.codes
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
    X, codes = session.table.X, session.labels.codes
    planes = FuzzyTwinSVC(alpha=10.0).fit(X[2:], codes[2:])
    parts = (planes.coef_[0] - planes.coef_[1]) @ (X[0] - X.mean(axis=0)) / 2
    assert session.contributions(0, 0, 1).sum() == pytest.approx(parts)
    session.update_model()
    committee = session.model.committee
    groups = session.table.rows.groups
    expected = committee.loo_proba(X, session.table.classes[codes], groups=groups)
    np.testing.assert_allclose(session.model.probabilities, expected, rtol=1e-9)
    session.history.journal.close()


def test_weights_degrees_three_classes_and_rows_without_a_label(tmp_path):
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
    session.update_model()
    given = table.X, table.rows.y, table.weight, table.degree
    expected = FuzzyTwinCommittee().fit(*given).predict_proba(table.X)
    np.testing.assert_allclose(session.model.committee.predict_proba(table.X), expected, rtol=1e-9)
    row = int(session.open_rows[0])
    session.decide(row, "relabel", code=2)
    assert session.label(row) == 2
    session.history.journal.close()


@pytest.mark.filterwarnings("ignore:all rows of class")
def test_no_contributions_if_too_few_rows_remain(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"p{i},{i % 7}.5,{i % 2},no" for i in range(20)]
    rows += [f"q{i},{8 + i}.5,v,yes" for i in range(3)]
    path.write_text("\n".join(["name,age,visit,sick", *rows]), encoding="utf-8")
    session = open_session(path, groups="visit")
    assert session.contributions(20, 1, 0) is None
    session.history.journal.close()
