"""PlanesDisplay: planes and regions of a model of two features."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.text import literal
from fuzzytwin._utils.types import Array
from fuzzytwin.core.distances import labels_of
from fuzzytwin.explain._names import opened, unnamed_columns
from fuzzytwin.plot._display import COLORS, Display
from fuzzytwin.twin._prediction import NearestPlane

MAX_PLANES = 6  # for pairs of classes, in one picture


@dataclass(eq=False, repr=False)
class PlanesDisplay(Display):
    """Planes and regions of a model of two features, with rows.

    Regions show the predicted class, and lines the planes (f_k = 0). The band around a fuzzy plane
    shows where the width of its value exceeds the centre (``|f_k| <= g_k``), and fades towards its
    edge. The size of a row shows its degree. With more than three classes, only the regions are
    drawn, because the planes of all pairs would hide them.

    Use `from_estimator` to create a display.

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
    own_classes : ndarray of shape (n_planes,), default=None
        Index of the own class of each plane. None: plane k is that of class k.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.plot import PlanesDisplay
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> y = X[:, 0] > 0
    >>> display = PlanesDisplay.from_estimator(FuzzyTwinSVC().fit(X, y), X, y)
    >>> display.winner[0, [0, -1]]  # the classes on the left and on the right
    array([0, 1])
    """

    xx0: Array
    xx1: Array
    winner: Array
    centers: Array
    widths: Array
    classes: Array
    X: Array
    y: Array | None
    degrees: Array
    names: tuple[str, str]
    own_classes: Array | None = None

    _layout = None

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
            Rows to draw. They set the limits of the plot.
        y : array-like of shape (n,), default=None
            Labels of the rows. None draws them in grey.
        degrees : array-like of shape (n,), default=None
            Membership degrees of the rows, None for 1.
        grid_resolution : int, default=300
            Points of the grid along each axis.
        ax : matplotlib Axes, default=None
            Axes to draw on, None for those of a new figure.

        Returns
        -------
        PlanesDisplay
        """
        check_is_fitted(estimator)
        names = tuple(getattr(estimator, "feature_names_in_", ("column 0", "column 1")))
        if estimator.n_features_in_ != 2:
            raise ValueError(
                f"estimator has n_features_in_={estimator.n_features_in_}, but planes can be drawn "
                "for two features only; fit it on X[:, [i, j]]."
            )
        X = check_array(X)
        xx0, xx1 = _grid(X, grid_resolution)
        grid = np.column_stack([xx0.ravel(), xx1.ravel()])
        with unnamed_columns():
            model, rows = opened(estimator, grid)
            if not isinstance(model, NearestPlane):
                raise TypeError(
                    f"estimator is of type {type(model).__name__}, which has no plane for each "
                    "class; give a FuzzyTwinSVC, LeastSquaresTwinSVC, TwinSVC or GEPSVC."
                )
            f, g = model.plane_values(rows)
            winner = labels_of(model.predict_membership(rows)).reshape(xx0.shape)
        g = np.zeros_like(f) if g is None else g
        shape = (len(model.coef_), *xx0.shape)
        return cls(
            xx0,
            xx1,
            winner,
            centers=f.T.reshape(shape),
            widths=g.T.reshape(shape),
            classes=model.classes_,
            X=X,
            y=None if y is None else np.asarray(y),
            degrees=np.ones(len(X)) if degrees is None else np.asarray(degrees, dtype=float),
            names=names,
            own_classes=model.plane_classes_[:, 0],
        ).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        from matplotlib.colors import ListedColormap

        n_classes = len(self.classes)
        colors = [COLORS[k % len(COLORS)] for k in range(n_classes)]
        ax.pcolormesh(
            self.xx0,
            self.xx1,
            self.winner,
            cmap=ListedColormap(colors),
            alpha=0.12,
            vmin=-0.5,
            vmax=n_classes - 0.5,
            shading="nearest",
            rasterized=True,
            zorder=0,
        )
        own_classes = self.own_classes
        if own_classes is None:
            own_classes = np.arange(len(self.centers))
        if len(own_classes) <= max(n_classes, MAX_PLANES):
            for f, g, k in zip(self.centers, self.widths, own_classes, strict=True):
                self._draw_plane(ax, f, g, colors[k])
        self._draw_rows(ax, colors)
        ax.set(xlabel=literal(self.names[0]), ylabel=literal(self.names[1]))
        ax.set(xlim=self._limits[:2], ylim=self._limits[2:])

    @property
    def _limits(self) -> tuple[float, float, float, float]:
        return self.xx0.min(), self.xx0.max(), self.xx1.min(), self.xx1.max()

    def _draw_plane(self, ax: Any, f: Array, g: Array, color: str) -> None:
        """Draw the line f = 0, and the band |f| <= g of a fuzzy plane."""
        from matplotlib.colors import to_rgba

        if (g > 0).any():
            share_of_width = np.abs(f) / np.where(g > 0, g, np.nan)
            band = np.tile(to_rgba(color), (*f.shape, 1))
            band[..., 3] = 0.45 * np.nan_to_num(np.clip(1 - share_of_width, 0, 1))
            ax.imshow(band, extent=self._limits, origin="lower", aspect="auto", zorder=1)
        if f.min() < 0 < f.max():
            ax.contour(self.xx0, self.xx1, f, levels=[0], colors=[color], linewidths=2)

    def _draw_rows(self, ax: Any, colors: list[str]) -> None:
        """Draw the rows, and a legend of the classes."""
        from matplotlib.lines import Line2D

        sizes = 4 + 40 * self.degrees
        if self.y is None:
            ax.scatter(*self.X.T, s=sizes, color="0.4", zorder=3)
        handles = []
        for name, color, marker in zip(self.classes, colors, cycle("o^svDP*"), strict=False):
            style: dict[str, Any] = {"color": color, "marker": marker}
            handles.append(Line2D([], [], lw=2, label=literal(f"class {name}"), **style))
            if self.y is not None:
                own = self.y == name
                edge = {"edgecolor": "white", "linewidth": 0.5}
                ax.scatter(*self.X[own].T, s=sizes[own], zorder=3, **style, **edge)
        ax.legend(handles=handles, loc="best", framealpha=0.9)


def _grid(X: Array, resolution: int) -> list[Array]:
    """Return a grid around rows, with a margin."""
    low = X.min(axis=0)
    high = X.max(axis=0)
    margin = 0.08 * np.where(high > low, high - low, 1.0)
    axes = np.linspace(low - margin, high + margin, resolution).T
    return list(np.meshgrid(*axes))
