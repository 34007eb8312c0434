"""``predict --coverage``."""

import json

import pandas as pd
from sklearn.pipeline import make_pipeline

from fuzzytwin import FuzzyTwinSVC, store
from fuzzytwin.tables import TablePreprocessor
from tests.cli.helpers import QUICK, some, table


def test_sets_beside_labels(run, folder):
    rows = some(200)
    table("rows.csv", **rows)
    run("train", "rows.csv", "--target", "y", *QUICK, "--out", "model.skops")
    run("predict", "model.skops", "rows.csv", "--coverage", "0.9", "--out", "out.csv")
    out = pd.read_csv("out.csv", keep_default_na=False)
    assert list(out.columns) == ["label", "set", "probability_no", "probability_yes"]
    members = [set(text.split("|")) - {""} for text in out["set"]]
    assert all(found <= {"no", "yes"} for found in members)
    covered = sum(label in found for label, found in zip(rows["y"], members, strict=True))
    assert 0.85 <= covered / 200 <= 0.97
    greatest = out["probability_yes"] > out["probability_no"]
    assert (greatest == (out["label"] == "yes")).all()


def test_what_sets_need(refused):
    data = table("rows.csv", **some())
    frame = pd.read_csv(data)
    plain = make_pipeline(TablePreprocessor(), FuzzyTwinSVC()).fit(frame[["a", "b"]], frame["y"])
    store.save(plain, "plain.skops")
    coverage = "predict", "plain.skops", "rows.csv", "--coverage"
    refused(*coverage, "0.9", match="use train, or .* calibration='loo'")
    refused(*coverage, "1.5", match="between 0 and 1")


def test_sets_that_are_empty_or_lack_the_label_are_explained(run, folder):
    rows = some(200)
    table("rows.csv", **rows)
    run("train", "rows.csv", "--target", "y", *QUICK, "--out", "model.skops")
    asked = "predict", "model.skops", "rows.csv", "--coverage", "0.3", "--out", "out.csv"
    for by_class in ("--no-class-conditional", "--class-conditional"):
        notes = json.loads(run(*asked, by_class, "--force", "--json"))["notes"]
        said = " ".join(notes)
        out = pd.read_csv("out.csv", keep_default_na=False)
        empty = int((out["set"] == "").sum())
        members = zip(out["label"], out["set"], strict=True)
        lacking = sum(text != "" and label not in text.split("|") for label, text in members)
        assert empty > 0
        assert f"{empty} prediction sets are empty: the row is unlike every class" in said
        assert ("the predicted label" in said) == (lacking > 0)
