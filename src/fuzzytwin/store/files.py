"""Save and load models."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

from fuzzytwin._utils.extras import versions
from fuzzytwin._utils.files import replacing
from fuzzytwin.store.archive import (
    FORMAT,
    TRUSTED,
    ModelFileError,
    dump,
    first_line,
    need_skops,
    reason,
    seal,
    unseal,
    untrusted,
    untrusted_types,
)


class ModelVersionWarning(UserWarning):
    """A model was saved with other versions of the packages it depends on."""


def save(
    model: BaseEstimator,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write a model to a file that `load` opens safely.

    The file is written whole or not at all, and one that is replaced keeps its permissions.
    Moments are kept, so that `partial_fit` and `merge` continue where the model left off. So are
    landmarks, which are training rows: see the notes.

    Parameters
    ----------
    model : estimator
        Of this library, or of scikit-learn around one (a `Pipeline`, say). A callable membership
        or kernel of your own cannot be saved: a file must not hold code.
    path : path-like
        Where to write. By custom the name ends in ``.skops``.
    overwrite : bool, default=False
        Replace an existing file.
    facts : mapping, default=None
        What else to remember about the model, ready for JSON; `about` returns it.

    Raises
    ------
    ModelFileError
        If the model holds something that `load` would refuse.
    FileExistsError
        If the file exists and `overwrite` is not set.
    OSError
        If it cannot be written, say because the disk is full.

    Notes
    -----
    A model of kernels holds training rows: its landmarks are rows, scaled, or means of a few of
    them, and the class of every row stands beside its score for prediction sets. Of up to 1,500
    rows, a `FuzzyTwinCommittee` keeps all. Treat such a file as you treat the table. Without
    kernels, a model holds sums over rows, and at most a degree and a score of each.

    A file holds arrays, lists and texts of this library's own, and objects of scikit-learn only
    if the model does: a `Pipeline` and its steps, say. Such steps may not work under another
    version of scikit-learn; a `TablePreprocessor` does.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.datasets import make_xor
    >>> from fuzzytwin.store.files import load, save
    >>> X, y, degrees = make_xor(random_state=0)
    >>> model = FuzzyTwinSVC(planes="fuzzy").fit(X, y, membership=degrees)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, Path(folder) / "xor.skops")
    ...     again = load(Path(folder) / "xor.skops")
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    content = to_bytes(model, facts)
    with replacing(path, overwrite=overwrite) as draft:
        draft.write_bytes(content)


def load(path: str | os.PathLike[str]) -> Any:
    """Open a model that `save` wrote.

    Everything is checked before anything is built: the checksum, the list of entries, the
    versions, and every type that the file names. The checksum shows damage; it is not a
    signature: a stranger's file may still hold a bad model, but none that runs code.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    estimator

    Raises
    ------
    ModelFileError
        If the file is missing, damaged, of another format or from a newer fuzzytwin, or names a
        type that is not trusted. One line says which.

    Warns
    -----
    ModelVersionWarning
        If another version of scikit-learn, numpy or fuzzytwin wrote it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.store.files import load, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(FuzzyTwinSVC(C=3.0), Path(folder) / "model.skops")
    ...     load(Path(folder) / "model.skops")
    FuzzyTwinSVC(C=3.0)
    """
    return from_bytes(_read(path), path)


def about(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what a model file says of itself: versions, date and facts. No model is built.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    dict
        With the keys "model", "saved", "versions", "landmarks" (the number of training rows,
        scaled, or of means of a few, that the model holds), "facts" and "format".

    Raises
    ------
    ModelFileError
        If it is not a model file, or damaged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.store.files import about, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(FuzzyTwinSVC(), Path(folder) / "model.skops", facts={"target": "species"})
    ...     about(Path(folder) / "model.skops")["facts"]
    {'target': 'species'}
    """
    return unseal(_read(path), path)[0]


