"""Turn tables with text, gaps and categories into numbers, and train on them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuzzytwin.tables.preprocessor import TablePreprocessor

__all__ = ["TablePreprocessor"]


def __getattr__(name: str) -> Any:  # imported when asked for: the command line starts at once
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fuzzytwin.tables.preprocessor import TablePreprocessor

    return TablePreprocessor
