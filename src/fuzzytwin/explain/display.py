"""EffectsDisplay and MembershipDisplay; what all displays share: colours, axes, an open frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.extras import need
from fuzzytwin._utils.text import cut, literal
from fuzzytwin._utils.types import Array
from fuzzytwin.explain.effects import class_to_show, column_effects, last_step, unnamed_columns

# Blue, orange, green ... of Okabe and Ito, which (nearly) everyone can distinguish.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
DOUBT = "#B00020"
MOST_CLASSES = len(COLORS)
GOLDEN = (np.sqrt(5.0) - 1) / 2


class Display:
    """What all displays share: axes to draw on, by default those of a new figure."""

    _layout: str | None = "constrained"

    @property
    def _size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return 6, 4.5

    def plot(self, ax: Any = None) -> Self:
        """Draw on `ax`, or on a new figure.

        Returns
        -------
        self
        """
        if ax is None:
            plt = need("matplotlib.pyplot", "plot", "a plot")
            _, ax = plt.subplots(figsize=self._size, layout=self._layout)
        self._draw(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw(self, ax: Any) -> None:
        raise NotImplementedError


def open_frame(ax: Any) -> None:
    """Leave the bottom of the frame alone, and no ticks at the left."""
    ax.tick_params(axis="y", length=0)
    for side in ("left", "right", "top"):
        ax.spines[side].set_visible(False)


@dataclass(eq=False, repr=False)
class EffectsDisplay(Display):
    """Effects of the strongest columns on the membership in each class, as bars.

    To the right a column speaks for a class as it rises, to the left against it; a thin line
    shows the strength, which disregards the direction.

    Use `from_estimator` to make one.

    Parameters
    ----------
    effects, strengths : ndarray of shape (K, d)
        What `column_effects` returned.
    classes : array-like of shape (K,)
        Names of the classes. Of two classes `label` is drawn, of more the first seven.
    names : list of str
        Names of the columns.
    top : int, default=10
        How many columns to draw.
    label : object, default=None
        The class to draw alone; None: the second of two classes, or all.
    quantity : {"membership", "probability"}, default="membership"
        What changes.

    Attributes
    ----------
    ax_, figure_
        Where `plot` drew.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.explain.display import EffectsDisplay
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> model = FuzzyTwinSVC().fit(X, X[:, 0] > 0)
    >>> EffectsDisplay.from_estimator(model, X).effects.shape
    (2, 3)
    """

    effects: Array
    strengths: Array
    classes: Any
    names: list[str]
    top: int = 10
    label: Any = None
    quantity: str = "membership"

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        sample_weight: Any = None,
        *,
        y: Any = None,
        label: Any = None,
        top: int = 10,
        ax: Any = None,
    ) -> EffectsDisplay:
        """Compute the effects and draw them.

        Parameters
        ----------
        model, X, sample_weight
            As for `column_effects`.
        y : array-like of shape (n,), default=None
            Labels of the rows; by default those that the model predicts.
        label : object, default=None
            The class to draw. None: of two classes the one of fewer rows, which readers ask
            about; of more, all of them.
        top : int, default=10
            How many columns to draw.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        EffectsDisplay

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import StandardScaler
        >>> from fuzzytwin import FuzzyTwinSVC
        >>> from fuzzytwin.explain.display import EffectsDisplay
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> model = make_pipeline(StandardScaler(), FuzzyTwinSVC()).fit(X, y)
        >>> display = EffectsDisplay.from_estimator(model, X, top=5)
        >>> len(display.ax_.get_yticks())
        5
        """
        estimator, rows, names = last_step(model, X)
        classes = estimator.classes_
        if label is not None or len(classes) == 2:
            with unnamed_columns():
                labels = estimator.predict(rows) if y is None else y
            label = classes[class_to_show(classes, labels, label)]
        effects, strengths = column_effects(estimator, rows, sample_weight)
        fuzzy = hasattr(estimator, "predict_membership")
        quantity = "membership" if fuzzy else "probability"
        return cls(effects, strengths, classes, names, top, label, quantity).plot(ax=ax)

    @property
    def _shown(self) -> list[int]:
        """Classes that are drawn."""
        if self.label is not None:
            return [class_to_show(self.classes, (), self.label)]
        K = len(self.classes)
        return [1] if K == 2 else list(range(min(K, MOST_CLASSES)))

    @property
    def _size(self) -> tuple[float, float]:
        count = min(self.top, len(self.names))
        return 7, 1.2 + count * (0.2 + 0.14 * len(self._shown))

    def _draw(self, ax: Any) -> None:
        K, shown = len(self.classes), self._shown
        alone = len(shown) == 1
        # One order of the columns for all classes: strongest first, drawn from the bottom up.
        order = np.argsort(-self.strengths[shown].max(axis=0), kind="stable")[: self.top][::-1]
        height = 0.8 / len(shown)
        for place, k in enumerate(shown):
            at = np.arange(len(order)) + 0.4 - (place + 0.5) * height
            effect, strength = self.effects[k, order], self.strengths[k, order]
            ax.hlines(at, -strength, strength, color="0.75", linewidth=0.8, zorder=1)
            color: Any = COLORS[k % len(COLORS)]
            if K == 2:  # a bar has the colour of the class that it speaks for
                color = [COLORS[k] if value > 0 else COLORS[1 - k] for value in effect]
            name = short(self.classes[k], 28)
            ax.barh(at, effect, height=0.85 * height, color=color, zorder=2, label=name)
        ax.axvline(0, color="0.3", linewidth=0.8, zorder=3)
        ax.set_yticks(np.arange(len(order)), [short(self.names[j], 30) for j in order])
        open_frame(ax)
        fuzzy = self.quantity == "membership"
        about = "memberships" if fuzzy else "probabilities"
        if alone:
            about = f"{self.quantity} {'in' if fuzzy else 'of'} "
            about += short(self.classes[shown[0]], 28)
        ax.set_xlabel(f"change of {about} as a column rises by one deviation")
        if not alone:
            ax.legend(frameon=False)


class MembershipDisplay(Display):
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

    @property
    def _size(self) -> tuple[float, float]:
        return 7, 1.2 + 1.15 * len(np.unique(self.y))

    def _draw(self, ax: Any) -> None:
        classes, codes = np.unique(self.y, return_inverse=True)
        edges = np.linspace(0, 1, 41)
        for k in range(len(classes)):
            row, color = -float(k), COLORS[k % len(COLORS)]
            own = codes == k
            # Rows are spread evenly below the line of their class, without randomness.
            below = row - 0.05 - 0.2 * np.mod(GOLDEN * (np.cumsum(own) - 1), 1.0)
            counts, _ = np.histogram(self.degrees[own], edges)
            ax.stairs(
                row + 0.5 * counts / counts.max(), edges, baseline=row, fill=True, color=color,
                alpha=0.55,
            )  # fmt: skip
            ax.axhline(row, color="0.75", linewidth=0.8, zorder=0)
            ax.scatter(self.degrees[own], below[own], s=9, color=color, alpha=0.5, linewidth=0)
            named = self.doubtful[own[self.doubtful]]  # of rising degree
            for sample, place in zip(named, _spread(self.degrees[named]), strict=True):
                point = self.degrees[sample], below[sample]
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


def short(name: object, width: int) -> str:
    """Shorten a name to a width, and escape it: see `literal`."""
    return literal(cut(name, width))


def _spread(places: Array, gap: float = 0.08) -> Array:
    """Push places in rising order apart to at least a gap, within [0, 1]."""
    steps = gap * np.arange(len(places))
    apart = np.maximum.accumulate(places - steps) + steps
    return np.minimum(apart, 1.0 - steps[::-1])
