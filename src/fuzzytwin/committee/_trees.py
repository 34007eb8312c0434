r"""Boosted trees as a member of a committee, admitted only if held-out predictions improve.

Ridge regressions are smooth. Labels that follow thresholds of single columns are learned better by
trees. Trees are scikit-learn's histogram gradient boosting, with few leaves. The number of
rounds is the one with the largest out-of-fold likelihood.

A member that is not needed costs accuracy if rows are few, because its stacking weight fits the
held-out values by chance. With the largest log likelihoods L_0 of stacking without trees and L_1
with them, trees are members only if

    L_1 - L_0 >= MIN_GAIN,

in units of what is left out together (a row or a group). If trees are useless, twice the gain has a
chi-squared distribution with one degree of freedom in half of all cases and is 0 in the others
(Self and Liang, 1987), so that a gain of 3 has a probability of 0.7%. To save time, a few rounds in
two folds come first, and more follow only if these have some gain.

`BoostedTrees` orders rows, columns and classes by hashes of ranks, so that it does not depend on
their order in the table. It keeps its trees as plain arrays, which model files and ONNX graphs
hold.

References
----------
S. G. Self and K.-Y. Liang, "Asymptotic properties of maximum likelihood estimators and likelihood
ratio tests under nonstandard conditions", J. Am. Stat. Assoc. 82 (1987), 605-610.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._params import set_fitted_attributes
from fuzzytwin._rows import check_finite, validate_features
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._members import (
    CommitteeMember,
    FittedMember,
    RidgeProblem,
    log_probabilities,
)
from fuzzytwin.committee._stacking import fit_stacking
from fuzzytwin.core.blocks import row_slices
from fuzzytwin.core.hashing import assign_folds, class_ranks, group_sums, rank_hashes

MAX_LEAVES = 12
MAX_BINS = 255


class BoostedTrees(ClassifierMixin, BaseEstimator):
    """Gradient-boosted trees of scikit-learn, kept as arrays.

    The score of class k (of the second class, if there are two) is the sum of a constant and the
    values of the leaves that a row falls into, one for each round. Probabilities are the softmax of
    the scores.

    Parameters
    ----------
    n_rounds : int, default=128
        Number of rounds of boosting, with at most 12 leaves per tree.
    learning_rate : float, default=0.1
        Factor of the values of all leaves.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels.
    feature_, threshold_, children_, value_ : ndarray of shape (N,), (N,), (N, 2), (N,)
        Nodes of all trees: a row goes to the first child if its value of the column `feature_` is
        at most `threshold_`. Children of a leaf are the leaf itself.
    roots_ : ndarray of shape (n_rounds, T)
        Root of each tree: one tree per round for two classes, otherwise one for each class.
    baseline_ : ndarray of shape (T,)
        Constants of the scores.
    depth_ : int
        Depth of the deepest tree.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.committee import BoostedTrees
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> y = (X[:, 0] > 0) & (X[:, 1] > 0.5)  # thresholds of two columns
    >>> BoostedTrees(n_rounds=16).fit(X[:150], y[:150]).predict_proba(X[150:153]).round(2)
    array([[0.97, 0.03],
           [0.97, 0.03],
           [0.97, 0.03]])
    """

    def __init__(self, *, n_rounds: int = 128, learning_rate: float = 0.1) -> None:
        self.n_rounds = n_rounds
        self.learning_rate = learning_rate

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the trees.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows of finite numbers.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        self
        """
        X = np.asarray(X, dtype=np.float64)
        check_finite(X)
        classes, codes = np.unique(y, return_inverse=True)
        weight = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight)
        bins, thresholds = _bin_columns(X)
        row_keys, column_keys = rank_hashes(bins)
        class_rank = class_ranks(row_keys, codes)
        class_order = np.argsort(class_rank)
        rows = np.lexsort((weight, class_rank[codes], row_keys))
        columns = np.argsort(column_keys, kind="stable")
        boosting = HistGradientBoostingClassifier(
            learning_rate=self.learning_rate,
            max_iter=self.n_rounds,
            max_leaf_nodes=MAX_LEAVES,
            early_stopping=False,
            random_state=0,
        ).fit(bins[np.ix_(rows, columns)], class_rank[codes[rows]], weight[rows])
        attributes = _tree_arrays(boosting, thresholds, columns, class_order)
        set_fitted_attributes(self, classes_=classes, n_features_in_=X.shape[1], **attributes)
        return self

    def predict(self, X: Any) -> Array:
        """Predict the most probable label of each row.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows of finite numbers.

        Returns
        -------
        ndarray of shape (n,)
        """
        labels: Array = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def predict_proba(self, X: Any) -> Array:
        """Compute the probability of each class.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows of finite numbers.

        Returns
        -------
        ndarray of shape (n, K)
        """
        check_is_fitted(self)
        return self.staged_proba(X, [len(self.roots_)])[0]

    def staged_proba(self, X: Any, rounds: Any) -> Array:
        """Compute the probability of each class after each of several numbers of rounds.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows of finite numbers.
        rounds : sequence of int
            Numbers of rounds, in ascending order.

        Returns
        -------
        ndarray of shape (len(rounds), n, K)
        """
        X = np.asarray(validate_features(self, X), dtype=np.float64)
        scores = np.empty((len(rounds), len(X), self.roots_.shape[1]))
        for block in row_slices(len(X), self.roots_.size):
            values = self.value_[self._leaves(X[block])].reshape(-1, *self.roots_.shape)
            for i, n_rounds in enumerate(rounds):
                scores[i, block] = values[:, :n_rounds].sum(axis=1) + self.baseline_
        if scores.shape[2] == 1:
            scores = np.concatenate([np.zeros_like(scores), scores], axis=2)
        return np.asarray(softmax(scores, axis=2))

    def _leaves(self, X: Array) -> Array:
        """Find the leaf of each row in each tree, of shape (n, n_rounds * T)."""
        node = np.tile(self.roots_.ravel(), (len(X), 1))
        for _ in range(self.depth_):
            values = np.take_along_axis(X, self.feature_[node], axis=1)
            node = self.children_[node, (values > self.threshold_[node]).astype(np.intp)]
        return node


