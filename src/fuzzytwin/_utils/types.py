"""Types that many modules share, and the canonical form of sparse rows."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Any, Protocol, TypeAlias, get_args, get_origin

from numpy.typing import NDArray
from scipy import sparse

Array: TypeAlias = NDArray[Any]


class Matrix(Protocol):
    """Rows that can be sliced: an ndarray, a CSR matrix, or rows mapped by a kernel."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the numbers of rows and columns."""

    @property
    def dtype(self) -> Any:
        """Return the type of the numbers."""

    def __getitem__(self, index: Any, /) -> Any: ...


def has_type(value: object, kind: Any) -> bool:
    """Return whether a value is of a type such as ``Mapping[str, int]`` or ``str | None``.

    >>> has_type(("a", "b"), tuple[str, ...]), has_type({"a": 1.5}, Mapping[str, str])
    (True, False)
    """
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin is UnionType:
        return any(has_type(value, part) for part in args)
    if not isinstance(value, origin or kind):
        return False
    if isinstance(value, Mapping) and args:
        return all(has_type(k, args[0]) and has_type(v, args[1]) for k, v in value.items())
    if isinstance(value, tuple) and args:
        return all(has_type(part, args[0]) for part in value)
    return True


def canonical(X: Any) -> Any:
    """Return CSR rows with sorted, unique indices. Dense rows are returned as they are.

    Duplicate entries are summed, as in scipy. Distances and kernels of scikit-learn would square
    them one by one, so every function that takes rows from a user calls this after validation. The
    user's matrix is not changed.
    """
    if not sparse.issparse(X) or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X
