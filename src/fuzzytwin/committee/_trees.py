"""Trees as members of a committee: gradient boosting, and a forest.

Ridge regressions are smooth. Labels that follow thresholds of single columns are learned better by
trees: boosted ones, whose number of rounds follows the held-out likelihood, and a forest, whose
held-out values cost nothing. Both are scikit-learn's. Their values F for stacking are log
probabilities of rows that they were not fitted to:

    boosting    out-of-fold. Rounds are added until the likelihood of the held-out folds falls.
    forest      out-of-bag. Each tree is fitted to one half of the rows (of the groups, if there are
                any), at most to `MAX_BAG` rows, and predicts the others.

No test decides whether trees are members: their stacking weights are zero if they add nothing. (A
test of the gain in likelihood was tried. With 480 rows, the log loss of new rows was higher.)

Rows, columns and classes are ordered by hashes of ranks, so that trees do not depend on their order
in the table, and columns are binned once for all fits. `TreeEnsemble` keeps the trees as plain
arrays, which model files and ONNX graphs hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier

from fuzzytwin._utils.types import Array
from fuzzytwin.committee._members import (
    CommitteeMember,
    FittedMember,
    RidgeProblem,
    log_probabilities,
)
from fuzzytwin.core.blocks import row_slices
from fuzzytwin.core.hashing import assign_folds, class_ranks, group_sums, rank_hashes

MAX_BINS = 255  # of scikit-learn's histograms
# The following were chosen on half of the larger tables of `python -m benchmarks committee`.
N_FOLDS = 3  # five gain about 0.1% of the log loss, and take two thirds longer
MIN_LEAVES, MAX_LEAVES = 15, 63
ROWS_PER_LEAF = 1500  # of a boosted tree of medium size
LEARNING_RATE = 0.1
ROUNDS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
MAX_TREES = 2048  # of all classes together
N_TREES = 100  # of a forest
MAX_BAG = 10_000  # rows of a tree of a forest


@dataclass(frozen=True, eq=False)
class TreeEnsemble:
    """Fitted trees as arrays: ``scores = baseline + sum over rounds of the leaves of a row``.

    Parameters
    ----------
    kind : str
        "boosted trees": probabilities are the softmax of the scores (of 0 and the score, if there
        are two classes). "forest": the scores are probabilities.
    feature, threshold : ndarray of shape (N,)
        Nodes of all trees: a row goes to the first child if its value of the column is at most the
        threshold.
    children : ndarray of shape (N, 2)
        Their children. Those of a leaf are the leaf itself.
    value : ndarray of shape (N, V)
        Values of the leaves: one number, or a number for each class.
    roots : ndarray of shape (n_rounds, T)
        Root of each tree: one tree per round, or one for each class.
    baseline : ndarray of shape (T * V,)
        Constants of the scores.
    depth : int
        Depth of the deepest tree.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinCommittee
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> y = (X[:, 0] > 0) & (X[:, 1] > 0.5)  # thresholds of two columns
    >>> *_, boosting, forest = FuzzyTwinCommittee().fit(X, y).members_
    >>> forest.trees.kind, forest.trees.roots.shape
    ('forest', (100, 1))
    """

    kind: str
    feature: Array
    threshold: Array
    children: Array
    value: Array
    roots: Array
    baseline: Array
    depth: int

    def is_sound(self, n_features: int, n_classes: int) -> bool:
        """Return whether prediction would end, and stay within the arrays, as in a model of ours.

        Parameters
        ----------
        n_features, n_classes : int
            Of the model.

        Returns
        -------
        bool
        """
        N = len(self.feature)
        n_scores = 1 if self.kind == "boosted trees" and n_classes == 2 else n_classes
        arrays = {
            "feature": (self.feature, (N,), "i"),
            "threshold": (self.threshold, (N,), "f"),
            "children": (self.children, (N, 2), "i"),
            "value": (self.value, (N, 1 if self.kind == "boosted trees" else n_scores), "f"),
            "roots": (self.roots, (len(self.roots), n_scores // self.value.shape[1]), "i"),
            "baseline": (self.baseline, (n_scores,), "f"),
        }
        if vars(self).keys() != {"kind", "depth", *arrays} or type(self.depth) is not int:
            return False
        if self.kind not in ("boosted trees", "forest"):
            return False
        for array, shape, kind in arrays.values():
            if type(array) is not np.ndarray or array.shape != shape or array.dtype.kind != kind:
                return False
        own = np.arange(N)[:, None]
        # A child has a greater number than its parent, or is the leaf itself: there is no cycle.
        if not ((self.children >= own) & (self.children < N)).all():
            return False
        if not ((self.feature >= 0) & (self.feature < n_features)).all():
            return False
        if not (((self.roots >= 0) & (self.roots < N)).all() and np.isfinite(self.value).all()):
            return False
        depth = 0
        level = np.unique(self.roots)
        while len(level := np.unique(self.children[level][self.children[level] > level[:, None]])):
            depth += 1
        return depth == self.depth

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
        scores = np.empty((len(X), len(self.baseline)))
        for block in row_slices(len(X), self.roots.size * self.value.shape[1]):
            leaves = self._leaves(np.asarray(X[block], dtype=np.float64))
            values = self.value[leaves].reshape(len(leaves), len(self.roots), -1)
            scores[block] = values.sum(axis=1) + self.baseline
        if self.kind == "forest":
            return scores
        if scores.shape[1] == 1:
            scores = np.column_stack([np.zeros(len(scores)), scores])
        return np.asarray(softmax(scores, axis=1))

    def _leaves(self, X: Array) -> Array:
        """Find the leaf of each row in each tree, of shape (n, n_rounds * T)."""
        node = np.tile(self.roots.ravel(), (len(X), 1))
        for _ in range(self.depth):
            values = np.take_along_axis(X, self.feature[node], axis=1)
            node = self.children[node, (values > self.threshold[node]).astype(np.intp)]
        return node


def fit_trees(problem: RidgeProblem) -> list[FittedMember]:
    """Fit boosted trees and a forest: none to rows sparse or equal, or labels soft or too few.

    Columns need no scaling. The values of the members are held-out log probabilities of all rows.
    """
    X = problem.Z
    K = problem.Y.shape[1]
    one_label = np.array_equal(problem.Y, np.eye(K)[problem.codes])
    if sparse.issparse(X) or not one_label or (X.min(axis=0) == X.max(axis=0)).all():
        return []
    folds = _content_folds(X, problem.codes, problem.groups, N_FOLDS)
    counts = np.zeros((N_FOLDS, K))
    np.add.at(counts, (folds, problem.codes), 1)
    if not (counts.sum(axis=0) - counts).all():  # without some fold, a class has no rows
        return []
    table = OrderedTable.of(np.asarray(X, dtype=np.float64), problem)
    return [_boosting(table, folds, problem), _forest(table, problem)]


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


@dataclass(frozen=True, eq=False)
class OrderedTable:
    """Binned rows in an order of rows, columns and classes that does not depend on the table's."""

    bins: Array  # (n, d), in float32 as scikit-learn's trees take it
    codes: Array
    weight: Array
    units: Array  # number of the row, or of its group
    copies: Array  # a number that copies of a row have in common
    thresholds: list[Array]  # between the bins of each column, in the table's order of columns
    rows: Array
    columns: Array
    classes: Array

    @classmethod
    def of(cls, X: Array, problem: RidgeProblem) -> OrderedTable:
        """Bin and order rows with their classes, weights and groups."""
        bins, thresholds = _bin_columns(X)
        row_keys, column_keys = rank_hashes(bins)
        class_rank = class_ranks(row_keys, problem.codes)
        classes = np.argsort(class_rank)
        codes = class_rank[problem.codes]
        # Sums over chunks differ in their last digits, by which ties between splits are decided.
        weight = problem.s.astype(np.float32).astype(np.float64)
        rows = np.lexsort((weight, codes, row_keys))
        columns = np.argsort(column_keys, kind="stable")
        # A forest draws columns: one that is constant must not take the place of another.
        columns = columns[[len(thresholds[j]) > 0 for j in columns]]
        copy_keys = [row_keys, codes.astype(np.uint64), weight.view(np.uint64)]
        is_new = (np.diff(np.column_stack(copy_keys)[rows], axis=0) != 0).any(axis=1)
        units = np.arange(len(rows))
        if problem.groups is not None:  # numbered by their first row in this order
            _, first, group = np.unique(
                problem.groups[rows], return_index=True, return_inverse=True
            )
            units = np.argsort(np.argsort(first))[group.ravel()]
        return cls(
            bins=np.ascontiguousarray(bins[np.ix_(rows, columns)], dtype=np.float32),
            codes=codes[rows],
            weight=weight[rows],
            units=units,
            copies=np.append(0, np.cumsum(is_new)),
            thresholds=thresholds,
            rows=rows,
            columns=columns,
            classes=classes,
        )

    def in_table_order(self, P: Array) -> Array:
        """Put probabilities (n, K) into the order of the rows and classes of the table."""
        out = np.empty_like(P)
        out[np.ix_(self.rows, self.classes)] = P
        return out

    def column_nodes(self, feature: Array, bin_number: Array, is_leaf: Array) -> dict[str, Array]:
        """Turn columns and bins of nodes into columns and thresholds of the table."""
        feature = np.where(is_leaf, 0, self.columns[np.where(is_leaf, 0, feature)])
        sizes = np.array([len(values) for values in self.thresholds])
        starts = np.cumsum(sizes) - sizes
        threshold = np.full(len(feature), np.inf)
        inner = ~is_leaf
        every_threshold = np.concatenate([*self.thresholds, np.zeros(1)])
        threshold[inner] = every_threshold[starts[feature[inner]] + bin_number[inner]]
        return {"feature": feature, "threshold": threshold}


