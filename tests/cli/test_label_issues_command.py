"""``fuzzytwin label-issues``: the table of doubts, the page, and what is refused."""

import gzip
import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from fuzzytwin.label_issues._report import COLUMNS
from tests.cli.helpers import QUICK, some, table


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
    out = run("label-issues", data, "--target", "diagnosis", "--id", "patient", "--out", "d.csv")
    assert re.search(r"\d+ label issues in 568 rows. About \d+ labels are wrong \(95%", out)
    assert "1 row without a label, not used" in out
    assert "the column names are row 1" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    found = pd.read_csv("d.csv")
    assert list(found) == ["row", "patient", *COLUMNS]
    assert len(found) == 568
    assert found["rank"].tolist() == list(range(1, 569))
    assert found["label_quality"].is_monotonic_increasing
    # Rows as a spreadsheet shows them; names that look like formulas are guarded.
    place = found["row"].to_numpy() - 2
    assert found["patient"].str.removeprefix("'").tolist() == frame["patient"][place].tolist()
    assert found["patient"].str.startswith("'=").all()
    assert found["given_label"].tolist() == frame["diagnosis"][place].tolist()
    flagged = place[found["is_label_issue"]]
    assert np.isin(wrong, flagged).mean() > 0.85
    assert np.isin(flagged, wrong).mean() > 0.75
    changed = found["suggested_label"] != found["given_label"]
    assert (found["label_quality"][changed] <= 0.2).all()  # another label has at least 0.8


def test_the_page(run, folder, data):
    out = run("label-issues", data, "--target", "diagnosis", "--report", "r.html", "--limit", "3")
    assert "Report: r.html" in out
    assert re.search(r"and \d+ more", out)
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "Number of label issues" in page
    assert "numbered as in a spreadsheet" in page
    assert re.search(
        r"Row \d+ .*: labelled (benign|malignant), (worth a look|\w+ is suggested)", page
    )
    assert "typical benign" in page
    assert "data:image/png" in page
    assert not re.search(r"(src|href)=.?https?:", page)


def test_json_and_other_files(run, folder, cancer, data):
    words = ("--target", "diagnosis", "--id", "patient", "--json")
    found = json.loads(run("label-issues", data, *words))
    assert found["n_label_issues"] == len(found["label_issues"])
    assert found["n_errors_interval"][0] < 40 < found["n_errors_interval"][1]
    assert found["classes"] == ["benign", "malignant"]
    np.testing.assert_allclose(np.sum(found["noise_matrix"], axis=1), 1)
    assert {"row", "patient", *COLUMNS} - {"is_label_issue"} == set(found["label_issues"][0])
    cancer[0].to_parquet("t.parquet")
    same = json.loads(run("label-issues", "t.parquet", *words, "--out", "d.parquet"))
    rows = [entry["row"] for entry in found["label_issues"]]
    assert [entry["row"] + 1 for entry in same["label_issues"]] == rows  # counted from 1
    written = pd.read_parquet("d.parquet")
    assert written["patient"].iloc[0].startswith("=P")


def test_labels_of_any_kind_and_many_classes(run, folder):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 300)
    given = y.copy()
    given[:20] = (given[:20] + 1) % 5
    table("t.csv", a=8 * np.cos(y) + rng.normal(size=300), b=8 * np.sin(y), y=given)
    found = json.loads(run("label-issues", "t.csv", "--target", "y", "--json"))
    assert sorted(entry["row"] for entry in found["label_issues"]) == list(range(2, 22))
    assert [entry["suggested_label"] for entry in found["label_issues"]] == [
        y[entry["row"] - 2] for entry in found["label_issues"]
    ]


def test_a_column_of_names_that_is_called_row(run, folder):
    columns = some()
    table("t.csv", **columns, row=[f"n{i}" for i in range(60)])
    run("label-issues", "t.csv", "--target", "y", "--id", "row", "--out", "d.csv")
    found = pd.read_csv("d.csv")
    assert list(found)[:3] == ["row", "id", "given_label"]
    assert [f"n{row - 2}" for row in found["row"]] == found["id"].tolist()


