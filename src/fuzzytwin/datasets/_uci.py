"""The ten UCI tables of the paper, read from the CSV files that ship with the package."""

import csv
import functools
import json
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.utils import Bunch

from fuzzytwin._utils.extras import need


def list_uci() -> list[str]:
    """Name the tables that `load_uci` knows, in alphabetical order.

    Returns
    -------
    names : list of str
        A new list.

    Examples
    --------
    >>> from fuzzytwin.datasets._uci import list_uci
    >>> list_uci()
    ['australian', 'bupa', 'cmc', 'heart_cleveland', 'heart_statlog', 'hepatitis', 'pima',
     'sonar', 'votes', 'wpbc']
    """
    return sorted(_tables())


def load_uci(name: str, *, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load one of the paper's ten UCI tables; no network is needed.

    ================ ====== ======== ================================= =======
    name             rows   features classes                           missing
    ================ ====== ======== ================================= =======
    australian       690    14       0: 383, 1: 307                    0
    bupa             345    6        1: 145, 2: 200                    0
    cmc              1473   9        1: 629, 2: 333, 3: 511            0
    heart_cleveland  303    13       0: 164, 1: 139                    6
    heart_statlog    270    13       1: 150, 2: 120                    0
    hepatitis        155    19       1: 32, 2: 123                     167
    pima             768    8        0: 500, 1: 268                    0
    sonar            208    60       M: 111, R: 97                     0
    votes            435    16       democrat: 267, republican: 168    392
    wpbc             198    33       N: 151, R: 47                     4
    ================ ====== ======== ================================= =======

    Values come as they stand in the file, neither encoded nor imputed; `uci_preprocessor` does
    both. A missing value is NaN everywhere, which scikit-learn's imputers and encoders expect.

    Parameters
    ----------
    name : str
        One of `list_uci()`.
    return_X_y : bool, default=False
        Give `(data, target)` in the place of the Bunch.
    as_frame : bool, default=False
        Give a pandas DataFrame and Series in the place of arrays.

    Returns
    -------
    table : Bunch, or (data, target) if `return_X_y`
        - data: ndarray of shape (n, d), or DataFrame; float64, for votes object, holding 'y',
          'n' and NaN.
        - target: ndarray of shape (n,), or Series; the labels as in the file, int or str.
        - feature_names: list of str.
        - target_names: ndarray; the distinct labels, sorted.
        - frame: DataFrame of data and target if `as_frame`, else None.
        - DESCR: str; where the table comes from, what its classes mean and what to beware of.
        - filename: str; the file that was read.

        All are new at each call: changing them does not affect later calls.

    Raises
    ------
    ValueError
        If no table has this name.
    ImportError
        If `as_frame` is set and pandas is not installed.

    Notes
    -----
    Beware: bupa's target is by UCI's word a train/test split; wpbc's time partly gives the outcome
    away; a zero in five columns of pima means missing; heart_cleveland holds every row of
    heart_statlog. cmc has three classes; the paper's binary task, no use against use, is
    ``y != 1``. Please cite the donors that DESCR names.

    Examples
    --------
    >>> from fuzzytwin.datasets._uci import load_uci
    >>> X, y = load_uci("cmc", return_X_y=True)
    >>> X.shape, int((y != 1).sum())
    ((1473, 9), 844)
    >>> load_uci("votes").target_names.tolist()
    ['democrat', 'republican']
    """
    table = _table(name)
    feature_names, target_name, data, target = _read(name)
    frame = None
    if as_frame:
        pd = need("pandas", None, "as_frame=True")
        frame = pd.DataFrame(data, columns=feature_names, dtype=data.dtype)
        frame[target_name] = target
        data, target = frame[feature_names], frame[target_name]
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        frame=frame,
        feature_names=feature_names,
        target_names=np.unique(target),
        DESCR=(
            f"{name}: {table['title']}\n"
            f"Rows x features: {data.shape[0]} x {data.shape[1]}\n"
            f"Source: {table['source']} Please cite it.\n"
            f"Classes: {table['classes']}\n"
            + (f"Remarks: {table['remark']}\n" if "remark" in table else "")
        ),
        filename=str(_path(f"{name}.csv")),
    )


def uci_preprocessor(name: str) -> ColumnTransformer:
    """Make the default encoding and imputing of one UCI table, not yet fitted.

    - Two-valued columns: the most frequent value where missing, then -1 and 1 in sorted order; so
      a vote of 'n' is -1 and 'y' is 1.
    - Nominal columns (more values, no order): the most frequent value where missing, then one-hot.
      A value that did not occur in training gives zeros.
    - All others, ordered codes among them: the median where missing, then standardised. In pima
      this takes the zeros that mean missing for missing.

    Which column is which is a fact of the table and is not learnt from the rows given to fit; all
    else is. Put it in a Pipeline, so that cross-validation learns it from training rows alone.

    Parameters
    ----------
    name : str
        One of `list_uci()`.

    Returns
    -------
    preprocessor : ColumnTransformer
        It takes the data of `load_uci(name)`, array or frame, and gives a dense float64 array.

    Raises
    ------
    ValueError
        If no table has this name.

    Examples
    --------
    >>> from fuzzytwin.datasets._uci import load_uci, uci_preprocessor
    >>> X, y = load_uci("votes", return_X_y=True)
    >>> Z = uci_preprocessor("votes").fit_transform(X)
    >>> Z.shape, sorted(set(Z.ravel().tolist()))
    ((435, 16), [-1.0, 1.0])
    """
    table = _table(name)
    feature_names, _, data, _ = _read(name)
    groups: dict[str, list[int]] = {"numeric": [], "gaps": [], "nominal": [], "binary": []}
    pairs = []
    for j, feature in enumerate(feature_names):
        values = [value for value in set(data[:, j].tolist()) if value == value]
        if len(values) == 2:
            groups["binary"].append(j)
            pairs.append(np.array(sorted(values), dtype=data.dtype))
        elif feature in table.get("nominal", ()):
            groups["nominal"].append(j)
        elif feature in table.get("zero_is_missing", ()):
            groups["gaps"].append(j)
        else:
            groups["numeric"].append(j)

    # Columns go by position, so that arrays and frames are both welcome.
    steps = {
        "numeric": make_pipeline(SimpleImputer(strategy="median"), StandardScaler()),
        "gaps": make_pipeline(SimpleImputer(missing_values=0, strategy="median"), StandardScaler()),
        "nominal": make_pipeline(
            SimpleImputer(strategy="most_frequent"),
            OneHotEncoder(handle_unknown="ignore", sparse_output=False),
        ),
        "binary": make_pipeline(
            SimpleImputer(strategy="most_frequent"),
            OrdinalEncoder(categories=pairs),
            MinMaxScaler(feature_range=(-1, 1)),
        ),
    }
    return ColumnTransformer(
        [(group, steps[group], columns) for group, columns in groups.items() if columns]
    )


@functools.cache
def _tables() -> dict[str, dict[str, Any]]:
    """Read what the CSV files themselves do not say.

    Title, source, classes and remark in words, "nominal" columns (more than two values without an
    order), and those in which "zero_is_missing".
    """
    found: dict[str, dict[str, Any]] = json.loads(_path("tables.json").read_text(encoding="utf-8"))
    return found


def _table(name: str) -> dict[str, Any]:
    try:
        return _tables()[name]
    except (KeyError, TypeError):
        known = ", ".join(list_uci())
        raise ValueError(f"There is no UCI table {name!r}; there are {known}.") from None


def _path(name: str) -> Any:
    return files("fuzzytwin.datasets").joinpath("data", name)


def _read(name: str) -> tuple[list[str], str, NDArray[Any], NDArray[Any]]:
    with _path(f"{name}.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    cells = np.array(rows, dtype=object)
    cells[cells == ""] = np.nan
    data, target = cells[:, :-1], cells[:, -1].astype(str)
    # `votes` alone is text; a table is either all numbers or all text.
    if name != "votes":
        data = data.astype(np.float64)
    if all(label.isdigit() for label in target):
        target = target.astype(np.int_)
    return header[:-1], header[-1], data, target
