"""``fuzzytwin doubts``: the table of doubts, the page, and what is refused."""

import gzip
import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from tests.cli.helpers import refused, some, table


@pytest.fixture(scope="module")
def cancer():
    """Columns of numbers, text and gaps; labels of which 40 are wrong; one is missing."""
    data = load_breast_cancer(as_frame=True)
    rng = np.random.default_rng(0)
    frame = data.data.iloc[:, :12].copy()
    label = data.target_names[data.target].astype(object)
    wrong = rng.choice(len(label), 40, replace=False)
    label[wrong] = np.where(label[wrong] == "benign", "malignant", "benign")
    frame.insert(0, "patient", [f'=P{i}, "x"' for i in range(len(frame))])
    frame["town"] = rng.choice(["Rom", "Oslo", None], len(frame))
    frame.iloc[5, 3] = np.nan
    frame["diagnosis"] = label
    frame.loc[2, "diagnosis"] = None
    return frame, wrong


@pytest.fixture
def data(cancer, folder):
    cancer[0].to_csv("t.csv", index=False)
    return "t.csv"


def test_the_table_of_doubts(run, cancer, data):
    frame, wrong = cancer
    out = run("doubts", data, "--target", "diagnosis", "--id", "patient", "--out", "d.csv")
    assert re.search(r"\d+ of 568 labels are doubtful; about \d+ \(\d+ to \d+\) are probably", out)
    assert "1 row without a label left out" in out
    assert "the names of the columns are row 1" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    found = pd.read_csv("d.csv")
    assert list(found) == ["row", "patient", "label", "suggested", "degree", "doubtful", "rank"]
    assert len(found) == 568
    assert found["rank"].tolist() == list(range(1, 569))
    assert found["degree"].is_monotonic_increasing
    # Rows as a spreadsheet shows them; names that look like formulas are guarded.
    place = found["row"].to_numpy() - 2
    assert found["patient"].str.removeprefix("'").tolist() == frame["patient"][place].tolist()
    assert found["patient"].str.startswith("'=").all()
    assert found["label"].tolist() == frame["diagnosis"][place].tolist()
    flagged = place[found["doubtful"]]
    assert np.isin(wrong, flagged).mean() > 0.85
    assert np.isin(flagged, wrong).mean() > 0.8
    assert (found["suggested"] != found["label"]).equals(found["degree"] < 0.5)


def test_the_page(run, folder, data):
    out = run("doubts", data, "--target", "diagnosis", "--report", "r.html", "--top", "3")
    assert "The page is in r.html" in out
    assert re.search(r"and \d+ more", out)
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "How many labels are doubtful" in page
    assert "numbered as a spreadsheet shows them" in page
    assert re.search(r"Row \d+ .*: labelled (benign|malignant), rather (benign|malignant)\?", page)
    assert "typical benign" in page
    assert "data:image/png" in page
    assert not re.search(r"(src|href)=.?https?:", page)


def test_json_and_other_files(run, folder, cancer, data):
    words = ("--target", "diagnosis", "--id", "patient", "--json")
    found = json.loads(run("doubts", data, *words))
    assert found["n_doubtful"] == len(found["doubtful"])
    assert found["n_wrong_interval"][0] < 40 < found["n_wrong_interval"][1]
    assert found["classes"] == ["benign", "malignant"]
    np.testing.assert_allclose(np.sum(found["noise_matrix"], axis=1), 1)
    assert {"row", "patient", "label", "suggested", "degree", "rank"} == set(found["doubtful"][0])
    cancer[0].to_parquet("t.parquet")
    same = json.loads(run("doubts", "t.parquet", *words, "--out", "d.parquet"))
    rows = [entry["row"] for entry in found["doubtful"]]
    assert [entry["row"] + 1 for entry in same["doubtful"]] == rows  # counted from 1
    written = pd.read_parquet("d.parquet")
    assert written["patient"].iloc[0].startswith("=P")


def test_labels_of_any_kind_and_many_classes(run, folder):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 300)
    given = y.copy()
    given[:20] = (given[:20] + 1) % 5
    table("t.csv", a=8 * np.cos(y) + rng.normal(size=300), b=8 * np.sin(y), y=given)
    found = json.loads(run("doubts", "t.csv", "--target", "y", "--json"))
    assert sorted(entry["row"] for entry in found["doubtful"]) == list(range(2, 22))
    assert [entry["suggested"] for entry in found["doubtful"]] == [
        y[entry["row"] - 2] for entry in found["doubtful"]
    ]


