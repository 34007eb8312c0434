"""EffectsDisplay; users find it in `fuzzytwin.explain`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzytwin._utils.extras import need
from fuzzytwin._utils.public import public_in
from fuzzytwin._utils.text import literal
from fuzzytwin._utils.types import Array
from fuzzytwin.explain.effects import column_effects
from fuzzytwin.explain.steps import last_step
from fuzzytwin.plot.colors import COLORS

MOST_CLASSES = len(COLORS)


@public_in("fuzzytwin.explain")
class EffectsDisplay:
    """Effects of the strongest columns on the membership in each class, as bars.

    To the right a column speaks for a class as it rises, to the left against it; a thin line
    shows the strength, which disregards the direction.

    Use `from_estimator` to make one.

    Parameters
    ----------
    effects, strengths : ndarray of shape (K, d)
        What `column_effects` returned.
    classes : array-like of shape (K,)
        Names of the classes. Of two classes the second is drawn, of more the first seven.
    names : list of str
        Names of the columns.
    top : int, default=10
        How many columns to draw.

    Attributes
    ----------
    ax_, figure_
        Where `plot` drew.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.explain import EffectsDisplay
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> model = FuzzyTwinSVC().fit(X, X[:, 0] > 0)
    >>> EffectsDisplay.from_estimator(model, X).effects.shape
    (2, 3)
    """

    def __init__(
        self, effects: Array, strengths: Array, classes: Any, names: list[str], top: int = 10
    ) -> None:
        self.effects, self.strengths = effects, strengths
        self.classes, self.names, self.top = classes, names, top

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, sample_weight: Any = None, *, top: int = 10, ax: Any = None
    ) -> EffectsDisplay:
        """Compute the effects and draw them.

        Parameters
        ----------
        model, X, sample_weight
            As for `column_effects`.
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
        >>> from fuzzytwin.explain import EffectsDisplay
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> model = make_pipeline(StandardScaler(), FuzzyTwinSVC()).fit(X, y)
        >>> display = EffectsDisplay.from_estimator(model, X, top=5)
        >>> len(display.ax_.get_yticks())
        5
        """
        estimator, _, names = last_step(model, X)
        effects, strengths = column_effects(model, X, sample_weight)
        return cls(effects, strengths, estimator.classes_, names, top).plot(ax=ax)

    def plot(self, ax: Any = None) -> EffectsDisplay:
        """Draw on `ax`, or on a new figure.

        Returns
        -------
        self
        """
        K = len(self.classes)
        shown = [1] if K == 2 else list(range(min(K, MOST_CLASSES)))
        # One order of the columns for all classes: strongest first, drawn from the bottom up.
        order = np.argsort(-self.strengths[shown].max(axis=0), kind="stable")[: self.top][::-1]
        height = 0.8 / len(shown)
        if ax is None:
            plt = need("matplotlib.pyplot", "plot", "a plot")
            size = (7, 1.2 + len(order) * (0.2 + 0.14 * len(shown)))
            _, ax = plt.subplots(figsize=size, layout="constrained")
        for place, k in enumerate(shown):
            at = np.arange(len(order)) + 0.4 - (place + 0.5) * height
            effect, strength = self.effects[k, order], self.strengths[k, order]
            ax.hlines(at, -strength, strength, color="0.75", linewidth=0.8, zorder=1)
            color: Any = COLORS[k % len(COLORS)]
            if K == 2:
                color = [COLORS[0] if value > 0 else COLORS[1] for value in effect]
            name = literal(_short(self.classes[k], 28))
            ax.barh(at, effect, height=0.85 * height, color=color, zorder=2, label=name)
        ax.axvline(0, color="0.3", linewidth=0.8, zorder=3)
        ax.set_yticks(np.arange(len(order)), [literal(_short(self.names[j], 30)) for j in order])
        ax.tick_params(axis="y", length=0)
        for side in ("left", "right", "top"):
            ax.spines[side].set_visible(False)
        about = f"membership in {literal(_short(self.classes[1], 28))}" if K == 2 else "memberships"
        ax.set_xlabel(f"change of {about} as a column rises by one deviation")
        if K > 2:
            ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _short(name: object, width: int) -> str:
    text = str(name)
    return text if len(text) <= width else f"{text[: width - 3]}..."
