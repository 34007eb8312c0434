"""EffectsDisplay and CommitteeDisplay; what all displays share: colours, axes, an open frame."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.extras import need
from fuzzytwin._utils.text import literal
from fuzzytwin._utils.types import Array, public_in
from fuzzytwin.estimators.committee import FuzzyTwinCommittee
from fuzzytwin.explain.effects import class_to_show, column_effects, last_step, unnamed_columns

# Blue, orange, green ... of Okabe and Ito, which (nearly) everyone can distinguish.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
DOUBT = "#B00020"
MOST_CLASSES = len(COLORS)


def axes_for(ax: Any, size: tuple[float, float], layout: str | None = "constrained") -> Any:
    """Return the given axes, or those of a new figure of a size in inches."""
    plt = need("matplotlib.pyplot", "plot", "a plot")
    return plt.subplots(figsize=size, layout=layout)[1] if ax is None else ax


def open_frame(ax: Any) -> None:
    """Leave the bottom of the frame alone, and no ticks at the left."""
    ax.tick_params(axis="y", length=0)
    for side in ("left", "right", "top"):
        ax.spines[side].set_visible(False)


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
    >>> from fuzzytwin.explain import EffectsDisplay
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> model = FuzzyTwinSVC().fit(X, X[:, 0] > 0)
    >>> EffectsDisplay.from_estimator(model, X).effects.shape
    (2, 3)
    """

    def __init__(
        self,
        effects: Array,
        strengths: Array,
        classes: Any,
        names: list[str],
        top: int = 10,
        label: Any = None,
        quantity: str = "membership",
    ) -> None:
        self.effects, self.strengths = effects, strengths
        self.classes, self.names, self.top, self.label = classes, names, top, label
        self.quantity = quantity

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
        >>> from fuzzytwin.explain import EffectsDisplay
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

    def plot(self, ax: Any = None) -> EffectsDisplay:
        """Draw on `ax`, or on a new figure.

        Returns
        -------
        self
        """
        K = len(self.classes)
        shown = [1] if K == 2 else list(range(min(K, MOST_CLASSES)))
        if self.label is not None:
            shown = [class_to_show(self.classes, (), self.label)]
        alone = len(shown) == 1
        # One order of the columns for all classes: strongest first, drawn from the bottom up.
        order = np.argsort(-self.strengths[shown].max(axis=0), kind="stable")[: self.top][::-1]
        height = 0.8 / len(shown)
        ax = axes_for(ax, (7, 1.2 + len(order) * (0.2 + 0.14 * len(shown))))
        for place, k in enumerate(shown):
            at = np.arange(len(order)) + 0.4 - (place + 0.5) * height
            effect, strength = self.effects[k, order], self.strengths[k, order]
            ax.hlines(at, -strength, strength, color="0.75", linewidth=0.8, zorder=1)
            color: Any = COLORS[k % len(COLORS)]
            if K == 2:  # a bar has the colour of the class that it speaks for
                color = [COLORS[k] if value > 0 else COLORS[1 - k] for value in effect]
            name = literal(_short(self.classes[k], 28))
            ax.barh(at, effect, height=0.85 * height, color=color, zorder=2, label=name)
        ax.axvline(0, color="0.3", linewidth=0.8, zorder=3)
        ax.set_yticks(np.arange(len(order)), [literal(_short(self.names[j], 30)) for j in order])
        open_frame(ax)
        fuzzy = self.quantity == "membership"
        about = "memberships" if fuzzy else "probabilities"
        if alone:
            about = f"{self.quantity} {'in' if fuzzy else 'of'} "
            about += literal(_short(self.classes[shown[0]], 28))
        ax.set_xlabel(f"change of {about} as a column rises by one deviation")
        if not alone:
            ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@public_in("fuzzytwin.plot")
class CommitteeDisplay:
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

    def plot(self, ax: Any = None) -> CommitteeDisplay:
        """Draw on `ax`, or on a new figure.

        Returns
        -------
        self
        """
        places = -np.arange(len(self.names))
        ax = axes_for(ax, (7, 1.2 + 0.32 * len(self.names)))
        ax.barh(places, self.weights, height=0.6, color=COLORS[0])
        ax.set_yticks(places, [literal(_short(name, 40)) for name in self.names])
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
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _short(name: object, width: int) -> str:
    text = str(name)
    return text if len(text) <= width else f"{text[: width - 3]}..."