def _tree_arrays(
    boosting: Any, thresholds: list[Array], columns: Array, class_order: Array
) -> dict[str, Any]:
    """Return the nodes of all trees as attributes of `BoostedTrees`, for values instead of bins.

    Columns and classes get their original order.
    """
    # scikit-learn gives no public access to nodes. CI tests its oldest and newest versions.
    trees = [[tree.nodes for tree in trees] for trees in boosting._predictors]  # noqa: SLF001
    sizes = np.array([[len(nodes) for nodes in trees_of_round] for trees_of_round in trees])
    starts = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
    nodes = np.concatenate([nodes for trees_of_round in trees for nodes in trees_of_round])
    offset = np.repeat(starts.ravel(), sizes.ravel())
    is_leaf = nodes["is_leaf"].astype(bool)
    children = np.column_stack([nodes["left"], nodes["right"]]).astype(np.intp)
    children += offset[:, None]
    children[is_leaf] = np.flatnonzero(is_leaf)[:, None]
    baseline = np.ravel(boosting._baseline_prediction).astype(np.float64)  # noqa: SLF001
    value = np.where(is_leaf, nodes["value"], 0.0)
    if len(class_order) > 2:
        tree_of_class = np.argsort(class_order)
        starts = starts[:, tree_of_class]
        baseline = baseline[tree_of_class]
    elif class_order[0] == 1:  # the trees are of the first class
        value = -value
        baseline = -baseline
    feature = np.where(is_leaf, 0, columns[nodes["feature_idx"].astype(np.intp)])
    threshold = np.full(len(nodes), np.inf)
    for i in np.flatnonzero(~is_leaf):
        threshold[i] = thresholds[feature[i]][int(nodes["num_threshold"][i])]
    return {
        "feature_": feature,
        "threshold_": threshold,
        "children_": children,
        "value_": value,
        "roots_": starts,
        "baseline_": baseline,
        "depth_": int(nodes["depth"].max()),
    }


def _bin_columns(X: Array) -> tuple[Array, list[Array]]:
    """Replace the values of each column by the numbers of at most `MAX_BINS` bins.

    Also return thresholds between consecutive bins, for each column. Bins have about the same
    number of distinct values. (scikit-learn's own bins depend on the order of sums and, with
    weights, take most of the time.)
    """
    bins = np.empty(X.shape)
    thresholds = []
    for j in range(X.shape[1]):
        values, rank = np.unique(X[:, j], return_inverse=True)
        n_bins = min(len(values), MAX_BINS)
        bin_of_rank = np.arange(len(values)) * n_bins // len(values)
        bins[:, j] = bin_of_rank[rank.ravel()]
        first_of_bin = np.flatnonzero(np.diff(bin_of_rank)) + 1
        low = values[first_of_bin - 1]
        high = values[first_of_bin]
        middle = low + (high - low) / 2
        thresholds.append(np.where(middle < high, middle, low))
    return bins, thresholds


# Chosen on half of the datasets of `python -m benchmarks committee`, confirmed on the other half.
MIN_GAIN = 3.0
ROUNDS = (8, 16, 32, 64, 128)  # numbers of rounds that are tried
FIRST_ROUNDS = 32  # more are tried if none of the smaller numbers is better than this one
SCREENING = BoostedTrees(n_rounds=12, learning_rate=0.3)
SCREENING_FOLDS = 2
MIN_SCREENING_GAIN = 1.0
N_FOLDS = 5
MAX_CLASSES = 10  # each round has a tree for each class
MAX_TREES = 256
MAX_SPLITS = 20_000  # trees times columns, for up to 500 rows, and more in proportion to the rows
MAX_NUMBERS = 4e6  # rows times columns
MIN_CLASS_ROWS = 5  # one for each fold


