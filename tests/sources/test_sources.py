"""Files and batches: the planes of one fit, at any cut; faults with a file, a row, a remedy."""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import dump_svmlight_file
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fuzzytwin import (
    GEPSVC,
    CenterMembership,
    FuzzyTwinSVC,
    HyperplaneMembership,
    LeastSquaresTwinSVC,
    NeighborMembership,
    ProximalSVC,
    TwinSVC,
)
from fuzzytwin.sources import fit_source, predict_source

pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
feather = pytest.importorskip("pyarrow.feather")
pq = pytest.importorskip("pyarrow.parquet")

D = 4
FEATURES = [f"x{j}" for j in range(D)]
SOFT = [f"s{k}" for k in range(5)]


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
    elif kind == "npy":
        np.save(path, frame.astype({"y": "U1"}).to_records(index=False, column_dtypes={"y": "U1"}))
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


FORMS = ["parquet", "feather", "arrow", "csv", "npy", "folder", "glob", "list", "function",
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
    return fit_source(clone(machine), source, **options)


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


@pytest.mark.parametrize("K", [2, 5])
@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("planes", ["crisp", "fuzzy"])
@pytest.mark.parametrize(
    "membership",
    [
        None,
        "center",
        "hyperplane",
        CenterMembership("exponential", imbalance=True),
        HyperplaneMembership("distance"),
    ],
    ids=repr,
)
def test_memberships(K, offset, planes, membership, tmp_path):
    frame = make_table(K=K, offset=offset)
    source = write(frame, "parquet", tmp_path)
    machine = FuzzyTwinSVC(planes, membership=membership, class_weight="balanced")
    assert_same(from_source(machine, source, sample_weight="w"), in_memory(machine, frame, "w"))


@pytest.mark.parametrize("scope", ["slack", "both"])
@pytest.mark.parametrize("membership", ["m", SOFT, None], ids=["degrees", "soft", "center"])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_degrees_and_soft_labels(scope, membership, offset, tmp_path):
    frame = make_table(offset=offset)
    source = write(frame, "parquet", tmp_path)
    machine = FuzzyTwinSVC("fuzzy", membership="center", membership_scope=scope)
    model = from_source(machine, source, sample_weight="w", membership=membership)
    assert_same(model, in_memory(machine, frame, "w", membership))


@pytest.mark.parametrize("machine", [LeastSquaresTwinSVC(0.3), ProximalSVC(), GEPSVC()], ids=repr)
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
        model = fit_source(FuzzyTwinSVC(), batches)
        assert_same(model, FuzzyTwinSVC().fit(rows, y, frame["w"], frame["m"]))
        assert not hasattr(model, "feature_names_in_")


def test_libsvm(tmp_path):
    frame = make_table()
    y = frame["y"].map(ord).to_numpy()
    X = np.where(np.abs(frame[FEATURES]) > 1, frame[FEATURES], 0)
    for base in (True, False):
        path = tmp_path / "rows.svm"
        dump_svmlight_file(X, y, str(path), zero_based=base, comment="a comment\nof two lines")
        model = fit_source(FuzzyTwinSVC(membership="center"), path, batch_rows=100)
        assert_same(model, FuzzyTwinSVC(membership="center").fit(X, y), rtol=1e-9)
        predict_source(model, path, tmp_path / f"out{base}.parquet")
        found = pd.read_parquet(tmp_path / f"out{base}.parquet")
        assert_array_equal(found["label"], model.predict(X))
    path.write_text("1 1:2 2:3\n-1 1:4\n1 1:oops\n")
    with pytest.raises(ValueError, match=r"rows.svm, line 3 .* mend it"):
        fit_source(FuzzyTwinSVC(), path)


def test_npy_tuple(tmp_path):
    frame = make_table(dtype=np.float32)
    paths = tuple(str(tmp_path / f"{name}.npy") for name in "Xyw")
    values = frame[FEATURES].to_numpy(), frame["y"].to_numpy("U1"), frame["w"].to_numpy()
    for path, value in zip(paths, values, strict=True):
        np.save(path, value)
    model = fit_source(FuzzyTwinSVC(membership="center"), paths, batch_rows=100)
    assert_same(model, FuzzyTwinSVC(membership="center").fit(*values))
    np.save(paths[1], values[1][:-1])
    with pytest.raises(ValueError, match=r"y.npy has 1499 rows"):
        fit_source(FuzzyTwinSVC(), paths)
    with pytest.raises(ValueError, match=r"X.npy has no columns with names; give a tuple"):
        fit_source(FuzzyTwinSVC(), paths[0], target="y")


def test_features_by_default_are_all_other_numeric_columns(tmp_path):
    frame = make_table().assign(note="text")
    source = write(frame, "parquet", tmp_path)
    with pytest.warns(
        UserWarning, match=r"rows.parquet: .* left out: 'note'\. .*features="
    ) as told:
        model = fit_source(FuzzyTwinSVC(), source, target="y", sample_weight="w", membership=SOFT)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert list(model.feature_names_in_) == [*FEATURES, "m"]
    order = FEATURES[::-1]
    model = from_source(FuzzyTwinSVC(), source, features=order)
    assert_same(model, FuzzyTwinSVC().fit(frame[order], frame["y"].to_numpy(str)))


@pytest.mark.parametrize("form", ["csv", "function"])
def test_columns_left_out_are_named(form, tmp_path):
    """One cell of text makes a column of text."""
    frame = make_table()[[*FEATURES, "y"]].astype({"x1": str})
    frame.loc[1200, "x1"] = "n/a?"
    source = write(frame, form, tmp_path)
    with pytest.warns(UserWarning, match=r"not numeric are left out: 'x1'\. .*features=\[") as told:
        model = from_source(FuzzyTwinSVC(membership="center"), source, features=None)
    assert len(told) == 1
    assert list(model.feature_names_in_) == ["x0", "x2", "x3"]
    bare = FuzzyTwinSVC().fit(frame[["x0", "x2", "x3"]].to_numpy(), frame["y"])
    with pytest.warns(UserWarning, match=r"left out: 'x1', 'y'"):
        predict_source(bare, source, tmp_path / "out.csv")


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
        assert all((head == row).all(axis=1).any() for row in phi.landmarks)
        given = clone(machine).set_params(n_landmarks=phi.landmarks, gamma=phi.gamma)
        assert_same(model, in_memory(given, frame), rtol=1e-7)
    once = iter([(frame[FEATURES].to_numpy(), frame["y"].to_numpy())])
    with pytest.raises(ValueError, match=r"give the\s+landmarks themselves"):
        fit_source(FuzzyTwinSVC(kernel="rbf"), once)
    with pytest.raises(ValueError, match=r"random_state=None would take other landmarks"):
        from_source(FuzzyTwinSVC(kernel="rbf"), source, checkpoint=tmp_path / "kept")


# Predictions


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("form", ["parquet", "csv", "folder", "function", "polars"])
def test_predictions(form, ending, tmp_path):
    frame = make_table().assign(key=np.arange(1500))
    model = in_memory(FuzzyTwinSVC(), frame)
    out = tmp_path / f"out.{ending}"
    source = write(frame, form, tmp_path)
    assert predict_source(model, source, out, keep=["key"], batch_rows=100) == len(frame)
    found = pd.read_parquet(out) if ending == "parquet" else pd.read_csv(out)
    assert list(found) == ["key", "label", *(f"membership_{c}" for c in "abcde")]
    assert_array_equal(found["key"], frame["key"])
    assert_array_equal(found["label"], model.predict(frame[FEATURES]))
    assert_allclose(found.iloc[:, 2:], model.predict_membership(frame[FEATURES]), rtol=1e-12)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_predictions_without_memberships_and_names(tmp_path):
    frame = make_table()
    X, y = frame[FEATURES].to_numpy(), frame["y"].to_numpy(object)
    model = ProximalSVC().fit(X, y)
    predict_source(model, [X[:700], X[700:]], tmp_path / "out.parquet")
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert list(found) == ["label"]
    assert_array_equal(found["label"], model.predict(X))


def test_predictions_never_lose_a_file(tmp_path):
    frame = make_table()
    model = in_memory(FuzzyTwinSVC(), frame)
    out = tmp_path / "out.csv"
    out.write_text("dear to me")
    with pytest.raises(FileExistsError, match=r"out.csv exists already"):
        predict_source(model, [frame], out)
    frame.loc[1234, "x2"] = np.inf
    with pytest.raises(ValueError, match=r"batch 7, row 35: column 'x2' holds inf"):
        predict_source(model, batches_of(frame), out, overwrite=True)
    assert out.read_text() == "dear to me"
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]
    predict_source(model, [frame[:10]], out, overwrite=True)
    assert len(pd.read_csv(out)) == 10
    with pytest.raises(ValueError, match="unknown ending"):
        predict_source(model, [frame], tmp_path / "out.xlsx")
    with pytest.raises(ValueError, match="no rows"):
        predict_source(model, [frame[:0]], tmp_path / "none.csv")
    with pytest.raises(ValueError, match="rename it"):
        predict_source(
            model, [frame[:9].assign(label=1)], tmp_path / "none.csv", keep="label"
        )  # fmt: skip
    assert not (tmp_path / "none.csv").exists()


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("wrap", [lambda p: p, lambda p: GridSearchCV(p, {"fuzzytwinsvc__C": [1]})])
def test_predictions_of_pipelines(named, wrap, tmp_path):
    frame = make_table()
    X = frame[FEATURES] if named else frame[FEATURES].to_numpy()
    model = wrap(make_pipeline(StandardScaler(), FuzzyTwinSVC("fuzzy"))).fit(X, frame["y"])
    rows = frame[FEATURES].to_numpy()
    sources = [write(frame[FEATURES], "parquet", tmp_path), [rows[:700], rows[700:]]]
    for i, source in enumerate(sources):
        predict_source(model, source, tmp_path / f"{i}.parquet", batch_rows=400)
        found = pd.read_parquet(tmp_path / f"{i}.parquet")
        assert list(found) == ["label", *(f"membership_{c}" for c in "abcde")]
        assert_array_equal(found["label"], model.predict(X))
        assert_allclose(found.iloc[:, 1:], model.predict_proba(X), rtol=1e-12)


