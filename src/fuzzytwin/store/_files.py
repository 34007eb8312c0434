"""Save and load models."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

from fuzzytwin._utils.extras import versions
from fuzzytwin._utils.files import atomic_write
from fuzzytwin._utils.notices import warn_user
from fuzzytwin.committee import FuzzyTwinCommittee
from fuzzytwin.store._archive import (
    FORMAT,
    TRUSTED,
    ModelFileError,
    add_checksum,
    dump,
    first_line,
    import_skops,
    unsavable_parameter,
    untrusted,
    untrusted_types,
    verify,
)


class ModelVersionWarning(UserWarning):
    """Warning that a model was saved with other versions of the packages it depends on."""


def save(
    model: BaseEstimator,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write a model to a file that `load` opens safely.

    The file is written completely or not at all. A file that is overwritten keeps its permissions.
    The file contains the moments, so that `partial_fit` and `merge` can continue after `load`. It
    also contains the landmarks, which are training rows: see the notes.

    Parameters
    ----------
    model : estimator
        An estimator of this library, or one of scikit-learn that contains it, such as a `Pipeline`.
        Callable memberships and kernels cannot be saved, because a file must not contain code.
    path : path-like
        The file to write. By convention the name ends in ``.skops``.
    overwrite : bool, default=False
        Whether to overwrite an existing file.
    metadata : mapping, default=None
        Further metadata of the model, which must be serializable as JSON. `read_metadata` returns
        it.

    Raises
    ------
    ModelFileError
        If the model contains something that `load` does not trust.
    FileExistsError
        If the file exists and `overwrite` is False.
    OSError
        If the file cannot be written, for example because the disk is full.

    Notes
    -----
    A kernel model contains training rows: its landmarks are scaled rows, or means of a few rows,
    and prediction sets need the class and a score of every row. A `FuzzyTwinCommittee` of up to
    1,500 rows contains all of them. Protect such a file like the table. A model without kernels
    contains sums over rows, and at most a membership degree and a score of each row.

    A file contains objects of scikit-learn only if the model does, such as a `Pipeline` and its
    steps. These may not work with another version of scikit-learn. A `TablePreprocessor` does.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.datasets import make_xor
    >>> from fuzzytwin.store import load, save
    >>> X, y, degrees = make_xor(random_state=0)
    >>> model = FuzzyTwinSVC(planes="fuzzy").fit(X, y, membership=degrees)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, Path(folder) / "xor.skops")
    ...     loaded = load(Path(folder) / "xor.skops")
    >>> model.predict(X[:5]).tolist(), loaded.predict(X[:5]).tolist()
    ([1, 1, 1, -1, 1], [1, 1, 1, -1, 1])
    """
    content = to_bytes(model, metadata)
    with atomic_write(path, overwrite=overwrite) as temporary:
        temporary.write_bytes(content)


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model that `save` wrote.

    The checksum, the list of entries, the versions and every type that the file names are checked
    before anything is built. The checksum detects damage. It is not a signature: a file from an
    untrusted source cannot run code, but its model may still be a bad one.

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
        type that is not trusted. The message says which.

    Warns
    -----
    ModelVersionWarning
        If the file was saved with another version of scikit-learn, numpy or fuzzytwin.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.store import load, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(FuzzyTwinSVC(C=3.0), Path(folder) / "model.skops")
    ...     load(Path(folder) / "model.skops")
    FuzzyTwinSVC(C=3.0)
    """
    return from_bytes(_read(path), path)


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the metadata of a model file, without building the model.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    dict
        With the keys "model" (its class), "saved" (the date), "versions", "landmarks" (how many
        scaled training rows, or means of a few rows, the model contains), "metadata" (as passed to
        `save`) and "format".

    Raises
    ------
    ModelFileError
        If the file is not a model file, or is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.store import read_metadata, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(FuzzyTwinSVC(), Path(folder) / "model.skops", metadata={"target": "species"})
    ...     read_metadata(Path(folder) / "model.skops")["metadata"]
    {'target': 'species'}
    """
    return verify(_read(path), path)[0]


def to_bytes(model: BaseEstimator, metadata: Mapping[str, Any] | None = None) -> bytes:
    """Return the content of a model file."""
    if not isinstance(model, BaseEstimator):
        remedy = "a model, or a pipeline that ends in one"
        if hasattr(model, "to_sklearn"):
            remedy = "what its to_sklearn() returns"
        raise ModelFileError(f"{model!r:.80} is not a scikit-learn estimator; save {remedy}.")
    try:
        content = dump(model)
    except Exception as error:
        cause = f"the model cannot be saved: {first_line(error)}"
        raise ModelFileError(unsavable_parameter(model) or cause) from error
    names = untrusted_types(content)
    if names:
        raise ModelFileError(
            unsavable_parameter(model)
            or f"the model contains {names[0]}, which is not trusted and cannot be saved; use "
            "estimators of fuzzytwin and scikit-learn (no trees), numbers and arrays."
        )
    header = {
        "format": FORMAT,
        "model": type(model).__name__,
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "landmarks": _count_landmarks(model),
        "metadata": dict(metadata or {}),
    }
    return add_checksum(content, header)


