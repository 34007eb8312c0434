"""Text files of every dialect, and workbooks: the rows of the plain file."""

import gzip

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from fuzzytwin import FuzzyTwinSVC, files
from fuzzytwin.tables import read_table
from fuzzytwin.tables._formats import ENDINGS, open_table
from fuzzytwin.tables._parse import decimal_mark, kind_of, numbers
from fuzzytwin.tables._sniff import ROW_NAMES, find_dialect
from fuzzytwin.tables._writer import WRITERS, check_out, write_tables
from tests.pairs import every_pair

pa = pytest.importorskip("pyarrow")


def some(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return pd.DataFrame({"a": rng.normal(y, 1.0), "b": rng.normal(size=n) * 1e3,
                         "c": rng.random(n) < 0.5, "y": np.where(y, "yes", "no")})  # fmt: skip


def read(path, **options):
    """Cells of a file as text, by column."""
    file = open_table(path, **options)
    out = {name: [] for name in file.schema.names}
    for frame in file.frames(file.schema.names, 7):
        for name in out:
            out[name] += frame.column(name).to_pylist()
    return out


def same(path, frame, **options):
    """The model of a file is that of the rows."""
    model = files.fit(FuzzyTwinSVC(), path, target="y", batch_rows=16, **options)
    X = frame[["a", "b", "c"]].astype(float)
    other = FuzzyTwinSVC().fit(X, frame["y"].to_numpy())
    assert_array_equal(model.classes_, other.classes_)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-9)
    return model


@every_pair(sep=[",", ";", "\t", "|", " "], end=["\n", "\r\n", "\r"], quoting=[0, 1])
def test_separators_line_ends_and_quotes(sep, end, quoting, tmp_path):
    frame, path = some(), tmp_path / "t.csv"
    frame.to_csv(path, index=False, sep=sep, lineterminator=end, quoting=quoting)
    same(path, frame)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-32"])
def test_encodings(encoding, tmp_path):
    frame = some().replace({"yes": "männlich – α" if encoding != "cp1252" else "männlich – €"})
    frame.to_csv(tmp_path / "t.csv", index=False, encoding=encoding)
    same(tmp_path / "t.csv", frame)


def test_boolean_columns_are_numbers(tmp_path):
    frame = some()
    for number, words in enumerate(([True, False], ["TRUE", "FALSE"], ["true", "false"])):
        path = tmp_path / f"{number}.csv"
        frame.assign(c=np.where(frame["c"], *words)).to_csv(path, index=False)
        same(path, frame)


def test_decimal_mark_of_most_columns(tmp_path):
    frame = some().drop(columns="c")
    text = frame.to_csv(index=False, sep=";").splitlines()
    text[0] += ";remark"
    lines = [f"{line};{'1,5' if i == 7 else 'x'}" for i, line in enumerate(text[1:])]
    (tmp_path / "t.csv").write_text("\n".join([text[0], *lines]))
    model = files.fit(FuzzyTwinSVC(), tmp_path / "t.csv", target="y", features=["a", "b"])
    np.testing.assert_allclose(model.coef_, FuzzyTwinSVC().fit(frame[["a", "b"]], frame["y"]).coef_)
    some().to_csv(tmp_path / "comma.csv", index=False, sep=";", decimal=",")
    same(tmp_path / "comma.csv", some())
    some().to_csv(tmp_path / "quoted.csv", index=False, sep=",", decimal=",", quoting=1)
    same(tmp_path / "quoted.csv", some())


@pytest.mark.parametrize(
    ("cells", "separator", "mark"),
    [
        ([["1,5", "2,5"]], ",", ","),
        ([["1.5", "2.5", "1,5"], ["a", "1,5"]], ";", "."),
        ([["1,234"]], ";", ","),  # decimals, as the comma does not part cells
        ([["1,234"]], ",", "."),  # thousands
        ([["<1,234", "> 2,500", "≥-1,000"]], ",", "."),  # limits of thousands
        ([["<1,234"]], ";", ","),
        ([["<1,234", "<0,5"]], ",", ","),
        ([["<1,234"], ["1.5"]], ";", "."),
        ([["1.234"] * 9 + ["1,5"]], ";", "."),
        ([["1.234"] * 9, ["12,5"]], ";", ","),
        ([["1", "2"], ["x"]], ";", "."),
    ],
)
def test_decimal_marks(cells, separator, mark):
    assert decimal_mark([pa.array(column) for column in cells], separator) == mark