def to_bytes(model: BaseEstimator, facts: Mapping[str, Any] | None = None) -> bytes:
    """Write a model as the bytes of a model file."""
    if not isinstance(model, BaseEstimator):
        remedy = "a model or a pipeline of one"
        if hasattr(model, "to_sklearn"):
            remedy = "what its to_sklearn() returns"
        raise ModelFileError(f"{model!r:.80} is not an estimator of scikit-learn; save {remedy}.")
    try:
        content = dump(model)
    except Exception as error:
        cause = f"the model cannot be saved: {first_line(error)}"
        raise ModelFileError(reason(model) or cause) from error
    refused = untrusted_types(content)
    if refused:
        raise ModelFileError(
            reason(model)
            or f"the model holds {refused[0]}, which a file that is safe to open cannot hold; use "
            "steps and members of scikit-learn's own, without trees, and plain numbers and arrays."
        )
    page = {
        "format": FORMAT,
        "model": type(model).__name__,
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "landmarks": _count_landmarks(model),
        "facts": dict(facts or {}),
    }
    return seal(content, page)


def from_bytes(content: bytes, name: object) -> Any:
    """Build the model that the bytes of a model file hold, after every check."""
    skops = need_skops()
    page, schema = unseal(content, name)
    for found in untrusted(schema):
        raise ModelFileError(
            f"{name} names {found}, which is not trusted; it was not opened. Ask where the file "
            "comes from."
        )
    _check_versions(name, page)
    try:
        unknown = sorted(set(skops.get_untrusted_types(data=content)) - TRUSTED)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InconsistentVersionWarning)  # ours was given already
            model = None if unknown else skops.loads(content, trusted=sorted(TRUSTED))
        _add_new_parameters(model)
    except Exception as error:
        raise ModelFileError(
            f"{name} cannot be opened: {type(error).__name__}: {first_line(error)}"
        ) from error
    if unknown:
        raise ModelFileError(f"{name} names {unknown[0]}, which is not trusted; it was not opened.")
    if not isinstance(model, BaseEstimator):
        raise ModelFileError(f"{name} holds a {type(model).__name__}, which is not a model.")
    return model


def _add_new_parameters(model: Any) -> None:
    """Give estimators the parameters that their classes have got since they were saved.

    Each gets its default value, which is what the older version did.
    """
    for part in _estimators(model):
        for name, parameter in inspect.signature(type(part)).parameters.items():
            if parameter.default is not parameter.empty and name not in vars(part):
                setattr(part, name, parameter.default)


def _estimators(model: Any) -> Iterator[BaseEstimator]:
    """Walk over a model and the estimators in it."""
    waiting, seen = [model], set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, (list, tuple)):
            waiting.extend(part)
        elif isinstance(part, BaseEstimator) and id(part) not in seen:
            seen.add(id(part))
            yield part
            waiting.extend(vars(part).values())


def _count_landmarks(model: Any) -> int:
    """Return the number of landmarks that a model holds, but for centers of several rows each."""
    counts = [0]
    for part in _estimators(model):
        landmark_map = getattr(part, "landmark_map_", None)
        landmarks = getattr(part, "landmarks_", getattr(landmark_map, "landmarks", None))
        asked = getattr(part, "n_landmarks", None)
        are_centers = isinstance(asked, str) and asked == "centers"
        if landmarks is not None and not are_centers:
            counts.append(landmarks.shape[0])
    return max(counts)


def _read(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise ModelFileError(f"there is no file {path}; check the name.") from None
    except IsADirectoryError:
        raise ModelFileError(f"{path} is a directory; name a model file in it.") from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}.") from error


def _check_versions(name: object, page: dict[str, Any]) -> None:
    theirs, ours = page.get("versions"), versions()
    theirs = theirs if isinstance(theirs, dict) else {}
    other = [
        f"{package} {theirs.get(package, '?')!s:.20} (here {ours[package]})"
        for package in ("fuzzytwin", "scikit-learn", "numpy")
        if str(theirs.get(package)).split(".")[:2] != ours[package].split(".")[:2]
    ]
    if other:
        warnings.warn(
            f"{name} was saved with {', '.join(other)}; its answers may differ: compare some, or "
            "train it again.",
            ModelVersionWarning,
            stacklevel=4,  # where `load` was called
        )
