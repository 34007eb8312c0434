"""Learn from, label and question rows that do not fit in memory: files and any batches."""

from fuzzytwin.data.doubts_source import SourceDoubts, doubts_source
from fuzzytwin.data.fit_source import fit_source
from fuzzytwin.data.predict_source import predict_source

__all__ = ["SourceDoubts", "doubts_source", "fit_source", "predict_source"]
