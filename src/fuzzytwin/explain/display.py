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

MOST_CLASSES = 6


@public_in("fuzzytwin.explain")
class EffectsDisplay:
    """Effects of the strongest columns on the membership in each class, as bars.

    To the right a column speaks for the class as it rises, to the left against it; a thin line
    shows the strength, which disregards the direction.

    Use `from_estimator` to make one.

    Parameters
    ----------
    effects, strengths : ndarray of shape (K, d)
        What `column_effects` returned.
    classes : array-like of shape (K,)
        Names of the classes. Of two classes the second is drawn, of more the first six.
    names : list of str
        Names of the columns.
    top : int, default=10
        How many columns to draw.

    Attributes
    ----------
    axes_ : ndarray of Axes
        One for each class drawn.
    figure_ : Figure
        Where `plot` drew.
    """

    def __init__(
        self, effects: Array, strengths: Array, classes: Any, names: list[str], top: int = 10
    ) -> None:
        self.effects, self.strengths = effects, strengths
        self.classes, self.names, self.top = classes, names, top

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, sample_weight: Any = None, *, top: int = 10, figure: Any = None
    ) -> EffectsDisplay:
        """Compute the effects and draw them.

        Parameters
        ----------
        model, X, sample_weight
            As for `column_effects`.
        top : int, default=10
            How many columns to draw.
        figure : matplotlib Figure, default=None
            Where to draw; by default a new one.

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
        >>> EffectsDisplay.from_estimator(model, X, top=5).axes_.shape
        (1,)
        """
        estimator, _, names = last_step(model, X)
        effects, strengths = column_effects(model, X, sample_weight)
        return cls(effects, strengths, estimator.classes_, names, top).plot(figure=figure)

    def plot(self, figure: Any = None) -> EffectsDisplay:
        """Draw on `figure`, or on a new one.

        Returns
        -------
        self
        """
        K = len(self.classes)
        shown = [1] if K == 2 else list(range(min(K, MOST_CLASSES)))
        # One order of the columns for all classes: strongest first, drawn from the bottom up.
        order = np.argsort(-self.strengths[shown].max(axis=0), kind="stable")[: self.top][::-1]
        if figure is None:
            plt = need("matplotlib.pyplot", "plot", "a plot")
            size = (3.2 + 2.6 * len(shown), 1.1 + 0.32 * len(order))
            figure = plt.figure(figsize=size, layout="constrained")
        axes = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
        reach = 1.08 * float(self.strengths[shown][:, order].max(initial=0.0)) or 1.0
        at = np.arange(len(order))
        for k, ax in zip(shown, axes, strict=True):
            effect, strength = self.effects[k, order], self.strengths[k, order]
            ax.hlines(at, -strength, strength, color="0.75", linewidth=1)
            colors = [COLORS[0] if value > 0 else COLORS[1] for value in effect]
            ax.barh(at, effect, height=0.6, color=colors, zorder=2)
            ax.axvline(0, color="0.3", linewidth=0.8, zorder=3)
            ax.set(xlim=(-reach, reach), title=literal(_short(self.classes[k], 28)))
            for side in ("left", "right", "top"):
                ax.spines[side].set_visible(False)
            ax.tick_params(axis="y", length=0)
        axes[0].set_yticks(at, [literal(_short(self.names[j], 30)) for j in order])
        figure.supxlabel("change of membership as a column rises by one deviation", fontsize=9)
        self.axes_, self.figure_ = axes, figure
        return self


def _short(name: object, width: int) -> str:
    text = str(name)
    return text if len(text) <= width else f"{text[: width - 3]}..."