def test_libsvm(run, folder):
    rng = np.random.default_rng(0)
    lines = [f"{k} 1:{rng.normal(4 * k):.3f} 2:{rng.normal():.3f}" for k in [0, 1] * 60]
    lines[7] = "0 1:4.2 2:0.1"
    (folder / "t.libsvm").write_text("\n".join(lines) + "\n")
    found = json.loads(run("doubts", "t.libsvm", "--report", "r.html", "--json"))
    assert found["doubtful"][0]["row"] == 8
    assert found["n_doubtful"] < 6
    assert "Rows are counted from 1." in (folder / "r.html").read_text(encoding="utf-8")


def test_a_column_of_names_that_is_called_row(run, folder):
    columns = some()
    table("t.csv", **columns, row=[f"n{i}" for i in range(60)])
    run("doubts", "t.csv", "--target", "y", "--id", "row", "--out", "d.csv")
    found = pd.read_csv("d.csv")
    assert list(found)[:3] == ["row", "id", "label"]
    assert [f"n{row - 2}" for row in found["row"]] == found["id"].tolist()


def test_the_report_of_train_has_the_same_doubts(run, folder, data):
    run("train", data, "--target", "diagnosis", "--id", "patient", "--no-search", "--folds", 2,
        "--report", "r.html")  # fmt: skip
    page = (folder / "r.html").read_text(encoding="utf-8")
    found = json.loads(run("doubts", data, "--target", "diagnosis", "--id", "patient", "--json"))
    assert f"{found['n_doubtful']} of 568 labels are doubtful" in page
    rows = re.findall(r"<tr><th>(\d+)</th><td class=\"words\">=P\d+", page)
    assert [int(row) for row in rows] == [entry["row"] for entry in found["doubtful"][:10]]


def test_groups_do_not_vouch_for_each_other(run, folder):
    """Every patient is there four times, with one label: leaving out a row leaves three alike."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    a, b = rng.normal(3 * y, 1, 60), rng.normal(size=60)
    given = y.copy()
    given[:5] = 1 - given[:5]
    who = np.repeat(np.arange(60), 4)
    columns = {"a": a[who], "b": b[who], "patient": [f"p{i}" for i in who], "y": given[who]}
    table("t.csv", **columns)
    run("train", "t.csv", "--target", "y", "--groups", "patient", "--no-search", "--report",
        "r.html")  # fmt: skip
    page = (folder / "r.html").read_text(encoding="utf-8")
    listed = [int(row) for row in re.findall(r"<tr><th>(\d+)</th><td class=\"words\">", page)]
    assert np.mean([(row - 2) // 4 < 5 for row in listed]) > 0.7


def test_what_is_refused(run, folder, data):
    refused(run, folder, "doubts", data, match="which column of t.csv.*--target")
    refused(run, folder, "doubts", data, "--target", "dx", match="no column 'dx'")
    refused(run, folder, "doubts", "no.csv", "--target", "y", match="no.csv")
    words = ("doubts", data, "--target", "diagnosis")
    refused(run, folder, *words, "--id", "name", match="no column 'name'")
    refused(run, folder, *words, "--out", "d.txt", match="'d.txt' has an unknown ending; write")
    refused(run, folder, *words, "--out", "t.csv", match="t.csv is the table itself; give another")
    refused(run, folder, *words, "--out", "x/d.csv", match="no directory x; make it first")
    (folder / "d.csv").write_text("kept")
    refused(run, folder, *words, "--out", "d.csv", match="d.csv exists already; .*--force")
    refused(run, folder, *words, "--report", "d.csv", "--out", "d.csv", match="both name d.csv")
    run(*words, "--out", "d.csv", "--force")
    table("one.csv", a=[1.5, 1.5, 2.5, 3.5], y=["x"] * 4)
    refused(run, folder, "doubts", "one.csv", "--target", "y", match="one class|only 'x'|one value")


def test_files_larger_than_memory_are_judged_in_batches(run, folder, cancer):
    frame, _ = cancer
    frame = frame.drop(columns="town").drop(index=[2, 5])
    for part in range(2):
        frame[part * 300 : part * 300 + 300].to_parquet(folder / f"part-{part}.parquet")
    files = [f"part-{part}.parquet" for part in range(2)]
    options = ("--target", "diagnosis", "--id", "patient", "--out", "found.parquet")
    page = json.loads(run("doubts", *files, *options, "--stream", "--json"))
    written = pd.read_parquet(folder / "found.parquet")
    assert list(written) == ["row", "patient", "label", "suggested", "degree", "doubtful", "rank"]
    assert list(written.sort_values("row")["patient"]) == list(frame["patient"])
    assert page["n_doubtful"] == written["doubtful"].sum() > 10
    assert (page["rows"], page["rows_sampled"]) == (567, 567)
    said = run("doubts", *files, *options, "--stream", "--force")
    assert "fitted to 567 rows" in said
    refused(
        run, folder, "doubts", files[0], "--stream", "--out", "new.csv",
        match=r"which column of .* holds the labels\? Name it: --target NAME",
    )  # fmt: skip
    refused(run, folder, "doubts", *files, *options, match="all of them by --stream")
    for option in (("--votes", "x"), ("--groups", "x"), ("--keep-all",), ("--report", "r.html")):
        words = ("doubts", *files, *options, "--stream", *option)
        refused(run, folder, *words, match=f"{option[0]} cannot be combined with --stream")
    refused(
        run, folder, "doubts", *files, "--target", "diagnosis", "--stream", "--force", "--out",
        files[1], match="part-1.parquet is a file that is read; give another name",
    )  # fmt: skip


def mixed(n=500, seed=1):
    """Names, numbers, codes, categories, dates and missing values; some labels are wrong."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    frame = pd.DataFrame({
        "who": [f"p{i}" for i in range(n)],
        "a": rng.normal(1.5 * y).round(3),
        "code": rng.integers(1, 5, n),
        "town": np.where(rng.random(n) < 0.9, np.where(y, "Rom", "Oslo"), "Kiel"),
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        "w": rng.integers(1, 4, n) / 2,
        "label": np.where(y == (rng.random(n) < 0.92), "ja", "nein"),
    })  # fmt: skip
    frame["day"] = frame["day"].dt.strftime("%d.%m.%Y")
    for name in ("a", "town", "day", "label"):
        frame.loc[rng.choice(n, 12, replace=False), name] = None
    return frame


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
@pytest.mark.parametrize("more", [(), ("--numeric", "day", "--id", "who"), ("--weight", "w")])
def test_streams_give_the_same_doubts_as_rows_in_memory(run, monkeypatch, ending, more):
    if ending == "csv":
        mixed().to_csv("t.csv", sep=";", decimal=",", index=False)
    else:
        getattr(mixed(), "to_excel" if ending == "xlsx" else "to_parquet")(f"t.{ending}")
    monkeypatch.setattr("fuzzytwin.data.files.BATCH_ROWS", 64)
    words = ("doubts", f"t.{ending}", "--target", "label", "--json", *more)
    whole = json.loads(run(*words, "--out", "whole.parquet"))
    streamed = json.loads(run(*words, "--out", "streamed.parquet", "--stream"))
    pd.testing.assert_frame_equal(
        pd.read_parquet("streamed.parquet"), pd.read_parquet("whole.parquet"), rtol=0, atol=1e-6
    )
    assert whole["n_doubtful"] > 5
    for name in ("rows", "n_doubtful", "notes"):
        assert streamed[name] == whole[name]
    for name in ("n_wrong", "n_wrong_interval", "noise_matrix"):
        np.testing.assert_allclose(streamed[name], whole[name], rtol=1e-6)


