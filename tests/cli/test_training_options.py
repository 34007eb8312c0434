"""What train and evaluate measure, and the options that change how they learn."""

import io
import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import StratifiedGroupKFold

from fuzzytwin import store
from tests.cli.helpers import QUICK, some, table


def rare(n=600, seed=0, share=0.03, shift=1.2):
    """One class of two is rare, and overlaps with the other."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return {
        "a": rng.normal(shift * y, 1.0, n),
        "b": rng.normal(0, 1, n),
        "name": [f"row {i}" for i in range(n)],
        "y": np.where(y, "rare", "usual"),
    }


def patients(n=40, visits=4, seed=0, traits=20):
    """Repeated rows of patients, whose labels belong to the patient, as do some of the columns."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n), visits)
    label = rng.permutation(np.arange(n) % 2)
    return {
        **{f"trait{j}": rng.normal(size=n)[who] for j in range(traits)},
        "patient": [f"P{i}" for i in who],
        "y": np.where(label[who], "ill", "well"),
    }


def test_marks_for_missing_values_are_kept_with_the_model(run, folder):
    columns = some(120)
    columns["land"] = np.where(columns["y"] == "yes", "NA", "DE")
    columns["c"] = np.where(np.arange(120) % 9, np.arange(120) + 0.5, -999)
    table("t.csv", **columns)
    words = ("train", "t.csv", "--target", "y", *QUICK, "--json", "--force")
    marked = json.loads(run(*words, "--missing", "-999", "--keep-na"))["schema"]["columns"]
    columns = {column["name"]: column for column in marked}
    assert columns["land"]["categories"] == ["DE", "NA"]
    assert columns["c"]["missing"] == 14
    predicted = run("predict", "t.skops", "t.csv")
    assert "no,0.9" in predicted
    usual = json.loads(run(*words))["schema"]["columns"]
    assert {column["name"]: column["missing"] for column in usual}["c"] == 0
    streamed = json.loads(run(*words, "--missing", "-999", "--keep-na", "--stream"))
    assert streamed["schema"]["columns"] == marked


def test_marks_for_missing_values_add_to_the_usual_ones(run):
    columns = some(120)
    columns["land"] = np.where(np.arange(120) % 4, np.where(columns["y"] == "yes", "A", "B"), "NA")
    columns["c"] = np.where(np.arange(120) % 9, np.arange(120) + 0.5, -999)
    table("t.csv", **columns)
    facts = json.loads(
        run("train", "t.csv", "--target", "y", *QUICK, "--json", "--missing", "-999")
    )
    missing = {column["name"]: column["missing"] for column in facts["schema"]["columns"]}
    assert missing == {"a": 0, "b": 0, "land": 30, "c": 14}
    table("new.csv", **{**columns, "a": np.where(np.arange(120) == 5, -1, columns["a"])})
    plain, marked = (
        pd.read_csv(io.StringIO(run("predict", "t.skops", "new.csv", *words)))
        for words in ([], ["--missing", "-1"])
    )
    different = (plain != marked).any(axis=1)
    assert np.flatnonzero(different).tolist() == [5]  # marks of the model still count


def test_balanced_accuracy_leads_with_its_interval(run, folder):
    data = table("t.csv", **rare())
    out = run("train", data, "--target", "y", *QUICK, "--report", "r.html")
    first = re.search(r"balanced accuracy (0\.\d+) \((0\.\d+) to (0\.\d+)\), accuracy 0\.9", out)
    low, high = float(first[2]), float(first[3])
    assert low < float(first[1]) < high
    assert "clearly better" not in out
    recall = r"but the recall of class rare is only 0\.\d+ \(0\.\d+ to 0\.\d+\)"
    said = f"{recall}|no better than guessing"
    assert re.search(f"{said}|never finds class rare", " ".join(out.split()))
    for head in ("sensitivity (95%)", "specificity", "precision", "AUC", "avg."):
        assert head in out
    page = (folder / "r.html").read_text(encoding="utf-8")
    body = page.split("<main>")[1]
    large = re.findall(r"<div><b>([\d.]+)</b><span>([^<]+)</span>", body)
    assert large[0][1] == "balanced accuracy"
    assert float(large[0][0]) == pytest.approx(float(first[1]))
    assert [name for _, name in large][1:3] == ["ROC AUC", "accuracy"]
    assert large[4][1] == "average precision of class rare"
    assert 'class="warning"' in body


def test_evaluate_gives_every_measure(run):
    data = table("t.csv", **rare())
    run("train", data, "--target", "y", *QUICK)
    told = json.loads(run("evaluate", "t.skops", data, "--json"))
    by = {entry["class"]: entry for entry in told["per_class"]}
    for label, other in (("rare", "usual"), ("usual", "rare")):
        assert by[label]["sensitivity"] == pytest.approx(by[other]["specificity"])
        low, high = by[label]["sensitivity_interval"]
        assert 0 <= low <= by[label]["sensitivity"] <= high <= 1
        assert 0 < by[label]["roc_auc"] <= 1
        assert 0 < by[label]["average_precision"] <= 1
    out = run("evaluate", "t.skops", data)
    assert "sensitivity" in out
    assert "log loss" in out
    assert max(map(len, out.splitlines())) <= 80