def test_the_report_of_train_has_the_same_doubts(run, folder, data):
    run("train", data, "--target", "diagnosis", "--id", "patient", *QUICK, "--report",
        "r.html")  # fmt: skip
    page = (folder / "r.html").read_text(encoding="utf-8")
    found = json.loads(
        run("label-issues", data, "--target", "diagnosis", "--id", "patient", "--json")
    )
    assert f"{found['n_label_issues']} label issues in 568 rows" in page
    rows = re.findall(r"<tr><th>(\d+)</th><td class=\"words\">=P\d+", page)
    assert [int(row) for row in rows] == [entry["row"] for entry in found["label_issues"][:10]]


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
    run("train", "t.csv", "--target", "y", "--groups", "patient", *QUICK, "--report",
        "r.html")  # fmt: skip
    page = (folder / "r.html").read_text(encoding="utf-8")
    listed = [int(row) for row in re.findall(r"<tr><th>(\d+)</th><td class=\"words\">", page)]
    assert np.mean([(row - 2) // 4 < 5 for row in listed]) > 0.7


def test_what_is_refused(run, folder, refused, data):
    refused("label-issues", data, match="missing --target: .* of t.csv")
    refused("label-issues", data, "--target", "dx", match="no column 'dx'")
    refused("label-issues", "no.csv", "--target", "y", match="no.csv")
    words = ("label-issues", data, "--target", "diagnosis")
    refused(*words, "--id", "name", match="no column 'name'")
    refused(*words, "--out", "d.txt", match="'d.txt' has an unknown ending; valid ones")
    refused(*words, "--out", "t.csv", match="t.csv is the input file; choose another")
    refused(*words, "--out", "x/d.csv", match="directory not found: x")
    (folder / "d.csv").write_text("kept")
    refused(*words, "--out", "d.csv", match="d.csv already exists; .*--force")
    refused(*words, "--report", "d.csv", "--out", "d.csv", match="are both d.csv")
    run(*words, "--out", "d.csv", "--force")
    table("one.csv", a=[1.5, 1.5, 2.5, 3.5], y=["x"] * 4)
    refused("label-issues", "one.csv", "--target", "y", match="one class|only 'x'|one value")


def test_files_larger_than_memory_are_judged_in_batches(run, folder, refused, cancer):
    frame, _ = cancer
    frame = frame.drop(columns="town").drop(index=[2, 5])
    for part in range(2):
        frame[part * 300 : part * 300 + 300].to_parquet(folder / f"part-{part}.parquet")
    files = [f"part-{part}.parquet" for part in range(2)]
    options = ("--target", "diagnosis", "--id", "patient", "--out", "found.parquet")
    page = json.loads(run("label-issues", *files, *options, "--stream", "--json"))
    written = pd.read_parquet(folder / "found.parquet")
    assert list(written) == ["row", "patient", *COLUMNS]
    assert list(written.sort_values("row")["patient"]) == list(frame["patient"])
    assert page["n_label_issues"] == written["is_label_issue"].sum() > 10
    assert (page["rows"], len(page["label_issues"])) == (567, page["n_label_issues"])
    said = run("label-issues", *files, *options, "--stream", "--force")
    assert f"{page['n_label_issues']} label issues in 567 rows" in said
    refused("label-issues", files[0], "--stream", "--out", "new.csv",
        match="missing --target",
    )  # fmt: skip
    run("label-issues", *files, *options[:-1], "whole.parquet")  # several files, in memory
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "whole.parquet"), written)
    for option in (("--votes", "x"), ("--groups", "x"), ("--keep-all",), ("--report", "r.html")):
        words = ("label-issues", *files, *options, "--stream", *option)
        refused(*words, match=f"{option[0]} cannot be combined with --stream")
    words = ("label-issues", *files, "--target", "diagnosis", "--stream", "--force", "--out")
    refused(*words, files[1], match="part-1.parquet is the input file; choose another")


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


STREAMED = ("csv", "parquet", "xlsx")
OPTIONS = ((), ("--numeric", "day", "--id", "who"), ("--weight", "w"))


@pytest.mark.parametrize(
    ("ending", "more"),
    [
        pytest.param(ending, more, marks=() if i == j else pytest.mark.slow)
        for i, ending in enumerate(STREAMED)
        for j, more in enumerate(OPTIONS)
    ],
)
def test_streams_give_the_same_doubts_as_rows_in_memory(run, monkeypatch, ending, more):
    if ending == "csv":
        mixed().to_csv("t.csv", sep=";", decimal=",", index=False)
    else:
        getattr(mixed(), "to_excel" if ending == "xlsx" else "to_parquet")(f"t.{ending}")
    monkeypatch.setattr("fuzzytwin.tables._formats.BATCH_ROWS", 64)
    words = ("label-issues", f"t.{ending}", "--target", "label", "--json", *more)
    whole = json.loads(run(*words, "--out", "whole.parquet"))
    streamed = json.loads(run(*words, "--out", "streamed.parquet", "--stream"))
    pd.testing.assert_frame_equal(
        pd.read_parquet("streamed.parquet"), pd.read_parquet("whole.parquet"), rtol=0, atol=1e-6
    )
    assert whole["n_label_issues"] > 5
    for name in ("rows", "n_label_issues", "notes"):
        assert streamed[name] == whole[name]
    for name in ("n_errors", "n_errors_interval", "noise_matrix"):
        np.testing.assert_allclose(streamed[name], whole[name], rtol=1e-6)


