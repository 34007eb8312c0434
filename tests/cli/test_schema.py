"""What training learns about a table, later files are read by: issue 2, numbers 1 to 9."""

import gzip
import json
import re

import numpy as np
import pandas as pd
import pytest

from fuzzytwin import cli, store
from tests.cli.helpers import QUICK, some, table


def kinds(told):
    return {column["name"]: column["kind"] for column in told["schema"]["columns"]}


def train(run, data, *words):
    return json.loads(run("train", data, "--target", "y", *QUICK, "--json", "--force", *words))


def evaluate(run, model, data, *words):
    """Score of the rows; all labels are known."""
    score = json.loads(run("evaluate", model, data, "--json", *words))
    assert score["unknown_labels"] == []
    return score


def labels(run, model, data, *words):
    lines = run("predict", model, data, *words).splitlines()[1:]
    return [re.split(r"[,;\t|]", line)[0] for line in lines]  # the separator of the input


def flagged(n=200, seed=0):
    rng = np.random.default_rng(seed)
    flag = rng.random(n) < 0.5
    y = np.where(rng.random(n) < 0.05, ~flag, flag)
    return {"flag": flag.astype(object), "b": rng.normal(size=n), "y": np.where(y, "yes", "no")}


@pytest.mark.parametrize("gap", [pytest.param(False, marks=pytest.mark.slow), True])
def test_true_and_false_in_any_spelling(run, gap):
    columns = flagged()
    if gap:
        columns["flag"][7] = None
    told = train(run, table("t.csv", **columns))
    assert kinds(told)["flag"] == "boolean"
    score = evaluate(run, "t.skops", "t.csv")
    assert score["accuracy"] > 0.9
    for spell in (str.lower, str.upper, lambda word: {"True": "1", "False": "0"}.get(word, word)):
        other = [None if v is None else spell(str(v)) for v in columns["flag"]]
        table("new.csv", **{**columns, "flag": other})
        assert evaluate(run, "t.skops", "new.csv")["accuracy"] == score["accuracy"]
        assert labels(run, "t.skops", "new.csv") == labels(run, "t.skops", "t.csv")
    pd.DataFrame(columns).astype({"flag": "boolean"}).to_parquet("new.parquet")
    assert labels(run, "t.skops", "new.parquet") == labels(run, "t.skops", "t.csv")


SPELLINGS = [["TRUE", "FALSE"], ["1.0", "1.5", "2.0"], ["01", "02"], ["-1", "+1"], ["yes ", "no"]]
MORE_SPELLINGS = [
    ["false", "true"], ["1.0", "2.0"], ["1", "2"], ["None", "Mild"], ["1e3", "2e3"],
]  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [*SPELLINGS, *(pytest.param(words, marks=pytest.mark.slow) for words in MORE_SPELLINGS)],
    ids=repr,
)
def test_labels_keep_their_spelling(run, words):
    columns = some(120)
    rng = np.random.default_rng(0)
    code = rng.integers(0, len(words), 120)
    angle = 2 * np.pi * code / len(words) + rng.normal(scale=0.1, size=120)
    columns |= {"a": np.cos(angle), "b": np.sin(angle), "y": np.array(words)[code]}
    train(run, table("t.csv", **columns))
    model = store.load("t.skops")
    assert {str(label) for label in model.classes_} == {word.strip() for word in words}
    assert evaluate(run, "t.skops", "t.csv")["accuracy"] == 1.0
    assert labels(run, "t.skops", "t.csv") == [words[k].strip() for k in code]
    pd.DataFrame(columns).to_parquet("t.parquet")
    assert evaluate(run, "t.skops", "t.parquet")["accuracy"] == 1.0
    run("predict", "t.skops", "t.csv", "--out", "p.csv")
    written = pd.read_csv("p.csv", dtype=str, keep_default_na=False)["label"]
    table("back.csv", **{**columns, "y": written})  # our own labels are read as they were
    assert evaluate(run, "t.skops", "back.csv")["accuracy"] == 1.0