def test_class_weights_find_the_rare_class(run):
    data = table("t.csv", **rare())
    words = ("train", data, "--target", "y", *QUICK, "--json", "--force")

    def found(*more):
        told = json.loads(run(*words, *more))
        by = {entry["class"]: entry["sensitivity"] for entry in told["score"]["per_class"]}
        return told, by["rare"]

    plain, few = found()
    assert "class_weight" not in plain["parameters"]
    balanced, many = found("--class-weight", "balanced")
    assert balanced["parameters"]["class_weight"] == "balanced"
    assert many > few + 0.3
    heavy, more = found("--class-weight", "rare=30")
    assert heavy["parameters"]["class_weight"] == {"rare": 30.0}
    assert store.load("t.skops")[-1].class_weight == {"rare": 30.0, "usual": 1.0}
    assert more > few + 0.3


def test_class_weights_of_numbered_classes(run, refused):
    columns = some()
    columns["y"] = np.where(columns["y"] == "yes", 1, 0)
    data = table("t.csv", **columns)
    words = ("train", data, "--target", "y", *QUICK, "--force")
    run(*words, "--class-weight", "1=2", "--class-weight", "0=0.5")
    assert store.load("t.skops")[-1].class_weight == {0: 0.5, 1: 2.0}
    for wrong in ("1", "1=x", "1=-2", "1=0", "1=inf", "=3"):
        match = "names the unknown class ''" if wrong == "=3" else "LABEL=WEIGHT"
        refused(*words, "--class-weight", wrong, match=match)
    refused(*words, "--class-weight", "2=3", match="'2'; the classes are 0, 1")


@pytest.mark.parametrize("given", [("--id", "name"), ()])
def test_doubtful_rows_are_named_and_numbered(run, folder, given):
    columns = rare(share=0.3, shift=5.0)
    wrong = np.r_[[np.flatnonzero(columns["y"] == k)[:6] for k in ("rare", "usual")]].ravel()
    columns["y"][wrong] = np.where(columns["y"][wrong] == "rare", "usual", "rare")
    table("t.csv", **columns)
    run("train", "t.csv", "--target", "y", *given, *QUICK, "--report", "r.html")
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "numbered as in a spreadsheet: the column names are row 1" in page
    lines = re.findall(
        r"<tr><th>([\d,]+)</th><td class=\"words\">row (\d+)</td><td class=\"words\">(\w+)</td>"
        r"<td class=\"words\">([-\w]+)</td>", page,
    )  # fmt: skip
    assert len(lines) == 10  # the most doubtful ones
    for number, name, label, better in lines:
        assert int(number) == int(name) + 2
        assert columns["y"][int(name)] == label
        assert better in ("-", {"rare": "usual", "usual": "rare"}[label])
    assert {label for _, _, label, _ in lines} == {"rare", "usual"}
    frame = pd.DataFrame(columns)
    frame.to_parquet("t.parquet")
    run("train", "t.parquet", "--target", "y", *QUICK, "--report", "p.html", "--force")
    page = (folder / "p.html").read_text(encoding="utf-8")
    assert "Rows are counted from 1." in page


def test_id_is_no_feature_and_may_lack_values(run, refused):
    columns = {**some(), "n": [np.nan, *range(59)]}
    out = run("train", table("t.csv", **columns), "--target", "y", "--id", "n", *QUICK)
    assert not re.search(r"^n ", out, re.M)
    refused("train", "t.csv", "--target", "y", "--id", "z", "--force", match="no column 'z'")


def test_groups_stay_in_one_fold(run, monkeypatch):
    data = table("t.csv", **patients())
    seen = []
    split = StratifiedGroupKFold.split

    def watched(self, X, y=None, groups=None):
        for train, test in split(self, X, y, groups):
            seen.append((len(groups), set(groups[train]) & set(groups[test])))
            yield train, test

    monkeypatch.setattr(StratifiedGroupKFold, "split", watched)
    told = json.loads(run("train", data, "--target", "y", "--groups", "patient", *QUICK, "--json"))
    assert told["groups"] == "patient"
    assert "patient" not in [column["name"] for column in told["schema"]["columns"]]
    assert len(seen) == 2
    assert not any(both for _, both in seen)


def test_groups_change_what_is_measured(run):
    data = table("t.csv", **patients(traits=40))
    words = ("train", data, "--target", "y", "--json", "--force")
    leaky = json.loads(run(*words, "--drop", "patient"))["score"]
    honest = json.loads(run(*words, "--groups", "patient"))["score"]
    assert honest["balanced_accuracy"] < leaky["balanced_accuracy"] - 0.2
    widths = [np.ptp(score["balanced_accuracy_interval"]) for score in (leaky, honest)]
    assert widths[1] > 1.3 * widths[0]
    again = json.loads(run("evaluate", "t.skops", data, "--json"))  # groups as in training
    plain = json.loads(run("evaluate", "t.skops", data, "--groups", "trait0", "--json"))
    assert again["accuracy_interval"] == plain["accuracy_interval"]  # trait0 names patients too