def test_streams_of_parts_give_the_doubts_of_the_whole(run, folder):
    """Of files in folders that hold a column, and of one whose first rows have one class only."""
    frame = mixed().drop(columns=["who", "day"]).dropna(subset=["label"])
    frame = frame.sort_values("town", kind="stable", na_position="first", ignore_index=True)
    frame = frame.drop(columns="w").fillna({"town": "Kiel"})
    frame.to_parquet("t", partition_cols=["town"])
    parts = [frame[frame["town"] == town] for town in ("Kiel", "Oslo", "Rom")]
    pd.concat(parts)[["a", "code", "label", "town"]].to_csv("t.csv", index=False)
    run("label-issues", "t.csv", "--target", "label", "--out", "whole.csv")
    run("label-issues", "t", "--target", "label", "--out", "parts.csv", "--stream")
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
    run("label-issues", "t.parquet", "--target", "label", "--out", "whole.csv")
    run("label-issues", "t", "--target", "label", "--out", "parts.csv", "--stream")
    assert (folder / "parts.csv").read_text() == (folder / "whole.csv").read_text()


def test_votes_of_annotators_take_the_place_of_a_target(run, folder, refused):
    rng = np.random.default_rng(0)
    a = rng.normal(size=200)
    votes = {}
    for name, share in (("ann_1", 0.05), ("ann_2", 0.2), ("ann_3", 0.4)):
        given = np.where(rng.random(200) < share, a < 0, a > 0)
        votes[name] = np.where(rng.random(200) < 0.2, "-1", np.where(given, "yes", "no"))
    table("v.csv", a=a, b=rng.normal(size=200), **votes)
    out = run("label-issues", "v.csv", "--votes", "ann_*", "--out", "d.csv")
    assert "Rows to label again first" in out
    right = [int(part) for part in re.findall(r"ann_\d +(\d+)%", out)]
    assert right == sorted(right, reverse=True)
    found = pd.read_csv(folder / "d.csv")
    truth = np.where(a[found["row"] - 2] > 0, "yes", "no")
    assert (found["suggested_label"] == truth).mean() > 0.9
    refused("label-issues", "v.csv", "--votes", "xyz_*", match="needs at least two")


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
    given = "label-issues", f"v.{ending}", "--votes", "ann_*", "--json"
    found = json.loads(run(*given, "--drop", "gold"))
    assert found["classes"] == ["0", "1"]
    assert found["n_label_issues"] < 10
    together = json.loads(run(*given, "--target", "gold"))
    assert together["classes"] == ["0", "1"]
    assert together["rows"] == 120
    assert together["n_label_issues"] == 0


def test_truth_values_of_votes_and_target_may_be_spelled_differently(run):
    columns, y, votes = voted()
    words = {name: np.where(vote, "true", "false") for name, vote in votes.items()}
    table("v.csv", **columns, **words, gold=np.where(y, "TRUE", "FALSE"))
    found = json.loads(
        run("label-issues", "v.csv", "--votes", "ann_*", "--target", "gold", "--json")
    )
    assert found["classes"] == ["false", "true"]
    assert found["n_label_issues"] < 5


def test_it_is_asked_whether_minus_one_is_a_label_or_no_vote(refused):
    columns, _, votes = voted()
    table("v.csv", **columns, **{name: 2 * vote - 1 for name, vote in votes.items()})
    refused("label-issues", "v.csv", "--votes", "ann_*", match="-1 could be a label or")


def test_rows_that_have_a_label_need_no_vote(run):
    columns, y, votes = voted()
    words = {name: np.where(np.arange(120) == 5, "", vote) for name, vote in votes.items()}
    table("v.csv", **columns, **words, gold=y)
    found = json.loads(
        run("label-issues", "v.csv", "--votes", "ann_*", "--target", "gold", "--json")
    )
    assert found["rows"] == 120


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_what_doubts_wrote_is_never_learned_from(run, stream):
    table("t.csv", **some(100))
    run("label-issues", "t.csv", "--target", "y", "--keep-all", "--out", "d.csv")
    once, twice = (
        json.loads(run("label-issues", file, "--target", "y", "--json"))
        for file in ("t.csv", "d.csv")
    )
    assert twice["n_errors"] == pytest.approx(once["n_errors"], rel=1e-6)
    facts = json.loads(run("train", "d.csv", "--target", "y", stream, "--json", *QUICK))
    used = [c["name"] for c in facts["schema"]["columns"] if c["kind"] == "number"]
    assert used == ["a", "b"]
    facts = json.loads(
        run("train", "d.csv", "--target", "y", "--numeric", "rank", stream, "--json", "--force",
            *QUICK)
    )  # fmt: skip
    used = [c["name"] for c in facts["schema"]["columns"] if c["kind"] == "number"]
    assert used == ["a", "b", "rank"]  # what a user says comes first