def test_predictions_of_other_pipelines_have_no_memberships(tmp_path):
    frame = make_table()
    model = make_pipeline(StandardScaler(), ProximalSVC()).fit(frame[FEATURES], frame["y"])
    predict_source(model, [frame], tmp_path / "out.parquet")
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert list(found) == ["label"]
    assert_array_equal(found["label"], model.predict(frame[FEATURES]))


@pytest.mark.parametrize("form", ["parquet", "csv", "function"])
def test_predictions_by_names_with_text_and_gaps(form, tmp_path):
    """As the command line saves its models."""
    frame = make_table().assign(colour=np.array(["red", "blue", "green"])[np.arange(1500) % 3])
    frame.loc[[3, 1400], "x0"] = np.nan
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    steps = [("number", numbers, FEATURES), ("text", OneHotEncoder(), ["colour"])]
    names = [*FEATURES, "colour"]
    model = make_pipeline(ColumnTransformer(steps), FuzzyTwinSVC()).fit(frame[names], frame["y"])
    source = write(frame, form, tmp_path)
    predict_source(model, source, tmp_path / "out.parquet", keep="y", batch_rows=400)
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert_array_equal(found["y"], frame["y"])
    assert_allclose(found.iloc[:, 2:], model.predict_proba(frame[names]), rtol=1e-9)
    wrong = write(frame.assign(colour="mauve"), form, tmp_path)
    with pytest.raises(ValueError, match=r"rows 1 to .*Found unknown categories"):
        predict_source(model, wrong, tmp_path / "none.parquet")


