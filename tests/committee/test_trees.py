"""Trees: scikit-learn's predictions, permutations, weights, groups, held-out values, files."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier

from fuzzytwin import FuzzyTwinCommittee
from fuzzytwin.committee import TreeEnsemble, _first_pass, _trees
from fuzzytwin.committee._fit import fit_rows
from fuzzytwin.committee._members import RidgeProblem
from fuzzytwin.core.hashing import rank_hashes

KINDS = ["boosted trees", "forest"]


def make_thresholds(n=500, d=6, seed=0):
    """Labels that follow a tree of depth three."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    left = (X[:, 1] > 0.3) ^ (X[:, 2] > 0)
    return X, np.where(X[:, 0] > 0, left, X[:, 3] > -0.5).astype(int)


def make_problem(X, y, weight=None, groups=None):
    s = np.ones(len(y)) if weight is None else weight
    return RidgeProblem(X, np.eye(y.max() + 1)[y], y, s, s, groups)


def fit_trees(X, y, weight=None, groups=None):
    """Fit both kinds of trees. Return the arrays and the held-out values of each."""
    fitted = _trees.fit_trees(make_problem(X, y, weight, groups))
    assert [part.member.trees.kind for part in fitted] == KINDS
    return [(part.member.trees, part.loo_values) for part in fitted]


def tree_members(model):
    return [member for member in model.members_ if isinstance(member.trees, TreeEnsemble)]


@pytest.fixture(scope="module")
def fitted():
    """A committee of three hundred rows whose labels follow a tree, with the rows."""
    X, y = make_thresholds(300)
    return X, y, FuzzyTwinCommittee().fit(X, y)


@pytest.fixture(scope="module", params=[2, 4])
def rounded(request):
    """Rows with fewer values in each column than bins, new rows, and both kinds of trees."""
    X, y = make_classification(
        400, 8, n_informative=6, n_classes=request.param, random_state=1, shuffle=False
    )
    X = X.round(1)
    new = np.random.default_rng(0).normal(size=(50, 8)).round(1)
    table = _trees.OrderedTable.of(X, make_problem(X, y))
    return X, y, new, table, fit_trees(X, y)


def test_boosted_trees_predict_as_scikit_learn(rounded):
    X, y, new, table, ((trees, _), _) = rounded
    boosting = HistGradientBoostingClassifier(
        max_iter=len(trees.roots), max_leaf_nodes=_trees.MIN_LEAVES, early_stopping=False
    )
    boosting.fit(X[np.ix_(table.rows, table.columns)], y[table.rows])
    expected = boosting.predict_proba(new[:, table.columns])
    np.testing.assert_allclose(trees.predict_proba(new), expected, rtol=0, atol=1e-6)


