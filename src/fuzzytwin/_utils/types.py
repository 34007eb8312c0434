"""Types that many modules share."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]


class Matrix(Protocol):
    """Rows that can be sliced: an ndarray, a CSR matrix, or rows mapped by a kernel."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""

    @property
    def dtype(self) -> Any:
        """Type of the numbers."""

    def __getitem__(self, index: Any, /) -> Any: ...