def test_names_of_rows_as_r_writes_them(tmp_path):
    frame = some()
    text = frame.to_csv().removeprefix(",")  # a header that is one cell short
    (tmp_path / "t.csv").write_text(text)
    assert find_dialect(tmp_path / "t.csv").names == (ROW_NAMES, "a", "b", "c", "y")
    same(tmp_path / "t.csv", frame)
    (tmp_path / "t.csv").write_text(text.replace(",", " "))
    same(tmp_path / "t.csv", frame)
    lines = frame.to_csv(index=False).replace("\n", ",\n").replace("y,\n", "y\n", 1)
    (tmp_path / "t.csv").write_text(lines)  # a separator at the end of every row
    same(tmp_path / "t.csv", frame)


def test_headers(tmp_path):
    frame, path = some(), tmp_path / "t.csv"
    path.write_text("sep=;\r\n" + frame.to_csv(index=False, sep=";"))  # as Excel writes it
    same(path, frame)
    path.write_text('"a, b, c, d";y\n' + "".join(f"{i},5;{i % 2}\n" for i in range(9)))
    assert find_dialect(path).names == ("a, b, c, d", "y")
    wide = frame.assign(**{"x" * 200_000: 1.0})
    wide.to_csv(path, index=False)
    assert find_dialect(path).names == tuple(wide.columns)
    names = [f"{'x' * 60}{j}" for j in range(20_000)]  # more than a mebibyte of names
    path.write_text(",".join(names) + "\n" + ",".join(["1"] * 20_000) + "\n")
    file = open_table(path)
    assert file.schema.names == names
    assert next(file.frames(names, 9)).columns[-1].to_pylist() == ["1"]
    path.write_text('\n\n"two\nlines",,y\n1,2,3\n')
    assert read(path) == {"two\nlines": ["1"], "column 2": ["2"], "y": ["3"]}