def fit_trees(X: Any, problem: RidgeProblem, F: Array) -> FittedMember | None:
    """Fit boosted trees if they improve on members with the leave-one-out values F (n, K, M).

    Otherwise, or if the table is not suitable for trees, return None.
    """
    if not _is_suitable(X, problem):
        return None
    screening = _out_of_fold_proba(SCREENING, X, problem, [SCREENING.n_rounds], SCREENING_FOLDS)
    if screening is None or _gain(F, screening[0], problem) < MIN_SCREENING_GAIN:
        return None
    chosen = _choose_rounds(X, problem)
    if chosen is None:
        return None
    n_rounds, P = chosen
    if _gain(F, P, problem) < MIN_GAIN:
        return None
    trees = BoostedTrees(n_rounds=n_rounds).fit(X, problem.codes, problem.s)
    error = float(problem.s @ ((P - problem.Y) ** 2).sum(axis=1) / problem.s.sum())
    values = log_probabilities(P)
    member = CommitteeMember(f"boosted trees, {n_rounds} rounds", error=error, trees=trees)
    return FittedMember(member, values, values)


def held_out_values(trees: BoostedTrees, X: Any, problem: RidgeProblem) -> Array:
    """Compute the held-out values (n, K) that `fit_trees` used of the trees that it fitted."""
    P = _out_of_fold_proba(trees, X, problem, [trees.n_rounds], N_FOLDS)
    assert P is not None
    return log_probabilities(P[0])


def _is_suitable(X: Any, problem: RidgeProblem) -> bool:
    """Return whether rows are dense, with one label each, and boosting does not take too long."""
    K = problem.Y.shape[1]
    if sparse.issparse(X) or K > MAX_CLASSES or X.shape[0] * X.shape[1] > MAX_NUMBERS:
        return False
    one_label = np.array_equal(problem.Y, np.eye(K)[problem.codes])
    return one_label and np.bincount(problem.codes, minlength=K).min() >= MIN_CLASS_ROWS


def _choose_rounds(X: Any, problem: RidgeProblem) -> tuple[int, Array] | None:
    """Choose the number of rounds of largest likelihood, with out-of-fold probabilities (n, K).

    Return None if all rows of a class are in one fold.
    """
    n, d = X.shape
    K = problem.Y.shape[1]
    n_trees = 1 if K == 2 else K
    max_trees = min(MAX_TREES, MAX_SPLITS * max(1.0, n / 500) / d)
    rounds = [r for r in ROUNDS if r * n_trees <= max_trees] or [ROUNDS[0]]
    first_rounds = [r for r in rounds if r <= FIRST_ROUNDS]
    for tried in (first_rounds, rounds):
        P = _out_of_fold_proba(BoostedTrees(n_rounds=tried[-1]), X, problem, tried, N_FOLDS)
        if P is None:
            return None
        label_values = log_probabilities(P)[:, np.arange(n), problem.codes]
        best = int(np.argmax(label_values @ problem.s))
        if best < len(tried) - 1 or tried == rounds:
            return tried[best], P[best]
    return None


def _out_of_fold_proba(
    trees: BoostedTrees, X: Any, problem: RidgeProblem, rounds: list[int], n_folds: int
) -> Array | None:
    """Compute out-of-fold probabilities (len(rounds), n, K) after each number of rounds.

    Return None if all rows of a class are in one fold.
    """
    n, K = problem.Y.shape
    folds = _content_folds(X, problem.codes, problem.groups, n_folds)
    P = np.zeros((len(rounds), n, K))
    for fold in range(n_folds):
        test = folds == fold
        train = ~test
        if len(np.unique(problem.codes[train])) < K:
            return None
        fitted = clone(trees).fit(X[train], problem.codes[train], problem.s[train])
        P[:, test] = fitted.staged_proba(X[test], rounds)
    return P


def _content_folds(X: Array, codes: Array, groups: Array | None, n_folds: int) -> Array:
    """Assign the rows of each class to folds by a hash of their content.

    Duplicates stay together, and so do groups.
    """
    keys = rank_hashes(X)[0]
    if groups is not None:
        codes = class_ranks(keys, codes)[codes]
        keys = group_sums(keys, groups)[groups]
        first_code = np.full(len(keys), codes.max())  # a group counts for the first of its classes
        np.minimum.at(first_code, groups, codes)
        codes = first_code[groups]
    return assign_folds(keys, n_folds, codes)


def _gain(F: Array, P: Array, problem: RidgeProblem) -> float:
    """Compute by how much held-out probabilities P raise the log likelihood of stacking."""
    Y = problem.Y
    weight = problem.row_weight
    with_trees = np.concatenate([F, log_probabilities(P)[:, :, None]], axis=2)
    loss = fit_stacking(F, Y, weight, matrix_scaling=False).log_loss
    loss_with_trees = fit_stacking(with_trees, Y, weight, matrix_scaling=False).log_loss
    return float(weight.sum() * (loss - loss_with_trees))
