"""ValidationSurfaceDisplay; users find it in `fuzzytwin.plot`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.text import literal
from fuzzytwin._utils.types import Array, public_in
from fuzzytwin.explain.display import COLORS, axes_for
from fuzzytwin.search.estimator import FuzzyTwinSVCCV


@public_in("fuzzytwin.plot")
class ValidationSurfaceDisplay:
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
        the first class.
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
        scores = np.array([results[f"split{i}_test_score"] for i in range(search.n_splits_)])
        scores = scores[~np.isnan(scores).all(axis=1)]  # without splits that failed
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
        mean[place], std[place] = scores[:, here].mean(axis=0), scores[:, here].std(axis=0)
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

    def plot(self, ax: Any = None) -> ValidationSurfaceDisplay:
        """Draw on `ax`, or on a new figure.

        Returns
        -------
        self
        """
        ax = axes_for(ax, (6, 4.5))
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
            ax.fill_between(
                self.Cs, self.mean - self.std, self.mean + self.std, color=COLORS[0], alpha=0.2,
                linewidth=0, label="one standard deviation",
            )  # fmt: skip
            ax.plot(self.Cs, self.mean, color=COLORS[0], marker="o", label="mean over the splits")
            at = self.mean[np.searchsorted(self.Cs, self.best[0])]
            ax.plot(self.best[0], at, color=COLORS[1], **star)
            ax.set(xlabel="C of every class", ylabel=literal(self.score_name))
            ax.legend(loc="best", framealpha=0.9)
        ax.set_title(literal(self.settings), fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self
