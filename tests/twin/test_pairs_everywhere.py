"""Pairs of classes give the same planes and answers wherever rows are read and models go."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs

from fuzzytwin import FuzzyTwinSVC, files


def rows_of(K, n=60):
    X, y = make_blobs(n * K, 5, centers=K, cluster_std=4.0, random_state=K)
    labels = np.array([f"class {k}" for k in range(K)])
    s = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    return X, labels[y], s


SETTINGS = [
    {"C": 0.5},
    {"planes": "fuzzy", "membership": "center"},
    {"membership": "hyperplane", "class_weight": "balanced"},
]


@pytest.fixture(params=[3, 10], ids=["K3", "K10"])
def rows(request):
    return rows_of(request.param)


@pytest.fixture(params=SETTINGS, ids=["crisp", "fuzzy", "hyperplane"])
def model(request):
    return FuzzyTwinSVC(**request.param)


def assert_same(found, wanted, X):
    assert_array_equal(found.plane_classes_, wanted.plane_classes_)
    scale = np.abs(wanted.coef_).max()
    assert_allclose(found.coef_, wanted.coef_, rtol=1e-9, atol=1e-9 * scale)
    u = wanted.predict_membership(X)
    assert_allclose(found.predict_membership(X), u, rtol=1e-6, atol=1e-9)


def test_batches(rows, model):
    X, y, s = rows
    wanted = FuzzyTwinSVC(**model.get_params()).fit(X, y, s)
    batches = [(X[i::4], y[i::4], s[i::4]) for i in range(4)]
    assert_same(files.fit(model, batches), wanted, X)


def test_parquet_files(rows, model, tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    X, y, s = rows
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"y": y, "s": s}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet", row_group_size=100)
    found = files.fit(model, tmp_path / "rows.parquet", target="y", sample_weight="s")
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({f"x{j}": X[:, j] for j in range(X.shape[1])})
    wanted = FuzzyTwinSVC(**model.get_params()).fit(table, y, s)
    assert_same(found, wanted, table)


def test_dask(rows, model):
    da = pytest.importorskip("dask.array")
    from fuzzytwin import dask

    X, y, s = rows
    wanted = FuzzyTwinSVC(**model.get_params()).fit(X, y, s)
    found = dask.FuzzyTwinSVC(**model.get_params())
    found.fit(*(da.from_array(part, chunks=(100, *part.shape[1:])) for part in (X, y, s)))
    assert_same(found.to_sklearn(), wanted, X)


def test_model_files(rows, model, tmp_path):
    pytest.importorskip("skops")
    from fuzzytwin import store

    X, y, s = rows
    model.fit(X, y, s)
    store.save(model, tmp_path / "model.skops")
    again = store.load(tmp_path / "model.skops")
    assert_array_equal(again.predict_membership(X), model.predict_membership(X))
    assert_array_equal(again.predict(X), model.predict(X))


def test_onnx(rows, model):
    pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    from fuzzytwin.store import to_onnx

    X, y, s = rows
    model.fit(X, y, s)
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    label, u = session.run(None, {"X": X})
    assert_allclose(u, model.predict_membership(X), rtol=1e-6, atol=1e-12)
    assert_array_equal(label, model.predict(X))
