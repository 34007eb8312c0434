"""One table in every form that files.fit reads, and the fit in memory to compare with."""

import os

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from fuzzytwin import FuzzyTwinSVC, files

pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
feather = pytest.importorskip("pyarrow.feather")
pq = pytest.importorskip("pyarrow.parquet")

D = 4
FEATURES = [f"x{j}" for j in range(D)]
SOFT = [f"s{k}" for k in range(5)]


def keep_rows(monkeypatch, most):
    """Let a committee keep and sample at most so many rows."""
    for name in ("SAMPLE_ROWS", "KEPT_ROWS"):
        monkeypatch.setattr(f"fuzzytwin.committee._first_pass.{name}", most)


def make_table(n=1500, K=5, offset=0.0, dtype=np.float64, seed=0):
    """Rows with labels a to e, a class e that shows up late, weights, degrees, soft labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    y[: n // 2] %= max(K - 1, 1)
    X = rng.normal(size=(n, D)) @ rng.normal(size=(D, D)) + y[:, None] * rng.normal(size=D)
    frame = pd.DataFrame((X + offset).astype(dtype), columns=FEATURES)
    frame["y"] = np.array(list("abcde"))[y]
    frame["w"] = np.where(rng.random(n) < 0.1, 0.0, rng.random(n))
    frame["m"] = rng.random(n)
    return frame.assign(**dict(zip(SOFT, rng.dirichlet(np.ones(5), n).T, strict=True)))


def mixed_table(n=240):
    """Rows with ids, decimal commas, limits, missing values, categories, dates and embeddings."""
    rng = np.random.default_rng(0)
    sick = rng.integers(0, 2, n)
    dose = [f"{value:.3f}".replace(".", ",") for value in rng.normal(2.0 * sick, 1.0)]
    ward = np.where(sick & (rng.random(n) < 0.7), "a", "b")
    return pd.DataFrame({
        "key": [f"k{i:03d}" for i in range(n)],
        "dose": np.where(rng.random(n) < 0.1, None, np.where(rng.random(n) < 0.05, "<0,5", dose)),
        "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(sick, 2.0).round(2)),
        "ward": np.where(rng.random(n) < 0.1, None, ward),
        "seen": pd.date_range("2024-01-01", periods=n),
        "embedding": list(rng.normal(size=(n, 3)) + sick[:, None]),
        "sick": np.where(sick ^ (rng.random(n) < 0.05), "yes", "no"),
    })  # fmt: skip


def arrow_of(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def batches_of(frame, size=200):
    return [frame[i : i + size] for i in range(0, len(frame), size)]


def write(frame, kind, folder):
    """The frame in some form, as a source."""
    table = arrow_of(frame)
    path = str(folder / f"rows.{kind}")
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=170)
    elif kind == "feather":
        feather.write_feather(table, path, chunksize=170)
    elif kind == "arrow":  # the stream format
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=170)
    elif kind == "csv":
        frame.to_csv(path, index=False)
    elif kind in ("folder", "glob"):
        path = str(folder / "parts")
        os.makedirs(path)
        for i, part in enumerate([*batches_of(frame, 400), frame[:0]]):
            pq.write_table(arrow_of(part).cast(table.schema), f"{path}/part-{i}.parquet")
        (folder / "parts" / "_SUCCESS").touch()
        path += "/*.parquet" if kind == "glob" else ""
    elif kind == "list":
        return [str(folder / f"{i}.csv") for i in range(3) if frame[i::3].to_csv(
            folder / f"{i}.csv", index=False) is None]  # fmt: skip
    elif kind == "function":
        return lambda: iter([*batches_of(frame), frame[:0]])
    elif kind == "generator":
        return (batch for batch in [frame[:0], *batches_of(frame)])
    elif kind == "polars":
        return [pl.from_pandas(batch) for batch in batches_of(frame)]
    elif kind == "tables":
        return [arrow_of(batch) for batch in batches_of(frame)]
    elif kind == "mappings":
        return [{name: batch[name].to_numpy() for name in batch} for batch in batches_of(frame)]
    return path


FORMS = ["parquet", "feather", "arrow", "csv", "folder", "glob", "list", "function",
         "generator", "polars", "tables", "mappings"]  # fmt: skip


def assert_same(model, other, rtol=1e-9):
    assert_array_equal(model.classes_, other.classes_)
    for name in ("coef_", "intercept_", "width_coef_", "width_intercept_"):
        if hasattr(other, name):
            value = getattr(other, name)
            size = np.abs(value).max()
            assert_allclose(getattr(model, name), value, rtol=rtol, atol=rtol * size, err_msg=name)


def in_memory(machine, frame, weight=None, membership=None):
    given = {} if membership is None else {"membership": frame[membership].to_numpy()}
    s = None if weight is None else frame[weight]
    return clone(machine).fit(frame[FEATURES], frame["y"].to_numpy(str), sample_weight=s, **given)


def from_source(machine, source, **options):
    options = {"target": "y", "features": FEATURES, "batch_rows": 128} | options
    return files.fit(clone(machine), source, **options)


def fails(match, source, machine=None, error=ValueError, **options):
    """An error with this text, and the model as it was."""
    model = machine or FuzzyTwinSVC()
    options = {"target": "y", "features": FEATURES, "batch_rows": 128} | options
    before = dict(vars(model))
    with pytest.raises(error, match=match):
        files.fit(model, source, **options)
    assert vars(model) == before
