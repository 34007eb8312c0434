"""Moments as the bytes of an .npz file: arrays alone, nothing that runs when it is read."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.chunked.parts import Part, Radii
from fuzzytwin.core.moments import ClassMoments, TwinMoments

FIELDS = tuple(field.name for field in fields(ClassMoments))


def pack(part: Part | Radii) -> bytes:
    """Write what a chunk of rows comes to as bytes.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.chunked.packing import pack, unpack
    >>> from fuzzytwin.chunked.parts import Radii
    >>> unpack(pack(Radii(np.array([1.0, 2.0])))).values
    array([1., 2.])
    """
    file = io.BytesIO()
    np.savez(file, **to_arrays(part))  # type: ignore[arg-type]
    return file.getvalue()


def unpack(packed: bytes) -> Part | Radii:
    """Read what `pack` wrote."""
    with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
        return from_arrays(arrays)


def to_arrays(part: Part | Radii) -> dict[str, Array]:
    """Give the arrays that hold all of a part; moments that are one object are given once."""
    if isinstance(part, Radii):
        return {"radii": part.values}
    moments = part.moments.parts()
    places = [-1 if one is None else [*map(id, moments)].index(id(one)) for one in moments]
    arrays = {
        "labels": _without_objects(part.labels),
        "labels_are_objects": np.array(part.labels.dtype.kind == "O"),
        "held": part.held,
        "n_features": np.array(part.n_features),
        "soft": np.array(part.soft),
        "places": np.array(places),
        "columns": np.array(_as_json(part.columns)),
    }
    for place in set(places) - {-1}:
        for name in FIELDS:
            arrays[f"{name}{place}"] = getattr(moments[place], name)
    return arrays


def from_arrays(arrays: Mapping[str, Array]) -> Part | Radii:
    """Build the part that `to_arrays` took apart."""
    if "radii" in arrays:
        return Radii(arrays["radii"])
    places = arrays["places"].tolist()
    found = {
        place: ClassMoments(*(arrays[f"{name}{place}"] for name in FIELDS))
        for place in set(places) - {-1}
    }
    own, slack, *absolute = places
    moments = TwinMoments(found[own], found[slack], *map(found.get, absolute))
    labels = arrays["labels"]
    if arrays["labels_are_objects"]:
        labels = labels.astype(object)
    columns = json.loads(str(arrays["columns"]))
    return Part(
        labels, arrays["held"], moments, int(arrays["n_features"]), bool(arrays["soft"]),
        None if columns is None else tuple(columns),
    )  # fmt: skip


def _without_objects(labels: Array) -> Array:
    if labels.dtype.kind != "O":
        return labels
    for label in labels.tolist():
        if not isinstance(label, str):
            raise ValueError(
                f"y holds the label {label!r}, which cannot be stored; use whole numbers or "
                "strings as labels."
            )
    return labels.astype(str)


def _as_json(columns: tuple[Any, ...] | None) -> str:
    try:
        return json.dumps(columns)
    except TypeError as error:
        raise ValueError(
            f"membership has the columns {columns}, whose names cannot be stored; name them by "
            "text or whole numbers."
        ) from error
