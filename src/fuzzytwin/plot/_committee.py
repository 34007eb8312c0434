"""CommitteeDisplay: members of a committee and their weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.types import Array
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.plot._display import COLORS, Display, open_frame, short


@dataclass(eq=False, repr=False)
class CommitteeDisplay(Display):
    """Members of a committee and their stacking weights, as bars.

    A weight is the factor of a member's values in the log odds of the classes. Members of weight 0
    do not contribute. The leave-one-out mean squared error of each member is on the right.

    Use `from_estimator` to create a display.

    Parameters
    ----------
    names : list of str
        Descriptions of the members.
    weights, errors : ndarray of shape (M,)
        Weight and error of each member.
    log_loss : float, default=None
        Leave-one-out log loss of the committee.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last `plot`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fuzzytwin import FuzzyTwinCommittee
    >>> from fuzzytwin.plot import CommitteeDisplay
    >>> model = FuzzyTwinCommittee(members=["linear", "rbf"]).fit(*load_iris(return_X_y=True))
    >>> CommitteeDisplay.from_estimator(model).weights.round(2)
    array([0.66, 5.13])
    """

    names: list[str]
    weights: Array
    errors: Array
    log_loss: float | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> CommitteeDisplay:
        """Collect the members and draw them.

        Parameters
        ----------
        estimator : FuzzyTwinCommittee or Pipeline that ends in one
            The fitted model. Anything else raises a TypeError.
        ax : matplotlib Axes, default=None
            Axes to draw on, None for those of a new figure.

        Returns
        -------
        CommitteeDisplay
        """
        model = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        if not isinstance(model, FuzzyTwinCommittee):
            raise TypeError(
                f"estimator is of type {type(model).__name__}; give a fitted FuzzyTwinCommittee."
            )
        check_is_fitted(model)
        return cls(
            names=[member.name for member in model.members_],
            weights=np.array([member.weight for member in model.members_], dtype=float),
            errors=np.array([member.error for member in model.members_], dtype=float),
            log_loss=float(model.loo_log_loss_),
        ).plot(ax=ax)

    @property
    def _size(self) -> tuple[float, float]:
        return 7, 1.2 + 0.32 * len(self.names)

    def _draw(self, ax: Any) -> None:
        heights = -np.arange(len(self.names))
        ax.barh(heights, self.weights, height=0.6, color=COLORS[0])
        ax.set_yticks(heights, [short(name, 40) for name in self.names])
        widest = float(np.max(self.weights, initial=0.0)) or 1.0
        ax.set_xlim(0, 1.45 * widest)
        for height, weight, error in zip(heights, self.weights, self.errors, strict=True):
            text = f"{weight:.2f}"
            if np.isfinite(error):
                text += f"  (error {error:.3f})"
            color = "0.2" if weight > 0 else "0.55"
            ax.text(weight + 0.01 * widest, height, text, va="center", fontsize=8, color=color)
        open_frame(ax)
        ax.set_xlabel("weight in the log odds of the classes")
        if self.log_loss is not None:
            ax.set_title(f"leave-one-out log loss: {self.log_loss:.3f}", fontsize="small")