def test_what_doubts_wrote_twice_is_not_learned_from_either(run):
    table("t.csv", **some(100))
    run("label-issues", "t.csv", "--target", "y", "--keep-all", "--out", "d.csv")
    run("label-issues", "d.csv", "--target", "y", "--keep-all", "--out", "e.csv")
    facts = json.loads(run("train", "e.csv", "--target", "y", "--json", *QUICK))
    kinds = {column["name"]: column["kind"] for column in facts["schema"]["columns"]}
    assert [name for name, kind in kinds.items() if kind != "dropped"] == ["a", "b"]


def test_rows_to_ask_about_again_are_numbered_whatever_their_ids(run):
    columns, _, votes = voted()
    ids = np.random.default_rng(0).permutation(len(columns["a"]))
    table("v.csv", patient=ids, **columns, **votes)
    said = [
        run("label-issues", "v.csv", "--votes", "ann_*", *words)
        for words in (("--id", "patient"), ("--drop", "patient"))
    ]
    with_ids, without = (re.search(r"label again first: ([\d,\s]+)\.", text)[1] for text in said)
    assert with_ids.split() == without.split()


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
    given = "label-issues", f"t.{ending}", "--target", "y"
    found = json.loads(run(*given, "--json", "--drop", "note"))["label_issues"]
    wrong = 50 + 2 + 3  # places count from 0, rows from 2, and three are empty
    assert wrong in [row["row"] for row in found]
    run(*given, "--stream", "--out", "d.csv", "--drop", "note")
    streamed = pd.read_csv("d.csv").set_index("row")
    assert streamed.loc[wrong, "given_label"] == "no"
    assert set(streamed.index[streamed["is_label_issue"]]) == {row["row"] for row in found}
    assert streamed.index.max() == 89 + 2 + 3


def test_errors_name_rows_as_they_are_shown_beside_empty_ones(folder, refused):
    columns = some(60)
    columns["w"] = np.where(np.arange(60) == 40, -1, 1)
    words = pd.DataFrame(columns).to_csv(index=False).splitlines(keepends=True)
    (folder / "t.csv").write_text("".join([*words[:5], "\n", "\n", *words[5:]]))
    for stream in ("--stream", "--no-stream"):
        given = "train", "t.csv", "--target", "y", "--weight", "w", stream
        refused(*given, match=r"holds -1 in row 44;")


@pytest.mark.parametrize("how", ["--no-stream", "--stream"])
def test_overlap_is_no_error_of_observed_outcomes(run, refused, how):
    rng = np.random.default_rng(0)
    died = rng.random(400) < 0.3
    frame = pd.DataFrame(rng.normal(size=(400, 3)) + 1.2 * died[:, None], columns=list("abc"))
    frame.assign(died=np.where(died, "yes", "no")).to_csv("t.csv", index=False)
    command = ("label-issues", "t.csv", "--target", "died", how, "--json", "--labels")
    n_errors = {
        labels: json.loads(run(*command, labels))["n_errors"]
        for labels in ("auto", "annotated", "observed")
    }
    assert n_errors["observed"] < n_errors["auto"] < 0.5 * n_errors["annotated"]
    refused(*command, "seen", match="'seen' is not one of auto, annotated, observed")


def test_outcomes_are_hinted_at_if_overlap_may_explain_the_label_issues(run, folder):
    rng = np.random.default_rng(0)
    died = np.arange(600) < 60
    frame = pd.DataFrame(rng.normal(size=(600, 3)) + 0.8 * died[:, None], columns=list("abc"))
    frame.assign(died=np.where(died, "yes", "no")).to_csv("t.csv", index=False)
    command = ("label-issues", "t.csv", "--target", "died", "--labels")
    assert "Most rows with the label yes" not in run(*command, "auto")
    assert "Most rows with the label yes" in run(*command, "annotated")
    assert "label-issues --labels observed" in " ".join(run(*command, "auto").split())
    assert "label-issues --labels observed" not in " ".join(run(*command, "annotated").split())
