"""Votes of several annotators: soft labels, confusion matrices, and votes with features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from typing import Any, Literal, overload

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from fuzzytwin._params import check_choice
from fuzzytwin._rows import is_missing
from fuzzytwin._utils.notices import warn_user
from fuzzytwin._utils.types import Array
from fuzzytwin.tables._parse import MISSING

MAX_ITERATIONS = 1000
TOLERANCE = 1e-10  # of the log likelihood, relative
NO_VOTES = {*MISSING, "-1", "-1.0"}  # unless they are named as labels
JOINT_ITERATIONS = 3  # fits of the model of the features, each to the latest memberships
PRIOR_VOTES = 4.0  # in each class, added for each annotator
PRIOR_ACCURACY = 0.6  # of these votes


@dataclass(frozen=True, eq=False)
class Annotators:
    """Estimated confusion matrices of annotators.

    Parameters
    ----------
    classes : ndarray of shape (K,)
        Labels, in the order of the columns of the soft labels.
    names : list
        Names of the annotators: columns of a data frame, or numbers.
    confusion : ndarray of shape (A, K, K)
        Probability that an annotator gives a row of each true class (row) each label (column). NaN
        if none of their rows is of that class.
    priors : ndarray of shape (K,)
        Share of each class.
    reliability : ndarray of shape (A,)
        Expected share of correct votes (accuracy) of each annotator.
    log_likelihood : float
        Log likelihood of the votes; NaN for "shares".

    Examples
    --------
    >>> from fuzzytwin.label_issues import soft_labels
    >>> votes = [["a", "a", "b"], ["b", "b", "b"], ["a", "a", "a"], ["b", "b", "a"]]
    >>> degrees, annotators = soft_labels(votes, method="dawid-skene", return_annotators=True)
    >>> annotators.reliability.round(2)
    array([1. , 1. , 0.5])
    """

    classes: Array
    names: list[Any]
    confusion: Array
    priors: Array
    reliability: Array
    log_likelihood: float


@overload
def soft_labels(
    votes: Any, method: str = ..., *, classes: Any = ..., return_annotators: Literal[False] = ...
) -> Array: ...
@overload
def soft_labels(
    votes: Any, method: str = ..., *, classes: Any = ..., return_annotators: Literal[True]
) -> tuple[Array, Annotators]: ...
def soft_labels(
    votes: Any, method: str = "shares", *, classes: Any = None, return_annotators: bool = False
) -> Array | tuple[Array, Annotators]:
    r"""Turn the votes of several annotators into soft labels.

    "shares": the membership in class k is its share of the votes on a row. "dawid-skene" (Dawid and
    Skene, 1979) estimates the confusion matrix of each annotator. With the share pi_k of class k
    and the probability theta_akl that annotator a gives a row of class k the label l,

        L = sum_i log sum_k pi_k prod_{a: a voted on i} theta_ak,v_ia

    is maximised by expectation maximisation, which begins with the shares. Memberships are the
    probabilities of the classes, given the votes.

    Parameters
    ----------
    votes : array-like of shape (n, A)
        Label that each annotator gave each row. None, NaN, -1 and the marks of missing values in
        files ("", "?", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "NULL", "null", "#N/A" and the
        like) are no vote, unless `classes` names them. The text "None" is a label.
    method : {"shares", "dawid-skene"}, default="shares"
        How to combine votes. "dawid-skene" needs several votes on most rows, and annotators with
        many votes. With few votes, "shares" is safer.
    classes : array-like of shape (K,), default=None
        All labels, in the order of the columns; None for those that occur, sorted.
    return_annotators : bool, default=False
        Whether to return the confusion matrices of the annotators too.

    Returns
    -------
    memberships : ndarray of shape (n, K)
        Rows sum to 1. For ``fit(X, y, membership=memberships)``, with labels y that contain every
        class, such as ``classes[memberships.argmax(axis=1)]``.
    annotators : Annotators
        Only if `return_annotators`.

    Raises
    ------
    ValueError
        For rows without any vote, fewer than two classes, labels that are not in `classes`, or
        votes of -1 and only one other label. With "dawid-skene" also if every annotator uses one
        label only, because their errors cannot be distinguished then.

    Examples
    --------
    >>> from fuzzytwin.label_issues import soft_labels
    >>> votes = [["a", "a", None], ["b", "a", "b"], ["b", "b", ""], ["a", "b", "a"]]
    >>> soft_labels(votes).round(2)
    array([[1.  , 0.  ],
           [0.33, 0.67],
           [0.  , 1.  ],
           [0.67, 0.33]])
    >>> degrees, annotators = soft_labels(votes, "dawid-skene", return_annotators=True)
    >>> annotators.reliability.round(2).tolist()
    [1.0, 0.5, 1.0]
    """
    check_choice("method", method, ("shares", "dawid-skene"))
    codes, labels, names = read_votes(votes, classes)
    cast, degrees = _votes_and_shares(codes, len(labels))
    weight = np.ones(len(codes))
    likelihood = np.nan
    if method == "dawid-skene":
        check_several_labels(codes, len(labels))
        degrees, likelihood, converged = _maximise_likelihood(cast, degrees, weight)
        if not converged:
            warn_user(
                f"method='dawid-skene' did not converge in {MAX_ITERATIONS} iterations; use "
                "method='shares', or give more votes.",
                ConvergenceWarning,
            )
    if not return_annotators:
        return degrees
    return degrees, _describe(cast, degrees, weight, labels, names, likelihood)


def _describe(
    cast: Any, degrees: Array, weight: Array, labels: Array, names: list[Any], likelihood: float
) -> Annotators:
    """Estimate the confusion matrices of annotators, given the memberships of the rows."""
    priors, theta, counts = _maximise(cast, degrees, weight)
    correct = np.einsum("akk->a", counts)
    total = counts.sum(axis=(1, 2))
    reliability = np.divide(correct, total, out=np.full(len(names), np.nan), where=total > 0)
    return Annotators(labels, names, theta, priors, reliability, likelihood)


def combine_with_votes(
    codes: Array,
    weight: Array,
    labels: Array,
    names: list[Any],
    probabilities: Callable[[Array], Array],
) -> tuple[Array, Annotators]:
    r"""Combine votes with leave-one-out predictions from the features.

    In turn, a model of the features that is fitted to the memberships u of the other rows gives the
    probabilities q_i of the classes of a row, and votes correct them,

        u_ik = q_ik prod_a theta_ak,v_ia / sum_l q_il prod_a theta_al,v_ia,

    with the confusion matrices theta of the annotators from the same memberships, by expectation
    maximisation, in which a row counts by its weight, in units of what is held out together.
    `PRIOR_VOTES` are added to the counts in theta, so that an annotator with few votes is not taken
    as perfect. `probabilities` computes leave-one-out q from u (n, K).
    """
    K = len(labels)
    cast, degrees = _votes_and_shares(codes, K, added=0.5 / K)
    wrong_share = (1 - PRIOR_ACCURACY) / (K - 1)
    prior = PRIOR_VOTES * np.where(np.eye(K, dtype=bool), PRIOR_ACCURACY, wrong_share)
    likelihood = np.nan
    for _ in range(JOINT_ITERATIONS):
        q = np.maximum(probabilities(degrees), 1e-6)
        degrees, likelihood, _ = _maximise_likelihood(cast, degrees, weight, q, prior)
    return degrees, _describe(cast, degrees, weight, labels, names, likelihood)


def check_several_annotators(codes: Array, names: list[Any]) -> None:
    """Raise a ValueError unless two annotators have votes, and warn of those without any."""
    has_votes: list[bool] = np.any(codes >= 0, axis=0).tolist()
    if sum(has_votes) < 2:
        raise ValueError(
            "votes holds the labels of one annotator only, but needs at least two annotators; give "
            "the labels of one person as y."
        )
    for name in [name for name, voted in zip(names, has_votes, strict=True) if not voted]:
        warn_user(f"votes holds no vote of annotator {name!r}; leave out this column.")


def check_several_labels(codes: Array, K: int) -> None:
    """Raise a ValueError if no annotator uses two labels."""
    if np.stack([(codes == k).any(axis=0) for k in range(K)]).sum(axis=0).max() < 2:
        raise ValueError(
            "every annotator in votes uses one label only, so that their errors cannot be "
            "distinguished; give votes of annotators who use several labels, or use "
            "soft_labels(votes, method='shares')."
        )


def read_votes(
    votes: Any, classes: Any, y: Any = None, *, allow_empty: bool = False
) -> tuple[Array, Array, list[Any]]:
    """Return votes as indices of the classes (-1: none), the classes, and the annotators.

    The labels `y`, if given, are those of another annotator. What classes or y name is a label,
    even if it is in `NO_VOTES`. Rows without a vote raise a ValueError, unless `allow_empty`.
    """
    columns = getattr(votes, "columns", None)
    table = _cells(votes)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"votes has shape {table.shape}; give a column for each annotator.")
    names = list(range(table.shape[1])) if columns is None else list(columns)
    label_set = set() if classes is None else set(np.asarray(classes).tolist())
    if y is not None:
        table = np.column_stack([table, np.asarray(y, dtype=object)])
        names = [*names, "label"]
        label_set |= set(table[:, -1].tolist())
    flat = table.ravel().tolist()
    cast = np.array([not is_missing(vote) and _is_vote(vote, label_set) for vote in flat])
    given = list(compress(flat, cast))
    if classes is None:
        _ask_about_minus_one(set(compress(flat, ~cast)), set(given))
    if classes is None and all(vote.is_integer() for vote in given if isinstance(vote, float)):
        # Missing votes have turned integers into floats.
        given = [int(vote) if isinstance(vote, float) else vote for vote in given]
    labels = _classes_of(given, classes)
    place = {label: k for k, label in enumerate(labels.tolist())}
    unknown = next((vote for vote in given if vote not in place), None)
    if unknown is not None:
        raise ValueError(
            f"votes holds {unknown!r}, which is not among classes={labels.tolist()!r}; add it, or "
            "omit classes."
        )
    codes: Array = np.full(len(flat), -1)
    codes[cast] = [place[vote] for vote in given]
    codes = codes.reshape(table.shape)
    empty = (codes < 0).all(axis=1)
    if empty.any() and not allow_empty:
        raise ValueError(
            f"votes is empty in row {int(empty.argmax())} ({int(empty.sum())} such rows in all); "
            "leave out rows that no annotator has labelled."
        )
    return codes, labels, names


def _cells(votes: Any) -> Array:
    """Return votes as an array of objects, with None for masked votes."""
    table = np.array(votes.to_numpy() if hasattr(votes, "to_numpy") else votes, dtype=object)
    if isinstance(votes, np.ma.MaskedArray):
        table[np.ma.getmaskarray(votes)] = None
    return table


def majority(votes: Any) -> list[Any]:
    """Return the majority label of each row, the first of tied ones, or None without a vote."""
    codes, labels, _ = read_votes(votes, None, allow_empty=True)
    counts = np.stack([(codes == k).sum(axis=1) for k in range(len(labels))], axis=1)
    most_voted = labels[counts.argmax(axis=1)].tolist()
    n_votes = counts.sum(axis=1).tolist()
    return [label if n else None for label, n in zip(most_voted, n_votes, strict=True)]


def _is_vote(vote: Any, labels: set[Any]) -> bool:
    """Return whether a value that is not missing is a vote, and not a mark of none."""
    return vote in labels or str(vote).strip() not in NO_VOTES


def _ask_about_minus_one(others: set[Any], labels: set[Any]) -> None:
    """Raise a ValueError if -1, which was taken as no vote, may be one of two labels."""
    if len(labels) == 1 and {"-1", "-1.0"} & set(map(str, others)):
        label = labels.pop()
        raise ValueError(
            f"votes holds only -1 and {label!r}, and -1 could be a label or mean no vote. If it is "
            f"a label, rename it, or pass classes=[-1, {label!r}] to soft_labels. If it means no "
            "vote, write None instead, or pass all labels as classes=[...]."
        )


def _classes_of(given: list[Any], classes: Any) -> Array:
    if classes is not None:
        labels: Array = np.asarray(classes)
        if labels.ndim != 1 or len(set(labels.tolist())) != len(labels):
            raise ValueError(f"classes={classes!r} must be a list of different labels.")
    else:
        try:
            labels = np.array(sorted(set(given)))
        except TypeError as error:
            kinds = sorted({type(vote).__name__ for vote in given})
            raise ValueError(
                f"votes holds labels of several kinds ({', '.join(kinds)}); use one type."
            ) from error
    if len(labels) < 2:
        raise ValueError(
            f"votes names {len(labels)} class(es); give votes for at least two, or name all "
            "classes: classes=[...]."
        )
    return labels


def _votes_and_shares(codes: Array, K: int, added: float = 0.0) -> tuple[Any, Array]:
    """Return votes (n, A K), 1 in column a K + l if annotator a voted l, and their shares."""
    rows, annotators = np.nonzero(codes >= 0)
    columns = annotators * K + codes[rows, annotators]
    n, A = codes.shape
    cast = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(n, A * K))
    counts = cast @ np.tile(np.eye(K), (A, 1)) + added
    return cast, counts / counts.sum(axis=1, keepdims=True)


def _maximise_likelihood(
    cast: Any, degrees: Array, weight: Array, q: Array | None = None, prior: Array | float = 0.0
) -> tuple[Array, float, bool]:
    """Return memberships of maximum likelihood, the log likelihood, and whether it converged.

    `q` (n, K) are probabilities before any vote; None for the shares of the classes.
    """
    before = -np.inf
    for _ in range(MAX_ITERATIONS):
        priors, theta, _ = _maximise(cast, degrees, weight, prior)
        degrees, log_likelihoods = _expect(cast, priors if q is None else q, theta)
        likelihood = float(weight @ log_likelihoods)
        if likelihood - before <= TOLERANCE * abs(likelihood):
            return degrees, likelihood, True
        before = likelihood
    return degrees, likelihood, False


def _maximise(
    cast: Any, degrees: Array, weight: Array, prior: Array | float = 0.0
) -> tuple[Array, Array, Array]:
    """Return pi (K,), theta (A, K, K) and the expected counts of theta."""
    K = degrees.shape[1]
    # Axes: annotator, class, label.
    counts = (
        np.asarray(cast.T @ (weight[:, None] * degrees)).reshape(-1, K, K).transpose(0, 2, 1)
        + prior
    )
    total = counts.sum(axis=2, keepdims=True)
    theta = np.divide(counts, total, out=np.full_like(counts, np.nan), where=total > 0)
    return weight @ degrees / weight.sum(), theta, counts


def _expect(cast: Any, priors: Array, theta: Array) -> tuple[Array, Array]:
    """Return probabilities of the classes given the votes, and the log likelihood of each row."""
    with np.errstate(divide="ignore"):
        logs = np.log(np.nan_to_num(theta)).transpose(0, 2, 1).reshape(-1, theta.shape[1])
        joint = np.log(priors) + np.asarray(cast @ logs)
    most = joint.max(axis=1, keepdims=True)
    powers = np.exp(joint - most)
    total = powers.sum(axis=1, keepdims=True)
    return powers / total, (np.log(total) + most).ravel()