def from_bytes(content: bytes, name: object) -> Any:
    """Build the model of a file from its content, after all checks."""
    skops = import_skops()
    header, schema = verify(content, name)
    for untrusted_type in untrusted(schema):
        raise ModelFileError(
            f"{name} names {untrusted_type}, which is not trusted; it was not loaded. Check where "
            "the file comes from."
        )
    _check_versions(name, header)
    try:
        unknown = sorted(set(skops.get_untrusted_types(data=content)) - TRUSTED)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InconsistentVersionWarning)  # `_check_versions` warned
            model = None if unknown else skops.loads(content, trusted=sorted(TRUSTED))
    except Exception as error:
        raise ModelFileError(
            f"{name} cannot be loaded: {type(error).__name__}: {first_line(error)}"
        ) from error
    if unknown:
        raise ModelFileError(f"{name} names {unknown[0]}, which is not trusted; it was not loaded.")
    if not isinstance(model, BaseEstimator):
        raise ModelFileError(f"{name} contains a {type(model).__name__}, which is not a model.")
    _check_numbers(model, name)
    _check_arrays(model, name)
    return model


def _check_numbers(model: Any, name: object) -> None:
    """Raise an error for NaN in an object of ours: no fit leaves one, and distances hide it."""
    for part in _parts(model):
        if not _is_ours(part):
            continue
        for attribute, values in vars(part).items():
            is_float = isinstance(values, np.ndarray) and values.dtype.kind == "f"
            if is_float and np.isnan(values).any():
                raise ModelFileError(
                    f"{name} holds NaN in {type(part).__name__}.{attribute}; it was not loaded."
                )


LIBSVM = (SVC, NuSVC, SVR, NuSVR, OneClassSVM)


def _check_arrays(model: Any, name: object) -> None:
    """Raise an error for trees and support vectors whose arrays point outside of one another.

    Prediction by such trees need not end, and LIBSVM does not look at lengths.
    """
    for part in _parts(model):
        try:
            if isinstance(part, FuzzyTwinCommittee):
                n_features = len(part.mean_)
                trees = [member.trees for member in part.members_]
                K = len(part.classes_)
                sound = all(t is None or t.is_sound(n_features, K) for t in trees)
            elif isinstance(part, LIBSVM) and hasattr(part, "support_"):
                read = part._dual_coef_, part._n_support  # noqa: SLF001 (what prediction reads)
                lengths = {len(part.support_), part.dual_coef_.shape[1], read[0].shape[1]}
                if part.kernel != "precomputed":
                    lengths.add(part.support_vectors_.shape[0])
                sound = (read[1] >= 0).all() and lengths == {int(read[1].sum())}
            else:
                continue
        except (AttributeError, IndexError, TypeError, ValueError, ZeroDivisionError):
            sound = False
        if not sound:
            raise ModelFileError(
                f"{name} holds a {type(part).__name__} whose arrays do not fit one another; it was "
                "not loaded."
            )


def _parts(model: Any) -> Iterator[Any]:
    """Yield a model, and all estimators and objects of ours in it."""
    stack = [model]
    seen = set()
    while stack:
        part = stack.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, (list, tuple)):
            stack.extend(part)
        elif isinstance(part, BaseEstimator) or _is_ours(part):
            yield part
            stack.extend(vars(part).values())


def _is_ours(part: Any) -> bool:
    return type(part).__module__.startswith("fuzzytwin.")


def _count_landmarks(model: Any) -> int:
    """Return the number of landmarks of a model, except centers of several rows each."""
    counts = [0]
    for part in _parts(model):
        landmark_map = getattr(part, "landmark_map_", None)
        landmarks = getattr(part, "landmarks_", getattr(landmark_map, "landmarks", None))
        n_landmarks = getattr(part, "n_landmarks", None)
        are_centers = isinstance(n_landmarks, str) and n_landmarks == "centers"
        if landmarks is not None and not are_centers:
            counts.append(landmarks.shape[0])
    return max(counts)


def _read(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise ModelFileError(f"file not found: {path}") from None
    except IsADirectoryError:
        raise ModelFileError(f"{path} is a directory, not a model file.") from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}.") from error


def _check_versions(name: object, header: dict[str, Any]) -> None:
    """Warn if a file was saved with other minor versions of the packages."""
    saved = header.get("versions")
    saved = saved if isinstance(saved, dict) else {}
    installed = versions()
    changed = [
        f"{package} {saved.get(package, '?')!s:.20} (installed: {installed[package]})"
        for package in ("fuzzytwin", "scikit-learn", "numpy")
        if str(saved.get(package)).split(".")[:2] != installed[package].split(".")[:2]
    ]
    if changed:
        warn_user(
            f"{name} was saved with {', '.join(changed)}; predictions may differ. Compare a few, "
            "or train the model again.",
            ModelVersionWarning,
        )
