"""Encoding, imputing and scaling of the ten UCI tables."""

from __future__ import annotations

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler

from fuzzytwin.datasets import load_uci

# Columns with more than two values that have no order.
NOMINAL = {
    "australian": ("A4", "A5", "A6", "A12"),
    "cmc": ("Husband_occupation",),
    "heart_cleveland": ("cp", "restecg", "thal"),
    "heart_statlog": ("cp", "restecg", "thal"),
}
ZERO_IS_MISSING = {"pima": ("Plas", "Pres", "Skin", "Insu", "Mass")}


def uci_preprocessor(name: str) -> ColumnTransformer:
    """Make the preprocessor of one UCI table, not yet fitted.

    - Two-valued columns: missing values become the most frequent value, then the values become -1
      and 1 in sorted order. A vote of 'n' is -1 and 'y' is 1.
    - Nominal columns: missing values become the most frequent value, then one-hot. A value that
      did not occur in training gives zeros.
    - All others, ordered codes among them: missing values become the median, then standardised.
      In pima, zeros that mean missing are missing values.

    The kind of a column is a fact of the table. Everything else is learned by `fit`: put it in a
    pipeline, so that cross-validation learns it from training rows only.

    Parameters
    ----------
    name : str
        One of `fuzzytwin.datasets.list_uci()`.

    Returns
    -------
    preprocessor : ColumnTransformer
        It takes the data of `load_uci(name)`, array or frame, and returns a dense float64 array.

    Raises
    ------
    ValueError
        If no table has this name.

    Examples
    --------
    >>> from fuzzytwin.datasets import load_uci
    >>> from reproduction.preprocessing import uci_preprocessor
    >>> X, y = load_uci("votes", return_X_y=True)
    >>> Z = uci_preprocessor("votes").fit_transform(X)
    >>> Z.shape, sorted(set(Z.ravel().tolist()))
    ((435, 16), [-1.0, 1.0])
    """
    table = load_uci(name)
    columns: dict[str, list[int]] = {"numeric": [], "with_zeros": [], "nominal": [], "binary": []}
    binary_values = []
    for j, feature in enumerate(table.feature_names):
        values = [value for value in set(table.data[:, j].tolist()) if value == value]
        if len(values) == 2:
            columns["binary"].append(j)
            binary_values.append(np.array(sorted(values), dtype=table.data.dtype))
        elif feature in NOMINAL.get(name, ()):
            columns["nominal"].append(j)
        elif feature in ZERO_IS_MISSING.get(name, ()):
            columns["with_zeros"].append(j)
        else:
            columns["numeric"].append(j)

    most_frequent = SimpleImputer(strategy="most_frequent")
    steps = {
        "numeric": make_pipeline(SimpleImputer(strategy="median"), StandardScaler()),
        "with_zeros": make_pipeline(
            SimpleImputer(missing_values=0, strategy="median"), StandardScaler()
        ),
        "nominal": make_pipeline(
            most_frequent, OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        ),
        "binary": make_pipeline(
            most_frequent,
            OrdinalEncoder(categories=binary_values),
            MinMaxScaler(feature_range=(-1, 1)),
        ),
    }
    # Columns go by position, so that arrays and frames are both welcome.
    return ColumnTransformer(
        [(kind, steps[kind], places) for kind, places in columns.items() if places]
    )
