"""A committee fitted from batches is that of the rows in memory."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fuzzytwin import FuzzyTwinCommittee, files
from tests.files.helpers import FEATURES, SOFT, batches_of, fails, keep_rows, make_table, write

MEMBERS = ["linear", ("rbf", {"length_scale_factor": 0.5})]


@pytest.fixture(scope="module")
def frame():
    return make_table(700)


def numbers(frame):
    return frame[FEATURES].to_numpy(), frame["y"].to_numpy(str)


@pytest.mark.parametrize("degrees", [None, "m", SOFT], ids=str)
def test_two_passes_give_the_same_where_landmarks_are_given(frame, monkeypatch, degrees):
    keep_rows(monkeypatch, 300)
    X, y = numbers(frame)
    model = FuzzyTwinCommittee(members=MEMBERS, n_landmarks=X[:20], class_weight="balanced")
    given = None if degrees is None else frame[degrees].to_numpy()
    wanted = FuzzyTwinCommittee(**model.get_params()).fit(X, y, frame["w"], given)
    passes = []

    def batches():
        passes.append(1)
        return iter(batches_of(frame, 150))

    files.fit(model, batches, target="y", features=FEATURES, sample_weight="w", membership=degrees)
    assert len(passes) == 2
    assert_array_equal(model.classes_, wanted.classes_)
    assert_allclose(model.predict_proba(frame[FEATURES]), wanted.predict_proba(X), atol=1e-9)


def test_landmarks_are_the_same_however_rows_are_ordered_and_cut(frame, monkeypatch):
    keep_rows(monkeypatch, 300)
    X, y = numbers(frame)
    model = FuzzyTwinCommittee(members=MEMBERS, n_landmarks=25, random_state=0)
    wanted = FuzzyTwinCommittee(**model.get_params()).fit(X, y)
    mixed = frame.sample(frac=1.0, random_state=0)
    files.fit(model, lambda: iter(batches_of(mixed, 150)), target="y", features=FEATURES)
    assert_allclose(model.predict_proba(frame[FEATURES]), wanted.predict_proba(X), atol=1e-8)


def test_probabilities_are_written_and_class_weights_move_labels(frame, tmp_path):
    model = FuzzyTwinCommittee(members=MEMBERS, class_weight={**dict.fromkeys("bcde", 1), "a": 5})
    model.fit(frame[FEATURES], frame["y"].to_numpy(str))
    path = write(frame, "parquet", tmp_path)
    assert files.predict(model, path, tmp_path / "out.csv", keep="y", batch_rows=200) == 700
    written = pd.read_csv(tmp_path / "out.csv")
    assert list(written) == ["y", "label", *(f"probability_{k}" for k in "abcde")]
    assert_array_equal(written["label"], model.predict(frame[FEATURES]))
    assert_allclose(written.iloc[:, 2:], model.predict_proba(frame[FEATURES]), atol=1e-9)
    assert (
        written["label"]
        != [*map(str, model.classes_[model.predict_proba(frame[FEATURES]).argmax(axis=1)])]
    ).any()


def test_what_a_committee_of_batches_refuses(frame):
    committee = FuzzyTwinCommittee(members=MEMBERS)
    fails("FuzzyTwinCommittee takes several passes", iter(batches_of(frame)), committee)
    fails("no row has this label; remove it", batches_of(frame), committee, classes=list("abcdef"))
    fails("one class only", batches_of(frame[frame["y"] == "a"]), committee)
    gap = frame.assign(x1=np.where(frame.index == 333, np.inf, frame["x1"]))
    fails(r"batch 2, row 134: column 'x1' holds inf", batches_of(gap), committee)


def test_classes_without_weight_are_left_out_of_soft_labels(frame, monkeypatch):
    keep_rows(monkeypatch, 300)
    X, y = numbers(frame)
    soft = frame[SOFT].to_numpy() + 1e-3
    soft[:, 1] = 0.0
    batches = [(X[i::3], y[i::3], None, soft[i::3]) for i in range(3)]
    model = FuzzyTwinCommittee(members=MEMBERS, n_landmarks=X[:20])
    wanted = FuzzyTwinCommittee(**model.get_params()).fit(X, y, None, soft)
    files.fit(model, lambda: iter(batches))
    assert_array_equal(model.classes_, np.delete(np.unique(y), 1))
    assert_allclose(model.predict_proba(X), wanted.predict_proba(X), atol=1e-9)
