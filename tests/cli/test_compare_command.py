"""The command compare: repeated folds, groups, and what it refuses."""

import json

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold
from sklearn.tree import DecisionTreeClassifier

from fuzzytwin.cli import _baselines as baselines
from fuzzytwin.experiment._estimators import splitter
from fuzzytwin.experiment._rows import Settings
from tests.cli.helpers import refused, some, table


@pytest.fixture
def cheap(monkeypatch):
    """Other classifiers, which cost nothing; the first is better than all others."""
    names = list(baselines.classifiers(Settings("y")))

    def made(settings):
        models = {
            name: DummyClassifier(strategy="stratified", random_state=i)
            for i, name in enumerate(names)
        }
        models[baselines.CONTROL] = DecisionTreeClassifier()
        cv = splitter(settings, 2)
        return {name: GridSearchCV(model, {}, cv=cv) for name, model in models.items()}

    monkeypatch.setattr(baselines, "classifiers", made)


@pytest.mark.slow
def test_every_classifier_runs(run):
    table("t.csv", **some(40))
    told = json.loads(run("compare", "t.csv", "--target", "y", "--folds", 2, "--repeats", 1,
                          "--scoring", "balanced_accuracy", "--json"))  # fmt: skip
    assert set(told["differences"]) == set(baselines.classifiers(Settings("y")))
    assert {"RandomForest", "HistGradientBoosting"} < set(told["differences"])
    assert all(len(values) == 2 for values in told["scores"].values())
    assert all(0.2 < found["mean"] <= 1 for found in told["differences"].values())


def test_repeated_folds_are_tested(run, cheap):
    columns = some(60)
    columns["a"] = np.where(columns["y"] == "yes", 1.0, 0.0)
    table("t.csv", **columns)
    out = run("compare", "t.csv", "--target", "y", "--folds", 3)
    assert "accuracy in 3 x 3 folds" in out
    assert "FuzzyTwinCommittee is significantly better than" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    told = json.loads(run("compare", "t.csv", "--target", "y", "--folds", 3, "--json"))
    assert told["differences"]["FuzzyTwinCommittee"]["p"] == 1
    assert told["differences"]["GEPSVC"]["holm_p"] < 0.05
    assert told["scores"]["FuzzyTwinCommittee"] == [1.0] * 9


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
    assert "3 x 3 folds" in out
    assert len(seen) == 9 + 9 * 11 * 2  # the inner folds of each classifier too
    assert not any(seen)


def test_class_weights_are_tuned_if_the_score_is_not_accuracy():
    """A rare class: with balanced accuracy as the score, no baseline predicts one label only."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), np.repeat(["no", "yes"], [375, 25])
    X[y == "yes", 0] += 1.5
    fair = baselines.classifiers(Settings("y", scoring="balanced_accuracy"))
    for name in (
        "LogisticRegression", "LinearSVC", "SVC, Gaussian kernel", "RandomForest",
        "HistGradientBoosting", "LeastSquaresTwinSVC",
    ):  # fmt: skip
        assert fair[name].param_grid["class_weight"] == [None, "balanced"], name
    plain = baselines.classifiers(Settings("y"))
    assert "class_weight" not in plain["LinearSVC"].param_grid
    search = fair["LinearSVC"]
    search.set_params(param_grid={"C": [1.0], "class_weight": [None, "balanced"]})
    assert balanced_accuracy_score(y, search.fit(X, y).predict(X)) > 0.7
    assert fair[baselines.CONTROL].class_weight == "balanced"


def test_no_score_is_slow_to_search():
    """A scorer that is called for every point of the full grid would take minutes."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 4)), np.arange(120) % 2
    X[y == 1, 0] += 1.0
    for scoring in ("neg_log_loss", "neg_brier_score", "f1_macro", "average_precision"):
        search = baselines.classifiers(Settings("y", scoring=scoring))["FuzzyTwinSVC"]
        fitted = search.fit(X, y)
        by_scorer = search.scoring == scoring
        assert by_scorer == (scoring in ("f1_macro", "average_precision"))
        assert not by_scorer or len(fitted.cv_results_["params"]) < 200
    probabilities = baselines.classifiers(Settings("y", scoring="neg_log_loss"))
    assert probabilities["FuzzyTwinSVC"].calibration == "loo"
    assert "class_weight" not in probabilities["RandomForest"].param_grid


WITHOUT_PROBABILITIES = ["ProximalSVC", "LinearSVC", "SVC, Gaussian kernel"]


@pytest.fixture
def cheap_without_probabilities(monkeypatch):
    """Trees, and ridges in the places of classifiers without probabilities."""
    names = list(baselines.classifiers(Settings("y")))

    def made(settings):
        models = {name: DecisionTreeClassifier(max_depth=2) for name in names}
        models |= {name: RidgeClassifier() for name in WITHOUT_PROBABILITIES}
        cv = splitter(settings, 2)
        scoring = settings.scoring
        return {
            name: GridSearchCV(model, {}, cv=cv, scoring=scoring) for name, model in models.items()
        }

    monkeypatch.setattr(baselines, "classifiers", made)
    return names


def test_classifiers_without_probabilities_are_named_and_omitted(run, cheap_without_probabilities):
    table("t.csv", **some(40))
    words = ("--target", "y", "--folds", 2, "--repeats", 1, "--scoring", "neg_log_loss")
    out = " ".join(run("compare", "t.csv", *words).split())
    assert "a bug" not in out
    named = "ProximalSVC; LinearSVC; SVC, Gaussian kernel."
    assert f"Omitted, because --scoring neg_log_loss needs probabilities: {named}" in out
    told = json.loads(run("compare", "t.csv", *words, "--json"))
    assert told["omitted"] == WITHOUT_PROBABILITIES
    assert set(told["scores"]) == set(cheap_without_probabilities) - set(WITHOUT_PROBABILITIES)
    assert np.isfinite([value for scores in told["scores"].values() for value in scores]).all()


def test_which_classifiers_have_no_probabilities():
    settings = Settings("y", scoring="neg_log_loss")
    assert baselines.without_response(settings) == WITHOUT_PROBABILITIES
    for scoring in (None, "balanced_accuracy", "roc_auc"):
        assert baselines.without_response(Settings("y", scoring=scoring)) == []


def test_what_cannot_be_compared(run, folder):
    table("t.csv", **some(40))
    words = ("compare", "t.csv", "--target", "y")
    refused(run, folder, *words, "--scoring", "acuracy", match="'acuracy' is not a scorer")
    refused(run, folder, *words, "--scoring", "f1", match="--scoring f1 is not defined for t.csv")
    refused(run, folder, *words, "--folds", "30", match="fewer than --folds 30; use --folds 1")
    few = {name: np.asarray(values)[:9] for name, values in some(40).items()}
    words = ("compare", table("few.csv", **few), "--target", "y")
    refused(
        run, folder, *words, match="smallest class of few.csv has 3 rows; compare needs at least 6"
    )