# Faults


def fails(match, source, machine=None, error=ValueError, **options):
    """An error with this text, and the model as it was."""
    model = machine or FuzzyTwinSVC()
    options = {"target": "y", "features": FEATURES, "batch_rows": 128} | options
    before = dict(vars(model))
    with pytest.raises(error, match=match):
        fit_source(model, source, **options)
    assert vars(model) == before


def test_nan_in_row_3_000_001(tmp_path):
    n = 3_000_100
    x = np.zeros(n, np.float32)
    x[::2] = 1
    x[3_000_000] = np.nan
    path = tmp_path / "long.parquet"
    pq.write_table(pa.table({"x": x, "y": np.arange(n, dtype=np.int64) % 3 % 2}), path)
    text = r"long.parquet, row 3000001: column 'x' holds nan; fill in such values or leave out"
    fails(text, path, features=["x"], batch_rows=65_536)


@pytest.mark.parametrize("form", ["parquet", "csv", "function"])
@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("x1", np.nan, "row {row}: column 'x1' (holds nan|has no value)"),
        ("x1", np.inf, "row {row}: column 'x1' holds inf"),
        ("w", -1.0, "row {row}: the weight is -1.0; give finite weights"),
        ("m", 1.5, "row {row}: the degree is 1.5; give finite degrees"),
        ("y", None, "row {row}: column 'y' has no value"),
    ],
)
def test_bad_values_name_the_row(form, column, value, text, tmp_path):
    if form == "csv" and value is None:
        pytest.skip("an empty text is a label")
    frame = make_table()
    frame.loc[1234, column] = value
    where = "batch 7, row 35" if form == "function" else "row 1235"
    text = text.format(row=where.split("row ")[1])
    fails(text, write(frame, form, tmp_path), sample_weight="w", membership="m")
    fails(where.split(",")[0], write(frame, "function", tmp_path) if form == "function" else
          str(tmp_path / f"rows.{form}"), sample_weight="w", membership="m")  # fmt: skip


