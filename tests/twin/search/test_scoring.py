"""Scores of FuzzyTwinSVCCV: those of scikit-learn, and what is refused."""

import numpy as np
import pytest
from sklearn.metrics import get_scorer

from tests.twin.search.helpers import assert_same_scores, make, name_of, sparsely, weights_for


@sparsely(
    ("either", "scoring", "weighted"),
    ("pair", "rows"),
    (None, "accuracy", "balanced_accuracy"),
    (False, True, True),
    ids=name_of,
)
def test_scores_of_any_number_of_classes(either, scoring, weighted):
    X, y = either
    given = {"sample_weight": weights_for(y)} if weighted else {}
    search, _ = assert_same_scores(make(Cs=[0.25, 8.0], scoring=scoring), X, y, **given)
    scorer = get_scorer(scoring or "accuracy")
    assert search.score(X, y, **given) == pytest.approx(scorer(search, X, y, **given))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@sparsely(
    ("scoring", "labels", "weighted"),
    ("f1", "precision", "recall", "balanced_accuracy"),
    ((False, True), (0, 1), (-1, 1)),
    (False, True, True),
)
def test_scores_of_two_classes(pair, scoring, labels, weighted, monkeypatch):
    X, y = pair
    y = np.array(labels)[(y == "yes").astype(int)]
    given = {"sample_weight": weights_for(y)} if weighted else {}
    X = np.repeat(X[:, :2], 2, axis=1).round(1)  # ties
    search = make(Cs=[0.25, 8.0], scoring=scoring, alphas=[1.0])
    monkeypatch.setattr("fuzzytwin.twin._grid.MAX_ROWS", 7)
    search, _ = assert_same_scores(search, X, y, **given)
    assert len(np.unique(search.cv_results_["mean_test_score"])) > 1


@pytest.mark.filterwarnings("ignore::UserWarning")  # of scikit-learn: a class is missing
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize("scoring", ["balanced_accuracy", "f1", "precision", "recall"])
@pytest.mark.parametrize("label", [0, 1])
def test_a_test_fold_that_lacks_a_class_scores_as_in_grid_search(pair, scoring, label):
    X, y = pair
    y = (y == "yes").astype(int)
    alone = np.flatnonzero(y == label)[:5]
    others = np.setdiff1d(np.arange(len(y)), alone)
    folds = [(others, alone), (others[::2], others[1::2])]
    assert_same_scores(make(scoring=scoring, cv=folds), X, y)


@pytest.mark.parametrize("scoring", ["roc_auc", "acuracy", get_scorer("accuracy"), ["f1"], 1])
def test_other_scores_are_refused_with_the_valid_values_and_a_remedy(pair, scoring):
    match = r"scoring=.* valid values are 'accuracy', .*'recall' and None.*GridSearchCV\(FuzzyTwin"
    with pytest.raises(ValueError, match=match):
        make(scoring=scoring).fit(*pair)


@pytest.mark.parametrize("scoring", ["f1", "precision", "recall"])
def test_scores_of_the_label_1_need_two_classes_with_this_label(either, scoring):
    with pytest.raises(ValueError, match=rf"scoring='{scoring}' needs two classes.*GridSearchCV"):
        make(scoring=scoring).fit(*either)