def test_a_forest_predicts_the_average_of_scikit_learns_trees_and_rows_out_of_bag(rounded):
    _, y, new, table, (_, (trees, left_out)) = rounded
    codes, n = np.argsort(table.classes)[y], len(y)
    bins = [np.searchsorted(cuts, new[:, j]) for j, cuts in enumerate(table.thresholds)]
    bins, rows = np.column_stack(bins)[:, table.columns], table.rows
    expected, out, times = 0, np.zeros((n, y.max() + 1)), np.zeros(n)
    for t in range(_trees.N_TREES):
        drawn, rest = np.split(np.random.RandomState(t).permutation(n), [n // 2])
        drawn.sort()
        tree = DecisionTreeClassifier(max_features="sqrt", min_samples_leaf=2, random_state=t)
        tree.fit(table.bins[drawn], codes[rows[drawn]])
        expected = expected + tree.predict_proba(bins)[:, np.argsort(table.classes)]
        out[rows[rest]] += tree.predict_proba(table.bins[rest])[:, np.argsort(table.classes)]
        times[rows[rest]] += 1
    np.testing.assert_allclose(trees.predict_proba(new), expected / _trees.N_TREES, atol=1e-9)
    P = np.exp(left_out)
    np.testing.assert_allclose(P / P.sum(axis=1)[:, None], out / times[:, None], atol=5e-3)


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
    rng = np.random.default_rng(2)
    weight = rng.uniform(0.5, 2, size=300)
    groups = rng.integers(0, 150, 300)
    groups = np.unique(groups, return_inverse=True)[1]
    for group in (None, groups):
        expected = fit_trees(X, y, weight, group)
        rows, columns, names = (rng.permutation(k) for k in (300, 7, n_classes))
        renamed = None if group is None else rng.permutation(group.max() + 1)[group][rows]
        again = fit_trees(X[np.ix_(rows, columns)], names[y[rows]], weight[rows], renamed)
        for (trees, values), (other, other_values) in zip(expected, again, strict=True):
            P = other.predict_proba(X[:, columns])[:, names]
            np.testing.assert_allclose(P, trees.predict_proba(X), rtol=0, atol=1e-12)
            np.testing.assert_allclose(other_values[:, names], values[rows], atol=1e-9)


def test_increasing_transformations_of_columns_change_nothing():
    X, y = make_thresholds(300)
    moved = np.column_stack([np.exp(X[:, 0]), 5 * X[:, 1] - 7, X[:, 2:]])
    for (trees, _), (other, _) in zip(fit_trees(X, y), fit_trees(moved, y), strict=True):
        np.testing.assert_array_equal(other.predict_proba(moved), trees.predict_proba(X))


def test_keys_know_ranks_only():
    X = np.random.default_rng(0).normal(size=(50, 3))
    rows, columns = rank_hashes(X)
    moved = np.column_stack([np.exp(X[:, 0]), 5 * X[:, 1] - 7, X[:, 2] ** 3, np.full(50, 4.0)])
    moved_rows, moved_columns = rank_hashes(moved)
    np.testing.assert_array_equal(moved_rows, rows)
    np.testing.assert_array_equal(moved_columns[:3], columns)
    assert len(np.unique(rows)) == 50


def test_trees_help_if_labels_follow_thresholds(fitted):
    X, y, model = fitted
    test_X, test_y = make_thresholds(2000, seed=1)
    planes = FuzzyTwinCommittee(members="planes").fit(X, y)
    assert [member.trees.kind for member in tree_members(model)] == KINDS
    assert not tree_members(planes)
    assert model.score(test_X, test_y) > planes.score(test_X, test_y) + 0.02
    assert model.loo_log_loss_ < planes.loo_log_loss_


def test_trees_cost_little_if_planes_suffice():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=2300)
    X = rng.normal(size=(2300, 4)) + 0.8 * y[:, None]  # the best classifier is linear
    losses = []
    for members in ("auto", "planes"):
        model = FuzzyTwinCommittee(members=members).fit(X[:300], y[:300])
        P = model.predict_proba(X[300:])
        losses.append(-np.log(P[np.arange(2000), y[300:]]).mean())
    assert losses[0] < losses[1] + 0.01


def test_permuted_tables_give_one_committee(fitted):
    X, y, model = fitted
    P = model.predict_proba(X)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(300), rng.permutation(6)
    again = FuzzyTwinCommittee().fit(X[np.ix_(rows, columns)], 1 - y[rows])
    np.testing.assert_allclose(again.predict_proba(X[:, columns])[:, ::-1], P, rtol=0, atol=1e-6)
    np.testing.assert_allclose(again.loo_proba_[:, ::-1], model.loo_proba_[rows], atol=1e-6)


@pytest.mark.parametrize("weight", [pytest.param(2.0, marks=pytest.mark.slow), 2.5])
def test_a_factor_of_all_weights_changes_nothing(fitted, weight):
    X, y, model = fitted
    weighted = FuzzyTwinCommittee().fit(X, y, sample_weight=np.full(300, weight))
    np.testing.assert_allclose(weighted.predict_proba(X), model.predict_proba(X), rtol=1e-6)


def test_a_weight_is_as_many_copies_in_one_group():
    X, y = make_thresholds(250)
    weight = np.random.default_rng(0).integers(1, 4, size=250)
    copies = np.repeat(np.arange(250), weight)
    weighted = FuzzyTwinCommittee().fit(X, y, sample_weight=weight.astype(float))
    copied = FuzzyTwinCommittee().fit(X[copies], y[copies], groups=copies)
    np.testing.assert_allclose(copied.predict_proba(X), weighted.predict_proba(X), rtol=1e-6)
    np.testing.assert_allclose(copied.loo_proba_, weighted.loo_proba_[copies], rtol=1e-6)


def test_rows_of_a_group_are_held_out_together():
    X, _ = make_thresholds(100)
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(100), 4)
    visits = X[groups] + 0.01 * rng.normal(size=(400, 6))
    y = rng.integers(2, size=100)[groups]  # a label per patient that the columns do not explain
    model = FuzzyTwinCommittee().fit(visits, y, groups=groups)
    assert model.loo_log_loss_ > 0.65
    for given, low, high in ((None, 0.9, 1), (groups, 0.3, 0.65)):
        for _, values in fit_trees(visits, y, groups=given):
            assert low < (values.argmax(axis=1) == y).mean() <= high


def test_held_out_probabilities_are_those_of_the_log_loss(fitted):
    _, y, model = fitted
    loss = -np.log(model.loo_proba_[np.arange(300), y]).mean()
    assert loss == pytest.approx(model.loo_log_loss_, rel=1e-9)


@pytest.mark.parametrize("n_kept", [700, 10_000])
def test_sampled_rows_have_held_out_values(monkeypatch, n_kept):
    """Trees learn from 700 or all of 1,000 rows, and 400 are the sample for the stacking."""
    monkeypatch.setattr(_first_pass, "SAMPLE_ROWS", 400)
    monkeypatch.setattr(_first_pass, "KEPT_ROWS", n_kept)
    X, y = make_thresholds(3000)
    flipped = np.arange(3000) % 10 == 0
    y = np.where(flipped, 1 - y, y)
    train, new = slice(1000), slice(1000, None)
    model = FuzzyTwinCommittee(n_landmarks=100).fit(X[train], y[train])
    loss = -np.log(model.loo_proba_[np.arange(1000), y[train]])
    new_loss = -np.log(model.predict_proba(X[new])[np.arange(2000), y[new]]).mean()
    assert loss.mean() == pytest.approx(new_loss, rel=0.15)
    assert loss.mean() == pytest.approx(model.loo_log_loss_, rel=0.15)
    assert loss[flipped[train]].mean() > 3 * loss[~flipped[train]].mean()
    noisy = FuzzyTwinCommittee(n_landmarks=100, noise="auto").fit(X[train], y[train])
    degrees, wrong = noisy.membership_, flipped[train]
    assert degrees[wrong].mean() < degrees[~wrong].mean() - 0.3