def _bin_columns(X: Array) -> tuple[Array, list[Array]]:
    """Replace values by the numbers of at most `MAX_BINS` bins of each column.

    Also return the thresholds between bins. (scikit-learn's own bins depend on the order of sums.)
    """
    bins = np.empty(X.shape, dtype=np.float32)
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


def _member(trees: TreeEnsemble, P: Array, problem: RidgeProblem, note: str) -> FittedMember:
    """Return trees with held-out probabilities P (n, K) as a member."""
    error = float(problem.s @ ((P - problem.Y) ** 2).sum(axis=1) / problem.s.sum())
    values = log_probabilities(P)
    member = CommitteeMember(f"{trees.kind}{note}", error=error, trees=trees)
    return FittedMember(member, values, values)


def _boosting(table: OrderedTable, folds: Array, problem: RidgeProblem) -> FittedMember:
    """Fit boosted trees, with the number of rounds of largest held-out likelihood."""
    folds = folds[table.rows]
    n, K = problem.Y.shape
    trees_per_round = 1 if K == 2 else K
    rounds = [r for r in ROUNDS if r * trees_per_round <= MAX_TREES] or [ROUNDS[0]]
    models = {fold: _new_boosting(n) for fold in np.unique(folds)}  # few distinct rows: two
    best_loss = np.inf
    best_rounds = 0
    done = 0
    for last in [r for r in rounds if r >= 32 and r & (r - 1) == 0] or rounds[-1:]:
        tried = [r for r in rounds if done < r <= last]
        P = np.zeros((len(tried), n, K))
        for fold, model in models.items():
            train = folds != fold
            test = ~train
            model.set_params(max_iter=last)
            model.fit(table.bins[train], table.codes[train], table.weight[train])
            for r, proba in enumerate(model.staged_predict_proba(table.bins[test]), start=1):
                if r in tried:
                    P[tried.index(r), test] = proba
        label_values = log_probabilities(P)[:, np.arange(n), table.codes]
        losses = -(label_values @ table.weight)
        i = int(np.argmin(losses))
        if losses[i] < best_loss:
            best_loss = losses[i]
            best_rounds = tried[i]
            best_proba = P[i].copy()
        if best_rounds < last:
            break
        done = last
    model = _new_boosting(n).set_params(max_iter=best_rounds)
    model.fit(table.bins, table.codes, table.weight)
    proba = table.in_table_order(best_proba)
    return _member(_boosted_arrays(model, table), proba, problem, f", {best_rounds} rounds")