def test_a_label_is_what_it_says_however_it_is_written(run):
    columns = some(90)
    columns["y"] = np.array(["1", "2", "3"])[np.arange(90) % 3]
    angle = 2 * np.pi * (np.arange(90) % 3) / 3 + columns["a"] / 20
    columns |= {"a": np.cos(angle), "b": np.sin(angle)}
    train(run, table("t.csv", **columns))
    for spelled in (["1.0", "2.0", "3.0"], ["1.", "2e0", "+3"], [" 1", "2 ", "3"]):
        table("new.csv", **{**columns, "y": np.array(spelled)[np.arange(90) % 3]})
        assert evaluate(run, "t.skops", "new.csv")["accuracy"] == 1.0
    mixed = np.where(np.arange(90) < 50, columns["y"], np.char.add(columns["y"], ".0"))
    told = train(run, table("t.csv", **{**columns, "y": mixed}))
    assert told["classes"] == {"1": 30, "2": 30, "3": 30}


@pytest.mark.parametrize(
    "words", [["0.1234561", "0.1234562"], ["9007199254740993", "9007199254740992"]], ids=repr
)
def test_labels_are_told_apart_to_the_last_digit(run, words):
    columns = some(100)
    code = (np.arange(100) // 3 + np.arange(100)) % 2
    columns |= {"a": code + columns["b"] / 100, "y": np.array(words)[code]}
    told = train(run, table("t.csv", **columns))
    assert told["classes"] == {word: int((columns["y"] == word).sum()) for word in words}
    assert labels(run, "t.skops", "t.csv") == list(columns["y"])
    frame = pd.DataFrame(columns)
    frame["y"] = frame["y"].astype(float if "." in words[0] else int)
    frame.to_parquet("t.parquet")
    assert evaluate(run, "t.skops", "t.parquet")["accuracy"] == 1.0
    run("train", "t.csv", "--target", "y", *QUICK, "--stream", "--out", "s.skops")
    assert labels(run, "s.skops", "t.csv") == list(columns["y"])


@pytest.mark.parametrize("n", [200, 1500])
def test_detection_limits_leave_a_column_numeric(run, n):
    columns = some(n)
    columns["a"] = [f"{value:.3f}" for value in columns["a"]]
    for row, cell in enumerate(["<0.5", ">100", "1,234.5", "12 %", "n/a", "-", "?", "abc"]):
        columns["a"][10 + row] = cell
    table("t.csv", **columns)
    told = train(run, "t.csv")
    column = told["schema"]["columns"][0]
    assert (column["kind"], column["missing"]) == ("number", 4)
    found = {one["code"]: one["values"] for one in column["findings"]}
    assert {code: values["example"] for code, values in found.items() if values} == {
        "limit": "<0.5",
        "percentage": "12 %",
        "thousands": "1,234.5",
        "na_marker": "-",
        "unparsed": "abc",
    }
    out = " ".join(run("train", "t.csv", "--target", "y", *QUICK, "--force").split())
    for words in ("2 cells such as '<0.5' read as a limit", "1 cell, 'abc', not readable"):
        assert words in out
    plain = {name: np.delete(np.array(values, object), range(10, 18)) for name, values in
             columns.items()}  # fmt: skip
    train(run, table("plain.csv", **plain))
    said = run("predict", "plain.skops", "t.csv", "--out", "p.csv", "--json")
    assert "column 'a': 1 cell, 'abc', not readable, taken as missing" in json.loads(said)["notes"]
    assert len(pd.read_csv("p.csv")) == n


def test_unusual_cells_behind_the_first_rows_are_counted(run, monkeypatch):
    monkeypatch.setattr("fuzzytwin.tables._reader.SAMPLE_ROWS", 100)
    monkeypatch.setattr("fuzzytwin.tables._reader.WHOLE_BYTES", 0)
    columns = some(300)
    columns["a"] = [f"{value:.3f}" for value in columns["a"]]
    columns["a"][200:203] = ["<0.5", "abc", ">7"]
    told = train(run, table("t.csv", **columns), "--stream")
    assert told["schema"]["columns"][0]["findings"] == []
    assert "column 'a': 2 cells such as '<0.5' read as a limit" in told["notes"]
    assert "column 'a': 1 cell, 'abc', not readable, taken as missing" in told["notes"]


def test_a_bad_weight_behind_the_first_rows_is_named_by_its_row(refused, monkeypatch):
    monkeypatch.setattr("fuzzytwin.tables._reader.SAMPLE_ROWS", 100)
    monkeypatch.setattr("fuzzytwin.tables._reader.WHOLE_BYTES", 0)
    monkeypatch.setattr("fuzzytwin.tables._formats.BATCH_ROWS", 40)
    table("t.csv", **some(150), w=np.where(np.arange(150) == 130, -1, 1))
    words = ("train", "t.csv", "--target", "y", "--weight", "w", "--stream", "--out", "n.skops")
    refused(*words, match="column 'w' of t.csv holds -1 in row 132; weights must be")


def test_percentages_and_thousands_throughout(run):
    columns = some(100)
    columns["share"] = [f"{value:.1f} %" for value in np.abs(columns["a"]) * 10]
    columns["cost"] = [f"{value:,.2f}" for value in np.abs(columns["b"]) * 1e5]
    told = train(run, table("t.csv", **columns))
    assert kinds(told) == dict.fromkeys(("a", "b", "share", "cost"), "number")


def messy(n):
    rng = np.random.default_rng(0)
    return {
        **some(n),
        "number": np.arange(1, n + 1),
        "patient_id": rng.permutation(n) * 7 + 1000,
        "name": [f"P{i:05d}" for i in range(n)],
        "when": pd.date_range("2020-01-01", periods=n).strftime("%Y-%m-%d"),
        "german": pd.date_range("2020-01-01", periods=n).strftime("%d.%m.%Y"),
        "void": [None] * n,
        "same": [5] * n,
        "word": ["x"] * n,
        "town": np.array(["Oslo", "Rom", "Bern"])[rng.integers(0, 3, n)],
        "grade": rng.integers(1, 5, n),
        "flag": rng.random(n) < 0.5,
    }


KINDS = {
    "a": "number", "b": "number", "number": "id", "patient_id": "id", "name": "id",
    "when": "date", "german": "date", "void": "empty", "same": "number", "word": "category",
    "town": "category", "grade": "number", "flag": "boolean",
}  # fmt: skip


@pytest.mark.parametrize("n", [60, pytest.param(220, marks=pytest.mark.slow), 1500])
def test_columns_are_judged_alike_at_every_size(run, n):
    frame = pd.DataFrame(messy(n))
    frame.to_csv("t.csv", index=False)
    told = train(run, "t.csv")
    assert kinds(told) == KINDS
    frame.assign(when=pd.to_datetime(frame["when"])).to_parquet("t.parquet")
    assert kinds(train(run, "t.parquet", "--out", "p.skops")) == KINDS
    assert kinds(train(run, "t.csv", "--stream", "--out", "s.skops")) == KINDS
    assert all(c["findings"] for c in told["schema"]["columns"] if c["kind"] in
               ("id", "date", "empty") or c["distinct"] == 1)  # fmt: skip
    out = run("train", "t.csv", "--target", "y", *QUICK, "--force")
    for name, kind in KINDS.items():
        assert any(line.split()[:2] == [name, kind] for line in out.splitlines()), (name, out)


def test_every_decision_can_be_overruled(run, refused):
    table("t.csv", **messy(100))
    words = ["--numeric", "number", "--numeric", "when", "--category", "grade",
             "--category", "name", "--drop", "town", "--id", "patient_id"]  # fmt: skip
    told = train(run, "t.csv", *words)
    changed = {"number": "number", "when": "number", "grade": "category", "name": "category",
               "town": "dropped"}  # fmt: skip
    expected = {**KINDS, **changed}
    del expected["patient_id"]  # not a column to judge
    assert kinds(told) == expected
    medians = np.array(store.load("t.skops")["prepare"].encoding_["scaled"]["fill"])
    assert (medians > 18262).any()
    assert medians.max() < 18362  # days of 2020
    assert len(labels(run, "t.skops", "t.csv")) == 100
    refused("train", "t.csv", "--target", "y", "--out", "n.skops", "--numeric", "town",
            match="column 'town' holds no finite numbers")  # fmt: skip
    refused("train", "t.csv", "--target", "y", "--out", "n.skops", "--category", "q",
            match="no column 'q'.*--category")  # fmt: skip


def test_many_columns_share_a_line(run):
    columns = {**some(), **{f"column{j}": np.random.default_rng(j).normal(size=60)
                            for j in range(0, 56, 2)}}  # fmt: skip
    out = run("train", table("t.csv", **columns), "--target", "y", *QUICK)
    assert "30 columns of kind number: a, b, column0, " in " ".join(out.split())
    assert "column14 and 20 more" in " ".join(out.split())


def test_a_long_note_on_several_columns_is_given_once(run):
    codes = np.resize([1, 2, 3], 60)
    columns = {**some(), "first": codes, "second": codes[::-1].copy()}
    out = run("train", table("t.csv", **columns), "--target", "y", *QUICK)
    assert " ".join(out.split()).count("3 different whole numbers; if they are") == 1
    assert "as first" in out


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_predictions_are_what_their_name_says(run, stream):
    columns = {**some(), "key": [f"k{i}" for i in range(60)]}
    table("t.csv", **columns)
    train(run, "t.csv")
    for ending in ("csv", "CSV", "tsv", "csv.gz", "tsv.gz", "parquet", "feather", "arrow"):
        out = f"{ending.replace('.', '_')}.{ending}"  # csv and CSV are one file to some systems
        run("predict", "t.skops", "t.csv", "--out", out, stream, "--keep", "key")
        with open(out, "rb") as file:
            data = file.read()
        if ending.endswith("gz"):
            data = gzip.decompress(data)
        if "sv" in ending.lower():
            mark = b"\t" if "tsv" in ending else b","
            assert data.splitlines()[0] == mark.join([b"key", b"label", b"probability_no",
                                                      b"probability_yes"])  # fmt: skip
            assert data.count(mark) == 3 * 61
        else:
            read = pd.read_parquet if ending == "parquet" else pd.read_feather
            assert list(read(out)["key"]) == columns["key"]


def test_columns_that_are_kept(run):
    columns = {**some(), "key": [f"k{i}" for i in range(60)], "more": ["007", "-1.50", "=1+1"] * 20}
    table("t.csv", **columns)
    train(run, "t.csv", "--id", "key")
    assert run("predict", "t.skops", "t.csv").splitlines()[1].startswith("k0,")
    run("predict", "t.skops", "t.csv", "--keep-all", "--out", "p.csv")
    found = pd.read_csv("p.csv", dtype=str)
    assert list(found)[:6] == ["key", "a", "b", "y", "more", "label"]
    assert list(found["more"][:3]) == ["007", "-1.50", "'=1+1"]  # a formula is guarded
    assert list(found["y"]) == list(columns["y"])
    run("predict", "t.skops", "p.csv", "--out", "again.csv", "--keep", "more", "--id", "label")
    again = pd.read_csv("again.csv", dtype=str)
    assert list(again)[:3] == ["label", "more", "predicted_label"]
    assert list(again["more"][:3]) == ["007", "-1.50", "'=1+1"]  # guarded once
    assert list(again["label"]) == list(again["predicted_label"])
    assert "no column 'q'" in run("predict", "t.skops", "t.csv", "--keep", "q", code=2)


def test_unknown_categories_are_counted(run, capsys):
    columns = {**some(), "town": np.array(["Oslo", "Rom", "Bern"])[np.arange(60) % 3],
               "grade": np.arange(60) % 4}  # fmt: skip
    table("t.csv", **columns)
    train(run, "t.csv", "--category", "grade")
    columns["town"] = np.where(np.arange(60) < 2, "Wien", columns["town"])
    columns["grade"] = np.where(np.arange(60) == 5, 9, columns["grade"])
    table("new.csv", **columns)
    assert cli.run(["predict", "t.skops", "new.csv"]) == 0
    notes = capsys.readouterr().err.splitlines()
    assert notes == [
        "note: column 'town': 2 cells such as 'Wien' not among the training rows.",
        "note: column 'grade': 1 cell, '9', not among the training rows.",
    ]


def test_later_files_with_other_marks(run):
    """The schema knows names, kinds and the decimal mark; separators are those of each file."""
    frame = pd.DataFrame(some())
    frame.to_csv("t.csv", index=False, sep=";", decimal=",")
    train(run, "t.csv")
    expected = labels(run, "t.skops", "t.csv")
    frame.to_csv("new.csv", index=False)
    assert labels(run, "t.skops", "new.csv") == expected
    frame.to_csv("new.tsv", index=False, sep="\t", decimal=",")
    assert labels(run, "t.skops", "new.tsv") == expected
    # Nothing in this file tells a decimal comma from thousands: the training file does.
    with open("new.csv", "w") as file:
        file.write("a|b\n1,234|0\n")
    with open("same.csv", "w") as file:
        file.write("a|b\n1.2340|0\n")
    found = run("predict", "t.skops", "new.csv")
    assert found == run("predict", "t.skops", "same.csv")


def test_files_of_one_class_are_measured(run):
    columns = some()
    table("t.csv", **columns)
    train(run, "t.csv")
    yes = columns["y"] == "yes"
    table("one.csv", **{name: values[yes] for name, values in columns.items()})
    assert evaluate(run, "t.skops", "one.csv")["rows"] == yes.sum()


def test_kept_columns_are_copied_without_loss(run):
    n = 60
    codes = ["250.00", "250.0", "250.10", "250.1"] * 15
    keys = [str(12345678901234567890 + i) for i in range(n)]
    notes = [*map(str, range(50)), *["see file"] * 10]
    limits = ["<5" if i % 20 == 3 else f"{i}.5" for i in range(n)]
    kept = {"key": keys, "note": notes, "limit": limits, "icd": codes}
    columns = some(n)
    table("t.csv", **columns, **kept)
    run("train", "t.csv", "--target", "y", "--category", "icd", "--drop", "note", "--drop", "limit",
        *QUICK)  # fmt: skip
    words = [word for name in kept for word in ("--keep", name)]
    for ending in ("csv", "parquet"):
        run("predict", "t.skops", "t.csv", "--keep-all", "--out", f"p.{ending}", *words)
    frame = pd.read_parquet("p.parquet")
    for name, values in kept.items():
        assert frame[name].tolist() == values


def test_numbers_of_more_digits_than_a_double_name_rows(run):
    table("t.csv", **some(60), key=[4711000000000000000 + i for i in range(60)])
    out = run("train", "t.csv", "--target", "y", *QUICK)
    assert re.search(r"key +id +60 .*more digits than", out)


def test_dates_at_midnight_of_a_workbook_are_read_as_the_others(run):
    when = pd.date_range("2024-01-01", periods=60, freq="6h")
    pd.DataFrame({**some(60), "when": when}).to_excel("t.xlsx", index=False)
    out = run("train", "t.xlsx", "--target", "y", "--numeric", "when", *QUICK)
    assert re.search(r"when +number +60 +0 +days since 1970", out)


def test_types_that_are_no_numbers_or_cells_name_their_column(run, refused):
    frame = pd.DataFrame({
        **some(60), "stay": pd.to_timedelta(np.arange(60), unit="h"), "tags": [["a"]] * 60,
        "at": pd.date_range("2024-01-01", periods=60, tz="UTC"),
    })  # fmt: skip
    frame.to_parquet("t.parquet")
    for words in (
        ("--numeric", "stay"), ("--weight", "stay"), ("--degree", "at"), ("--id", "tags"),
        ("--groups", "tags"),
    ):  # fmt: skip
        match = f"column '{words[1]}' holds values of type"
        refused("train", "t.parquet", "--target", "y", *words, match=match)
    run("train", "t.parquet", "--target", "y", *QUICK)
    keep = "predict", "t.skops", "t.parquet", "--keep", "tags", "--out", "q.csv"
    refused(*keep, match="column 'tags' is of type list")


def test_a_header_without_a_newline_has_no_rows(folder, refused):
    (folder / "t.csv").write_text("a,b,y")
    refused("train", "t.csv", "--target", "y", match="column names but no rows")