def test_copies_of_a_row_with_two_labels_keep_their_own_held_out_values(monkeypatch):
    X, y = make_thresholds(100)
    X, y = np.repeat(X, 2, axis=0), np.column_stack([y, 1 - y]).ravel()
    X[:100:5], y[:100:5] = X[1:100:5], y[1:100:5]
    model = FuzzyTwinCommittee(n_landmarks=30)
    values = []
    for n_sampled in (200, 60):
        monkeypatch.setattr(_first_pass, "SAMPLE_ROWS", n_sampled)
        monkeypatch.setattr(_first_pass, "KEPT_ROWS", 200)
        with pytest.warns(UserWarning, match="equal another row"):
            values.append(fit_rows(model, X, y)[1][:, :, -2:])
    np.testing.assert_allclose(values[1][100:], values[0][100:], atol=1e-9)


def test_copies_of_a_row_have_one_held_out_value():
    X, y = make_thresholds(100)
    X, y = np.concatenate([X, X[:30]]), np.concatenate([y, y[:30]])
    for _, values in fit_trees(X, y):
        np.testing.assert_allclose(values[100:], values[:30], atol=1e-12)


def test_the_last_digits_of_weights_change_no_split():
    X, y = make_thresholds(300)
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.5, 2, 300)
    nearly = weight * (1 + 1e-15 * rng.integers(-2, 3, 300))
    for (trees, _), (other, _) in zip(
        fit_trees(X, y, weight), fit_trees(X, y, nearly), strict=True
    ):
        np.testing.assert_array_equal(other.predict_proba(X), trees.predict_proba(X))


def test_two_distinct_rows_of_each_class_make_two_folds():
    X = np.array([[0.0], [1.0]]).repeat(10, axis=0)
    y = np.arange(20) % 2
    for trees, values in fit_trees(X, y):
        assert np.isfinite(values).all()
        np.testing.assert_allclose(trees.predict_proba(X), 0.5, atol=0.1)


def test_sparse_rows_soft_labels_and_rare_classes_have_no_trees():
    X, y = make_thresholds(200)
    soft = np.eye(2)[y] * 0.9 + 0.05
    assert not tree_members(FuzzyTwinCommittee().fit(X, y, membership=soft))
    assert not tree_members(FuzzyTwinCommittee().fit(sparse.csr_array(X), y))
    rare = np.where(np.arange(200) < 2, 2, y)
    for labels in (rare, np.where(np.arange(200) < 1, 2, y)):
        problem = make_problem(X, labels)
        assert len(_trees.fit_trees(problem)) == (2 if labels is rare else 0)
    with pytest.warns(UserWarning, match="only one row of 2"):
        assert not tree_members(FuzzyTwinCommittee().fit(X, labels))


def test_a_row_is_predicted_alone_as_among_others(fitted):
    X, _, model = fitted
    for predict in (model.predict_proba, *(m.trees.predict_proba for m in tree_members(model))):
        alone = np.concatenate([predict(X[i : i + 1]) for i in range(5)])
        np.testing.assert_allclose(alone, predict(X)[:5], rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_model_files_and_graphs_hold_trees(tmp_path, n_classes):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skops")
    from fuzzytwin.store import load, save, to_onnx

    X, y = make_thresholds(400)
    y = np.where(X[:, 4] > 0.5, n_classes - 1, y)
    model = FuzzyTwinCommittee().fit(X, y)
    assert all(member.weight > 0 for member in tree_members(model))
    P = model.predict_proba(X)
    path = tmp_path / "model.skops"
    save(model, path)
    loaded = load(path)
    assert [member.trees.kind for member in tree_members(loaded)] == KINDS
    np.testing.assert_array_equal(loaded.predict_proba(X), P)
    np.testing.assert_array_equal(loaded.loo_proba_, model.loo_proba_)
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    np.testing.assert_allclose(session.run(None, {"X": X})[1], P, rtol=0, atol=1e-9)


def test_missing_values_fail_no_other_row_of_a_graph(fitted):
    onnxruntime = pytest.importorskip("onnxruntime")
    from fuzzytwin.store import to_onnx

    X, _, model = fitted
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    rows = X[:3].copy()
    rows[0, 0] = np.nan
    P = session.run(None, {"X": rows})[1]
    np.testing.assert_allclose(P[1:], model.predict_proba(X[1:3]), rtol=0, atol=1e-9)
