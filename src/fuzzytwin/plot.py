"""Pictures of fitted models. Needs matplotlib: ``pip install "fuzzytwin[plot]"``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from fuzzytwin.distances import plane_values

Array = NDArray[Any]

# Blue, orange, green ... of Okabe and Ito: told apart by (nearly) every eye.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")


class PlanesDisplay:
    """Planes of a model on two columns, with its regions and samples.

    Regions show the predicted class, lines the planes (f_k = 0), and for fuzzy planes the band
    around a line shows where the value's width exceeds its centre (``|f_k| <= g_k``), drawn
    fainter towards its edge. Samples are sized by their degree.

    Use `from_estimator` to make one.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (r, r)
        The grid.
    winner : ndarray of shape (r, r)
        Number of the predicted class at each point of the grid.
    centers, widths : ndarray of shape (K, r, r)
        f_k and g_k on the grid (g_k = 0 for crisp planes).
    classes : ndarray of shape (K,)
        Labels.
    X, y, degrees : ndarray or None
        Samples to draw, their labels and degrees.
    names : sequence of two str
        Names of the axes.

    Attributes
    ----------
    ax_, figure_
        Where `plot` drew.
    """

    def __init__(
        self, xx0: Array, xx1: Array, winner: Array, centers: Array, widths: Array,
        classes: Array, X: Array, y: Array | None, degrees: Array, names: tuple[str, str],
    ) -> None:  # fmt: skip
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
        """Compute and draw.

        Parameters
        ----------
        estimator : FuzzyTwinSVC or Pipeline that ends in one
            Fitted on two columns.
        X : array-like of shape (n, 2)
            Samples; they set the limits of the picture.
        y : array-like of shape (n,), default=None
            Their labels. Without, samples are drawn in grey.
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
                f"estimator was fitted on {estimator.n_features_in_} columns; planes can be "
                "drawn for two: fit it on X[:, [i, j]]."
            )
        X = check_array(X)
        low, high = X.min(axis=0), X.max(axis=0)
        margin = 0.08 * np.where(high > low, high - low, 1.0)
        axes = [np.linspace(a, b, grid_resolution) for a, b in zip(low - margin, high + margin,
                                                                   strict=True)]  # fmt: skip
        xx0, xx1 = np.meshgrid(*axes)
        grid = np.column_stack([xx0.ravel(), xx1.ravel()])
        model, rows = estimator, grid
        if isinstance(estimator, Pipeline):
            model, rows = estimator[-1], estimator[:-1].transform(grid)
        f = plane_values(rows, model.coef_, model.intercept_)
        g = np.zeros_like(f)
        if hasattr(model, "width_coef_"):
            g = plane_values(rows, model.width_coef_, model.width_intercept_, absolute=True)
        shape = (len(model.classes_), *xx0.shape)
        return cls(
            xx0, xx1, model.predict_membership(rows).argmax(axis=1).reshape(xx0.shape),
            f.T.reshape(shape), g.T.reshape(shape), model.classes_, X,
            None if y is None else np.asarray(y),
            np.ones(len(X)) if degrees is None else np.asarray(degrees, dtype=float), names,
        ).plot(ax=ax)  # fmt: skip

    def plot(self, ax: Any = None) -> PlanesDisplay:
        """Draw on `ax`, or on a new figure.

        Returns
        -------
        self
        """
        import matplotlib.pyplot as plt
        from matplotlib.colors import ListedColormap, to_rgba
        from matplotlib.lines import Line2D

        if ax is None:
            _, ax = plt.subplots(figsize=(6, 4.5))
        K = len(self.classes)
        colors = [COLORS[k % len(COLORS)] for k in range(K)]
        ax.pcolormesh(
            self.xx0, self.xx1, self.winner, cmap=ListedColormap(colors), alpha=0.12,
            vmin=-0.5, vmax=K - 0.5, shading="nearest", rasterized=True, zorder=0,
        )  # fmt: skip
        for k, color in enumerate(colors):
            f, g = self.centers[k], self.widths[k]
            if (g > 0).any():
                vague = np.abs(f) / np.where(g > 0, g, np.nan)
                levels = np.linspace(0, 1, 6)
                shades = [to_rgba(color, 0.45 * (1 - t)) for t in levels[:-1]]
                ax.contourf(self.xx0, self.xx1, vague, levels=levels, colors=shades, zorder=1)
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
                   label=f"class {self.classes[k]}")
            for k in range(K)
        ]  # fmt: skip
        ax.legend(handles=handles, loc="best", framealpha=0.9)
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        ax.set(xlim=(self.xx0.min(), self.xx0.max()), ylim=(self.xx1.min(), self.xx1.max()))
        self.ax_, self.figure_ = ax, ax.figure
        return self