def test_soft_labels_at_fault():
    frame = make_table()
    frame.loc[700, SOFT] = 0.0
    fails("batch 1, row 701: the soft labels are all 0", [frame], membership=SOFT)
    fails(r"membership has 4 columns", [make_table()], membership=SOFT[:4])


def test_truncated_parquet(tmp_path):
    source = write(make_table(), "folder", tmp_path)
    broken = tmp_path / "parts" / "part-2.parquet"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-100])
    fails(r"part-2.parquet cannot be read: .* Write the file anew", source)
    broken.write_bytes(whole[:100] + bytes(len(whole) - 3000) + whole[-2900:])
    fails(r"part-2.parquet cannot be read", source)
    (tmp_path / "text.parquet").write_text("no Parquet")
    fails(r"text.parquet cannot be read", tmp_path / "text.parquet")


def test_ragged_and_odd_lines_of_csv(tmp_path):
    path = write(make_table(), "csv", tmp_path)
    lines = Path(path).read_text().splitlines()
    for line, text in (
        ("1,2,3", r"rows.csv cannot be read: .*Row #900: Expected 12 columns, got 3.* mend the"),
        (lines[899].replace(",", ",x", 1), r"rows.csv cannot be read: .*Row #900.*invalid value"),
    ):
        with open(path, "w") as file:
            file.write("\n".join([*lines[:899], line, *lines[900:]]))
        fails(text, path)
    (tmp_path / "empty.csv").write_text("")
    fails(r"empty.csv is empty", tmp_path / "empty.csv")


def test_missing_renamed_and_added_columns(tmp_path):
    frame = make_table()
    parts = [frame, frame.rename(columns={"x3": "X3"})]
    fails(r"batch 2 has no column 'x3'; did you mean 'X3'\? Its columns are", parts)
    fails(r"batch 1 has no column 'z'", parts, features=["z"])
    fails(r"batch 1 has no column 'label'", parts, target="label")
    fails(r"batch 2 has no column 'x3'", parts, features=None)
    added = [frame, frame.assign(new=1.0)]
    fails(r"batch 2: numeric column 'new' is missing .* features=", added, features=None)
    from_source(FuzzyTwinSVC(), added)
    for name, part in zip("ab", parts, strict=True):
        part.to_parquet(tmp_path / f"{name}.parquet")
    fails(r"b.parquet has no column 'x3'; did you mean", tmp_path)
    frame.assign(x3="red").to_parquet(tmp_path / "b.parquet")
    fails(r"b.parquet: column 'x3' is of type .*string, not numeric", tmp_path, features=None)
    fails(r"say which one holds the labels: target=NAME", tmp_path, target=None)
    swapped = [(frame[names], frame["y"]) for names in (FEATURES, FEATURES[::-1])]
    fails(r"batch 2 has its columns in another order", swapped, target=None, features=None)