def test_streams_of_libsvm_text_give_the_same_doubts(run, folder, monkeypatch):
    rng = np.random.default_rng(0)
    lines = [f"{k} 1:{rng.normal(2 * k):.3f} 2:{rng.normal():.3f}" for k in [0, 1] * 60]
    (folder / "t.svm").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr("fuzzytwin.data.files.BATCH_ROWS", 50)
    run("doubts", "t.svm", "--out", "whole.csv")
    run("doubts", "t.svm", "--out", "streamed.csv", "--stream")
    assert (folder / "streamed.csv").read_text() == (folder / "whole.csv").read_text()


def test_streams_of_parts_give_the_doubts_of_the_whole(run, folder):
    """Of files in folders that hold a column, and of one whose first rows have one class only."""
    frame = mixed().drop(columns=["who", "day"]).dropna(subset=["label"])
    frame = frame.sort_values("town", kind="stable", na_position="first", ignore_index=True)
    frame = frame.drop(columns="w").fillna({"town": "Kiel"})
    frame.to_parquet("t", partition_cols=["town"])
    parts = [frame[frame["town"] == town] for town in ("Kiel", "Oslo", "Rom")]
    pd.concat(parts)[["a", "code", "label", "town"]].to_csv("t.csv", index=False)
    run("doubts", "t.csv", "--target", "label", "--out", "whole.csv")
    run("doubts", "t", "--target", "label", "--out", "parts.csv", "--stream")
    whole, streamed = (pd.read_csv(f"{name}.csv") for name in ("whole", "parts"))
    assert whole["row"].tolist() == (streamed["row"] + 1).tolist()  # from 2, and from 1
    pd.testing.assert_frame_equal(whole.drop(columns="row"), streamed.drop(columns="row"))