def _new_boosting(n: int) -> HistGradientBoostingClassifier:
    """Make boosted trees for a table of n rows, which can be fitted round by round."""
    return HistGradientBoostingClassifier(
        learning_rate=LEARNING_RATE,
        max_leaf_nodes=int(np.clip(n / ROWS_PER_LEAF, MIN_LEAVES, MAX_LEAVES)),
        early_stopping=False,
        warm_start=True,
        random_state=0,
    )


def _boosted_arrays(model: HistGradientBoostingClassifier, table: OrderedTable) -> TreeEnsemble:
    """Return the arrays of boosted trees."""
    # scikit-learn gives no public access to nodes. CI tests its oldest and newest versions.
    trees = [[tree.nodes for tree in trees] for trees in model._predictors]  # noqa: SLF001
    sizes = np.array([[len(nodes) for nodes in trees_of_round] for trees_of_round in trees])
    roots = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
    nodes = np.concatenate([nodes for trees_of_round in trees for nodes in trees_of_round])
    is_leaf = nodes["is_leaf"].astype(bool)
    children = np.column_stack([nodes["left"], nodes["right"]]).astype(np.intp)
    value = np.where(is_leaf, nodes["value"], 0.0)
    baseline = np.ravel(model._baseline_prediction).astype(np.float64)  # noqa: SLF001
    if len(table.classes) > 2:
        tree_of_class = np.argsort(table.classes)
        baseline = baseline[tree_of_class]
    elif table.classes[0] == 1:  # the trees are of the first class
        value = -value
        baseline = -baseline
    return TreeEnsemble(
        "boosted trees",
        **table.column_nodes(
            nodes["feature_idx"].astype(np.intp), nodes["num_threshold"].astype(np.intp), is_leaf
        ),
        children=_absolute(children, is_leaf, roots, sizes),
        value=value[:, None],
        roots=roots[:, tree_of_class] if len(table.classes) > 2 else roots,
        baseline=baseline,
        depth=int(nodes["depth"].max()),
    )


