"""The ten UCI tables of the paper, read from the CSV files that ship with the package."""

import csv
import functools
import json
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from fuzzytwin._utils.extras import import_optional


def list_uci() -> list[str]:
    """List the tables that `load_uci` loads, in alphabetical order.

    Returns
    -------
    names : list of str
        A new list.

    Examples
    --------
    >>> from fuzzytwin.datasets import list_uci
    >>> list_uci()
    ['australian', 'bupa', 'cmc', 'heart_cleveland', 'heart_statlog', 'hepatitis', 'pima',
     'sonar', 'votes', 'wpbc']
    """
    return sorted(_tables())


def load_uci(name: str, *, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load one of the paper's ten UCI tables, which ship with the package.

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

    Values are those of the file, neither encoded nor imputed. A missing value is NaN
    everywhere, as scikit-learn's imputers and encoders expect.
    `fuzzytwin.tables.TablePreprocessor` encodes, imputes and scales them.

    Parameters
    ----------
    name : str
        One of `list_uci()`.
    return_X_y : bool, default=False
        Whether to return `(data, target)` instead of a Bunch.
    as_frame : bool, default=False
        Whether to return a pandas DataFrame and Series instead of arrays.

    Returns
    -------
    table : Bunch, or (data, target) if `return_X_y`
        - data: ndarray of shape (n, d), or DataFrame. Numbers are float64. In votes, the values
          are 'y', 'n' and NaN.
        - target: ndarray of shape (n,), or Series. The labels as in the file, int or str.
        - feature_names: list of str.
        - target_names: ndarray of the distinct labels, sorted.
        - frame: DataFrame of data and target if `as_frame`, else None.
        - DESCR: str. The source of the table, the meaning of its classes, and known pitfalls.
        - filename: str. The file that was read.

        All objects are new at each call, so that changing them does not affect later calls.

    Raises
    ------
    ValueError
        If no table has this name.
    ImportError
        If `as_frame` is set and pandas is not installed.

    Notes
    -----
    Some tables have pitfalls. According to UCI, the target of bupa is a train/test split. The
    column time of wpbc partly discloses the outcome. A zero in five columns of pima means missing.
    heart_cleveland holds every row of heart_statlog. cmc has three classes: the paper's binary
    task, no use against use, is ``y != 1``. Please cite the donors that DESCR names.

    Examples
    --------
    >>> from fuzzytwin.datasets import load_uci
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
        pd = import_optional("pandas", None, "as_frame=True")
        frame = pd.DataFrame(data, columns=feature_names, dtype=data.dtype)
        frame[target_name] = target
        data = frame[feature_names]
        target = frame[target_name]
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


@functools.cache
def _tables() -> dict[str, dict[str, Any]]:
    """Read title, source, classes and remark of every table."""
    text = _path("tables.json").read_text(encoding="utf-8")
    tables: dict[str, dict[str, Any]] = json.loads(text)
    return tables


def _table(name: str) -> dict[str, Any]:
    """Return the description of a table, or raise a ValueError."""
    try:
        return _tables()[name]
    except (KeyError, TypeError):
        names = ", ".join(list_uci())
        raise ValueError(f"name={name!r} is not a UCI table; valid values are {names}.") from None


def _path(name: str) -> Any:
    """Return the path of a data file of the package."""
    return files("fuzzytwin.datasets").joinpath("data", name)


def _read(name: str) -> tuple[list[str], str, NDArray[Any], NDArray[Any]]:
    """Read the feature names, the name of the target, the data and the target of a table."""
    with _path(f"{name}.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    cells = np.array(rows, dtype=object)
    cells[cells == ""] = np.nan
    data = cells[:, :-1]
    target = cells[:, -1].astype(str)
    # A table is either all numbers or all text, and only `votes` is text.
    if name != "votes":
        data = data.astype(np.float64)
    if all(label.isdigit() for label in target):
        target = target.astype(np.int_)
    return header[:-1], header[-1], data, target