def test_features_that_are_not_numbers(tmp_path):
    frame = make_table().assign(x1="red")
    source = write(frame, "parquet", tmp_path)
    fails(r"rows.parquet: column 'x1' is of type .*string, not numeric; encode it", source)
    fails(r"rows.parquet: column 'y' is of type .*not numeric", source, features=["x0"],
          sample_weight="y", target="x1")  # fmt: skip


def test_a_text_feature_of_csv_is_named(tmp_path):
    frame = make_table().astype({"x2": str})
    frame.loc[1233, "x2"] = "red"
    source = write(frame, "csv", tmp_path)
    fails(r"rows.csv cannot be read: column 'x2', Row #1235: .*invalid value 'red'", source)


def test_columns_of_one_name(tmp_path):
    frame = make_table()[[*FEATURES, "y"]].set_axis(["a", "a", "b", "c", "y"], axis=1)
    for form in ("csv", "parquet"):
        if form == "csv":
            source = str(tmp_path / "rows.csv")
            frame.to_csv(source, index=False)
        else:
            source = str(tmp_path / "rows.parquet")
            columns = [frame.iloc[:, j].to_numpy() for j in range(5)]
            pq.write_table(pa.table(columns, names=list(frame.columns)), source)
        text = rf"rows.{form} has the column 'a' 2 times; give each column a name of its own"
        fails(text, source, features=None)
        fails(rf"rows.{form} has column 'a' twice", source, features=["a"])
        from_source(FuzzyTwinSVC(), source, features=["b", "c"])
    fails(r"batch 1 has the column 'a' 2 times", [frame], features=None)


@pytest.mark.parametrize("mark", [";", "\t"])
def test_other_separators_of_csv(mark, tmp_path):
    make_table().to_csv(tmp_path / "rows.csv", index=False, sep=mark)
    fails(r"rows.csv has one column only.*separator seems to be .*sep=", tmp_path / "rows.csv")


def test_rows_in_place_of_batches(tmp_path):
    frame = make_table()
    X, y = frame[FEATURES].to_numpy(), frame["y"].to_numpy()
    one = r"one batch; give a list of batches, such as \[source\]"
    for source in (frame, pl.from_pandas(frame), arrow_of(frame), dict(frame), (X, y)):
        fails(one, source, error=TypeError)
    fails(r"such as \[\(X, y\)\], or call fit", X, error=TypeError)
    model = FuzzyTwinSVC().fit(X, y)
    for source in (X, sparse.csr_array(X), frame):
        with pytest.raises(TypeError, match=one):
            predict_source(model, source, tmp_path / "out.csv")
    predict_source(model, (X[:9], X[9:]), tmp_path / "out.csv")
    # Readers are no rows, whoever made them.
    frame.to_csv(tmp_path / "rows.csv", index=False)
    whole = in_memory(FuzzyTwinSVC(), frame)
    table = arrow_of(frame)
    for reader in (
        pd.read_csv(tmp_path / "rows.csv", chunksize=400),
        pa.RecordBatchReader.from_batches(table.schema, table.to_batches(400)),
    ):
        assert_same(from_source(FuzzyTwinSVC(), reader), whole)


def test_pipelines_are_told_the_way():
    frame = make_table()
    pipeline = make_pipeline(StandardScaler(), FuzzyTwinSVC())
    fails(r"lambda: \(\(scaler.transform\(X\), y\) for X, y", [frame], pipeline, error=TypeError)
    scaler = StandardScaler().fit(frame[FEATURES])
    parts = batches_of(frame)
    model = fit_source(
        pipeline[-1], lambda: ((scaler.transform(part[FEATURES]), part["y"]) for part in parts)
    )
    assert_same(model, clone(pipeline).fit(frame[FEATURES], frame["y"])[-1])


def test_label_first_seen_in_the_last_batch(tmp_path):
    frame = make_table(K=2)
    frame.loc[len(frame) - 1, "y"] = "z"
    source = write(frame, "parquet", tmp_path)
    assert_same(from_source(FuzzyTwinSVC(), source), in_memory(FuzzyTwinSVC(), frame))
    text = r"rows.parquet, row 1500: label 'z' is not among classes.*; add it there, or leave"
    fails(text, source, classes=["a", "b"])
    mixed = [frame, frame.assign(y=1)]
    fails(r"batch 2, rows 1 to 128: labels such as 1 are not of the kind", mixed)


