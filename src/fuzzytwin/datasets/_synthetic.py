"""Generators of the paper's synthetic data: normally distributed clusters and crossing lines."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state, check_scalar, gen_batches

BLOCK_ROWS = 8192  # rows whose centres are added at once, to save memory
MIN_DEGREE = 0.01  # a row of degree zero would have no weight


def make_ndc(
    n_samples: int,
    n_features: int = 32,
    *,
    n_centers: int = 100,
    spread: float = 0.5,
    random_state: Any = 0,
) -> tuple[NDArray[np.float64], NDArray[np.int_]]:
    """Draw normally distributed clusters (NDC), as D. Musicant's generator does.

    Centres are drawn uniformly from the cube [-1, 1]^d, and each gets a random share of the
    points. A random plane, laid so that it halves the centres, gives each centre its class. Points
    are normally distributed around their centre, and cross the plane if the centre is near it, so
    that no classifier separates them fully.

    Parameters
    ----------
    n_samples : int
        Number of points, at least 2.
    n_features : int, default=32
        Number of features d.
    n_centers : int, default=100
        Number of clusters, at least 2.
    spread : float, default=0.5
        Standard deviation of the points around their centre. The smaller it is, the better the two
        classes separate. At 0 the plane separates them fully.
    random_state : int, RandomState or None, default=0
        Seed. The same int gives the same data, None is random.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The points, float64.
    y : ndarray of shape (n_samples,)
        The classes, -1 and 1. Both occur.

    Raises
    ------
    TypeError
        If a count is not an integer or `spread` is not a real number.
    ValueError
        If a count is too small or `spread` is negative or not finite.

    Notes
    -----
    The paper's sizes are 1,000 to 1,000,000 points of 32 features. Memory is that of X, y and one
    index per point.

    Examples
    --------
    >>> from fuzzytwin.datasets import make_ndc
    >>> X, y = make_ndc(1000, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((1000, 32), [-1, 1])
    """
    check_scalar(n_samples, "n_samples", Integral, min_val=2)
    check_scalar(n_features, "n_features", Integral, min_val=1)
    check_scalar(n_centers, "n_centers", Integral, min_val=2)
    _check_scale(spread, "spread")
    rng = check_random_state(random_state)

    centers = rng.uniform(-1.0, 1.0, size=(n_centers, n_features))
    height = centers @ rng.standard_normal(n_features)
    center_class = np.full(n_centers, -1)
    center_class[np.argsort(height)[n_centers // 2 :]] = 1

    shares = rng.dirichlet(np.ones(n_centers))
    cluster = rng.choice(n_centers, size=n_samples, p=shares)
    for label in (-1, 1):  # a class without points gets one
        members = np.flatnonzero(center_class == label)
        if not np.isin(cluster, members).any():
            cluster[rng.randint(n_samples)] = rng.choice(members)

    X = rng.standard_normal((n_samples, n_features))
    X *= spread
    for rows in gen_batches(n_samples, BLOCK_ROWS):
        X[rows] += centers[cluster[rows]]
    return X, center_class[cluster]


def make_xor(
    n_samples: int = 121, *, noise: float = 0.05, crossing: float = 0.3, random_state: Any = 0
) -> tuple[NDArray[np.float64], NDArray[np.int_], NDArray[np.float64]]:
    """Draw two crossing lines of points, with the degree to which each belongs to its class.

    Class 1 lies along the diagonal x1 = x2, class -1 along x1 = -x2, evenly from end to end, moved
    off its line by normal noise. No line separates the two, as in XOR, but a plane per class fits
    both: this is what twin SVMs are for. The paper's hand-made set of 121 records is not
    published, so this one is similar, not equal.

    The degree is the paper's membership with the true lines as planes: with a the distance
    to the own line and r that to the rival line, it is r / (a + r). So it is low near the crossing
    and for noisy points, 1 on the own line, 1/2 at the crossing itself, and never below 0.01.

    Parameters
    ----------
    n_samples : int, default=121
        Number of points, at least 4. An odd number gives class 1 one more.
    noise : float, default=0.05
        Standard deviation of the distance to the own line. The lines have length 2.
    crossing : float, default=0.3
        Where on the lines the crossing lies, from 0 (one end: a V) to 1. At 0.5 both classes
        have the same mean, and a least-squares twin SVM, which separates classes by
        their means, cannot separate them.
    random_state : int, RandomState or None, default=0
        Seed. The same int gives the same data, None is random.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        The points, in random order.
    y : ndarray of shape (n_samples,)
        The classes, -1 and 1.
    membership : ndarray of shape (n_samples,)
        Degrees in [0.01, 1].

    Raises
    ------
    TypeError
        If `n_samples` is not an integer, or `noise` or `crossing` is not a real number.
    ValueError
        If `n_samples` is too small, `noise` is negative or not finite, or `crossing` lies
        outside of [0, 1].

    Examples
    --------
    >>> from fuzzytwin.datasets import make_xor
    >>> X, y, membership = make_xor(random_state=0)
    >>> X.shape, int((y == 1).sum())
    ((121, 2), 61)
    >>> membership[:4].round(2)
    array([1.  , 1.  , 0.99, 0.92])
    """
    check_scalar(n_samples, "n_samples", Integral, min_val=4)
    _check_scale(noise, "noise")
    check_scalar(crossing, "crossing", Real, min_val=0, max_val=1)
    rng = check_random_state(random_state)

    n_negative = n_samples // 2
    n_positive = n_samples - n_negative
    y = np.repeat([1, -1], [n_positive, n_negative])
    ends = -2 * crossing, 2 - 2 * crossing
    along = np.concatenate([np.linspace(*ends, n_positive), np.linspace(*ends, n_negative)])
    off = noise * rng.standard_normal(n_samples)

    # The lines are at right angles, so `along` is also the distance to the rival line.
    X = np.column_stack([along - y * off, y * along + off]) / np.sqrt(2)
    own = np.abs(off)
    rival = np.abs(along)
    membership = np.full(n_samples, 0.5)
    np.divide(rival, own + rival, out=membership, where=own + rival > 0)
    np.maximum(membership, MIN_DEGREE, out=membership)

    order = rng.permutation(n_samples)
    return X[order], y[order], membership[order]


def _check_scale(value: float, name: str) -> None:
    check_scalar(value, name, Real, min_val=0)
    if not np.isfinite(value):
        raise ValueError(f"{name}={value!r} is not finite; give a finite number of at least 0.")
