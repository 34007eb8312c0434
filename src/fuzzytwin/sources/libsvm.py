"""LIBSVM text: sparse rows without names, features counted from 0 or from 1."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fuzzytwin.sources.dialect import open_bytes

TEXT_BYTES = 1 << 23  # read at once, about


def libsvm_batches(path: str, width: int | None, zero_based: bool) -> Iterator[tuple[Any, Any]]:
    """Sparse rows, and labels as text, of LIBSVM text."""
    from sklearn.datasets import load_svmlight_file

    line = 0
    with open_bytes(path) as file:
        while lines := file.readlines(TEXT_BYTES):
            filled = [text for text in lines if text.split(b"#")[0].strip()]
            try:
                if filled:
                    X, _ = load_svmlight_file(
                        io.BytesIO(b"".join(filled)), n_features=width, zero_based=zero_based
                    )
                    yield X, np.array([text.split(None, 1)[0].decode() for text in filled])
            except (ValueError, IndexError, OverflowError) as error:
                number = _bad_line(lines, width, zero_based)
                raise ValueError(
                    f"{path}, line {line + number + 1} is not LIBSVM text of {width or 'any'} "
                    f"features counted from {0 if zero_based else 1} ({error}); fix it to read: "
                    "label index:value index:value ..."
                ) from error
            line += len(lines)


def _bad_line(lines: list[bytes], width: int | None, zero_based: bool) -> int:
    from sklearn.datasets import load_svmlight_file

    for number, text in enumerate(lines):
        if text.split(b"#")[0].strip():
            try:
                load_svmlight_file(io.BytesIO(text), zero_based=zero_based, n_features=width)
            except (ValueError, IndexError, OverflowError):
                return number
    return 0


def scan_libsvm(paths: Sequence[str]) -> tuple[bool, int]:
    """Return whether features are counted from 0, and how many there are."""
    least, most = 1, 0
    for path in paths:
        for X, _ in libsvm_batches(path, None, True):
            if X.nnz:
                least, most = min(least, int(X.indices.min())), max(most, int(X.indices.max()))
    return least == 0, max(most + 1 if least == 0 else most, 1)
