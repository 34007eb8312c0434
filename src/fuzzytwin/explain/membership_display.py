"""MembershipDisplay; users find it in `fuzzytwin.plot`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.text import literal
from fuzzytwin._utils.types import Array, public_in
from fuzzytwin.explain.display import COLORS, DOUBT, axes_for, open_frame


@public_in("fuzzytwin.plot")
class MembershipDisplay:
    """How well rows fit their own label: degrees by class, the most doubtful ones named.

    One line per class: above it a histogram of the degrees, below it the rows. Those of least
    degree, which a person should look at first, are ringed and named.

    Use `from_estimator` to make one.

    Parameters
    ----------
    degrees : ndarray of shape (n,)
        Degree of each row in its own label, in [0, 1].
    y : ndarray of shape (n,)
        Labels.
    names : ndarray of shape (n,)
        Names of the rows.
    n_doubtful : int, default=5
        How many rows to name.

    Attributes
    ----------
    doubtful : ndarray of int
        The rows of least degree, the most doubtful first.
    ax_, figure_
        Where `plot` drew.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.plot import MembershipDisplay
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0], [4.5]]), [0, 0, 1, 1, 0]
    >>> MembershipDisplay.from_estimator(FuzzyTwinSVC().fit(X, y), X, y, n_doubtful=1).doubtful
    array([4])
    """

    def __init__(self, degrees: Array, y: Array, names: Array, n_doubtful: int = 5) -> None:
        self.degrees, self.y, self.names = degrees, y, names
        self.doubtful = np.argsort(degrees, kind="stable")[:n_doubtful]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        degrees: Any = None,
        names: Any = None,
        n_doubtful: int = 5,
        ax: Any = None,
    ) -> MembershipDisplay:
        """Compute the degrees and draw them.

        Parameters
        ----------
        estimator : fitted classifier or pipeline
            Of this library, or any with `predict_proba`.
        X : array-like of shape (n, d)
            Rows. Best those that the model was not trained on.
        y : array-like of shape (n,)
            Their labels.
        degrees : array-like of shape (n,), default=None
            Degrees to show, such as ``NeighborMembership()(X, y)``. By default the membership
            in the own label that the model predicts.
        names : array-like of shape (n,), default=None
            Names of the rows; by default their index.
        n_doubtful : int, default=5
            How many rows to name.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        MembershipDisplay

        Examples
        --------
        >>> from fuzzytwin import FuzzyTwinSVC
        >>> from fuzzytwin.datasets import make_xor
        >>> from fuzzytwin.plot import MembershipDisplay
        >>> X, y, degrees = make_xor(random_state=0)
        >>> model = FuzzyTwinSVC(C=0.1, alpha=0.0).fit(X, y, membership=degrees)
        >>> display = MembershipDisplay.from_estimator(model, X, y, n_doubtful=3)
        >>> len(display.doubtful)
        3
        """
        check_is_fitted(estimator)
        if names is None:
            names = getattr(X, "index", None)
        y = column_or_1d(y)
        names = np.arange(len(y)) if names is None or callable(names) else np.asarray(names)
        if degrees is None:
            u = estimator.predict_proba(X)
            classes = list(estimator.classes_)
            unknown = sorted(set(y.tolist()) - set(classes))
            if unknown:
                raise ValueError(
                    f"y holds {unknown[0]!r}, which is not a class of the model; its classes are "
                    f"{', '.join(map(str, classes[:10]))}."
                )
            degrees = u[np.arange(len(y)), [classes.index(label) for label in y.tolist()]]
        degrees = column_or_1d(degrees).astype(np.float64)
        check_consistent_length(degrees, y, names)
        return cls(degrees, y, names, n_doubtful).plot(ax=ax)

    def plot(self, ax: Any = None) -> MembershipDisplay:
        """Draw on `ax`, or on a new figure.

        Returns
        -------
        self
        """
        classes, codes = np.unique(self.y, return_inverse=True)
        ax = axes_for(ax, (7, 1.2 + 1.15 * len(classes)))
        edges = np.linspace(0, 1, 41)
        for k in range(len(classes)):
            row, color = -float(k), COLORS[k % len(COLORS)]
            own = codes == k
            counts, _ = np.histogram(self.degrees[own], edges)
            ax.stairs(
                row + 0.5 * counts / counts.max(), edges, baseline=row, fill=True, color=color,
                alpha=0.55,
            )  # fmt: skip
            ax.axhline(row, color="0.75", linewidth=0.8, zorder=0)
            ax.scatter(
                self.degrees[own], row - _jitter(own), s=9, color=color, alpha=0.5, linewidth=0
            )
            named = self.doubtful[own[self.doubtful]]
            named = named[np.argsort(self.degrees[named], kind="stable")]
            places = _spread([float(v) for v in self.degrees[named]])
            for sample, place in zip(named, places, strict=True):
                point = self.degrees[sample], row - _jitter(own)[np.flatnonzero(own) == sample][0]
                ax.plot(*point, "o", markersize=7, markerfacecolor="none", color=DOUBT)
                ax.annotate(
                    literal(self.names[sample]), point, (place, row - 0.37), color=DOUBT,
                    fontsize=8, ha="center", va="top",
                    arrowprops={"arrowstyle": "-", "color": DOUBT, "linewidth": 0.6},
                )  # fmt: skip
        labels = [f"{literal(label)}\n{(codes == k).sum()} rows" for k, label in enumerate(classes)]
        ax.set_yticks(-np.arange(len(classes)), labels)
        ax.set(xlim=(-0.02, 1.02), ylim=(0.55 - len(classes), 0.6))
        ax.set_xlabel("degree of membership in the own label (ringed: the most doubtful)")
        open_frame(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _jitter(own: Array) -> Array:
    """Spread the rows of a class evenly below its line, without randomness."""
    golden = (np.sqrt(5.0) - 1) / 2
    return 0.05 + 0.2 * np.mod(golden * np.arange(int(own.sum())), 1.0)


def _spread(places: list[float], gap: float = 0.08) -> list[float]:
    """Push places in rising order apart to at least a gap, within [0, 1]."""
    out: list[float] = []
    for place in places:
        out.append(max(place, out[-1] + gap) if out else place)
    over = max(0.0, out[-1] - 1.0) if out else 0.0
    for i in reversed(range(len(out))):
        limit = out[i + 1] - gap if i + 1 < len(out) else 1.0
        out[i] = min(out[i], limit) if over else out[i]
    return out