def test_quotes(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a, "b", c\n1, "x, ""y""", "two\nlines"\n2, "", z\n')
    assert read(path) == {"a": ["1", "2"], "b": ['x, "y"', None], "c": ["two\nlines", " z"]}
    path.write_text('a,b\n1,2\n3,"4\n5,6\n')
    with pytest.raises(ValueError, match=r"a quotation mark .* is never closed"):
        read(path)
    path.write_text('a,b\n1,2\n3,"4\n5"\n')
    assert read(path)["b"] == ["2", "4\n5"]


def test_the_separator_by_which_known_names_are_found(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b,c;d,y\n1;2,3;4,5\n")
    assert find_dialect(path).separator == ","
    assert find_dialect(path, ["a", "d,y"]).separator == ";"
    path.write_text("y\n1\n2\n")
    assert find_dialect(path).names == ("y",)


@pytest.mark.parametrize("ending", ["csv.gz", "CSV", "tsv", "TSV", "tsv.gz", "xlsx", "XLSX"])
def test_endings(ending, tmp_path):
    frame, path = some(), str(tmp_path / f"t.{ending}")
    if ending.lower() == "xlsx":
        frame.to_excel(tmp_path / "t.xlsx", index=False)
        (tmp_path / "t.xlsx").rename(path)
    else:
        data = frame.to_csv(index=False, sep="\t" if "tsv" in ending.lower() else ",").encode()
        with open(path, "wb") as file:
            file.write(gzip.compress(data) if ending.endswith("gz") else data)
    model = same(path, frame)
    for out in ("p.csv.gz", "p.CSV", "p.tsv", "p.parquet", "p.feather"):
        assert files.predict(model, path, tmp_path / out, keep="y") == len(frame)
        if "sv" in out.lower():
            opened = gzip.open if out.endswith("gz") else open
            with opened(tmp_path / out, "rb") as file:
                assert (b"\t" if "tsv" in out else b",") in file.readline()
            found = pd.DataFrame(read(tmp_path / out))
        else:
            found = getattr(pd, f"read_{out[2:]}")(tmp_path / out)
        assert_array_equal(found["y"], frame["y"])
        assert_array_equal(found["label"], model.predict(frame[["a", "b", "c"]].astype(float)))
    with pytest.raises(ValueError, match="unknown ending"):
        files.predict(model, path, tmp_path / "p.svm")


@pytest.mark.parametrize("ending", ENDINGS)
def test_formats_with_a_writer_read_back_and_others_are_not_written(ending, tmp_path):
    path, table = tmp_path / f"t{ending}", pa.table({"a": ["x", "y"], "b": ["z", None]})
    if ENDINGS[ending].kind in WRITERS and ".txt" not in ending:
        check_out(path)
        assert write_tables(path, [table[:1], table[1:]], overwrite=False) == 2
        assert read(path) == table.to_pydict()
    else:
        with pytest.raises(ValueError, match=r"unknown ending; valid ones are \.parquet"):
            check_out(path)


def test_workbooks(tmp_path):
    import openpyxl

    book = openpyxl.Workbook()
    rows = [["a", None, "when", "y"], [1, True, pd.Timestamp("2020-01-02"), "x"], [None] * 4,
            [2.5, None, pd.Timestamp("2020-01-02 10:11"), "<1"]]  # fmt: skip
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    assert read(tmp_path / "t.xlsx") == {
        "a": ["1", "2.5"], "column 2": ["True", None],
        "when": ["2020-01-02 00:00:00", "2020-01-02 10:11:00"], "y": ["x", "<1"],
    }  # fmt: skip
    (tmp_path / "no.xlsx").write_text("hello")
    with pytest.raises(ValueError, match=r"no.xlsx cannot be read"):
        open_table(tmp_path / "no.xlsx")


def test_a_workbook_with_a_cover_sheet_names_its_sheets(tmp_path):
    frame, path = some(), tmp_path / "t.xlsx"
    with pd.ExcelWriter(path) as writer:
        pd.DataFrame({"Study": ["2024", "a"]}).to_excel(writer, sheet_name="Cover", index=False)
        frame.to_excel(writer, sheet_name="Data", index=False)
    told = r"sheet 'Cover' of .*t.xlsx has no column 'y'.*sheets 'Cover' and 'Data'.*sheet='Data'"
    with pytest.raises(ValueError, match=told):
        files.fit(FuzzyTwinSVC(), path, target="y")
    with pytest.raises(ValueError, match=told):
        read_table(path, expected=["y"])
    with pytest.raises(ValueError, match=r"no sheet 'data'.*'Cover' and 'Data'"):
        open_table(path, sheet="data")
    model = same(path, frame, sheet="Data")
    out = tmp_path / "p.csv"
    assert files.predict(model, path, out, sheet="Data", keep=["a", "y"]) == len(frame)
    found = pd.read_csv(out)
    np.testing.assert_allclose(found["a"], frame["a"], rtol=1e-12)  # numbers, not text
    assert_array_equal(found["label"], model.predict(frame[["a", "b", "c"]].astype(float)))


def test_a_limit_in_another_decimal_mark_is_understood():
    assert_array_equal(numbers(pa.array(["<0.5", "0,7", "12.5 %"]), ",").values, [0.5, 0.7, 12.5])
    assert_array_equal(numbers(pa.array(["<0,5", "0,7", "> 1,234"])).values, [0.5, 0.7, 1234])


def test_cells_that_are_understood(tmp_path):
    cells = ["1", "2.5", "<0.5", "> 100", "1,234.5", "12 %", "n/a", "-", "1,5", " 3 ", "", "abc",
             "1 234", "5+", "+7", "1,234", "≥2", "#DIV/0!", "1'234"]  # fmt: skip
    read = numbers(pa.array(cells))
    nan = np.nan
    assert_array_equal(read.values, [1, 2.5, 0.5, 100, 1234.5, 12, nan, nan, 1.5, 3, nan, nan,
                                     1234, 5, 7, 1234, 2, nan, 1234])  # fmt: skip
    assert read.issues == {
        "limit": (4, "<0.5"),
        "percentage": (1, "12 %"),
        "thousands": (4, "1,234.5"),
        "other_decimal": (1, "1,5"),
        "na_marker": (2, "-"),
        "unparsed": (1, "abc"),
    }
    assert kind_of(pa.array(cells)) == "number"
    assert kind_of(pa.array([*cells, "def"])) == "text"  # more than a tenth
    assert_array_equal(numbers(pa.array(["1.234,5", "0,5", "1.5"]), ",").values, [1234.5, 0.5, 1.5])
    assert_array_equal(numbers(pa.array(["\u22121.5", "0.969"])).values, [-1.5, 0.969])
    frame = some().astype({"a": str})
    frame.loc[5, "a"] = "<0.25"
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(UserWarning, match="column 'a': 1 cell, '<0.25', read as a limit"):
        same(tmp_path / "t.csv", frame.replace({"a": {"<0.25": "0.25"}}))


def test_formulas_are_guarded(tmp_path):
    frame = some().assign(key=["=1+1", "@x", "-5", "+49 1", "'=z", "plain"] * 10)
    frame["y"] = np.where(frame["y"] == "yes", "=cmd()", "-no")
    model = FuzzyTwinSVC().fit(frame[["a", "b"]], frame["y"])
    for ending in ("csv", "tsv"):
        out = tmp_path / f"p.{ending}"
        files.predict(model, [frame], out, keep=["key", "y"])
        raw = pd.read_csv(out, sep="\t" if ending == "tsv" else ",", dtype=str)
        assert set(raw["key"]) == {"'=1+1", "'@x", "-5", "+49 1", "''=z", "plain"}
        assert set(raw["label"]) == {"'=cmd()", "'-no"}
    model = files.fit(FuzzyTwinSVC(), [frame], target="y", features=["a"])
    frame.assign(key=raw["key"], y="'" + frame["y"]).to_csv(tmp_path / "t.csv", index=False)
    assert_array_equal(
        files.fit(FuzzyTwinSVC(), tmp_path / "t.csv", target="y", features=["a"]).classes_,
        model.classes_,
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_kept_column_is_never_parsed(tmp_path, ending):
    """Zeros before a number come late, and so does a text among numbers."""
    frame = some().drop(columns="c")
    frame.assign(key=range(100, 160)).to_csv(tmp_path / "1.csv", index=False)
    later = [*(f"{i:03d}" for i in range(59)), "A7"]
    frame.assign(key=later).to_csv(tmp_path / "2.csv", index=False)
    model = files.fit(FuzzyTwinSVC(), tmp_path / "1.csv", target="y", features=["a", "b"])
    out = tmp_path / f"p.{ending}"
    files.predict(model, [tmp_path / "1.csv", tmp_path / "2.csv"], out, keep=["key", "key"])
    found = pd.read_csv(out, dtype=str) if ending == "csv" else pd.read_parquet(out)
    assert found["key"].tolist() == [*map(str, range(100, 160)), *later]


def with_long_labels(path):
    """Write rows with decimal commas; keys and labels are whole numbers from 2^53 on."""
    rng = np.random.default_rng(0)
    keys, labels = 2**53 + np.arange(80), 2**53 + np.arange(80) % 2
    columns = (rng.normal(labels % 2, 1.0), rng.normal(size=80))
    cells = zip(keys, *columns, labels, strict=True)
    lines = [f"{key};{a:.3f};{b:.3f};{label}" for key, a, b, label in cells]
    path.write_text("\n".join(["key;a;b;y", *lines]).replace(".", ",") + "\n")
    return keys, labels


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_whole_numbers_beyond_doubles_stay_apart_with_decimal_commas(tmp_path, ending):
    keys, labels = with_long_labels(tmp_path / "t.csv")
    out = tmp_path / f"d.{ending}"
    found = files.find_label_issues(tmp_path / "t.csv", out, target="y", id="key")
    assert found.classes.tolist() == [2**53, 2**53 + 1]
    written = pd.read_csv(out, sep=";") if ending == "csv" else pd.read_parquet(out)
    assert written["id"].astype(np.int64).tolist() == keys.tolist()
    assert written["given_label"].tolist() == labels.tolist()


def test_a_label_like_5_0_does_not_round_its_neighbours(tmp_path):
    with_long_labels(tmp_path / "t.csv")
    text = (tmp_path / "t.csv").read_text().splitlines()
    (tmp_path / "u.csv").write_text("\n".join([*text, "7;0,5;0,5;5,0", "8;0,5;0,1;5"]) + "\n")
    paths = [tmp_path / "t.csv", tmp_path / "u.csv"]
    model = files.fit(FuzzyTwinSVC(), paths, target="y", features=["a", "b"])
    assert model.classes_.tolist() == [5, 2**53, 2**53 + 1]
    for cell in ("x", "0,5", "007", f"{2**64}"):
        (tmp_path / "u.csv").write_text("\n".join([*text, f"7;0,5;0,5;{cell}"]) + "\n")
        with pytest.raises(ValueError, match=f"row 82: column 'y' holds '{cell}', but whole"):
            files.fit(FuzzyTwinSVC(), paths, target="y", features=["a", "b"])


def test_labels_of_nineteen_digits_are_whole(tmp_path):
    labels = ["1234567890123456788", "1234567890123456789", "18446744073709551615"]
    frame = some().assign(y=labels[:2] * 30)
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = files.fit(FuzzyTwinSVC(), tmp_path / "t.csv", target="y", features=["a", "b"]).classes_
    assert found.tolist() == [1234567890123456788, 1234567890123456789]
    frame.assign(y=labels * 20).to_csv(tmp_path / "t.csv", index=False)
    found = files.fit(FuzzyTwinSVC(), tmp_path / "t.csv", target="y", features=["a", "b"]).classes_
    assert found.tolist() == labels


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_kept_column_may_begin_with_gaps(tmp_path, ending):
    frame = some().drop(columns="c")
    model = FuzzyTwinSVC().fit(frame[["a", "b"]], frame["y"])
    batches = [frame.assign(t=pd.Series([None] * 60, dtype=object)), frame.assign(t="x")]
    files.predict(model, batches, tmp_path / f"p.{ending}", keep="t")
    read = getattr(pd, f"read_{ending}")(tmp_path / f"p.{ending}")["t"]
    assert read.isna().tolist() == [True] * 60 + [False] * 60
