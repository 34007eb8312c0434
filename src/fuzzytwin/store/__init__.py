"""Model files that are safe to open, and models in ONNX.

A model file is a zip archive in the format of skops, with a page of facts about the model and a
checksum. It names the types of what it holds; `load` builds objects of this library's, of
scikit-learn's and of numpy's and scipy's types and refuses any other, before anything is built.
Nothing in this package ever unpickles a file. Needs skops (the extra store).
"""

from fuzzytwin.store.archive import TRUSTED, ModelFileError, need_skops
from fuzzytwin.store.files import ModelVersionWarning, about, load, save
from fuzzytwin.store.onnx import to_onnx

__all__ = [
    "TRUSTED",
    "ModelFileError",
    "ModelVersionWarning",
    "about",
    "load",
    "need_skops",
    "save",
    "to_onnx",
]
