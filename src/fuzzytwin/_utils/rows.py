"""Sparse rows in one form, whatever form they were given in."""

from __future__ import annotations

from typing import Any

from scipy import sparse


def canonical(X: Any) -> Any:
    """Return CSR rows with sorted indices and no index twice; dense rows as they are.

    Entries at one place add up, as everywhere in scipy. Distances and kernels of scikit-learn
    square them one by one, so every function that takes rows from a user calls this after
    validation. The user's matrix is not changed.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> twice = csr_array(([1.0, 2.0], [0, 0], [0, 2]), shape=(1, 2))
    >>> canonical(twice).data, twice.data
    (array([3.]), array([1., 2.]))
    """
    if not sparse.issparse(X) or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X
