"""Boosted trees: permutations, known answers, admission by held-out likelihood, round trips."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError

from fuzzytwin import FuzzyTwinCommittee
from fuzzytwin.committee import BoostedTrees, _trees
from fuzzytwin.core.hashing import rank_hashes


def make_thresholds(n=500, d=6, seed=0):
    """Labels that follow a tree of depth three."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    left = (X[:, 1] > 0.3) ^ (X[:, 2] > 0)
    return X, np.where(X[:, 0] > 0, left, X[:, 3] > -0.5).astype(int)


def make_normals(n=300, seed=0):
    """Two normal classes, whose best classifier is linear."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    return rng.normal(size=(n, 4)) + 0.8 * y[:, None], y


@pytest.fixture(scope="module")
def fitted():
    """A committee of three hundred rows whose labels follow a tree, with the rows."""
    X, y = make_thresholds(300)
    return X, y, FuzzyTwinCommittee().fit(X, y)


def tree_members(model):
    return [member for member in model.members_ if isinstance(member.trees, BoostedTrees)]


@pytest.mark.parametrize("n_classes", [2, 4])
def test_arrays_predict_as_scikit_learn(n_classes):
    X, y = make_classification(400, 8, n_informative=6, n_classes=n_classes, random_state=1)
    X = X.round(1)  # fewer values than bins
    row_keys, column_keys = rank_hashes(X)
    rows, columns = np.argsort(row_keys), np.argsort(column_keys)
    boosting = HistGradientBoostingClassifier(
        max_iter=40, max_leaf_nodes=_trees.MAX_LEAVES, early_stopping=False
    )
    boosting.fit(X[np.ix_(rows, columns)], y[rows])
    trees = BoostedTrees(n_rounds=40).fit(X, y)
    new = np.random.default_rng(0).normal(size=(50, 8)).round(1)
    expected = boosting.predict_proba(new[:, columns])
    np.testing.assert_allclose(trees.predict_proba(new), expected, rtol=0, atol=1e-6)
    stages = list(boosting.staged_predict_proba(new[:, columns]))
    staged = trees.staged_proba(new, [5, 40])
    np.testing.assert_allclose(staged[0], stages[4], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(staged[1], trees.predict_proba(new))


def test_names_of_classes_change_no_folds():
    X, _ = make_thresholds(60)
    codes = np.arange(60) % 3
    renamed = np.array([2, 0, 1])[codes]
    for groups in (None, np.arange(60) // 2):  # groups of two classes each
        folds = [_trees._content_folds(X, labels, groups, 4) for labels in (codes, renamed)]
        np.testing.assert_array_equal(*folds)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_order_of_rows_columns_and_classes_does_not_matter(n_classes):
    X, y = make_classification(300, 7, n_informative=5, n_classes=n_classes, random_state=0)
    weight = np.random.default_rng(1).uniform(0.5, 2, size=300)
    P = BoostedTrees(n_rounds=30).fit(X, y, weight).predict_proba(X)
    rng = np.random.default_rng(2)
    for _ in range(3):
        rows, columns, names = (rng.permutation(k) for k in (300, 7, n_classes))
        trees = BoostedTrees(n_rounds=30).fit(
            X[np.ix_(rows, columns)], names[y[rows]], weight[rows]
        )
        again = trees.predict_proba(X[:, columns])[:, names]
        np.testing.assert_allclose(again, P, rtol=0, atol=1e-12)


def test_increasing_transformations_of_columns_change_nothing():
    X, y = make_thresholds(300)
    P = BoostedTrees(n_rounds=30).fit(X, y).predict_proba(X)
    moved = np.column_stack([np.exp(X[:, 0]), 5 * X[:, 1] - 7, X[:, 2:]])
    np.testing.assert_array_equal(BoostedTrees(n_rounds=30).fit(moved, y).predict_proba(moved), P)


def test_keys_know_ranks_only():
    X = np.random.default_rng(0).normal(size=(50, 3))
    rows, columns = rank_hashes(X)
    moved = np.column_stack([np.exp(X[:, 0]), 5 * X[:, 1] - 7, X[:, 2] ** 3, np.full(50, 4.0)])
    moved_rows, moved_columns = rank_hashes(moved)
    np.testing.assert_array_equal(moved_rows, rows)
    np.testing.assert_array_equal(moved_columns[:3], columns)
    assert len(np.unique(rows)) == 50


def test_trees_are_members_if_labels_follow_thresholds():
    X, y = make_thresholds()
    test_X, test_y = make_thresholds(2000, seed=1)
    model = FuzzyTwinCommittee().fit(X, y)
    planes = FuzzyTwinCommittee(members="planes").fit(X, y)
    assert len(tree_members(model)) == 1
    assert not tree_members(planes)
    assert model.score(test_X, test_y) > planes.score(test_X, test_y) + 0.02
    assert model.loo_log_loss_ < planes.loo_log_loss_


def test_trees_are_no_members_if_planes_suffice():
    X, y = make_normals()
    model = FuzzyTwinCommittee().fit(X, y)
    planes = FuzzyTwinCommittee(members="planes").fit(X, y)
    assert not tree_members(model)
    np.testing.assert_array_equal(model.predict_proba(X), planes.predict_proba(X))


@pytest.mark.slow
def test_chance_seldom_admits_trees():
    admitted = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(120, 5)), rng.integers(2, size=120)
        admitted += len(tree_members(FuzzyTwinCommittee().fit(X, y)))
    assert admitted <= 1


def test_permuted_tables_give_one_committee(fitted):
    X, y, model = fitted
    P = model.predict_proba(X)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(300), rng.permutation(6)
    again = FuzzyTwinCommittee().fit(X[np.ix_(rows, columns)], 1 - y[rows])
    assert tree_members(again)
    np.testing.assert_allclose(again.predict_proba(X[:, columns])[:, ::-1], P, rtol=0, atol=1e-6)


@pytest.mark.parametrize("weight", [pytest.param(2.0, marks=pytest.mark.slow), 2.5])
def test_a_factor_of_all_weights_changes_nothing(fitted, weight):
    X, y, model = fitted
    weighted = FuzzyTwinCommittee().fit(X, y, sample_weight=np.full(300, weight))
    assert tree_members(weighted)
    np.testing.assert_allclose(weighted.predict_proba(X), model.predict_proba(X), rtol=1e-6)


def test_a_weight_is_as_many_copies_in_one_group():
    X, y = make_thresholds(250)
    weight = np.random.default_rng(0).integers(1, 4, size=250)
    copies = np.repeat(np.arange(250), weight)
    weighted = FuzzyTwinCommittee().fit(X, y, sample_weight=weight.astype(float))
    copied = FuzzyTwinCommittee().fit(X[copies], y[copies], groups=copies)
    assert tree_members(weighted)
    assert tree_members(copied)
    np.testing.assert_allclose(copied.predict_proba(X), weighted.predict_proba(X), rtol=1e-6)


def test_groups_stay_in_one_fold():
    X, y = make_thresholds(100)
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(100), 4)
    visits = X[groups] + 0.01 * rng.normal(size=(400, 6))
    y = rng.integers(2, size=100)  # a label per patient that the columns do not explain
    model = FuzzyTwinCommittee().fit(visits, y[groups], groups=groups)
    assert not tree_members(model)
    assert model.loo_log_loss_ > 0.65


def test_leave_one_out_probabilities_are_those_of_the_fit(fitted):
    X, y, model = fitted
    P = model.loo_proba(X, y)
    loss = -np.log(P[np.arange(300), y]).mean()
    assert loss == pytest.approx(model.loo_log_loss_, rel=1e-6)


@pytest.mark.slow
def test_sampled_rows_have_held_out_values(monkeypatch):
    from fuzzytwin.committee import _first_pass

    monkeypatch.setattr(_first_pass, "SAMPLE_ROWS", 400)
    X, y = make_thresholds(1000)
    flipped = np.random.default_rng(0).random(1000) < 0.1
    y = np.where(flipped, 1 - y, y)
    model = FuzzyTwinCommittee(n_landmarks=100).fit(X, y)
    assert tree_members(model)
    P = model.loo_proba(X, y)
    loss = -np.log(P[np.arange(1000), y]).mean()
    new_X, new_y = make_thresholds(2000, seed=3)
    wrong = np.random.default_rng(4).random(2000) < 0.1
    new_y = np.where(wrong, 1 - new_y, new_y)
    new_loss = -np.log(model.predict_proba(new_X)[np.arange(2000), new_y]).mean()
    assert loss == pytest.approx(new_loss, rel=0.15)
    assert loss == pytest.approx(model.loo_log_loss_, rel=0.15)
    noisy = FuzzyTwinCommittee(n_landmarks=100, noise="auto").fit(X, y)
    assert noisy.membership_[flipped].mean() < noisy.membership_[~flipped].mean() - 0.3


def test_soft_labels_and_many_classes_have_no_trees():
    X, y = make_thresholds(200)
    soft = np.eye(2)[y] * 0.9 + 0.05
    assert not tree_members(FuzzyTwinCommittee().fit(X, y, membership=soft))
    many = np.arange(200) % (_trees.MAX_CLASSES + 1)
    assert not tree_members(FuzzyTwinCommittee().fit(X, many))


@pytest.mark.parametrize("n_classes", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_model_files_and_graphs_hold_trees(tmp_path, n_classes):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skops")
    from fuzzytwin.store import load, save, to_onnx

    X, y = make_thresholds(400)
    y = np.where(X[:, 4] > 0.5, n_classes - 1, y)
    model = FuzzyTwinCommittee().fit(X, y)
    assert tree_members(model)
    P = model.predict_proba(X)
    path = tmp_path / "model.skops"
    save(model, path)
    np.testing.assert_array_equal(load(path).predict_proba(X), P)
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    np.testing.assert_allclose(session.run(None, {"X": X})[1], P, rtol=0, atol=1e-9)


def test_missing_values_fail_no_other_row_of_a_graph(fitted):
    onnxruntime = pytest.importorskip("onnxruntime")
    from fuzzytwin.store import to_onnx

    X, _, model = fitted
    assert tree_members(model)
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    rows = X[:3].copy()
    rows[0, 0] = np.nan
    P = session.run(None, {"X": rows})[1]
    np.testing.assert_allclose(P[1:], model.predict_proba(X[1:3]), rtol=0, atol=1e-9)


def test_trees_refuse_what_they_cannot_use():
    X, y = make_thresholds(100)
    with pytest.raises(NotFittedError):
        BoostedTrees().predict_proba(X)
    with pytest.raises(ValueError, match="6 features"):
        BoostedTrees(n_rounds=4).fit(X, y).predict_proba(X[:, :2])
    with pytest.raises(ValueError, match="NaN"):
        BoostedTrees().fit(np.where(X > 2, np.nan, X), y)