def test_streams_take_parts_whose_columns_have_other_types(run, folder):
    """A category in one file and text in the other, numbers and text, true and 1."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=120), "code": rng.integers(1, 4, 120)})
    frame["town"], frame["old"] = rng.choice(["Kiel", "Oslo"], 120), rng.random(120) > 0.5
    frame["label"] = np.where(frame["a"] + rng.normal(0, 0.5, 120) > 0, "ill", "well")
    frame.to_parquet("t.parquet")
    (folder / "t").mkdir()
    frame[:60].to_parquet("t/1.parquet")
    others = {"code": str, "town": "category", "old": int, "label": "category"}
    frame[60:].astype(others).to_parquet("t/2.parquet")
    run("doubts", "t.parquet", "--target", "label", "--out", "whole.csv")
    run("doubts", "t", "--target", "label", "--out", "parts.csv", "--stream")
    assert (folder / "parts.csv").read_text() == (folder / "whole.csv").read_text()


def test_votes_of_annotators_take_the_place_of_a_target(run, folder):
    rng = np.random.default_rng(0)
    a = rng.normal(size=200)
    votes = {}
    for name, share in (("ann_1", 0.05), ("ann_2", 0.2), ("ann_3", 0.4)):
        given = np.where(rng.random(200) < share, a < 0, a > 0)
        votes[name] = np.where(rng.random(200) < 0.2, "-1", np.where(given, "yes", "no"))
    table("v.csv", a=a, b=rng.normal(size=200), **votes)
    out = run("doubts", "v.csv", "--votes", "ann_*", "--out", "d.csv")
    assert "Rows to ask about again" in out
    right = [int(part) for part in re.findall(r"ann_\d +(\d+)%", out)]
    assert right == sorted(right, reverse=True)
    found = pd.read_csv(folder / "d.csv")
    truth = np.where(a[found["row"] - 2] > 0, "yes", "no")
    assert (found["suggested"] == truth).mean() > 0.9
    refused(run, folder, "doubts", "v.csv", "--votes", "xyz_*", match="two annotators are needed")


def voted(n=120, seed=0):
    """Columns, true labels and two votes that are wrong now and then."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    votes = {f"ann_{k}": np.where(rng.random(n) < 0.1, 1 - y, y) for k in (1, 2)}
    return {"a": rng.normal(3 * y, 1.0), "b": rng.normal(size=n)}, y, votes


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
def test_votes_are_one_label_however_they_are_spelled(run, ending):
    columns, y, votes = voted()
    votes["ann_2"] = np.where(np.arange(120) % 4 == 0, np.nan, votes["ann_2"])  # 1 becomes 1.0
    frame = pd.DataFrame({**columns, **votes, "gold": y})
    getattr(frame, {"xlsx": "to_excel"}.get(ending, f"to_{ending}"))(f"v.{ending}", index=False)
    given = "doubts", f"v.{ending}", "--votes", "ann_*", "--json"
    found = json.loads(run(*given, "--drop", "gold"))
    assert found["classes"] == ["0", "1"]
    assert found["n_doubtful"] < 10
    together = json.loads(run(*given, "--target", "gold"))
    assert together["classes"] == ["0", "1"]
    assert together["rows"] == 120
    assert together["n_doubtful"] == 0


def test_truth_values_of_votes_and_target_may_be_spelled_differently(run):
    columns, y, votes = voted()
    words = {name: np.where(vote, "true", "false") for name, vote in votes.items()}
    table("v.csv", **columns, **words, gold=np.where(y, "TRUE", "FALSE"))
    found = json.loads(run("doubts", "v.csv", "--votes", "ann_*", "--target", "gold", "--json"))
    assert found["classes"] == ["false", "true"]
    assert found["n_doubtful"] < 5


def test_it_is_asked_whether_minus_one_is_a_label_or_no_vote(run, folder):
    columns, _, votes = voted()
    table("v.csv", **columns, **{name: 2 * vote - 1 for name, vote in votes.items()})
    refused(run, folder, "doubts", "v.csv", "--votes", "ann_*", match="is -1 a label, or no vote")


