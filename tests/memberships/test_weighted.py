"""Degrees as sample weights of any classifier."""

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from fuzzytwin import CenterMembership, FuzzyTwinSVC, MembershipWeighted, NeighborMembership
from tests.checks import scikit_learn_checks

X, Y = load_breast_cancer(return_X_y=True)
X = scale(X)[:200]
Y = Y[:200]
S = np.random.default_rng(0).uniform(0.1, 3.0, len(Y))


@scikit_learn_checks(
    MembershipWeighted(estimator=LogisticRegression()),
    slow=[MembershipWeighted(estimator=FuzzyTwinSVC(alpha=1.0), membership="neighbor")],
)
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


@pytest.mark.parametrize("membership", ["center", "neighbor", NeighborMembership(k=3), None])
@pytest.mark.parametrize("weight", [None, S], ids=["alike", "weighted"])
def test_degrees_times_weights_are_the_weights(membership, weight):
    model = MembershipWeighted(estimator=SVC(), membership=membership).fit(
        X, Y, sample_weight=weight
    )
    fuzzy = FuzzyTwinSVC(membership=membership).fit(X, Y, sample_weight=weight)
    np.testing.assert_array_equal(model.membership_, fuzzy.membership_)
    product = model.membership_ if weight is None else model.membership_ * weight
    by_hand = SVC().fit(X, Y, sample_weight=product)
    np.testing.assert_array_equal(model.decision_function(X), by_hand.decision_function(X))
    np.testing.assert_array_equal(model.predict(X), by_hand.predict(X))


def test_the_default_is_the_fuzzy_svm_of_lin_and_wang():
    """Their degrees: 1 - |x - mean| / (radius + delta), each about the mean of its class."""
    X, y = load_iris(return_X_y=True)
    model = MembershipWeighted(estimator=SVC()).fit(X, y)
    for label in model.classes_:
        own = X[y == label]
        far = np.linalg.norm(own - own.mean(axis=0), axis=1)
        np.testing.assert_allclose(model.membership_[y == label], 1 - far / far.max(), atol=1e-2)


def test_given_degrees_come_first():
    mu = np.linspace(0.1, 1, len(Y))
    model = MembershipWeighted(estimator=SVC(), membership="neighbor").fit(X, Y, membership=mu)
    np.testing.assert_array_equal(model.membership_, mu)
    by_hand = SVC().fit(X, Y, sample_weight=mu)
    np.testing.assert_array_equal(model.decision_function(X), by_hand.decision_function(X))


def test_a_callable_gets_rows_labels_and_weights():
    def half(X, y, sample_weight):
        return np.full(len(y), 0.5)

    assert (MembershipWeighted(estimator=SVC(), membership=half).fit(X, Y).membership_ == 0.5).all()


def test_methods_are_those_of_the_classifier():
    plain = MembershipWeighted(estimator=SVC()).fit(X, Y)
    assert not hasattr(plain, "predict_proba")
    tree = MembershipWeighted(estimator=DecisionTreeClassifier(random_state=0)).fit(X, Y)
    assert not hasattr(tree, "decision_function")
    logistic = MembershipWeighted(estimator=LogisticRegression()).fit(X, Y)
    np.testing.assert_allclose(np.exp(logistic.predict_log_proba(X)), logistic.predict_proba(X))


def test_sparse_rows_and_missing_values_go_where_the_classifier_takes_them():
    # In scikit-learn 1.6, many classifiers that take sparse rows do not yet say so in their tags.
    thin = MembershipWeighted(estimator=FuzzyTwinSVC()).fit(sparse.csr_array(X), Y)
    dense = MembershipWeighted(estimator=FuzzyTwinSVC()).fit(X, Y)
    np.testing.assert_allclose(thin.decision_function(X), dense.decision_function(X))
    holed = X.copy()
    holed[3, 1] = np.nan
    boosting = MembershipWeighted(estimator=HistGradientBoostingClassifier(), membership=None)
    assert boosting.fit(holed, Y).score(holed, Y) > 0.9
    with pytest.raises(ValueError, match="NaN in column 1"):
        MembershipWeighted(estimator=HistGradientBoostingClassifier()).fit(holed, Y)


def test_the_degrees_can_be_tuned():
    grid = {"estimator__C": [0.1, 1.0], "membership__decay": ["linear", "exponential"]}
    search = GridSearchCV(
        MembershipWeighted(estimator=SVC(), membership=CenterMembership()), grid, cv=3
    ).fit(X, Y)
    assert set(search.best_params_) == set(grid)


def test_weights_and_degrees_are_routed():
    mu = np.linspace(0.1, 1, len(Y))
    with sklearn.config_context(enable_metadata_routing=True):
        step = MembershipWeighted(estimator=SVC()).set_fit_request(
            sample_weight=True, membership=True
        )
        scorer = make_scorer(accuracy_score).set_score_request(sample_weight=True)
        model = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), step)
        found = cross_validate(
            model, X, Y, params={"sample_weight": S, "membership": mu}, cv=3, scoring=scorer,
            return_estimator=True, return_indices=True,
        )  # fmt: skip
        for fitted, train in zip(found["estimator"], found["indices"]["train"], strict=True):
            np.testing.assert_array_equal(fitted[-1].membership_, mu[train])
            rows = fitted[0].transform(X[train])
            by_hand = SVC().fit(rows, Y[train], sample_weight=S[train] * mu[train])
            np.testing.assert_array_equal(
                fitted[-1].decision_function(rows), by_hand.decision_function(rows)
            )
        # what the classifier requests is passed on to it
        inner = FuzzyTwinSVC().set_fit_request(membership=True)
        outer = MembershipWeighted(estimator=inner, membership="neighbor").set_fit_request(
            membership=False
        )
        assert outer.get_metadata_routing().consumes("fit", ["membership"]) == {"membership"}


@pytest.mark.parametrize(
    ("estimator", "membership", "given", "message"),
    [
        (KNeighborsClassifier(), "center", None, "does not take sample_weight in fit"),
        (make_pipeline(SVC()), "center", None, "put MembershipWeighted last in a Pipeline"),
        (SVC(), "centre", None, "membership='centre' is unknown"),
        (SVC(), "center", np.ones((len(Y), 2)), "one degree per row"),
        (SVC(), "center", np.full(len(Y), 2.0), "membership holds 2.0"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(estimator, membership, given, message):
    model = MembershipWeighted(estimator=SVC()).fit(X, Y)
    before = model.decision_function(X)
    model.set_params(membership=membership)
    model.estimator = estimator
    with pytest.raises((TypeError, ValueError), match=message):
        model.fit(X, Y, membership=given)
    np.testing.assert_array_equal(model.estimator_.decision_function(X), before)
