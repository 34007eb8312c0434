"""Displays of models: planes, members of a committee, scores of a search; see `fuzzytwin.plot`."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.text import literal
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.core.distances import labels_of
from fuzzytwin.explain.display import COLORS, Display, open_frame, short
from fuzzytwin.explain.effects import opened, unnamed_columns
from fuzzytwin.twin._prediction import NearestPlane
from fuzzytwin.twin._search import FuzzyTwinSVCCV

MOST_PLANES = 6  # of pairs of classes in one picture


class PlanesDisplay(Display):
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

    _layout = None

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
            xx0, xx1, winner, f.T.reshape(shape), g.T.reshape(shape), model.classes_, X,
            None if y is None else np.asarray(y),
            np.ones(len(X)) if degrees is None else np.asarray(degrees, dtype=float), names,
            model.plane_classes_[:, 0],
        ).plot(ax=ax)  # fmt: skip

    def _draw(self, ax: Any) -> None:
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
        sizes, handles = 4 + 40 * self.degrees, []
        if self.y is None:
            ax.scatter(*self.X.T, s=sizes, color="0.4", zorder=3)
        for name, color, marker in zip(self.classes, colors, cycle("o^svDP*"), strict=False):
            look: dict[str, Any] = {"color": color, "marker": marker}
            handles.append(Line2D([], [], lw=2, label=literal(f"class {name}"), **look))
            if self.y is not None:
                own, edge = self.y == name, {"edgecolor": "white", "linewidth": 0.5}
                ax.scatter(*self.X[own].T, s=sizes[own], zorder=3, **look, **edge)
        ax.legend(handles=handles, loc="best", framealpha=0.9)
        ax.set(xlabel=literal(self.names[0]), ylabel=literal(self.names[1]))
        ax.set(xlim=limits[:2], ylim=limits[2:])


class ValidationSurfaceDisplay(Display):
    """Mean test scores of a search over C, at the best other settings.

    With two classes a heat map over the C of either plane; with more a line over their common
    C, in a band of one standard deviation over the splits. The chosen point is marked.

    Use `from_estimator` to make one.

    Parameters
    ----------
    Cs : ndarray of shape (m,)
        Values of C, sorted.
    mean, std : ndarray of shape (m, m) or (m,)
        Mean and standard deviation over the splits; for two classes the first axis is the C of
        the first class. With ``cv="loo"``, scores of all rows together, and deviations of few
        points (see `FuzzyTwinSVCCV`).
    best : tuple of float
        C at the chosen point: one for each axis of `mean`.
    classes : ndarray of shape (K,)
        Labels.
    score_name, settings : str
        Name of the score, and the other settings in words.

    Attributes
    ----------
    ax_, figure_
        Where `plot` drew.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVCCV
    >>> from fuzzytwin.plot import ValidationSurfaceDisplay
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> search = FuzzyTwinSVCCV(Cs=[0.5, 1.0, 2.0]).fit(X, X[:, 0] > 0)
    >>> ValidationSurfaceDisplay.from_estimator(search).mean.shape
    (3, 3)
    """

    def __init__(
        self, Cs: Array, mean: Array, std: Array, best: tuple[float, ...],
        classes: Array, score_name: str, settings: str,
    ) -> None:  # fmt: skip
        self.Cs, self.mean, self.std, self.best = Cs, mean, std, best
        self.classes, self.score_name, self.settings = classes, score_name, settings

    @classmethod
    def from_estimator(cls, search: Any, *, ax: Any = None) -> ValidationSurfaceDisplay:
        """Find the scores and draw them.

        Parameters
        ----------
        search : FuzzyTwinSVCCV or Pipeline that ends in one
            Fitted.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        ValidationSurfaceDisplay

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.preprocessing import scale
        >>> from fuzzytwin import FuzzyTwinSVCCV
        >>> from fuzzytwin.plot import ValidationSurfaceDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> search = FuzzyTwinSVCCV([0.25, 1.0, 4.0], memberships=(None,)).fit(scale(X), y)
        >>> display = ValidationSurfaceDisplay.from_estimator(search)
        >>> display.mean.shape
        (3, 3)
        """
        if isinstance(search, Pipeline):
            search = search[-1]
        if not isinstance(search, FuzzyTwinSVCCV):
            raise TypeError(
                f"search={search!r} is of type {type(search).__name__}; give a fitted "
                "FuzzyTwinSVCCV."
            )
        check_is_fitted(search)
        results, chosen = search.cv_results_, search.best_params_
        means, deviations = results["mean_test_score"], results["std_test_score"]
        if "split0_test_score" in results:  # none with cv="loo"
            scores = np.array([results[f"split{i}_test_score"] for i in range(search.n_splits_)])
            scores = scores[~np.isnan(scores).all(axis=1)]  # without splits that failed
            means, deviations = scores.mean(axis=0), scores.std(axis=0)
        others = [name for name in chosen if name != "C"]
        here = [
            i
            for i, params in enumerate(results["params"])
            if all(params[name] is chosen[name] or params[name] == chosen[name] for name in others)
        ]
        penalties = np.array([results["params"][i]["C"] for i in here]).reshape(len(here), -1)
        Cs = np.unique(penalties)
        place = tuple(np.searchsorted(Cs, penalties).T)
        mean, std = (np.full((len(Cs),) * len(place), np.nan) for _ in range(2))
        mean[place], std[place] = means[here], deviations[here]
        name = "accuracy" if search.scoring is None else search.scoring
        words = [
            f"{what}={chosen[what]:.3g}" if what == "gamma" and not isinstance(chosen[what], str)
            else f"{what}={chosen[what]!r}" for what in others if what != "alpha"
        ]  # fmt: skip
        return cls(
            Cs, mean, std, tuple(float(C) for C in np.ravel(chosen["C"])), search.classes_,
            name.replace("_", " ") if isinstance(name, str) else "score",
            ", ".join([f"alpha={chosen['alpha']:.3g}", *words]),
        ).plot(ax=ax)  # fmt: skip

    def _draw(self, ax: Any) -> None:
        ax.set_xscale("log", base=2)
        star = {"marker": "*", "markersize": 16, "linestyle": "none", "clip_on": False,
                "markeredgecolor": "black", "zorder": 4, "label": "chosen"}  # fmt: skip
        if self.mean.ndim == 2:
            ax.set_yscale("log", base=2)
            # Cells meet half-way between values of C, on the scale of their logarithms.
            logs = np.log2(self.Cs)
            steps = np.diff(logs) / 2 if len(logs) > 1 else np.ones(1)
            middles = logs[:-1] + steps[: len(logs) - 1]
            edges = 2.0 ** np.concatenate([[logs[0] - steps[0]], middles, [logs[-1] + steps[-1]]])
            mesh = ax.pcolormesh(edges, edges, self.mean.T, cmap="viridis", rasterized=True)
            ax.figure.colorbar(mesh, ax=ax, label=literal(f"mean {self.score_name}"))
            ax.plot(*self.best, color="white", **star)
            first, second = (literal(f"C of class {name}") for name in self.classes)
            ax.set(xlabel=first, ylabel=second)
            ax.set_facecolor("0.8")  # where there is no score
        else:
            # Those of cv="loo" are known of few points.
            pooled = bool((np.isnan(self.std) & ~np.isnan(self.mean)).any())
            if not pooled:
                ax.fill_between(
                    self.Cs, self.mean - self.std, self.mean + self.std, color=COLORS[0],
                    alpha=0.2, linewidth=0, label="one standard deviation",
                )  # fmt: skip
            label = "leave-one-out, all rows together" if pooled else "mean over the splits"
            ax.plot(self.Cs, self.mean, color=COLORS[0], marker="o", label=label)
            at = self.mean[np.searchsorted(self.Cs, self.best[0])]
            ax.plot(self.best[0], at, color=COLORS[1], **star)
            ax.set(xlabel="C of every class", ylabel=literal(self.score_name))
            ax.legend(loc="best", framealpha=0.9)
        ax.set_title(literal(self.settings), fontsize="small")


class CommitteeDisplay(Display):
    """Members of a committee and how much each counts, as bars.

    A weight is the factor of a member's values in the log odds of the classes; members of weight 0
    say nothing that the others do not. At the right stands the error of each member alone: the
    mean squared error at rows that its planes never saw.

    Use `from_estimator` to make one.

    Parameters
    ----------
    names : list of str
        What the members are.
    weights, errors : ndarray of shape (M,)
        Weight and error of each member.
    log_loss : float, default=None
        Mean log loss of all members together at left-out rows.

    Attributes
    ----------
    ax_, figure_
        Where `plot` drew.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fuzzytwin import FuzzyTwinCommittee
    >>> from fuzzytwin.plot import CommitteeDisplay
    >>> model = FuzzyTwinCommittee(["linear", "rbf"]).fit(*load_iris(return_X_y=True))
    >>> CommitteeDisplay.from_estimator(model).weights.shape
    (2,)
    """

    def __init__(
        self, names: list[str], weights: Array, errors: Array, log_loss: float | None = None
    ) -> None:
        self.names, self.weights, self.errors = names, weights, errors
        self.log_loss = log_loss

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> CommitteeDisplay:
        """Collect the members and draw them.

        Parameters
        ----------
        estimator : FuzzyTwinCommittee or Pipeline that ends in one
            Fitted.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        CommitteeDisplay

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from fuzzytwin import FuzzyTwinCommittee
        >>> from fuzzytwin.plot import CommitteeDisplay
        >>> model = FuzzyTwinCommittee(["linear", "rbf"]).fit(*load_breast_cancer(return_X_y=True))
        >>> display = CommitteeDisplay.from_estimator(model)
        >>> len(display.ax_.containers[0].patches)
        2
        """
        model = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        if not isinstance(model, FuzzyTwinCommittee):
            raise TypeError(
                f"estimator is of type {type(model).__name__}; give a fitted FuzzyTwinCommittee."
            )
        check_is_fitted(model)
        weights, errors = (
            np.array([getattr(member, what) for member in model.members_], dtype=float)
            for what in ("weight", "error")
        )
        names = [member.name for member in model.members_]
        return cls(names, weights, errors, float(model.loo_log_loss_)).plot(ax=ax)

    @property
    def _size(self) -> tuple[float, float]:
        return 7, 1.2 + 0.32 * len(self.names)

    def _draw(self, ax: Any) -> None:
        places = -np.arange(len(self.names))
        ax.barh(places, self.weights, height=0.6, color=COLORS[0])
        ax.set_yticks(places, [short(name, 40) for name in self.names])
        widest = float(np.max(self.weights, initial=0.0)) or 1.0
        ax.set_xlim(0, 1.45 * widest)
        for place, weight, error in zip(places, self.weights, self.errors, strict=True):
            text = f"{weight:.2f}" + (f"  (error {error:.3f})" if np.isfinite(error) else "")
            ax.text(
                weight + 0.01 * widest, place, text, va="center", fontsize=8,
                color="0.2" if weight > 0 else "0.55",
            )  # fmt: skip
        open_frame(ax)
        ax.set_xlabel("weight in the log odds of the classes")
        if self.log_loss is not None:
            ax.set_title(f"log loss of left-out rows: {self.log_loss:.3f}", fontsize="small")
