"""PlanesDisplay; users find it in `fuzzytwin.plot`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.text import literal
from fuzzytwin._utils.types import Array, public_in
from fuzzytwin.estimators.prediction import NearestPlane
from fuzzytwin.explain.display import COLORS, axes_for
from fuzzytwin.explain.effects import unnamed_columns

MOST_PLANES = 6  # of pairs of classes in one picture


@public_in("fuzzytwin.plot")
class PlanesDisplay:
    """The planes of a model of two features, with its regions and some rows.

    Regions show the predicted class, lines the planes (f_k = 0), and for fuzzy planes the band
    around a line shows where the value's width exceeds its centre (``|f_k| <= g_k``), drawn
    fainter towards its edge. Rows are sized by their degree. With more than three classes the
    planes of all pairs would hide the picture: then the regions alone are drawn.

    Use `from_estimator` to make one.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (r, r)
        The grid.
    winner : ndarray of shape (r, r)
        Index of the predicted class at each point of the grid.
    centers, widths : ndarray of shape (n_planes, r, r)
        f and g of each plane on the grid (g = 0 for crisp planes).
    classes : ndarray of shape (K,)
        Labels.
    X, y, degrees : ndarray or None
        Rows to draw, their labels and degrees.
    names : sequence of two str
        Names of the axes.
    owners : ndarray of shape (n_planes,), default=None
        Index of the own class of each plane; None where there is one plane per class.

    Attributes
    ----------
    ax_, figure_
        Where `plot` drew.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.plot import PlanesDisplay
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> y = X[:, 0] > 0
    >>> PlanesDisplay.from_estimator(FuzzyTwinSVC().fit(X, y), X, y).winner.ndim
    2
    """

    def __init__(
        self, xx0: Array, xx1: Array, winner: Array, centers: Array, widths: Array,
        classes: Array, X: Array, y: Array | None, degrees: Array, names: tuple[str, str],
        owners: Array | None = None,
    ) -> None:  # fmt: skip
        self.owners = np.arange(len(centers)) if owners is None else owners
        self.xx0, self.xx1, self.winner = xx0, xx1, winner
        self.centers, self.widths, self.classes = centers, widths, classes
        self.X, self.y, self.degrees, self.names = X, y, degrees, names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        degrees: Any = None,
        grid_resolution: int = 300,
        ax: Any = None,
    ) -> PlanesDisplay:
        """Compute the planes on a grid and draw them.

        Parameters
        ----------
        estimator : FuzzyTwinSVC, FuzzyTwinSVCCV or Pipeline that ends in one
            Fitted on two features.
        X : array-like of shape (n, 2)
            Rows to draw; they set the limits of the plot.
        y : array-like of shape (n,), default=None
            Their labels. Without, rows are drawn in grey.
        degrees : array-like of shape (n,), default=None
            Their degrees, by default all 1.
        grid_resolution : int, default=300
            Points of the grid along each axis.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        PlanesDisplay

        Examples
        --------
        >>> from fuzzytwin import FuzzyTwinSVC
        >>> from fuzzytwin.datasets import make_xor
        >>> from fuzzytwin.plot import PlanesDisplay
        >>> X, y, degrees = make_xor(random_state=0)
        >>> model = FuzzyTwinSVC(planes="fuzzy").fit(X, y, membership=degrees)
        >>> display = PlanesDisplay.from_estimator(model, X, y, degrees=degrees)
        >>> display.ax_.get_xlabel()
        'column 0'
        """
        check_is_fitted(estimator)
        names = tuple(getattr(estimator, "feature_names_in_", ("column 0", "column 1")))
        if estimator.n_features_in_ != 2:
            raise ValueError(
                f"estimator has n_features_in_={estimator.n_features_in_}; planes can be drawn for "
                "two features: fit it on X[:, [i, j]]."
            )
        X = check_array(X)
        low, high = X.min(axis=0), X.max(axis=0)
        margin = 0.08 * np.where(high > low, high - low, 1.0)
        axes = [np.linspace(a, b, grid_resolution) for a, b in zip(low - margin, high + margin,
                                                                   strict=True)]  # fmt: skip
        xx0, xx1 = np.meshgrid(*axes)
        grid = np.column_stack([xx0.ravel(), xx1.ravel()])
        model, rows = estimator, grid
        with unnamed_columns():
            if isinstance(estimator, Pipeline):
                model, rows = estimator[-1], estimator[:-1].transform(grid)
            model = getattr(model, "best_estimator_", model)
            if not isinstance(model, NearestPlane):
                raise TypeError(
                    f"estimator is of type {type(model).__name__}, which has no plane for each "
                    "class; give a FuzzyTwinSVC, LeastSquaresTwinSVC, TwinSVC or GEPSVC."
                )
            f, g = model.plane_values(rows)
            winner = model.predict_membership(rows).argmax(axis=1).reshape(xx0.shape)
        g = np.zeros_like(f) if g is None else g
        shape = (len(model.coef_), *xx0.shape)
        return cls(
            xx0, xx1, winner, f.T.reshape(shape), g.T.reshape(shape), model.classes_, X,
            None if y is None else np.asarray(y),
            np.ones(len(X)) if degrees is None else np.asarray(degrees, dtype=float), names,
            model.plane_classes_[:, 0],
        ).plot(ax=ax)  # fmt: skip

    def plot(self, ax: Any = None) -> PlanesDisplay:
        """Draw on `ax`, or on a new figure.

        Returns
        -------
        self
        """
        ax = axes_for(ax, (6, 4.5), layout=None)
        from matplotlib.colors import ListedColormap, to_rgba
        from matplotlib.lines import Line2D

        K = len(self.classes)
        colors = [COLORS[k % len(COLORS)] for k in range(K)]
        limits = (self.xx0.min(), self.xx0.max(), self.xx1.min(), self.xx1.max())
        ax.pcolormesh(
            self.xx0, self.xx1, self.winner, cmap=ListedColormap(colors), alpha=0.12,
            vmin=-0.5, vmax=K - 0.5, shading="nearest", rasterized=True, zorder=0,
        )  # fmt: skip
        drawn = len(self.owners) <= max(K, MOST_PLANES)
        for f, g, k in zip(self.centers, self.widths, self.owners if drawn else (), strict=drawn):
            color = colors[k]
            if (g > 0).any():
                vague = np.abs(f) / np.where(g > 0, g, np.nan)
                shade = np.tile(to_rgba(color), (*f.shape, 1))
                shade[..., 3] = 0.45 * np.nan_to_num(np.clip(1 - vague, 0, 1))
                ax.imshow(shade, extent=limits, origin="lower", aspect="auto", zorder=1)
            if f.min() < 0 < f.max():
                ax.contour(self.xx0, self.xx1, f, levels=[0], colors=[color], linewidths=2)
        markers = "o^svDP*"
        for k, color in enumerate(colors):
            if self.y is None:
                break
            own = self.y == self.classes[k]
            ax.scatter(
                *self.X[own].T, s=4 + 40 * self.degrees[own], color=color, zorder=3,
                marker=markers[k % len(markers)], edgecolor="white", linewidth=0.5,
            )  # fmt: skip
        if self.y is None:
            ax.scatter(*self.X.T, s=4 + 40 * self.degrees, color="0.4", zorder=3)
        handles = [
            Line2D([], [], color=colors[k], lw=2, marker=markers[k % len(markers)],
                   label=literal(f"class {self.classes[k]}"))
            for k in range(K)
        ]  # fmt: skip
        ax.legend(handles=handles, loc="best", framealpha=0.9)
        ax.set(xlabel=literal(self.names[0]), ylabel=literal(self.names[1]))
        ax.set(xlim=limits[:2], ylim=limits[2:])
        self.ax_, self.figure_ = ax, ax.figure
        return self
