"""find_doubtful; users find it in `fuzzytwin.doubts`."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import (
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
    cross_val_predict,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import has_fit_parameter

from fuzzytwin._duplicates import encode_groups
from fuzzytwin._params import check_weights, is_whole
from fuzzytwin._rows import (
    check_finite,
    encode,
    held_classes,
    is_missing,
    naming_text_columns,
    refuse_missing,
)
from fuzzytwin._utils.types import Array, canonical
from fuzzytwin.committee._classifiers import weights_for
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.committee._fit import Learned
from fuzzytwin.committee._members import CommitteeMember, is_probabilistic
from fuzzytwin.committee._noise import fit_noise, rows_to_flag
from fuzzytwin.core.hashing import copies_in_groups
from fuzzytwin.core.weights import mean_weight
from fuzzytwin.doubts.report import DoubtsReport
from fuzzytwin.doubts.settle import NORMAL_95
from fuzzytwin.doubts.votes import join_columns, read_votes, refuse_single_labels
from fuzzytwin.twin._svc import FuzzyTwinSVC

# Chosen on the tables of benchmarks/doubts.py's first half: more kernels or landmarks find no more.
MEMBERS = (
    "linear",
    ("rbf", {"reach": 2.0}),
    ("rbf", {"reach": 1.0}),
    ("laplacian", {"reach": 4.0}),
    ("laplacian", {"reach": 1.0}),
)
# Of landmarks, each class has some: with too few, planes are blunt, and rows doubtful for that.
LANDMARKS_PER_CLASS = 12
FEWEST_LANDMARKS, MOST_LANDMARKS = 120, 400


def find_doubtful(
    X: Any,
    y: Any = None,
    estimator: Any = None,
    sample_weight: Any = None,
    *,
    groups: Any = None,
    votes: Any = None,
    cv: Any = 5,
    ids: Any = None,
    id_name: str = "id",
    random_state: Any = 0,
    verbose: int = 0,
) -> DoubtsReport:
    r"""Find rows whose labels are probably wrong.

    Every row is judged by models that never saw it. From their values F, a model of how labels
    come about is fitted to the labels given, in two readings. By chance: the true class j has
    probability p_ij, and label k is then written down with probability T_jk, wherever a row lies,

        p_i = softmax_k(sum_m t_m F_ikm + b_k),    P(label k) = sum_j p_ij T_jk.

    At the border: labels have the probabilities q_i of their own, and the truth is sharper than
    they are, as people err where classes meet. Both give the degree to which each label is right,
    by Bayes' rule, and are averaged by how much better the first explains the labels (see
    `fuzzytwin.committee._noise`). Flagged are the rows of greatest expected F1. None are flagged,
    and no number of wrong labels is claimed, where the columns do not tell the classes apart.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, d)
        Rows; numbers, unless `estimator` takes others. Frames keep their index.
    y : array-like of shape (n,), default=None
        Their labels, of any kind, at least two different ones. None where votes are given: then
        the label of a row is the one with most votes.
    estimator : classifier, default=None
        None: a committee of our planes (linear, RBF and Laplacian kernels, two gammas each, the
        ridge of least leave-one-out error), each row by planes that never saw it in closed form;
        columns are scaled by `StandardScaler` first. A `FuzzyTwinCommittee`: with its members. An
        estimator with `loo_membership`, such as `FuzzyTwinSVC`: its leave-one-out memberships. Any
        other classifier with `predict_proba`: probabilities out of folds.
    sample_weight : array-like of shape (n,), default=None
        Importance of each row for what is learned: a row is left out with all of its weight, and a
        common factor of all weights changes nothing. Rows of weight 0 are judged too.
    groups : array-like of shape (n,), default=None
        Rows that belong together, such as the visits of one patient or copies of one record. They
        are left out together, or they would vouch for each other.
    votes : array-like of shape (n, A), default=None
        Label that each of several annotators gave each row; None, NaN, "", "NA" or -1 where there
        is none. Votes and columns are then weighed together: every annotator has a matrix of their
        own, found along with the true classes.
    cv : int, cross-validation generator or iterable, default=5
        Folds for other classifiers; a number means shuffled stratified folds, fewer where a
        class has fewer rows.
    ids : str or array-like of shape (n,), default=None
        Names of the rows: a column of X, which is then not learned from, or the names.
    id_name : str, default="id"
        What given names are called in `to_frame`.
    random_state : int, RandomState instance or None, default=0
        For landmarks and folds.
    verbose : int, default=0
        1 shows a progress bar.

    Returns
    -------
    DoubtsReport
        With `degrees`, `suggested`, `doubtful`, `order`, `noise_matrix`, `n_wrong` and its
        interval, `estimator`, `setting`, `to_frame()`, `summary()`, `to_ask()` and `settle()`.

    Raises
    ------
    ValueError
        For gaps, text or infinity in X (naming the column), labels that are missing or all
        alike, weights below zero, a class too small for folds.

    Notes
    -----
    Wrong labels and classes that overlap look alike to any model: the number of wrong labels is an
    estimate, and its interval is wide where both readings are possible. Some thirty rows that a
    person has looked at settle it: see `DoubtsReport.settle`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fuzzytwin.doubts.find import find_doubtful
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> wrong = np.random.default_rng(0).choice(len(y), 50, replace=False)
    >>> y[wrong] = 1 - y[wrong]
    >>> report = find_doubtful(X, y)
    >>> bool(np.isin(report.order[:50], wrong).mean() > 0.8)
    True
    """
    X, index, ids, id_name = _named_rows(X, y, ids, id_name)
    if y is None and votes is None:
        raise ValueError("y is missing; give the labels, or votes=... of several annotators.")
    if isinstance(y, str):
        raise ValueError(
            f"y={y!r} is a string; give the labels themselves, one for each row: for a column of a "
            f"frame find_doubtful(frame.drop(columns={y!r}), frame[{y!r}])."
        )
    if y is not None:
        y = column_or_1d(y)
        check_consistent_length(X, y, votes)
        refuse_missing(np.array([is_missing(label) for label in y.tolist()]))
    labelled = y if votes is None else votes
    if ids is not None and len(ids) != len(labelled):
        raise ValueError(
            f"ids has {len(ids)} names for {len(labelled)} rows; give one for each row."
        )
    if votes is not None:
        if estimator is not None and not isinstance(estimator, FuzzyTwinCommittee):
            raise ValueError(
                f"estimator={estimator!r} does not take votes; leave it out, or give a "
                "FuzzyTwinCommittee."
            )
        report = _by_votes(estimator, _numbers(X), y, votes, sample_weight, groups, random_state)
        return replace(report, index=index, ids=ids, id_name=id_name)
    classes, codes = encode(y, None)
    codes = codes.astype(np.intp)
    if len(classes) < 2:
        raise ValueError(
            f"y has one class only ({classes[0]}); give labels of at least two classes."
        )
    s = check_weights(sample_weight, len(y))
    held = held_classes(codes, s, None, len(classes))
    if not held.all():
        raise ValueError(
            f"sample_weight is zero for every row of class {classes[int(held.argmin())]}; give "
            "some of them weight, or leave these rows out."
        )
    groups = None if groups is None else encode_groups(groups, len(y))
    if estimator is None or isinstance(estimator, FuzzyTwinCommittee):
        F, learned, used, setting = _committee(
            estimator, _numbers(X), y, len(classes), s, groups, random_state, verbose
        )
        assert learned.noise is not None
        noise = learned.noise
        least = noise.least_wrong(learned.F, learned.rows.codes)
    else:
        P, setting = _probabilities(estimator, X, y, classes, codes, s, groups, cv, random_state)
        weight = np.ones(len(y)) if s is None else s
        weight = weight / mean_weight(weight, groups)
        F = _log_probabilities(P, float(weight.sum()))
        noise, used = fit_noise(F, codes, weight), clone(estimator)
        counted = _rows_that_count(X, codes, weight, groups)
        least = noise.least_wrong(F[counted], codes[counted])
    posterior = noise.posterior(F, codes)
    wrong = 1 - posterior[np.arange(len(y)), codes]
    flags = wrong >= least
    times = len(y) / noise.n_rows
    low, high = (times * end for end in noise.interval)
    number = float(wrong.sum())  # of all rows; the interval is that of a sample where they are many
    interval = (min(low, number), max(high, number)) if noise.tells else (low, high)
    return DoubtsReport(
        classes, codes, posterior, flags, interval, used, setting,
        index=index, ids=ids, id_name=id_name, tells=noise.tells,
    )  # fmt: skip


def default_committee(
    random_state: Any, verbose: int = 0, n_classes: int = 2
) -> FuzzyTwinCommittee:
    """Return the committee that judges rows where none is given."""
    count = min(max(FEWEST_LANDMARKS, LANDMARKS_PER_CLASS * n_classes), MOST_LANDMARKS)
    return FuzzyTwinCommittee(
        list(MEMBERS), noise="auto", n_landmarks=count, random_state=random_state, verbose=verbose
    )


def _committee(
    given: FuzzyTwinCommittee | None,
    X: Any,
    y: Array,
    K: int,
    s: Array | None,
    groups: Any,
    random_state: Any,
    verbose: int,
) -> tuple[Array, Learned, Any, str]:
    """Fit a committee; return left-out values, what was learned, its leader and words."""
    model = default_committee(random_state, verbose, K) if given is None else clone(given)
    learned, F = model.set_params(noise="auto").fit_values(X, y, s, groups=groups)
    assert F is not None
    assert learned.noise is not None
    members = [
        replace(member, weight=float(t))
        for member, t in zip(model.members_, learned.noise.labels.weights, strict=True)
    ]
    used = clone(given) if given is not None else _leader(members, F, random_state)
    return F, learned, used, _words(members)


def _by_votes(
    given: FuzzyTwinCommittee | None,
    X: Any,
    y: Any,
    votes: Any,
    sample_weight: Any,
    groups: Any,
    random_state: Any,
) -> DoubtsReport:
    """Weigh votes and columns together; y, if there is one, is one more vote."""
    codes, labels, names = read_votes(votes, None, y)
    check_consistent_length(X, codes)
    K, rows = len(labels), np.arange(len(codes))
    if len(codes) < K:
        raise ValueError(
            f"votes holds {K} labels for {len(codes)} rows; give more rows, or leave out labels "
            "that are rare."
        )
    refuse_single_labels(codes, K)
    label = None if y is None else codes[:, -1]
    model = default_committee(random_state, 0, K) if given is None else clone(given)
    model.set_params(noise=None)

    def probabilities(degrees: Array) -> Array:
        """Learn from degrees; probabilities of each row by planes that never saw it."""
        arguments = (X, _likeliest(degrees), sample_weight, degrees, groups)
        return np.asarray(model.fit(*arguments).loo_proba(*arguments))

    degrees, annotators = join_columns(codes, labels, names, probabilities)
    if label is None:
        counts = np.stack([(codes == k).sum(axis=1) for k in range(K)], axis=1)
        label = (counts + 0.5 * degrees).argmax(axis=1)  # a tie goes to the likelier one
    wrong = 1 - degrees[rows, label]
    number, deviation = wrong.sum(), np.sqrt((wrong * (1 - wrong)).sum() + (0.2 * wrong.sum()) ** 2)
    half = NORMAL_95 * deviation
    interval = max(0.0, number - half), min(float(len(rows)), number + half)
    return DoubtsReport(
        labels, label, degrees, rows_to_flag(wrong), interval, clone(model),
        f"votes of {codes.shape[1]} annotators, and {_words(model.members_)}",
        annotators=annotators,
    )  # fmt: skip


def _likeliest(degrees: Array) -> Array:
    """Return the likeliest class of each row, or one of its others, so that all classes occur."""
    best = degrees.argmax(axis=1)
    classes = degrees.shape[1]
    for k in np.setdiff1d(np.arange(classes), best):
        free = np.bincount(best, minlength=classes)[best] > 1  # another row has this class
        best[np.where(free, degrees[:, k], -1.0).argmax()] = k
    return best


def _named_rows(X: Any, y: Any, ids: Any, id_name: str) -> tuple[Any, Any, Array | None, str]:
    """Return rows without their column of names, their index, their names, and its name."""
    index = next((part.index for part in (X, y) if hasattr(part, "iloc")), None)
    if not isinstance(ids, str):
        return X, index, None if ids is None else column_or_1d(ids), id_name
    columns = {str(name): name for name in getattr(X, "columns", ())}
    if ids not in columns:
        known = f"its columns are {', '.join(list(columns)[:10])}" if columns else "X has no names"
        raise ValueError(
            f"ids={ids!r} is not a column of X; {known}. Give the name of a column, or the names."
        )
    names, column = np.asarray(X[columns[ids]]), columns[ids]
    rest = X.drop(columns=column) if hasattr(X, "iloc") else X.drop(column)
    return rest, index, names, ids


def _numbers(X: Any) -> Any:
    """Validate rows for our own planes."""
    with naming_text_columns(X):
        rows = check_array(
            X, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False, input_name="X"
        )
    check_finite(rows, getattr(X, "columns", None))
    return canonical(rows)


def _probabilities(
    estimator: Any,
    X: Any,
    y: Array,
    classes: Array,
    codes: Array,
    s: Array | None,
    groups: Any,
    cv: Any,
    random_state: Any,
) -> tuple[Array, str]:
    """Return probabilities of each row by models that never saw it, and how they came about."""
    name = type(estimator).__name__
    if hasattr(estimator, "loo_membership"):
        given = {"groups": groups} if has_fit_parameter(estimator, "groups") else {}
        fitted = clone(estimator).fit(X, y, sample_weight=s, **given)
        each = "row" if groups is None else "group"
        return fitted.loo_membership(X, y, s, groups=groups), f"{name}, leaving out each {each}"
    if not is_probabilistic(estimator):
        raise ValueError(
            f"estimator={estimator!r} is not a classifier with predict_proba; give one, such as "
            "LogisticRegression(), or None for our own."
        )
    if is_whole(cv):
        fewest = int(np.bincount(codes).min())
        if min(cv, fewest) < 2:
            raise ValueError(
                f"class {classes[int(np.bincount(codes).argmin())]} has {fewest} row(s) and "
                f"cv={cv!r}; folds need two: give cv=2 or more, and leave smaller classes out."
            )
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        cv = kind(min(int(cv), fewest), shuffle=True, random_state=random_state)
    folds = check_cv(cv, y, classifier=True)
    params = weights_for(estimator, s, stacklevel=4)
    with warnings.catch_warnings(), config_context(enable_metadata_routing=False):
        warnings.filterwarnings("ignore", "Number of classes in training fold")
        P = cross_val_predict(
            estimator, X, y, groups=groups, cv=folds, method="predict_proba", params=params
        )
    return np.asarray(P), f"{name} out of {folds.get_n_splits(X, y, groups)} folds"


def _rows_that_count(X: Any, codes: Array, weight: Array, groups: Array | None) -> Array:
    """Find the rows of positive weight, and of copies in one group one, if X holds numbers."""
    first = np.arange(len(codes))
    if groups is not None and (sparse.issparse(X) or np.asarray(X).dtype.kind in "fiub"):
        copies = copies_in_groups(_numbers(X), codes, weight, None, groups)
        first = first if copies is None else copies[0]
    return np.asarray(first[weight[first] > 0])


def _log_probabilities(P: Array, n_rows: float) -> Array:
    """Take logarithms of probabilities, as values (n, K, 1) of one model of this many rows."""
    least = 1 / (2 * n_rows)
    return np.asarray(np.log((P + least) / (1 + P.shape[1] * least))[:, :, None])


def _leader(members: list[CommitteeMember], F: Array, random_state: Any) -> Pipeline:
    """Make an unfitted pipeline with the planes that move the log-odds most."""
    at = np.argmax([m.weight * F[:, :, j].std() for j, m in enumerate(members)])
    leader = members[int(at)]
    planes = FuzzyTwinSVC(alpha=leader.alpha or 0.0, rule="residual", multi_class="ovr")
    if leader.gamma is not None:
        planes.set_params(
            kernel=leader.kernel, gamma=leader.gamma, n_landmarks=MOST_LANDMARKS,
            random_state=random_state,
        )  # fmt: skip
    return make_pipeline(StandardScaler(), planes)


def _words(members: list[CommitteeMember]) -> str:
    most = max(member.weight for member in members)
    parts = "; ".join(str(member) for member in members if member.weight > most / 100)
    return f"leave-one-out planes on scaled columns ({parts or 'none tells the classes apart'})"
