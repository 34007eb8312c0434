"""EffectsDisplay: effects of columns on the classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.explain._effects import class_to_show, column_effects
from fuzzytwin.explain._names import open_model, unnamed_columns
from fuzzytwin.plot._display import COLORS, Display, open_frame, short

MAX_CLASSES = len(COLORS)


@dataclass(eq=False, repr=False)
class EffectsDisplay(Display):
    """Effects of the strongest columns on the membership in each class, as bars.

    A bar to the right means that the membership rises with the column, or if a category has this
    value. A bar to the left means that it falls. A thin line shows the strength, which disregards
    the direction.

    Use `from_estimator` to create a display.

    Parameters
    ----------
    effects, strengths : ndarray of shape (K, d)
        Result of `fuzzytwin.explain.column_effects`.
    classes : array-like of shape (K,)
        Classes. With two classes `label` is drawn, with more the first seven.
    names : list of str
        Names of the columns.
    top : int, default=10
        Number of columns to draw.
    label : object, default=None
        The only class to draw. None for the second of two classes, or for all of more classes.
    quantity : {"membership", "probability"}, default="membership"
        Quantity that changes.
    has_categories : bool, default=False
        Whether columns stand for values of categories, for the label of the axis.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.plot import EffectsDisplay
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> model = FuzzyTwinSVC().fit(X, X[:, 0] > 0)
    >>> EffectsDisplay.from_estimator(model, X).effects[1].round(2)
    array([ 0.24,  0.03, -0.03])
    """

    effects: Array
    strengths: Array
    classes: Any
    names: list[str]
    top: int = 10
    label: Any = None
    quantity: str = "membership"
    has_categories: bool = False

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
            Labels of the rows, None for those that the model predicts.
        label : object, default=None
            The class to draw. None for the rarer of two classes, or for all of more classes.
        top : int, default=10
            Number of columns to draw.
        ax : matplotlib Axes, default=None
            Axes to draw on, None for those of a new figure.

        Returns
        -------
        EffectsDisplay
        """
        opened = open_model(model, X)
        estimator = opened.estimator
        classes = estimator.classes_
        if label is not None or len(classes) == 2:
            with unnamed_columns():
                labels = estimator.predict(opened.rows) if y is None else y
            label = classes[class_to_show(classes, labels, label)]
        effects, strengths = column_effects(model, X, sample_weight)
        has_memberships = hasattr(estimator, "predict_membership")
        quantity = "membership" if has_memberships else "probability"
        display = cls(
            effects,
            strengths,
            classes,
            opened.names,
            top=top,
            label=label,
            quantity=quantity,
            has_categories=bool(opened.categories),
        )
        return display.plot(ax=ax)

    @property
    def _shown(self) -> list[int]:
        """Return the classes that are drawn."""
        if self.label is not None:
            return [class_to_show(self.classes, (), self.label)]
        n_classes = len(self.classes)
        return [1] if n_classes == 2 else list(range(min(n_classes, MAX_CLASSES)))

    @property
    def _size(self) -> tuple[float, float]:
        n_columns = min(self.top, len(self.names))
        return 7, 1.2 + n_columns * (0.2 + 0.14 * len(self._shown))

    def _draw(self, ax: Any) -> None:
        shown = self._shown
        # One order of the columns for all classes: strongest first, drawn from the bottom up.
        order = np.argsort(-self.strengths[shown].max(axis=0), kind="stable")[: self.top][::-1]
        height = 0.8 / len(shown)
        for i, k in enumerate(shown):
            centers = np.arange(len(order)) + 0.4 - (i + 0.5) * height
            effect = self.effects[k, order]
            strength = self.strengths[k, order]
            ax.hlines(centers, -strength, strength, color="0.75", linewidth=0.8, zorder=1)
            color: Any = COLORS[k % len(COLORS)]
            if len(self.classes) == 2:  # a bar has the colour of the class that it points to
                color = [COLORS[k] if value > 0 else COLORS[1 - k] for value in effect]
            name = short(self.classes[k], 28)
            ax.barh(centers, effect, height=0.85 * height, color=color, zorder=2, label=name)
        ax.axvline(0, color="0.3", linewidth=0.8, zorder=3)
        ax.set_yticks(np.arange(len(order)), [short(self.names[j], 30) for j in order])
        open_frame(ax)
        quantity = "memberships" if self.quantity == "membership" else "probabilities"
        if len(shown) == 1:
            preposition = "in" if self.quantity == "membership" else "of"
            quantity = f"{self.quantity} {preposition} {short(self.classes[shown[0]], 28)}"
        else:
            ax.legend(frameon=False)
        change = "if a number rises by one standard deviation"
        if self.has_categories:
            change += ",\nor a category has this value instead of the others"
        ax.set_xlabel(f"change of {quantity} {change}")
