"""The command compare: on one table, on several, with groups, and what it refuses."""

import json

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold
from sklearn.tree import DecisionTreeClassifier

from fuzzytwin.cli import rivals
from fuzzytwin.tables.training import splitter
from tests.cli.helpers import refused, some, table


@pytest.fixture
def cheap(monkeypatch):
    """Other classifiers, which cost nothing; the first is better than all others."""

    def made(settings):
        models = {
            name: DummyClassifier(strategy="stratified", random_state=i)
            for i, name in enumerate(rivals.NAMES)
        }
        models["FLST"] = DecisionTreeClassifier()
        cv = splitter(settings, 2)
        return {name: GridSearchCV(model, {}, cv=cv) for name, model in models.items()}

    monkeypatch.setattr(rivals, "classifiers", made)


def test_every_classifier_runs(run):
    table("t.csv", **some(40))
    told = json.loads(run("compare", "t.csv", "--target", "y", "--folds", 2, "--repeats", 1,
                          "--scoring", "balanced_accuracy", "--json"))  # fmt: skip
    assert set(told["means"]) == set(rivals.NAMES.values())
    assert {"RandomForest", "HistGradientBoosting"} < set(told["means"])
    assert all(len(values) == 2 for values in told["scores"]["t.csv"].values())
    assert all(0.2 < mean <= 1 for mean in told["means"].values())


def test_issue2_25_one_table_is_tested_over_repeated_folds(run, cheap):
    columns = some(60)
    columns["a"] = np.where(columns["y"] == "yes", 1.0, 0.0)
    table("t.csv", **columns)
    out = run("compare", "t.csv", "--target", "y", "--folds", 5)
    assert "10 classifiers on 15 folds of one data set" in out
    assert "FuzzyTwinSVC is significantly better than" in out
    assert max(map(len, out.splitlines())) <= 80
    told = json.loads(run("compare", "t.csv", "--target", "y", "--folds", 5, "--json"))
    assert told["p"]["FuzzyTwinSVC"] == 1
    assert told["holm_p"]["GEPSVC"] < 0.05
    scores = told["scores"]["t.csv"]["FLST"]
    assert scores == [1.0] * 15


def test_several_tables_are_ranked(run, folder, cheap):
    for seed in range(2):
        table(f"t{seed}.csv", **some(40, seed))
    words = ("--target", "y", "--folds", 2, "--diagram", "cd.png")
    out = run("compare", "t0.csv", "t1.csv", *words)
    assert "mean rank" in out
    assert "Friedman" in out
    assert "..." not in out.split("Friedman")[0]
    assert max(map(len, out.splitlines())) <= 80
    assert (folder / "cd.png").read_bytes().startswith(b"\x89PNG")
    told = json.loads(run("compare", "t0.csv", "t1.csv", "--target", "y", "--folds", 2, "--json"))
    assert len(told["mean_ranks"]) == 10


def test_issue2_25_groups_stay_in_one_fold(run, monkeypatch, cheap):
    columns = {**some(60), "patient": np.repeat(np.arange(20), 3)}
    columns["y"] = np.repeat(np.where(np.arange(20) % 2, "yes", "no"), 3)
    table("t.csv", **columns)
    seen = []
    split = StratifiedGroupKFold.split

    def watched(self, X, y=None, groups=None):
        for train, test in split(self, X, y, groups):
            seen.append(set(groups[train]) & set(groups[test]))
            yield train, test

    monkeypatch.setattr(StratifiedGroupKFold, "split", watched)
    out = run("compare", "t.csv", "--target", "y", "--groups", "patient", "--folds", 3)
    assert "9 folds" in out
    assert len(seen) == 9 + 9 * 10 * 2  # the inner folds of each classifier too
    assert not any(seen)


def test_what_cannot_be_compared(run, folder):
    table("t.csv", **some(40))
    words = ("compare", "t.csv", "--target", "y")
    refused(run, folder, *words, "--target", "a", match="2 targets")
    refused(run, folder, *words, "--diagram", "cd.png", match="two tables")
    refused(run, folder, *words, "--scoring", "acuracy", match="'acuracy' is unknown")
    refused(run, folder, *words, "--folds", "30", match="fewer than --folds 30; give at most 1")
    few = {name: np.asarray(values)[:9] for name, values in some(40).items()}
    words = ("compare", table("few.csv", **few), "--target", "y")
    refused(run, folder, *words, match="smallest class of few.csv has 3 rows; comparing needs 6")
