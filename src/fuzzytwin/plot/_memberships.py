"""MembershipDisplay: degrees of membership of rows in their own label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.text import literal
from fuzzytwin._utils.types import Array
from fuzzytwin.plot._display import COLORS, ISSUE_COLOR, Display, open_frame

GOLDEN = (np.sqrt(5.0) - 1) / 2


@dataclass(eq=False, repr=False)
class MembershipDisplay(Display):
    """Degrees of membership of rows in their own label, class by class.

    There is a line for each class, with a histogram of the degrees above and the rows below it.
    The rows of the lowest degrees, to be reviewed first, are ringed and named.

    Use `from_estimator` to create a display.

    Parameters
    ----------
    degrees : ndarray of shape (n,)
        Degree of each row in its own label, in [0, 1].
    y : ndarray of shape (n,)
        Labels.
    names : ndarray of shape (n,)
        Names of the rows.
    n_named : int, default=5
        Number of rows to name.

    Attributes
    ----------
    lowest : ndarray of int
        The rows of the lowest degrees, in ascending order of degree.
    ax_, figure_
        Axes and figure of the last `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.plot import MembershipDisplay
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0], [4.5]]), [0, 0, 1, 1, 0]
    >>> MembershipDisplay.from_estimator(FuzzyTwinSVC().fit(X, y), X, y, n_named=1).lowest
    array([4])
    """

    degrees: Array
    y: Array
    names: Array
    n_named: int = 5

    @property
    def lowest(self) -> Array:
        """Return the rows of the lowest degrees."""
        return np.argsort(self.degrees, kind="stable")[: self.n_named]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        degrees: Any = None,
        names: Any = None,
        n_named: int = 5,
        ax: Any = None,
    ) -> MembershipDisplay:
        """Compute the degrees and draw them.

        Parameters
        ----------
        estimator : fitted classifier or pipeline
            Of this library, or any with `predict_proba`.
        X : array-like of shape (n, d)
            Rows, preferably not those that the model was trained on.
        y : array-like of shape (n,)
            Labels of the rows. A label that is not a class of the model raises a ValueError.
        degrees : array-like of shape (n,), default=None
            Degrees to show, such as ``NeighborMembership()(X, y)``. None for the memberships that
            the model predicts.
        names : array-like of shape (n,), default=None
            Names of the rows, None for the index of X.
        n_named : int, default=5
            Number of rows to name.
        ax : matplotlib Axes, default=None
            Axes to draw on, None for those of a new figure.

        Returns
        -------
        MembershipDisplay
        """
        check_is_fitted(estimator)
        if names is None:
            names = getattr(X, "index", None)
        y = column_or_1d(y)
        names = np.arange(len(y)) if names is None or callable(names) else np.asarray(names)
        if degrees is None:
            degrees = _own_degrees(estimator, X, y)
        degrees = column_or_1d(degrees).astype(np.float64)
        check_consistent_length(degrees, y, names)
        return cls(degrees, y, names, n_named).plot(ax=ax)

    @property
    def _size(self) -> tuple[float, float]:
        return 7, 1.2 + 1.15 * len(np.unique(self.y))

    def _draw(self, ax: Any) -> None:
        classes, codes = np.unique(self.y, return_inverse=True)
        edges = np.linspace(0, 1, 41)
        for k in range(len(classes)):
            row = -float(k)
            color = COLORS[k % len(COLORS)]
            own = codes == k
            # Rows are spread evenly below the line of their class, without randomness.
            below = row - 0.05 - 0.2 * np.mod(GOLDEN * (np.cumsum(own) - 1), 1.0)
            counts, _ = np.histogram(self.degrees[own], edges)
            heights = row + 0.5 * counts / counts.max()
            ax.stairs(heights, edges, baseline=row, fill=True, color=color, alpha=0.55)
            ax.axhline(row, color="0.75", linewidth=0.8, zorder=0)
            ax.scatter(self.degrees[own], below[own], s=9, color=color, alpha=0.5, linewidth=0)
            named = self.lowest[own[self.lowest]]
            for i, x in zip(named, _push_apart(self.degrees[named]), strict=True):
                self._name_row(ax, i, (self.degrees[i], below[i]), (x, row - 0.37))
        labels = [f"{literal(label)}\n{(codes == k).sum()} rows" for k, label in enumerate(classes)]
        ax.set_yticks(-np.arange(len(classes)), labels)
        ax.set(xlim=(-0.02, 1.02), ylim=(0.55 - len(classes), 0.6))
        ax.set_xlabel("degree of membership in the own label (ringed: the lowest)")
        open_frame(ax)

    def _name_row(
        self, ax: Any, row: int, point: tuple[Any, Any], text_at: tuple[Any, Any]
    ) -> None:
        """Ring a row, and write its name at another point."""
        ax.plot(*point, "o", markersize=7, markerfacecolor="none", color=ISSUE_COLOR)
        arrow = {"arrowstyle": "-", "color": ISSUE_COLOR, "linewidth": 0.6}
        font = {"color": ISSUE_COLOR, "fontsize": 8, "ha": "center", "va": "top"}
        ax.annotate(literal(self.names[row]), point, text_at, arrowprops=arrow, **font)


def _own_degrees(estimator: Any, X: Any, y: Array) -> Array:
    """Return the predicted membership of each row in its own label."""
    classes = list(estimator.classes_)
    unknown = sorted(set(y.tolist()) - set(classes))
    if unknown:
        raise ValueError(
            f"y holds {unknown[0]!r}, which is not a class of the model; its classes are "
            f"{', '.join(map(str, classes[:10]))}."
        )
    codes = [classes.index(label) for label in y.tolist()]
    return np.asarray(estimator.predict_proba(X)[np.arange(len(y)), codes])


def _push_apart(x: Array, distance: float = 0.08) -> Array:
    """Push ascending coordinates apart to at least a distance, within [0, 1]."""
    steps = distance * np.arange(len(x))
    apart = np.maximum.accumulate(x - steps) + steps
    return np.minimum(apart, 1.0 - steps[::-1])
