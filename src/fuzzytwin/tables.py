"""Turn tables with text, gaps and categories into numbers: address of `fuzzytwin.data`."""

from fuzzytwin.data.preprocessor import TablePreprocessor

__all__ = ["TablePreprocessor"]