def test_rows_that_have_a_label_need_no_vote(run):
    columns, y, votes = voted()
    words = {name: np.where(np.arange(120) == 5, "", vote) for name, vote in votes.items()}
    table("v.csv", **columns, **words, gold=y)
    found = json.loads(run("doubts", "v.csv", "--votes", "ann_*", "--target", "gold", "--json"))
    assert found["rows"] == 120


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_what_doubts_wrote_is_never_learned_from(run, stream):
    table("t.csv", **some(100))
    run("doubts", "t.csv", "--target", "y", "--keep-all", "--out", "d.csv")
    once, twice = (
        json.loads(run("doubts", file, "--target", "y", "--json")) for file in ("t.csv", "d.csv")
    )
    assert twice["n_wrong"] == pytest.approx(once["n_wrong"], rel=1e-6)
    facts = json.loads(run("train", "d.csv", "--target", "y", stream, "--json"))
    used = [c["name"] for c in facts["schema"]["columns"] if c["kind"] == "number"]
    assert used == ["a", "b"]
    facts = json.loads(
        run("train", "d.csv", "--target", "y", "--numeric", "rank", stream, "--json", "--force")
    )
    used = [c["name"] for c in facts["schema"]["columns"] if c["kind"] == "number"]
    assert used == ["a", "b", "rank"]  # what a user says comes first


def test_what_doubts_wrote_twice_is_not_learned_from_either(run):
    table("t.csv", **some(100))
    run("doubts", "t.csv", "--target", "y", "--keep-all", "--out", "d.csv")
    run("doubts", "d.csv", "--target", "y", "--keep-all", "--out", "e.csv")
    facts = json.loads(run("train", "e.csv", "--target", "y", "--json"))
    kinds = {column["name"]: column["kind"] for column in facts["schema"]["columns"]}
    assert [name for name, kind in kinds.items() if kind != "dropped"] == ["a", "b"]


def test_rows_to_ask_about_again_are_numbered_whatever_their_ids(run):
    columns, _, votes = voted()
    ids = np.random.default_rng(0).permutation(len(columns["a"]))
    table("v.csv", patient=ids, **columns, **votes)
    said = [
        run("doubts", "v.csv", "--votes", "ann_*", *words)
        for words in (("--id", "patient"), ("--drop", "patient"))
    ]
    with_ids, without = (re.search(r"ask about again: ([\d,\s]+)\.", text)[1] for text in said)
    assert with_ids.split() == without.split()


def test_keep_all_of_libsvm_text_is_refused_for_its_reason(run, folder):
    (folder / "l.svm").write_text("1 1:0.5\n-1 1:0.7\n" * 10)
    refused(run, folder, "doubts", "l.svm", "--keep-all", "--out", "l.csv", match="has no names")


@pytest.mark.parametrize("ending", ["csv", "xlsx", "csv.gz"])
def test_empty_rows_are_counted_though_they_are_not_read(run, folder, ending):
    """Of a CSV file with empty lines before, between and behind its rows, and of a workbook."""
    columns = some(90)
    columns["note"] = ["two\n\nlines", *["x"] * 89]
    frame = pd.DataFrame(columns)
    frame.loc[50, ["a", "y"]] = [9.0, "no"]  # wrong: it lies among those of "yes"
    if ending == "xlsx":
        import openpyxl

        rows = [frame.columns.tolist(), *frame.to_numpy().tolist()]
        book = openpyxl.Workbook()
        for row in [[], *rows[:10], [], [], *rows[10:], []]:
            book.active.append(row)
        book.save("t.xlsx")
    else:
        words = frame.to_csv(index=False).splitlines(keepends=True)
        text = "".join(["\n", *words[:12], "\r\n", "\n", *words[12:], "\n"])
        content = text.encode("utf-16")
        (folder / f"t.{ending}").write_bytes(gzip.compress(content) if "gz" in ending else content)
    given = "doubts", f"t.{ending}", "--target", "y"
    found = json.loads(run(*given, "--json", "--drop", "note"))["doubtful"]
    wrong = 50 + 2 + 3  # places count from 0, rows from 2, and three are empty
    assert wrong in [row["row"] for row in found]
    run(*given, "--stream", "--out", "d.csv", "--drop", "note")
    streamed = pd.read_csv("d.csv").set_index("row")
    assert streamed.loc[wrong, "label"] == "no"
    assert set(streamed.index[streamed["doubtful"]]) == {row["row"] for row in found}
    assert streamed.index.max() == 89 + 2 + 3


def test_errors_name_rows_as_they_are_shown_beside_empty_ones(run, folder):
    columns = some(60)
    columns["w"] = np.where(np.arange(60) == 40, -1, 1)
    words = pd.DataFrame(columns).to_csv(index=False).splitlines(keepends=True)
    (folder / "t.csv").write_text("".join([*words[:5], "\n", "\n", *words[5:]]))
    for stream in ("--stream", "--no-stream"):
        given = "train", "t.csv", "--target", "y", "--weight", "w", stream
        refused(run, folder, *given, match=r"holds -1 in row 44;")