def _absolute(children: Array, is_leaf: Array, roots: Array, sizes: Array) -> Array:
    """Return children by their places among the nodes of all trees."""
    children = children + np.repeat(roots.ravel(), sizes.ravel())[:, None]
    children[is_leaf] = np.flatnonzero(is_leaf)[:, None]
    return children


def _forest(table: OrderedTable, problem: RidgeProblem) -> FittedMember:
    """Fit a forest, with out-of-bag probabilities."""
    n, K = problem.Y.shape
    n_units = int(table.units.max()) + 1
    rows_per_unit = n / n_units
    bag_size = max(1, min(n_units // 2, int(MAX_BAG / rows_per_unit)))
    P = np.zeros((n, K))
    n_out: Array = np.zeros(n)
    trees = []
    for t in range(N_TREES):
        drawn = np.zeros(n_units, dtype=bool)
        drawn[np.random.RandomState(t).permutation(n_units)[:bag_size]] = True
        in_bag = drawn[table.units]
        out_of_bag = ~in_bag
        tree = DecisionTreeClassifier(max_features="sqrt", min_samples_leaf=2, random_state=t)
        tree.fit(table.bins[in_bag], table.codes[in_bag], table.weight[in_bag], check_input=False)
        values = np.zeros((tree.tree_.node_count, K))
        values[:, tree.classes_] = tree.tree_.value[:, 0]
        trees.append((tree.tree_, values))
        P[out_of_bag] += values[tree.tree_.apply(table.bins[out_of_bag])]
        n_out += out_of_bag
    # Copies of a row have one value, whatever their order.
    sums = np.zeros((table.copies[-1] + 1, K))
    np.add.at(sums, table.copies, P)
    P = sums[table.copies]
    n_out = np.bincount(table.copies, n_out)[table.copies]
    # A row that is in every bag has no held-out values: it gets the shares of the classes.
    share = np.bincount(table.codes, table.weight, K) / table.weight.sum()
    P = np.where(n_out[:, None] > 0, P / np.maximum(n_out, 1)[:, None], share)
    return _member(_forest_arrays(trees, table), table.in_table_order(P), problem, "")


def _forest_arrays(trees: list[tuple[Any, Array]], table: OrderedTable) -> TreeEnsemble:
    """Return the arrays of a forest."""
    nodes = [tree for tree, _ in trees]
    sizes = np.array([tree.node_count for tree in nodes])
    roots = np.cumsum(sizes) - sizes
    left = np.concatenate([tree.children_left for tree in nodes])
    right = np.concatenate([tree.children_right for tree in nodes])
    is_leaf = left < 0
    threshold = np.concatenate([tree.threshold for tree in nodes])
    feature = np.concatenate([tree.feature for tree in nodes])
    value = np.concatenate([values for _, values in trees])[:, np.argsort(table.classes)]
    value[~is_leaf] = 0.0
    return TreeEnsemble(
        "forest",
        # Bins are whole numbers, so that a threshold lies half-way between two of them or more.
        **table.column_nodes(feature, np.floor(threshold).astype(np.intp), is_leaf),
        children=_absolute(np.column_stack([left, right]), is_leaf, roots, sizes),
        value=value / len(trees),
        roots=roots[:, None],
        baseline=np.zeros(value.shape[1]),
        depth=int(max(tree.max_depth for tree in nodes)),
    )
