"""ValidationSurfaceDisplay: scores of a search over C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.text import literal
from fuzzytwin._utils.types import Array
from fuzzytwin.plot._display import COLORS, Display
from fuzzytwin.twin._search import FuzzyTwinSVCCV

# Style of the chosen point.
CHOSEN: dict[str, Any] = {
    "marker": "*",
    "markersize": 16,
    "linestyle": "none",
    "clip_on": False,
    "markeredgecolor": "black",
    "zorder": 4,
    "label": "chosen",
}


@dataclass(eq=False, repr=False)
class ValidationSurfaceDisplay(Display):
    """Mean test scores of a search over C, at the best values of all other parameters.

    With two classes, it is a heat map over the C of both planes. With more, it is a line over the
    common C, in a band of one standard deviation over the splits. The chosen point is marked.

    Use `from_estimator` to create a display.

    Parameters
    ----------
    Cs : ndarray of shape (m,)
        Values of C, sorted.
    mean, std : ndarray of shape (m, m) or (m,)
        Mean and standard deviation over the splits. With two classes, the first axis is the C of
        the first class.
    best : tuple of float
        C at the chosen point, one value for each axis of `mean`.
    classes : ndarray of shape (K,)
        Labels.
    score_name, settings : str
        Name of the score, and a description of the other parameters.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVCCV
    >>> from fuzzytwin.plot import ValidationSurfaceDisplay
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> search = FuzzyTwinSVCCV(Cs=[0.5, 1.0, 2.0]).fit(X, X[:, 0] > 0)
    >>> ValidationSurfaceDisplay.from_estimator(search).mean.round(2)
    array([[0.97, 0.97, 0.98],
           [0.95, 0.97, 0.97],
           [0.95, 0.95, 0.95]])
    """

    Cs: Array
    mean: Array
    std: Array
    best: tuple[float, ...]
    classes: Array
    score_name: str
    settings: str

    @classmethod
    def from_estimator(cls, search: Any, *, ax: Any = None) -> ValidationSurfaceDisplay:
        """Collect the scores and draw them.

        Parameters
        ----------
        search : FuzzyTwinSVCCV or Pipeline that ends in one
            The fitted search. Anything else raises a TypeError.
        ax : matplotlib Axes, default=None
            Axes to draw on, None for those of a new figure.

        Returns
        -------
        ValidationSurfaceDisplay
        """
        if isinstance(search, Pipeline):
            search = search[-1]
        if not isinstance(search, FuzzyTwinSVCCV):
            raise TypeError(
                f"search={search!r} is of type {type(search).__name__}; give a fitted "
                "FuzzyTwinSVCCV."
            )
        check_is_fitted(search)
        chosen = search.best_params_
        tried = search.cv_results_["params"]
        names = [name for name in chosen if name != "C"]
        points = [i for i, params in enumerate(tried) if _agree(params, chosen, names)]
        penalties = np.array([tried[i]["C"] for i in points]).reshape(len(points), -1)
        Cs = np.unique(penalties)
        index = tuple(np.searchsorted(Cs, penalties).T)
        means, deviations = _scores(search)
        mean = np.full((len(Cs),) * len(index), np.nan)
        std = np.full_like(mean, np.nan)
        mean[index] = means[points]
        std[index] = deviations[points]
        return cls(
            Cs,
            mean,
            std,
            best=tuple(float(C) for C in np.ravel(chosen["C"])),
            classes=search.classes_,
            score_name=_score_name(search.scoring),
            settings=", ".join(_setting(name, chosen[name]) for name in sorted(names, key=_order)),
        ).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        ax.set_xscale("log", base=2)
        if self.mean.ndim == 2:
            self._draw_surface(ax)
        else:
            self._draw_line(ax)
        ax.set_title(literal(self.settings), fontsize="small")

    def _draw_surface(self, ax: Any) -> None:
        """Draw a heat map over the C of two classes."""
        ax.set_yscale("log", base=2)
        # Cells meet half-way between values of C, on a logarithmic scale.
        logs = np.log2(self.Cs)
        steps = np.diff(logs) / 2 if len(logs) > 1 else np.ones(1)
        middles = logs[:-1] + steps[: len(logs) - 1]
        edges = 2.0 ** np.concatenate([[logs[0] - steps[0]], middles, [logs[-1] + steps[-1]]])
        mesh = ax.pcolormesh(edges, edges, self.mean.T, cmap="viridis", rasterized=True)
        ax.figure.colorbar(mesh, ax=ax, label=literal(f"mean {self.score_name}"))
        ax.plot(*self.best, color="white", **CHOSEN)
        first, second = (literal(f"C of class {name}") for name in self.classes)
        ax.set(xlabel=first, ylabel=second)
        ax.set_facecolor("0.8")  # of points without a score

    def _draw_line(self, ax: Any) -> None:
        """Draw a line over the common C of all classes."""
        low = self.mean - self.std
        high = self.mean + self.std
        band = {"alpha": 0.2, "linewidth": 0, "label": "one standard deviation"}
        ax.fill_between(self.Cs, low, high, color=COLORS[0], **band)
        ax.plot(self.Cs, self.mean, color=COLORS[0], marker="o", label="mean over the splits")
        best_mean = self.mean[np.searchsorted(self.Cs, self.best[0])]
        ax.plot(self.best[0], best_mean, color=COLORS[1], **CHOSEN)
        ax.set(xlabel="C of every class", ylabel=literal(self.score_name))
        ax.legend(loc="best", framealpha=0.9)


def _scores(search: FuzzyTwinSVCCV) -> tuple[Array, Array]:
    """Return means and standard deviations, without splits that failed."""
    results = search.cv_results_
    scores = np.array([results[f"split{i}_test_score"] for i in range(search.n_splits_)])
    scores = scores[~np.isnan(scores).all(axis=1)]
    return scores.mean(axis=0), scores.std(axis=0)


def _agree(params: dict[str, Any], chosen: dict[str, Any], names: list[str]) -> bool:
    """Return whether two points of a search agree in the named parameters."""
    return all(params[name] is chosen[name] or params[name] == chosen[name] for name in names)


def _score_name(scoring: Any) -> str:
    if scoring is None:
        return "accuracy"
    return scoring.replace("_", " ") if isinstance(scoring, str) else "score"


def _order(name: str) -> bool:
    """Sort alpha first, and leave the others in their order."""
    return name != "alpha"


def _setting(name: str, value: Any) -> str:
    is_number = name in ("alpha", "gamma") and not isinstance(value, str)
    return f"{name}={value:.3g}" if is_number else f"{name}={value!r}"
