"""Reading a CSV file, inferring its schema and decoding it, against `pyarrow.csv`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from pyarrow import csv

from fuzzytwin.tables import TableSchema, read_table

ROWS = 200_000
NUMBERS = 13  # columns of decimals, beside one of integers and three of text
MAX_RATIO = 3.0
REPEATS = 3


def run(arguments: list[str]) -> None:
    """`python -m benchmarks reading [rows]`: CPU seconds of a CSV file with 17 columns."""
    n = int(float(arguments[0])) if arguments else ROWS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        make_table(n).to_csv(path, index=False)
        plain = cpu_seconds(lambda: csv.read_csv(path))
        whole = cpu_seconds(lambda: decode(path))
    ratio = whole / plain
    verdict = "as promised" if ratio <= MAX_RATIO else f"more than {MAX_RATIO:g}"
    print(f"{n:,} rows x 17 columns: pyarrow.csv {plain:.2f} s, read_table, infer and decode")
    print(f"{whole:.2f} s; ratio {ratio:.1f} ({verdict})")


def make_table(n: int) -> pd.DataFrame:
    """Make decimals, integers, categories and labels."""
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.normal(size=n).round(4) for j in range(NUMBERS)}
    columns["age"] = rng.integers(0, 100, n)
    columns["sex"] = rng.choice(["f", "m"], n)
    columns["ward"] = rng.choice(list("abcdefgh"), n)
    columns["y"] = rng.choice(["no", "yes"], n)
    return pd.DataFrame(columns)


def decode(path: Path) -> None:
    """Read a file as `fuzzytwin train` does."""
    batch = read_table(path).read()
    TableSchema.infer(batch, target="y").decode(batch)


def cpu_seconds(call: Callable[[], object]) -> float:
    """Return the CPU seconds of the fastest of several calls."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)
