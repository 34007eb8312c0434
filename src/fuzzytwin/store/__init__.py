"""Model files that are safe to open, and models in ONNX.

A model file is a zip archive in the format of skops, with the metadata of the model and a
checksum. The file names the types of its objects. `load` builds objects of this library, of
scikit-learn, of numpy and of scipy, and raises an error for any other type before anything is
built. Nothing in this package ever unpickles a file. Needs skops (the extra store).
"""

from fuzzytwin.store._archive import TRUSTED, ModelFileError, import_skops
from fuzzytwin.store._files import ModelVersionWarning, load, read_metadata, save
from fuzzytwin.store._onnx import to_onnx

__all__ = [
    "TRUSTED",
    "ModelFileError",
    "ModelVersionWarning",
    "import_skops",
    "load",
    "read_metadata",
    "save",
    "to_onnx",
]
