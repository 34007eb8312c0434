"""Checkpoints: a killed run goes on where it was, with the same data and settings or not at all."""

import functools
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from fuzzytwin import CenterMembership, FuzzyTwinSVC, LeastSquaresTwinSVC
from fuzzytwin.sources import CheckpointError, checkpoint, fit_source, passes

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

D = 4
FEATURES = [f"x{j}" for j in range(D)]
OPTIONS = {"target": "y", "features": FEATURES, "batch_rows": 128}


def make_table(n=1500):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, n)
    X = rng.normal(size=(n, D)) @ rng.normal(size=(D, D)) + y[:, None] * rng.normal(size=D)
    frame = pd.DataFrame(X, columns=FEATURES)
    return frame.assign(y=np.array(list("abcde"))[y], w=rng.random(n))


def batches_of(frame, size=200):
    return [frame[i : i + size] for i in range(0, len(frame), size)]


def write(frame, kind, folder):
    """The frame in some form, as a source."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    path = str(folder / f"rows.{kind}")
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=170)
    elif kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "npy":
        np.save(path, frame.astype({"y": "U1"}).to_records(index=False, column_dtypes={"y": "U1"}))
    elif kind == "folder":
        os.makedirs(path)
        for i in range(4):
            pq.write_table(table[i * 400 : (i + 1) * 400], f"{path}/part-{i}.parquet")
    elif kind == "function":
        return lambda: iter([*batches_of(frame), frame[:0]])
    elif kind == "generator":
        return (batch for batch in [frame[:0], *batches_of(frame)])
    return path


def assert_planes_of_one_fit(model, estimator, frame):
    wanted = clone(estimator).fit(frame[FEATURES], frame["y"].to_numpy(str))
    for name in ("coef_", "intercept_"):
        value = getattr(wanted, name)
        assert_allclose(getattr(model, name), value, rtol=1e-9, atol=1e-9 * np.abs(value).max())


def from_source(estimator, source, **options):
    return fit_source(clone(estimator), source, **OPTIONS | options)


def fails(match, source, estimator=None, error=ValueError, **options):
    """An error with this text, and the model as it was."""
    model = estimator or FuzzyTwinSVC()
    before = dict(vars(model))
    with pytest.raises(error, match=match):
        fit_source(model, source, **OPTIONS | options)
    assert vars(model) == before


class Killed(BaseException):
    """Nothing catches it."""


def interrupted(monkeypatch, after, *arguments, **options):
    """A run that ends after so many batches."""
    count = 0

    def add(parts):
        nonlocal count
        count += 1
        if count > after:
            raise Killed
        return _add(parts)

    _add = passes.add
    with monkeypatch.context() as patch:
        patch.setattr(passes, "add", add)
        with pytest.raises(Killed):
            from_source(*arguments, **options)


@pytest.mark.parametrize("form", ["parquet", "csv", "folder", "npy", "function", "generator"])
@pytest.mark.parametrize("membership", [None, "center"])
def test_resumed_run_gives_the_same_model(form, membership, tmp_path, monkeypatch):
    if form == "generator" and membership:
        pytest.skip("one pass only")
    frame = make_table()
    estimator = FuzzyTwinSVC("fuzzy", membership=membership)
    source = None if form == "generator" else write(frame, form, tmp_path)
    whole = from_source(estimator, source or write(frame, form, tmp_path))
    options = {"checkpoint": tmp_path / "run.npz", "checkpoint_every": 2}
    for after in (3, 9, 0, 5) if membership else (3, 4):
        rows = source or write(frame, form, tmp_path)
        interrupted(monkeypatch, after, estimator, rows, **options)
        assert [p.name for p in tmp_path.iterdir() if p.name.endswith("tmp")] == []
    model = from_source(estimator, source or write(frame, form, tmp_path), **options)
    for name in ("coef_", "intercept_", "width_coef_"):
        assert_array_equal(getattr(model, name), getattr(whole, name))


def test_finished_checkpoint_gives_the_model_at_once(tmp_path, monkeypatch):
    source = write(make_table(), "parquet", tmp_path)
    options = {"checkpoint": tmp_path / "run.npz"}
    model = from_source(FuzzyTwinSVC(membership="center"), source, **options)

    def add(parts):
        raise AssertionError("read")

    monkeypatch.setattr(passes, "add", add)
    again = from_source(FuzzyTwinSVC(membership="center"), source, **options)
    assert_array_equal(again.coef_, model.coef_)
    with np.load(tmp_path / "run.npz", allow_pickle=False) as file:
        assert all(file[name].dtype.kind != "O" for name in file.files)


def test_checkpoint_of_other_data_or_settings(tmp_path, monkeypatch):
    frame = make_table()
    source = write(frame, "parquet", tmp_path)
    kept = tmp_path / "run.npz"
    options = {"checkpoint": kept, "checkpoint_every": 2}
    interrupted(monkeypatch, 5, FuzzyTwinSVC(), source, **options)
    state = kept.read_bytes()
    for text, estimator, changed in (
        ("alpha was 10.0 and is 1.0", FuzzyTwinSVC(alpha=1.0), {}),
        ("estimator was", LeastSquaresTwinSVC(), {}),
        ("batch_rows was 128 and is 100", FuzzyTwinSVC(), {"batch_rows": 100}),
        ("columns was", FuzzyTwinSVC(), {"features": FEATURES[:3]}),
        ("columns was", FuzzyTwinSVC(), {"sample_weight": "w"}),
        ("classes was", FuzzyTwinSVC(), {"classes": list("abcde")}),
    ):
        text = f"run.npz' belongs to other data or settings: .*{text}|membership.* was"
        fails(text, source, estimator, **options, **changed)
    write(frame[:-1], "parquet", tmp_path)
    fails("the data was 1 file.*Give another path, or delete", source, **options)
    assert kept.read_bytes() == state


LANDMARKS = np.random.default_rng(3).normal(size=(80, D))


def moved(a):
    """Landmarks of which one in the middle, which no print shows, is moved."""
    return LANDMARKS * np.where(np.arange(80) == 40, a, 1)[:, None]


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("n_landmarks", moved),
        ("n_landmarks", lambda a: sparse.csr_array(moved(a))),
        ("n_landmarks", lambda a: sparse.csr_matrix(moved(1 + 1e-9 * a))),
        ("n_landmarks", lambda a: pd.DataFrame(moved(a))),
        ("n_landmarks", lambda a: pl.DataFrame(moved(a))),
        ("n_landmarks", lambda a: moved(a).astype(object)),
        ("n_landmarks", lambda a: list(moved(a))),
        ("kernel", lambda a: (linear_kernel, rbf_kernel)[a - 1]),
        ("kernel", lambda a: functools.partial(rbf_kernel, gamma=a)),
        ("membership", lambda a: CenterMembership(eps=a / 100)),
        ("class_weight", lambda a: {"a": a, "b": 2.0}),
    ],
    ids=["array", "csr", "matrix", "frame", "polars", "objects", "list", "function", "partial",
         "membership", "dict"],
)  # fmt: skip
def test_checkpoint_compares_the_contents_of_parameters(name, make, tmp_path, monkeypatch):
    source = write(make_table(300), "parquet", tmp_path)
    options = {"checkpoint": tmp_path / "run.npz"}

    def estimator(a):
        given = {"kernel": "rbf", "gamma": 0.1, "n_landmarks": LANDMARKS, name: make(a)}
        return FuzzyTwinSVC(**given)

    model = from_source(estimator(1), source, **options)
    fails(f"belongs to other data or settings: {name}.* was", source, estimator(2), **options)
    monkeypatch.setattr(passes, "add", None)  # the same settings need no reading
    assert_array_equal(from_source(estimator(1), source, **options).coef_, model.coef_)


def by_name(X, Y):
    return X @ Y.T


def closure(gamma):
    def kernel(X, Y):
        return gamma * X @ Y.T

    return kernel


class Curved:
    def __call__(self, X, Y):
        return X @ Y.T


def of_main(X, Y):
    return X @ Y.T


of_main.__module__ = "__main__"


@pytest.mark.parametrize(
    "kernel",
    [lambda X, Y: X @ Y.T, closure(1), Curved(), Curved().__call__, of_main,
     functools.partial(lambda X, Y: X @ Y.T)],
    ids=["lambda", "closure", "object", "method", "main", "partial"],
)  # fmt: skip
def test_what_cannot_be_recognised_is_refused(kernel, tmp_path, monkeypatch):
    monkeypatch.setattr("__main__.of_main", of_main, raising=False)

    def never():
        raise AssertionError("read")

    estimator = FuzzyTwinSVC(kernel=kernel, n_landmarks=LANDMARKS)
    text = "kernel=.* cannot be recognised when the run is resumed .* or leave out checkpoint"
    fails(text, never, estimator, checkpoint=tmp_path / "run.npz")
    assert not list(tmp_path.iterdir())
    from_source(estimator, [make_table(300)])


def test_what_is_equal_is_described_alike():
    landmarks = moved(2)
    frame = pd.DataFrame(landmarks, columns=list("abcd"))
    for one, other in (
        (landmarks, np.asfortranarray(landmarks)),
        (frame, pd.concat([frame[["a", "b"]], frame[["c", "d"]]], axis=1)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ([1.0, 2.0], (np.float64(1), np.float64(2))),
        ([landmarks, landmarks], [landmarks, landmarks.copy()]),
    ):
        assert checkpoint.describe(one) == checkpoint.describe(other)
    assert checkpoint.describe(None) == "None"
    assert checkpoint.describe(10.0) == "10.0"
    assert checkpoint.describe("linear") == "'linear'"
    assert checkpoint.describe(by_name) == f"{__name__}.by_name"
    assert checkpoint.describe(np.array(["linear"], dtype=object)) != checkpoint.describe(
        ["linear"]
    )


def test_a_look_at_sparse_landmarks_changes_nothing():
    twice = sparse.csr_array(([1.0, 2.0, 3.0], [1, 0, 1], [0, 3]), shape=(1, 2))
    once = sparse.csr_array(([2.0, 4.0], [0, 1], [0, 2]), shape=(1, 2))
    assert checkpoint.describe(twice) == checkpoint.describe(once)
    assert_array_equal(twice.data, [1.0, 2.0, 3.0])
    assert_array_equal(twice.indices, [1, 0, 1])


def test_text_of_parameters_is_the_same_in_every_process():
    """Sets come in another order in each, and so do addresses."""
    lines = (
        "import numpy as np",
        "from fuzzytwin import CenterMembership",
        "from fuzzytwin.sources.checkpoint import describe",
        "words = np.array([{'a', 'b', 'c', 'd'}, 'x', None], dtype=object)",
        "states = np.random.RandomState(1), np.random.default_rng(1)",
        "weights = {'b': 1.0, 'a': 2.0}",
        "print(describe([words, *states, weights, np.eye(3), np.dot, CenterMembership(eps=0.1)]))",
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", "\n".join(lines)], env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, check=True,
        ).stdout
        for seed in "123"
    }  # fmt: skip
    assert len(found) == 1


def test_a_checkpoint_of_another_format(tmp_path):
    kept = tmp_path / "run.npz"
    np.savez(kept, header=np.array(json.dumps({"format": 1})))
    fails("has format 1, this fuzzytwin writes 2; give another path", [make_table()],
          checkpoint=kept, error=CheckpointError)  # fmt: skip


def test_checkpoint_of_other_batches(tmp_path, monkeypatch):
    frame = make_table()
    options = {"checkpoint": tmp_path / "run.npz", "checkpoint_every": 2}
    interrupted(monkeypatch, 5, FuzzyTwinSVC(), batches_of(frame), **options)
    other = frame.copy()
    other.loc[3, "x0"] += 1
    for wrong in (batches_of(other), batches_of(frame)[:1], batches_of(frame, 150)):
        fails("belongs to other data: the batches", wrong, **options)
    model = from_source(FuzzyTwinSVC(), batches_of(frame), **options)
    assert_planes_of_one_fit(model, FuzzyTwinSVC(), frame)


def test_what_is_no_checkpoint_is_left_alone(tmp_path):
    kept = tmp_path / "letter.txt"
    kept.write_text("dear to me")
    text = "letter.txt' is not a checkpoint of fuzzytwin, or is damaged; give another path"
    for content in (b"dear to me", b"", b"PK"):
        kept.write_bytes(content)
        fails(text, [make_table()], checkpoint=kept, error=CheckpointError)
        assert kept.read_bytes() == content
    with pytest.raises(CheckpointError) as caught:
        from_source(FuzzyTwinSVC(), [make_table()], checkpoint=kept)
    assert "pickle" not in str(caught.value)
    assert isinstance(caught.value, ValueError)

    def never():
        raise AssertionError("read")

    fails("checkpoint=.*make it first", never, checkpoint=tmp_path / "no" / "x.npz",
          error=FileNotFoundError)  # fmt: skip
    fails("is a directory; name a file", never, checkpoint=tmp_path, error=IsADirectoryError)


def test_checkpoint_is_never_half_written(tmp_path, monkeypatch):
    source = write(make_table(), "parquet", tmp_path)
    kept = tmp_path / "run.npz"
    options = {"checkpoint": kept, "checkpoint_every": 2}
    interrupted(monkeypatch, 5, FuzzyTwinSVC(), source, **options)
    state = kept.read_bytes()

    def savez(file, **arrays):
        file.write(b"half of")
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.np, "savez", savez)
        fails("disk full", source, error=OSError, **options)
    assert kept.read_bytes() == state
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rows.parquet", "run.npz"]


RUN = """
import sys, time
from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.sources import checkpoint as _checkpoint
from fuzzytwin.sources import fit_source
save = _checkpoint.Checkpoint.save
def slow(self):
    save(self)
    time.sleep(0.1)
_checkpoint.Checkpoint.save = slow
fit_source(FuzzyTwinSVC(membership="center"), sys.argv[1], target="y", features=sys.argv[3:],
           batch_rows=128, checkpoint=sys.argv[2], checkpoint_every=1)
"""


def test_killed_run_goes_on(tmp_path):
    frame = make_table()
    source = write(frame, "parquet", tmp_path)
    kept = tmp_path / "run.npz"
    run = subprocess.Popen([sys.executable, "-c", RUN, source, str(kept), *FEATURES])
    try:
        written, last, limit = 0, None, time.monotonic() + 50
        while written < 4 and run.poll() is None and time.monotonic() < limit:
            now = kept.stat().st_mtime_ns if kept.exists() else None
            written, last = written + (now != last), now
            time.sleep(0.005)
    finally:
        run.send_signal(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    assert written == 4
    estimator = FuzzyTwinSVC(membership="center")
    model = from_source(estimator, source, checkpoint=kept, checkpoint_every=1)
    assert_array_equal(model.coef_, from_source(estimator, source).coef_)
    assert_planes_of_one_fit(model, estimator, frame)
