"""Types that many modules share, and the canonical form of sparse rows."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

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
