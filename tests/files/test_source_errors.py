"""Errors of files.fit name the file, the row, the column and a remedy."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fuzzytwin import (
    FuzzyTwinSVC,
    LeastSquaresTwinSVC,
    NeighborMembership,
    ProximalSVC,
    TwinSVC,
    files,
)
from fuzzytwin.experiment._experiment import Experiment
from fuzzytwin.experiment._rows import Settings
from fuzzytwin.tables._formats import first_row, numbering
from tests.files.helpers import (
    FEATURES,
    SOFT,
    arrow_of,
    assert_same,
    batches_of,
    fails,
    from_source,
    in_memory,
    make_table,
    pa,
    pq,
    write,
)


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
        ("w", -1.0, "column 'w' of .* holds -1.0 in row {row}; weights must be numbers of at"),
        ("m", 1.5, "column 'm' of .* holds 1.5 in row {row}; memberships must be numbers from 0"),
        ("y", None, "row {row}: column 'y' has no value"),
    ],
)
def test_bad_values_name_the_row(form, column, value, text, tmp_path):
    frame = make_table()
    frame.loc[1234, column] = value
    # The header of a text file is row 1, as a spreadsheet shows it.
    where = {"function": "batch 7, row 35", "parquet": "row 1235", "csv": "row 1236"}[form]
    text = text.format(row=where.split("row ")[1])
    fails(text, write(frame, form, tmp_path), sample_weight="w", membership="m")
    fails(where.split(",")[0], write(frame, "function", tmp_path) if form == "function" else
          str(tmp_path / f"rows.{form}"), sample_weight="w", membership="m")  # fmt: skip


def test_rows_are_numbered_alike_everywhere(tmp_path):
    frame = make_table()[["x0", "y"]]
    frame.loc[0, "y"] = None  # rows without a label are counted, too
    for form, first in (("csv", 2), ("parquet", 1)):
        path = write(frame, form, tmp_path)
        fails(rf"rows.{form}, row {first}: column 'y' has no value", path, features=["x0"])
        found = Experiment(path, Settings("y"))
        assert first_row(path) == first
        assert_array_equal(found.numbers, np.arange(1, 1500) + first)
        assert ("spreadsheet" in numbering(path)) == (form == "csv")


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
    fails(r"part-2.parquet cannot be read: .* Write the file again", source)
    broken.write_bytes(whole[:100] + bytes(len(whole) - 3000) + whole[-2900:])
    fails(r"part-2.parquet cannot be read", source)
    (tmp_path / "text.parquet").write_text("no Parquet")
    fails(r"text.parquet cannot be read", tmp_path / "text.parquet")


def test_ragged_and_odd_lines_of_csv(tmp_path):
    path = write(make_table(), "csv", tmp_path)
    lines = Path(path).read_text().splitlines()
    for line, text in (
        ("1,2,3", r"rows.csv cannot be read: .*Row #900: Expected 12 columns, got 3.* fix the"),
        (
            lines[899].replace(",", ",x", 1),
            r"rows.csv, row 900: column 'x1' holds 'x.*', but numbers in the first rows",
        ),
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
    fails(r"batch 1 has no column 'z'", [frame], features=["z"])
    fails(r"batch 1 has no column 'label'", [frame], target="label")
    fails(r"batch 2 has no column 'x3'", parts, features=None)
    added = [frame, frame.assign(new=1.0)]
    for features in (None, FEATURES):  # what the first batch does not have is not learned from
        model = from_source(
            FuzzyTwinSVC(), added, features=features, sample_weight="w", membership=[*SOFT]
        )
        assert "new" not in model.feature_names_in_
    for name, part in zip("ab", parts, strict=True):
        part.to_parquet(tmp_path / f"{name}.parquet")
    fails(r"b.parquet has no column 'x3'; did you mean", tmp_path)
    frame.assign(x3="red").to_parquet(tmp_path / "b.parquet")
    text = r"b.parquet, row 1: column 'x3' holds 'red', but numbers in the first rows"
    fails(text, tmp_path, features=None)
    fails(r"name the column of the labels: target=NAME", tmp_path, target=None)
    swapped = [(frame[names], frame["y"]) for names in (FEATURES, FEATURES[::-1])]
    fails(
        r"batch 2 has the columns of the first batch in another order",
        swapped,
        target=None,
        features=None,
    )


def test_features_that_are_not_numbers(tmp_path):
    frame = make_table().assign(x1="red")
    source = write(frame, "parquet", tmp_path)
    fails(r"rows.parquet: column 'x1' holds text, not numbers; use .*Committee", source)
    text = r"column 'y' of .*rows.parquet holds [a-e] in row 1; weights must be numbers of at"
    fails(text, source, features=["x0"], sample_weight="y", target="x1")


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
        text = rf"rows.{form} has 2 columns named 'a'; give each column its own name"
        fails(text, source, features=None)
        fails(rf"rows.{form} has several columns named 'a'", source, features=["a"])
        from_source(FuzzyTwinSVC(), source, features=["b", "c"])
    fails(r"batch 1 has 2 columns named 'a'", [frame], features=None)


def test_rows_in_place_of_batches(tmp_path):
    frame = make_table()
    X, y = frame[FEATURES].to_numpy(), frame["y"].to_numpy()
    one = r"a single batch; give a list of batches, such as \[source\]"
    fails(one, (X, y), error=TypeError)
    fails(r"such as \[\(X, y\)\], or call the method fit", X, error=TypeError)
    model = FuzzyTwinSVC().fit(X, y)
    for source in (X, sparse.csr_array(X)):
        with pytest.raises(TypeError, match=one):
            files.predict(model, source, tmp_path / "out.csv")
    files.predict(model, (X[:9], X[9:]), tmp_path / "out.csv")
    # Readers are no rows, whoever made them.
    frame.to_csv(tmp_path / "rows.csv", index=False)
    whole = in_memory(FuzzyTwinSVC(), frame)
    table = arrow_of(frame)
    for source in (frame, pl.from_pandas(frame), table, dict(frame)):  # these are tables
        assert_same(from_source(FuzzyTwinSVC(), source), whole)
        assert files.predict(whole, source, tmp_path / "out.csv", overwrite=True) == len(frame)
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
    model = files.fit(
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
    fails(r"batch 2, rows 1 to 128: labels such as 1 differ in type from earlier", mixed)


def test_too_few_rows_or_classes(tmp_path):
    frame = make_table()
    fails(r"the source has no rows; give rows of at least two classes", [])
    fails(r"the source has column names but no rows", [frame[:0]])
    fails(r"rows.parquet has column names but no rows", write(frame[:0], "parquet", tmp_path))
    fails(r"one class only \(a\)", [frame[frame["y"] == "a"]])
    fails(
        r"holds no file that ends in",
        tmp_path / "sub" if (tmp_path / "sub").mkdir() is None else "",
    )
    fails(r"file not found", tmp_path / "none.parquet", error=FileNotFoundError)
    fails(r"sample_weight|one class only", [frame.assign(w=0.0)], sample_weight="w")


def test_kinds_of_files(tmp_path):
    frame = make_table()
    write(frame, "parquet", tmp_path)
    write(frame, "csv", tmp_path)
    fails(r"files have several formats \(csv, parquet\)", tmp_path)
    (tmp_path / "rows.ods").touch()
    fails(r"rows.ods has an unknown ending", tmp_path / "rows.ods")
    fails(r"source is of type int", 7, error=TypeError)
    fails(r"batch 1 is of type str", iter("ab"), error=TypeError)
    first = (frame[FEATURES], frame["y"], None, frame["m"])
    batches = [first, (frame[FEATURES], frame["y"])]
    fails(r"batch 2 lacks degrees, unlike the first", batches, target=None, features=None)


def test_what_cannot_stream_is_refused_by_name():
    frame = make_table()
    for membership in ("neighbor", NeighborMembership(k=3), "entropy", "intuitionistic"):
        fails(r"membership=.* needs all rows at once.*; use None, 'center' or 'hyperplane'",
              [frame], FuzzyTwinSVC(membership=membership))  # fmt: skip
    text = r"membership='center' takes several passes.*generator.*give a function that returns"
    fails(text, (f for f in [frame]), FuzzyTwinSVC(membership="center"))
    same = (f for f in batches_of(frame))
    text = r"the function returned the same iterator twice.*returns a new iterator at each"
    fails(text, lambda: same, FuzzyTwinSVC(membership="center"))
    fewer = iter([batches_of(frame), batches_of(frame)[1:]])
    text = (
        r"pass 2 over the source read 1300 rows, but pass 1 read 1500; give a function that returns"
    )
    fails(text, lambda: next(fewer), FuzzyTwinSVC(membership="center"))
    with pytest.raises(TypeError, match="TwinSVC does not support out-of-core fitting"):
        files.fit(TwinSVC(), [frame], target="y")
    fails("is for FuzzyTwinSVC", [frame], ProximalSVC(), membership="m")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"batch_rows": 0}, ValueError),
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
    files.predict(model, source, tmp_path / "out.csv")
    assert capfd.readouterr() == ("", "")
    from_source(FuzzyTwinSVC(membership="center"), source, progress=True)
    assert "pass 3: 1,500 of 1,500 rows" in capfd.readouterr().err


def test_without_pyarrow(monkeypatch, tmp_path):
    frame = make_table()
    source = write(frame, "parquet", tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    fails(
        r"a file needs pyarrow .*; install it with: pip install .*\[files\]",
        source,
        error=ImportError,
    )
    files.fit(FuzzyTwinSVC(), [(frame[FEATURES], frame["y"])])
