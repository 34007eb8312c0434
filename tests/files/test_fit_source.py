"""files.fit gives the planes of one fit, from every form and at any batch size."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone

from fuzzytwin import (
    GEPSVC,
    CenterMembership,
    FuzzyTwinSVC,
    HyperplaneMembership,
    LeastSquaresSVC,
    LeastSquaresTwinSVC,
    ProximalSVC,
    files,
)
from fuzzytwin.files._chunks import Selection
from fuzzytwin.files._tables import open_source
from fuzzytwin.tables._formats import open_table
from tests.files.helpers import (
    FEATURES,
    FORMS,
    SOFT,
    D,
    assert_same,
    from_source,
    in_memory,
    make_table,
    write,
)
from tests.pairs import every_pair


@pytest.mark.parametrize("form", FORMS)
def test_every_form(form, tmp_path):
    frame = make_table()
    machine = FuzzyTwinSVC(class_weight="balanced", C=0.5)
    model = from_source(machine, write(frame, form, tmp_path), sample_weight="w", membership="m")
    other = in_memory(machine, frame, "w", "m")
    assert_same(model, other)
    assert_array_equal(model.feature_names_in_, FEATURES)
    assert model.n_features_in_ == D
    assert_array_equal(model.predict(frame[FEATURES]), other.predict(frame[FEATURES]))


@every_pair(
    K=[2, 5],
    offset=[0.0, 1e6],
    planes=["crisp", "fuzzy"],
    membership=[
        None,
        "center",
        "hyperplane",
        CenterMembership(decay="exponential", imbalance=True),
        HyperplaneMembership(kind="distance"),
    ],
)
def test_memberships(K, offset, planes, membership, tmp_path):
    frame = make_table(K=K, offset=offset)
    source = write(frame, "parquet", tmp_path)
    machine = FuzzyTwinSVC(planes=planes, membership=membership, class_weight="balanced")
    assert_same(from_source(machine, source, sample_weight="w"), in_memory(machine, frame, "w"))


@every_pair(membership=["m", SOFT, None], offset=[0.0, 1e6])
def test_degrees_and_soft_labels(membership, offset, tmp_path):
    frame = make_table(offset=offset)
    source = write(frame, "parquet", tmp_path)
    machine = FuzzyTwinSVC(planes="fuzzy", membership="center")
    model = from_source(machine, source, sample_weight="w", membership=membership)
    assert_same(model, in_memory(machine, frame, "w", membership))


@pytest.mark.parametrize(
    "machine", [LeastSquaresTwinSVC(C=0.3), LeastSquaresSVC(), ProximalSVC(), GEPSVC()], ids=repr
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_other_machines_and_float32(machine, dtype, tmp_path):
    frame = make_table(dtype=dtype)
    model = from_source(machine, write(frame, "parquet", tmp_path), sample_weight="w")
    assert_same(model, in_memory(machine, frame, "w"))
    assert type(model) is type(machine)


@pytest.mark.parametrize("kind", ["int8", "int64", "float64", "bool", "category"])
def test_kinds_of_labels(kind, tmp_path):
    frame = make_table(K=2)
    y = (frame["y"] == "b").astype(int)
    y = y.map({0: "no", 1: "yes"}).astype(kind) if kind == "category" else y.astype(kind)
    source = write(frame.assign(y=y), "parquet", tmp_path)
    model = from_source(FuzzyTwinSVC(), source)
    assert_same(model, FuzzyTwinSVC().fit(frame[FEATURES], y))


def test_labels_and_batches_of_arrays_and_sparse_rows():
    frame = make_table()
    X, y = frame[FEATURES].to_numpy(), frame["y"].to_numpy(object)
    S = sparse.csr_array(np.where(np.abs(X) > 1, X, 0))
    for rows in (X, S):
        batches = [(rows[i : i + 99], y[i : i + 99], frame["w"][i : i + 99], frame["m"][i : i + 99])
                   for i in range(0, len(y), 99)]  # fmt: skip
        model = files.fit(FuzzyTwinSVC(), batches)
        assert_same(model, FuzzyTwinSVC().fit(rows, y, frame["w"], frame["m"]))
        assert not hasattr(model, "feature_names_in_")


def test_features_by_default_are_all_other_numeric_columns(tmp_path):
    frame = make_table().assign(note="text")
    source = write(frame, "parquet", tmp_path)
    with pytest.warns(
        UserWarning, match=r"rows.parquet: .* not used: 'note'\. .*features="
    ) as told:
        model = files.fit(FuzzyTwinSVC(), source, target="y", sample_weight="w", membership=SOFT)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert list(model.feature_names_in_) == [*FEATURES, "m"]
    order = FEATURES[::-1]
    model = from_source(FuzzyTwinSVC(), source, features=order)
    assert_same(model, FuzzyTwinSVC().fit(frame[order], frame["y"].to_numpy(str)))


@pytest.mark.parametrize("form", ["csv", "parquet", "function"])
def test_columns_left_out_are_named(form, tmp_path):
    frame = make_table()[[*FEATURES, "y"]].assign(x1="red")
    source = write(frame, form, tmp_path)
    with pytest.warns(UserWarning, match=r"not numeric are not used: 'x1'\. .*features=\[") as told:
        model = from_source(FuzzyTwinSVC(membership="center"), source, features=None)
    assert len(told) == 1
    assert list(model.feature_names_in_) == ["x0", "x2", "x3"]
    bare = FuzzyTwinSVC().fit(frame[["x0", "x2", "x3"]].to_numpy(), frame["y"])
    with pytest.warns(UserWarning, match=r"not used: 'x1', 'y'"):
        files.predict(bare, source, tmp_path / "out.csv")


def test_result_is_an_ordinary_model(tmp_path):
    frame = make_table()
    half = len(frame) // 2
    source = write(frame[half:], "parquet", tmp_path)
    X, y = frame[FEATURES], frame["y"].to_numpy(str)
    whole = FuzzyTwinSVC().fit(X, y)
    model = from_source(FuzzyTwinSVC(), source).partial_fit(X[:half], y[:half])
    assert_same(model, whole)
    other = FuzzyTwinSVC().partial_fit(X[:half], y[:half], classes=whole.classes_)
    assert_same(from_source(FuzzyTwinSVC(), source).merge(other), whole)
    model.forget(X[:half], y[:half])
    assert_same(model, FuzzyTwinSVC().fit(X[half:], y[half:]))


def test_memberships_of_all_rows_take_no_more_rows():
    model = from_source(FuzzyTwinSVC(membership="center"), [make_table()])
    assert not any(hasattr(model, name) for name in ("partial_fit", "merge", "forget"))


def test_given_classes_keep_their_place():
    frame = make_table(K=2)
    source = [frame]
    model = from_source(FuzzyTwinSVC(), source, classes=list("abc"))
    X, y = frame[FEATURES], frame["y"].to_numpy(str)
    assert_same(model, FuzzyTwinSVC().partial_fit(X, y, classes=list("abc")))


def test_classes_without_weight_are_left_out(tmp_path):
    frame = make_table()
    frame.loc[frame["y"] == "c", "w"] = 0.0
    source = write(frame, "parquet", tmp_path)
    for membership in (None, "center"):
        machine = FuzzyTwinSVC(membership=membership)
        model = from_source(machine, source, sample_weight="w")
        assert_same(model, in_memory(machine, frame, "w"))
        assert list(model.classes_) == list("abde")


def test_kernel_with_given_landmarks(tmp_path):
    frame = make_table()
    source = write(frame, "parquet", tmp_path)
    landmarks = frame[FEATURES].to_numpy()[:20]
    for machine in (
        FuzzyTwinSVC(kernel="rbf", gamma=0.1, n_landmarks=landmarks, membership="center"),
        LeastSquaresTwinSVC(kernel="rbf", gamma=0.1, n_landmarks=landmarks, alpha=1.0),
    ):
        model = from_source(machine, source)
        assert_same(model, in_memory(machine, frame), rtol=1e-7)


def test_kernel_with_the_landmarks_of_the_first_batch(tmp_path):
    """As `partial_fit` takes them, and fixed for all passes."""
    frame = make_table().sample(frac=1.0, random_state=0)
    source = write(frame, "parquet", tmp_path)
    for machine in (
        FuzzyTwinSVC(kernel="rbf", n_landmarks=25, random_state=0, membership="center"),
        LeastSquaresTwinSVC(kernel="laplacian", n_landmarks=25, random_state=0, alpha=1.0),
    ):
        model = from_source(machine, source)
        phi = model.landmark_map_
        assert len(phi.landmarks) <= 25
        head = frame[FEATURES].to_numpy()
        # Rows of the batch, or means of such rows.
        assert (head.min(axis=0) <= phi.landmarks).all()
        assert (phi.landmarks <= head.max(axis=0)).all()
        given = clone(machine).set_params(n_landmarks=phi.landmarks, gamma=phi.gamma)
        assert_same(model, in_memory(given, frame), rtol=1e-7)
    once = iter([(frame[FEATURES].to_numpy(), frame["y"].to_numpy())])
    with pytest.raises(ValueError, match=r"give the\s+landmarks themselves"):
        files.fit(FuzzyTwinSVC(kernel="rbf"), once)


@pytest.mark.parametrize("ending", ["parquet", "csv", "feather", "frames"])
def test_batches_are_chosen_by_bytes(tmp_path, monkeypatch, ending):
    monkeypatch.setattr("fuzzytwin.tables._formats.BATCH_BYTES", 8 * 300 * 5)
    monkeypatch.setattr("fuzzytwin.tables._formats.MIN_BATCH_ROWS", 1)
    X = np.random.default_rng(0).normal(size=(1000, 4))
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=np.arange(1000) % 2)
    path, selection = tmp_path / f"t.{ending}", Selection(target="y")
    if ending == "parquet":
        frame.to_parquet(path, row_group_size=1000)
    elif ending == "csv":
        frame.to_csv(path, index=False)
    elif ending == "feather":
        frame.to_feather(path)
    source = str(path)
    if ending == "frames":
        source = [frame]
    rows = [len(batch) for batch in open_source(source, selection).batches()]
    assert sum(rows) == 1000
    assert max(rows) == 300  # five columns


def test_a_large_row_group_is_never_in_memory_as_a_whole(tmp_path):
    columns = {f"x{j}": np.random.default_rng(j).normal(size=100_000) for j in range(40)}
    small = {"data_page_size": 1 << 15, "use_dictionary": False}  # as a group of 2 GB has 1 MiB
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=100_000, **small)
    pool, before = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        table_file = open_table(str(tmp_path / "t.parquet"))
        read = sum(len(frame) for frame in table_file.frames(list(columns), 1000))
    finally:
        pa.set_memory_pool(before)
    assert read == 100_000
    # Of 32 MB of numbers: a page of each column and its buffer, as stored and as read.
    assert pool.max_memory() < 100_000 * 40 * 8 / 4
