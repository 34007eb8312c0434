"""Methods that exist only while a model can take rows bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any


class CannotStreamError(AttributeError, ValueError):
    """Rows cannot be added because the membership looks at all rows at once.

    It is an AttributeError too, so that ``hasattr(model, "partial_fit")`` tells the truth.
    """


class streaming:
    """A method that exists only while the membership can stream."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self.function
        name = self.function.__name__
        membership = model.membership
        if membership is not None and not getattr(membership, "streams", False):
            raise CannotStreamError(
                f"{name} is not available with membership={membership!r}, which needs all "
                "rows at once. Set membership=None (degrees that you have can be given to "
                "partial_fit), or run over the data twice with fuzzytwin.sources."
            )
        return MethodType(self.function, model)
