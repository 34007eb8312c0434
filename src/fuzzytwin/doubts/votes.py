"""soft_labels; users find it in `fuzzytwin.doubts`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from typing import Any, Literal, overload

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from fuzzytwin._params import check_choice
from fuzzytwin._rows import is_missing
from fuzzytwin._utils.types import Array

MOST_ROUNDS = 1000
TOLERANCE = 1e-10  # of the log-likelihood, relative
NO_VOTES = ("", "NA", "N/A", "nan", "NaN", "None")
JOINT_ROUNDS = 3  # models of the columns, each fitted to what votes and columns said before
USUAL_VOTES = 4.0  # votes in each class that an annotator is taken to have given before


@dataclass(frozen=True, eq=False)
class Annotators:
    """What `soft_labels` found out about annotators.

    Parameters
    ----------
    classes : ndarray of shape (K,)
        Labels, in the order of the columns of the degrees.
    names : list
        Names of the annotators: columns of a frame, or their numbers.
    confusion : ndarray of shape (A, K, K)
        Probability that annotator a gives a row of each class (row) each label (column). NaN
        where none of their rows is of that class.
    priors : ndarray of shape (K,)
        Share of each class.
    reliability : ndarray of shape (A,)
        Share of each annotator's votes that is expected to be right.
    log_likelihood : float
        Of the votes; NaN for shares, which maximise none.

    Examples
    --------
    >>> from fuzzytwin.doubts.votes import soft_labels
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
    r"""Turn the votes of several annotators into degrees of membership in each class.

    "shares" counts: the degree in class k is the share of a row's votes for it. "dawid-skene"
    weighs each annotator by their errors (Dawid and Skene 1979): with the share pi_k of class k
    and the probability theta_akl that annotator a calls a row of class k by the label l,

        L = sum_i log sum_k pi_k prod_{a: a voted on i} theta_ak,v_ia

    is maximised by expectation maximisation, from the shares on; degrees are the probabilities
    of the classes given the votes.

    Parameters
    ----------
    votes : array-like of shape (n, A)
        Label that each annotator gave each row; None, NaN, "", "NA" or -1 where there is none. If
        -1 is a label, name all labels: `classes`.
    method : {"shares", "dawid-skene"}, default="shares"
        How to combine votes. Dawid and Skene's needs several votes on most rows and annotators
        with many votes; with few, shares are safer.
    classes : array-like of shape (K,), default=None
        All labels, in the order wanted; by default those that occur, sorted.
    return_annotators : bool, default=False
        Whether to return what was found out about the annotators too.

    Returns
    -------
    degrees : ndarray of shape (n, K)
        Rows sum to 1. Goes into ``fit(X, y, membership=degrees)``, where y must contain every
        class, such as ``classes[degrees.argmax(axis=1)]``.
    annotators : Annotators
        Only with `return_annotators`.

    Raises
    ------
    ValueError
        For rows without any vote, fewer than two classes, labels that are not in `classes`, votes
        of -1 beside one other label; for Dawid and Skene's method also where every annotator uses
        one label only, as nothing then tells the errors of one from those of another.

    Examples
    --------
    >>> from fuzzytwin.doubts.votes import soft_labels
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
    likelihood = float("nan")
    if method == "dawid-skene":
        refuse_single_labels(codes, len(labels))
        degrees, likelihood, converged = _weigh(cast, degrees)
        if not converged:
            warnings.warn(
                f"method='dawid-skene' did not converge in {MOST_ROUNDS} rounds; use "
                "method='shares', or give more votes.",
                ConvergenceWarning,
                stacklevel=2,
            )
    if not return_annotators:
        return degrees
    return degrees, _describe(cast, degrees, labels, names, likelihood)


def _describe(
    cast: Any, degrees: Array, labels: Array, names: list[Any], likelihood: float
) -> Annotators:
    """Say how good the annotators are, given the degrees of the rows."""
    priors, theta, given = _maximise(cast, degrees)
    right, total = np.einsum("akk->a", given), given.sum(axis=(1, 2))
    reliability = np.divide(right, total, out=np.full(len(names), np.nan), where=total > 0)
    return Annotators(labels, names, theta, priors, reliability, likelihood)


def join_columns(
    codes: Array, labels: Array, names: list[Any], probabilities: Callable[[Array], Array]
) -> tuple[Array, Annotators]:
    r"""Weigh votes and columns together.

    In turn, columns give each row probabilities q_i of its classes by a model that learned from the
    other rows' degrees, and votes correct them:

        u_ik = q_ik prod_a theta_ak,v_ia / sum_l q_il prod_a theta_al,v_ia,

    with the matrices theta of the annotators from the same degrees, by expectation maximisation. To
    every count in theta some are added, more for right votes than for wrong ones, so that few votes
    are not taken for perfect ones. `probabilities` turns degrees (n, K) into q, each row left out.
    """
    K = len(labels)
    cast, degrees = _votes_and_shares(codes, K, added=0.5 / K)
    usual = USUAL_VOTES * np.where(np.eye(K, dtype=bool), 0.6, 0.4 / (K - 1))
    likelihood = np.nan
    for _ in range(JOINT_ROUNDS):
        q = np.maximum(probabilities(degrees), 1e-6)
        degrees, likelihood, _ = _weigh(cast, degrees, q, usual)
    return degrees, _describe(cast, degrees, labels, names, likelihood)


def refuse_single_labels(codes: Array, K: int) -> None:
    """Refuse votes of annotators none of whom uses two labels."""
    if np.stack([(codes == k).any(axis=0) for k in range(K)]).sum(axis=0).max() < 2:
        raise ValueError(
            "every annotator in votes uses one label only, so that nothing tells the errors of one "
            "from those of another; give votes of annotators who use several labels, or count "
            "them: soft_labels(votes, method='shares')."
        )


def read_votes(
    votes: Any, classes: Any, y: Any = None, *, gaps: bool = False
) -> tuple[Array, Array, list[Any]]:
    """Return votes as indices of the classes (-1: none), the classes, and the annotators.

    `y`, a label of each row, is one more annotator; -1 is a label where it is among the classes or
    in y. Rows without a vote are refused, unless there may be `gaps`.
    """
    columns, table = getattr(votes, "columns", None), _cells(votes)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(
            f"votes has shape {table.shape}; give one row per sample and one column per annotator."
        )
    names = list(range(table.shape[1])) if columns is None else list(columns)
    known = set() if classes is None else set(np.asarray(classes).tolist())
    if y is not None:
        table, names = np.column_stack([table, np.asarray(y, dtype=object)]), [*names, "label"]
        known |= set(table[:, -1].tolist())
    flat = table.ravel().tolist()
    cast = np.array([_is_vote(vote) for vote in flat])
    if not any(label == -1 for label in known):
        cast &= ~_minus_one(flat, cast, classes is None)
    given = list(compress(flat, cast))
    if classes is None and all(vote.is_integer() for vote in given if isinstance(vote, float)):
        # A gap turned whole numbers into floats.
        given = [int(vote) if isinstance(vote, float) else vote for vote in given]
    labels = _classes_of(given, classes)
    place = {label: k for k, label in enumerate(labels.tolist())}
    strange = next((vote for vote in given if vote not in place), None)
    if strange is not None:
        raise ValueError(
            f"votes holds {strange!r}, which is not among classes={labels.tolist()!r}; add it, or "
            "leave classes out."
        )
    codes: Array = np.full(len(flat), -1)
    codes[cast] = [place[vote] for vote in given]
    codes = codes.reshape(table.shape)
    if y is not None and (codes[:, -1] < 0).any():
        raise ValueError(
            f"y holds {table[codes[:, -1].argmin(), -1]!r}, which stands for no vote; write this "
            "label in another way, in votes too."
        )
    empty = (codes < 0).all(axis=1)
    if empty.any() and not gaps:
        raise ValueError(
            f"votes has none in row {int(empty.argmax())} ({int(empty.sum())} such rows in all); "
            "leave out rows that no annotator has labelled."
        )
    return codes, labels, names


def _cells(votes: Any) -> Array:
    """Return votes as an array of objects; None where they are masked."""
    table = np.array(votes.to_numpy() if hasattr(votes, "to_numpy") else votes, dtype=object)
    if isinstance(votes, np.ma.MaskedArray):
        table[np.ma.getmaskarray(votes)] = None
    return table


def majority(votes: Any) -> list[Any]:
    """Return the label that most annotators gave each row, the first of equals; None: no vote."""
    codes, labels, _ = read_votes(votes, None, gaps=True)
    counts = np.stack([(codes == k).sum(axis=1) for k in range(len(labels))], axis=1)
    most, votes = labels[counts.argmax(axis=1)].tolist(), counts.sum(axis=1).tolist()
    return [label if n else None for label, n in zip(most, votes, strict=True)]


def _is_vote(value: Any) -> bool:
    return not (is_missing(value) or str(value).strip() in NO_VOTES)


def _minus_one(flat: list[Any], cast: Array, ask: bool) -> Array:
    """Mark votes of -1, which are none; ask where it may be one of two labels."""
    mine = cast & [str(vote) in ("-1", "-1.0") for vote in flat]
    others = set(compress(flat, cast & ~mine))
    if ask and mine.any() and len(others) == 1:
        label = others.pop()
        raise ValueError(
            f"votes holds -1 and {label!r} only: is -1 a label, or no vote? Write None for no vote "
            f"and another label for -1; or give soft_labels classes=[-1, {label!r}] if it is a "
            "label, else all labels: classes=[...]."
        )
    return mine


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
                f"votes holds labels of several kinds ({', '.join(kinds)}); write all alike."
            ) from error
    if len(labels) < 2:
        raise ValueError(
            f"votes names {len(labels)} class(es); give votes for at least two, or name all "
            "classes: classes=[...]."
        )
    return labels


def _votes_and_shares(codes: Array, K: int, added: float = 0.0) -> tuple[Any, Array]:
    """Return votes (n, A K), ones at columns a K + l where annotator a voted l, and shares."""
    rows, annotators = np.nonzero(codes >= 0)
    columns = annotators * K + codes[rows, annotators]
    n, A = codes.shape
    cast = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(n, A * K))
    counts = cast @ np.tile(np.eye(K), (A, 1)) + added
    return cast, counts / counts.sum(axis=1, keepdims=True)


def _weigh(
    cast: Any, degrees: Array, q: Array | None = None, usual: Array | float = 0.0
) -> tuple[Array, float, bool]:
    """Return the degrees of greatest likelihood, its logarithm, and whether that was reached.

    `q` (n, K) are probabilities before any vote; None: the shares of the classes.
    """
    before = -np.inf
    for _ in range(MOST_ROUNDS):
        priors, theta, _ = _maximise(cast, degrees, usual)
        degrees, likelihood = _expect(cast, priors if q is None else q, theta)
        if likelihood - before <= TOLERANCE * abs(likelihood):
            return degrees, likelihood, True
        before = likelihood
    return degrees, likelihood, False


def _maximise(cast: Any, degrees: Array, usual: Array | float = 0.0) -> tuple[Array, Array, Array]:
    """Return pi (K,), theta (A, K, K) and the counts that theta is the share of."""
    K = degrees.shape[1]
    # Axes: annotator, class, label.
    counts = np.asarray(cast.T @ degrees).reshape(-1, K, K).transpose(0, 2, 1) + usual
    total = counts.sum(axis=2, keepdims=True)
    theta = np.divide(counts, total, out=np.full_like(counts, np.nan), where=total > 0)
    return degrees.mean(axis=0), theta, counts


def _expect(cast: Any, priors: Array, theta: Array) -> tuple[Array, float]:
    """Return probabilities of the classes given the votes, and the log-likelihood of the votes."""
    with np.errstate(divide="ignore"):
        logs = np.log(np.nan_to_num(theta)).transpose(0, 2, 1).reshape(-1, theta.shape[1])
        joint = np.log(priors) + np.asarray(cast @ logs)
    most = joint.max(axis=1, keepdims=True)
    powers = np.exp(joint - most)
    total = powers.sum(axis=1, keepdims=True)
    return powers / total, float((np.log(total) + most).sum())