def test_too_few_rows_or_classes(tmp_path):
    frame = make_table()
    fails(r"the source is empty", [])
    fails(r"the source is empty", [frame[:0]])
    fails(r"rows.parquet|is empty", write(frame[:0], "parquet", tmp_path))
    fails(r"one class only \(a\)", [frame[frame["y"] == "a"]])
    fails(r"is empty: no file", tmp_path / "sub" if (tmp_path / "sub").mkdir() is None else "")
    fails(r"there is no file", tmp_path / "none.parquet", error=FileNotFoundError)
    fails(r"sample_weight|one class only", [frame.assign(w=0.0)], sample_weight="w")


def test_kinds_of_files(tmp_path):
    frame = make_table()
    write(frame, "parquet", tmp_path)
    write(frame, "csv", tmp_path)
    fails(r"files of several kinds \(csv, parquet\)", tmp_path)
    (tmp_path / "rows.xlsx").touch()
    fails(r"rows.xlsx has an unknown ending", tmp_path / "rows.xlsx")
    fails(r"source is of type int", 7, error=TypeError)
    fails(r"batch 1 is of type str", iter("ab"), error=TypeError)
    fails(r"batch 2 differs from the first", [(frame[FEATURES], frame["y"], None, frame["m"]),
          (frame[FEATURES], frame["y"])], target=None, features=None)  # fmt: skip


def test_what_cannot_stream_is_refused_by_name():
    frame = make_table()
    for membership in ("neighbor", NeighborMembership(k=3), "entropy", "intuitionistic"):
        fails(r"membership=.* looks at all rows at once.*; use None, 'center' or 'hyperplane'",
              [frame], FuzzyTwinSVC(membership=membership))  # fmt: skip
    text = r"membership='center' takes several passes.*generator.*give a function that returns"
    fails(text, (f for f in [frame]), FuzzyTwinSVC(membership="center"))
    same = (f for f in batches_of(frame))
    text = r"the function gave the same iterator twice.*returns a new one each time"
    fails(text, lambda: same, FuzzyTwinSVC(membership="center"))
    fewer = iter([batches_of(frame), batches_of(frame)[1:]])
    text = r"pass 2 over the source met 1300 rows, the first one 1500; give a function that returns"
    fails(text, lambda: next(fewer), FuzzyTwinSVC(membership="center"))
    with pytest.raises(TypeError, match="TwinSVC does not live on moments"):
        fit_source(TwinSVC(), [frame], target="y")
    fails("is for FuzzyTwinSVC", [frame], ProximalSVC(), membership="m")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"batch_rows": 0}, ValueError),
        ({"checkpoint_every": 1.5}, ValueError),
        ({"features": "x0"}, TypeError),
        ({"features": ["x0", "x0"]}, ValueError),
        ({"features": ["x0", "y"]}, ValueError),
        ({"target": 3}, TypeError),
        ({"classes": ["a"]}, ValueError),
    ],
    ids=repr,
)
def test_bad_options(options, error):
    fails(next(iter(options)), [make_table()], error=error, **options)


def test_bad_parameters_before_any_reading():
    def never():
        raise AssertionError("read")

    fails("alpha", never, FuzzyTwinSVC(alpha=-1))
    fails("C=-1", never, LeastSquaresTwinSVC(C=-1))
    fails("C=", [make_table()], FuzzyTwinSVC(C=[1.0, 2.0]))


def test_silent_unless_asked(capfd, tmp_path):
    frame = make_table()
    source = write(frame, "parquet", tmp_path)
    model = from_source(FuzzyTwinSVC(membership="center"), source)
    predict_source(model, source, tmp_path / "out.csv")
    assert capfd.readouterr() == ("", "")
    from_source(FuzzyTwinSVC(membership="center"), source, progress=True)
    assert "pass 3: 1,500 of 1,500 rows" in capfd.readouterr().err


def test_without_pyarrow(monkeypatch, tmp_path):
    frame = make_table()
    source = write(frame, "parquet", tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    fails(r'pip install "fuzzytwin\[files\]"', source, error=ImportError)
    fit_source(FuzzyTwinSVC(), [(frame[FEATURES], frame["y"])])