def test_groups_that_cannot_be_kept_apart(refused):
    columns = {**some(), "g": "one"}
    table("t.csv", **columns)
    words = ("train", "t.csv", "--target", "y", "--groups")
    refused(*words, "g", match="occurs in 1 of the groups of 'g'")
    columns["g"] = ["x", None] * 30
    table("t.csv", **columns)
    refused(*words, "g", match="'g' of t.csv has no value in row 3")
    refused(*words, "z", match="no column 'z'")
    refused(*words, "b", "--stream", match="--groups needs all rows in memory")


@pytest.mark.parametrize("rows", [3, 5])
def test_every_class_has_few_rows(run, rows):
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], rows)
    data = table("t.csv", x=rng.normal(size=3 * rows) + 3 * (y == "a"), z=np.arange(3 * rows), y=y)
    out = run("train", data, "--target", "y", "--report", "r.html")
    assert f"{rows}-fold cross-validation" in out


def test_info_on_other_facts(run):
    run("train", table("t.csv", **some()), "--target", "y", *QUICK)
    model = store.load("t.skops")
    for number, metadata in enumerate(
        [{}, {"score": 0.9}, {"score": {"accuracy": 0.9}, "author": "A. [b]uthor"}, {"data": None}]
    ):
        store.save(model, f"m{number}.skops", metadata=metadata)
        out = run("info", f"m{number}.skops")
        assert "saved as" in out
        assert "Pipeline, 20" in out
        assert all(key in out for key in metadata)
    assert "A. [b]uthor" in run("info", "m2.skops")


@pytest.mark.parametrize(
    "name",
    ["$x_{1$", "<b>"]
    + [
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("a`b`c", "[/]", "$a$", "^$$", "**x**", "\\$")
    ],
)
def test_class_names_that_are_markup(run, folder, name):
    columns = some()
    columns["y"] = np.where(columns["y"] == "yes", name, "no")
    data = table("t.csv", **columns)
    out = run("train", data, "--target", "y", *QUICK, "--report", "r.html")
    assert name in out
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert f"predicted {name.replace('<', '&lt;').replace('>', '&gt;')}" in page
    assert page.count("data:image/png") == 4  # three curves, and the label quality
    assert name in run("explain", "t.skops", "--json").replace("\\\\", "\\")


def test_a_page_that_fails_loses_no_model(run, folder, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no page")

    monkeypatch.setattr("fuzzytwin.report._page.model_page", broken)
    words = ("train", table("t.csv", **some()), "--target", "y", *QUICK, "--report", "r.html")
    said = run(*words, code=1)
    assert "no page The model was saved as t.skops." in said
    assert sorted(path.name for path in folder.iterdir()) == ["t.csv", "t.skops"]
    assert store.load("t.skops").predict(pd.DataFrame(some())[["a", "b"]]).shape == (60,)


@pytest.mark.parametrize("report", ["t.skops", "./t.skops", "sub/../t.skops", "link"])
def test_model_and_report_must_differ(folder, refused, report):
    table("t.csv", **some())
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("t.skops")
    words = ("train", "t.csv", "--target", "y", *QUICK, "--force", "--report", report)
    refused(*words, match="--out and --report are both")


def test_the_table_is_never_replaced(refused):
    words = ("train", table("t.csv", **some()), "--target", "y", *QUICK, "--force")
    for option in ("--out", "--report"):
        refused(*words, option, "t.csv", match="t.csv is the input file")


def with_label_errors(n=400):
    columns = some(n)
    columns["a"] = columns["a"] + 3 * (columns["y"] == "yes")
    wrong = np.random.default_rng(5).random(n) < 0.2
    columns["y"] = np.where(wrong, np.where(columns["y"] == "yes", "no", "yes"), columns["y"])
    return columns


@pytest.mark.parametrize(
    "stream", ["--stream", pytest.param("--no-stream", marks=pytest.mark.slow)]
)
def test_label_errors_are_modelled_if_asked_for(run, folder, stream):
    data = table("t.csv", **with_label_errors())
    options = ("--target", "y", "--folds", 2, "--force", stream, "--out", "m.skops")
    assert "label noise" not in run("train", data, *options)
    assert "label noise" in run("train", data, *options, "--noise", "auto")
    model = store.load("m.skops")[-1]
    assert model.noise == "auto"
    assert model.noise_weight_ > 0.5
    assert model.noise_matrix_[0, 1] == pytest.approx(0.2, abs=0.1)
    metadata = json.loads(run("train", data, *options, "--noise", "auto", "--json"))
    assert metadata["parameters"]["noise"] == "auto"
