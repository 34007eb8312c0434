"""The command compare: on one table, on several, with groups, and what it refuses."""

import json

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold
from sklearn.tree import DecisionTreeClassifier

from fuzzytwin.apps import rivals
from fuzzytwin.apps.study import splitter
from fuzzytwin.apps.table_rows import Settings
from tests.cli.helpers import refused, some, table


@pytest.fixture
def cheap(monkeypatch):
    """Other classifiers, which cost nothing; the first is better than all others."""

    def made(settings):
        models = {
            name: DummyClassifier(strategy="stratified", random_state=i)
            for i, name in enumerate(rivals.NAMES)
        }
        models["FTC"] = DecisionTreeClassifier()
        cv = splitter(settings, 2)
        return {name: GridSearchCV(model, {}, cv=cv) for name, model in models.items()}

    monkeypatch.setattr(rivals, "classifiers", made)


@pytest.mark.slow
def test_every_classifier_runs(run):
    table("t.csv", **some(40))
    told = json.loads(run("compare", "t.csv", "--target", "y", "--folds", 2, "--repeats", 1,
                          "--scoring", "balanced_accuracy", "--json"))  # fmt: skip
    assert set(told["means"]) == set(rivals.NAMES.values())
    assert {"RandomForest", "HistGradientBoosting"} < set(told["means"])
    assert all(len(values) == 2 for values in told["scores"]["t.csv"].values())
    assert all(0.2 < mean <= 1 for mean in told["means"].values())


def test_one_table_is_tested_over_repeated_folds(run, cheap):
    columns = some(60)
    columns["a"] = np.where(columns["y"] == "yes", 1.0, 0.0)
    table("t.csv", **columns)
    out = run("compare", "t.csv", "--target", "y", "--folds", 3)
    assert "11 classifiers on 9 folds of one data set" in out
    assert "FuzzyTwinCommittee is significantly better than" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    told = json.loads(run("compare", "t.csv", "--target", "y", "--folds", 3, "--json"))
    assert told["p"]["FuzzyTwinCommittee"] == 1
    assert told["holm_p"]["GEPSVC"] < 0.05
    scores = told["scores"]["t.csv"]["FTC"]
    assert scores == [1.0] * 9


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
    assert len(told["mean_ranks"]) == 11


def test_groups_stay_in_one_fold(run, monkeypatch, cheap):
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
    assert len(seen) == 9 + 9 * 11 * 2  # the inner folds of each classifier too
    assert not any(seen)


def test_rivals_may_weigh_the_classes_where_the_score_does():
    """A rare class: with balanced accuracy as the score, no rival is left to predict one label."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), np.repeat(["no", "yes"], [375, 25])
    X[y == "yes", 0] += 1.5
    fair = rivals.classifiers(Settings("y", scoring="balanced_accuracy"))
    for name in ("logit", "SVC", "rbf", "forest", "boost", "LST"):
        assert fair[name].param_grid["class_weight"] == [None, "balanced"], name
    plain = rivals.classifiers(Settings("y"))
    assert "class_weight" not in plain["SVC"].param_grid
    found = fair["SVC"].set_params(param_grid={"C": [1.0], "class_weight": [None, "balanced"]})
    assert balanced_accuracy_score(y, found.fit(X, y).predict(X)) > 0.7
    assert fair["FTC"].class_weight == "balanced"


@pytest.fixture
def cheap_without_probabilities(monkeypatch):
    """Trees, and ridges in the places of classifiers without probabilities."""

    def made(settings):
        models = {name: DecisionTreeClassifier(max_depth=2) for name in rivals.NAMES}
        models |= {name: RidgeClassifier() for name in ("PSVM", "SVC", "rbf")}
        cv = splitter(settings, 2)
        scoring = settings.scoring
        return {name: GridSearchCV(one, {}, cv=cv, scoring=scoring) for name, one in models.items()}

    monkeypatch.setattr(rivals, "classifiers", made)


def test_classifiers_without_probabilities_are_named_and_left_out(run, cheap_without_probabilities):
    for seed in range(2):
        table(f"t{seed}.csv", **some(40, seed))
    words = ("--target", "y", "--folds", 2, "--scoring", "neg_log_loss")
    for tables in (("t0.csv",), ("t0.csv", "t1.csv")):
        out = " ".join(run("compare", *tables, *words).split())
        assert "a bug" not in out
        named = "ProximalSVC; LinearSVC; SVC, Gaussian kernel."
        assert f"Left out, as --scoring neg_log_loss needs probabilities: {named}" in out
        told = json.loads(run("compare", *tables, *words, "--json"))
        assert told["left_out"] == ["ProximalSVC", "LinearSVC", "SVC, Gaussian kernel"]
        assert set(told["scores"]["t0.csv"]) == set(rivals.NAMES) - {"PSVM", "SVC", "rbf"}
        values = [value for scores in told["scores"]["t0.csv"].values() for value in scores]
        assert np.isfinite(values).all()


def test_which_classifiers_have_no_probabilities():
    assert rivals.without_response(Settings("y", scoring="neg_log_loss")) == ["PSVM", "SVC", "rbf"]
    for scoring in (None, "balanced_accuracy", "roc_auc"):
        assert rivals.without_response(Settings("y", scoring=scoring)) == []


def test_what_cannot_be_compared(run, folder):
    table("t.csv", **some(40))
    words = ("compare", "t.csv", "--target", "y")
    refused(run, folder, *words, "--target", "a", match="2 targets")
    refused(run, folder, *words, "--diagram", "cd.png", match="two tables")
    refused(run, folder, *words, "--scoring", "acuracy", match="'acuracy' is unknown")
    refused(run, folder, *words, "--scoring", "f1", match="--scoring f1 has no value on t.csv")
    refused(run, folder, *words, "--folds", "30", match="fewer than --folds 30; give at most 1")
    few = {name: np.asarray(values)[:9] for name, values in some(40).items()}
    words = ("compare", table("few.csv", **few), "--target", "y")
    refused(run, folder, *words, match="smallest class of few.csv has 3 rows; comparing needs 6")
