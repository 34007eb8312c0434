"""Times of this tree as ratios to those of an older one: in turns, on one thread.

Each tree has a process that waits for tasks, so that a slow moment of the computer affects both.
Processor time is measured: other programs do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse

SRC = Path(__file__).resolve().parent.parent / "src"
SLOWER = 1.10
NAMES = (
    "fit 10^6 x 32", "fit 10^4 x 32", "center 10^6 x 32", "fuzzy 10^6 x 32", "search 10^4 x 32",
    "search 10^6 x 32", "predict 10^6 x 32", "committee 500 x 20", "committee 5,000 x 30",
    "committee 10^5 x 32", "find_label_issues 2,000 x 20", "files.fit 10^6 x 32",
    "wide fit 200 x 20,000", "wide search 100 x 2,000", "sparse fit 20,000 x 1,000",
    "sparse fit 6,000 x 20,000", "sparse committee 2,000 x 500", "26 classes fit 20,000 x 16",
    "26 classes predict 20,000 x 16", "26 classes search 5,000 x 16",
    "26 classes committee 2,000 x 16", "frame label issues 1,000 x 12",
)  # fmt: skip


def tasks(folder: Path) -> dict[str, Callable[[], object]]:
    """Make the rows, and return what is measured by name."""
    import pandas as pd
    from sklearn.datasets import make_classification

    from fuzzytwin import (
        FuzzyTwinCommittee,
        FuzzyTwinSVC,
        FuzzyTwinSVCCV,
        files,
        find_label_issues,
    )
    from fuzzytwin.datasets import make_ndc

    X, y = make_ndc(10**6, 32, random_state=0)
    few, labels = np.ascontiguousarray(X[: 10**4]), y[: 10**4]
    A, b = make_classification(2000, 20, n_informative=8, flip_y=0.1, random_state=0)
    more = make_classification(5000, 30, n_informative=8, flip_y=0.1, random_state=0)
    path = folder / "rows.parquet"
    if not path.exists():
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({**{f"x{j}": X[:, j] for j in range(32)}, "y": y}), path)
    wide, wide_y = make_classification(200, 20_000, n_informative=20, random_state=0)
    letters, letter = make_classification(
        20_000, 16, n_informative=14, n_redundant=0, n_classes=26, n_clusters_per_class=1,
        random_state=0,
    )  # fmt: skip
    words, topic = sparse_rows(20_000, 1000)
    many_words, many_topic = sparse_rows(6000, 20_000)
    frame = pd.DataFrame(A[:1000, :10]).add_prefix("x")
    frame["ward"] = np.array(["north", "south", "west"])[np.arange(1000) % 3]
    frame["city"] = np.array(["Ulm", "Bonn", "Kiel", "Jena", "Trier"])[np.arange(1000) % 5]
    fitted = FuzzyTwinSVC(n_jobs=1).fit(X, y)
    of_letters = FuzzyTwinSVC(n_jobs=1).fit(letters, letter)
    plain = {"memberships": (None, "center"), "n_jobs": 1}
    made: dict[str, Callable[[], object]] = {
        "fit 10^6 x 32": lambda: FuzzyTwinSVC(n_jobs=1).fit(X, y),
        "fit 10^4 x 32": lambda: [FuzzyTwinSVC(n_jobs=1).fit(few, labels) for _ in range(20)],
        "center 10^6 x 32": lambda: FuzzyTwinSVC(membership="center", n_jobs=1).fit(X, y),
        "fuzzy 10^6 x 32": lambda: FuzzyTwinSVC(planes="fuzzy", n_jobs=1).fit(X, y),
        "search 10^4 x 32": lambda: FuzzyTwinSVCCV(**plain).fit(few, labels),
        "search 10^6 x 32": lambda: FuzzyTwinSVCCV(**plain).fit(X, y),
        "predict 10^6 x 32": lambda: fitted.predict(X),
        "committee 500 x 20": lambda: FuzzyTwinCommittee().fit(A[:500], b[:500]),
        "committee 5,000 x 30": lambda: FuzzyTwinCommittee().fit(*more),
        "committee 10^5 x 32": lambda: FuzzyTwinCommittee().fit(X[: 10**5], y[: 10**5]),
        "find_label_issues 2,000 x 20": lambda: find_label_issues(A, b),
        "files.fit 10^6 x 32": lambda: files.fit(FuzzyTwinSVC(n_jobs=1), path, target="y"),
        "wide fit 200 x 20,000": lambda: FuzzyTwinSVC(n_jobs=1).fit(wide, wide_y),
        "wide search 100 x 2,000": lambda: FuzzyTwinSVCCV(**plain).fit(
            wide[:100, :2000], wide_y[:100]
        ),
        "sparse fit 20,000 x 1,000": lambda: FuzzyTwinSVC(n_jobs=1).fit(words, topic),
        "sparse fit 6,000 x 20,000": lambda: [
            FuzzyTwinSVC(n_jobs=1).fit(many_words, many_topic) for _ in range(5)
        ],
        "sparse committee 2,000 x 500": lambda: FuzzyTwinCommittee().fit(
            words[:2000, :500], topic[:2000]
        ),
        "26 classes fit 20,000 x 16": lambda: [
            FuzzyTwinSVC(n_jobs=1).fit(letters, letter) for _ in range(20)
        ],
        "26 classes predict 20,000 x 16": lambda: [of_letters.predict(letters) for _ in range(5)],
        "26 classes search 5,000 x 16": lambda: FuzzyTwinSVCCV(**plain).fit(
            letters[:5000], letter[:5000]
        ),
        "26 classes committee 2,000 x 16": lambda: FuzzyTwinCommittee().fit(
            letters[:2000], letter[:2000]
        ),
        "frame label issues 1,000 x 12": lambda: find_label_issues(frame, b[:1000]),
    }
    assert tuple(made) == NAMES
    return made


def sparse_rows(n: int, d: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Make rows like texts: 20 words each by Zipf's law, of which some depend on the class."""
    rng = np.random.default_rng(0)
    topic = rng.integers(0, 2, n)
    rank = np.minimum(rng.zipf(1.3, (n, 20)), 10 * d) % d
    of_topic = rng.random((n, 20)) < 0.1
    word = np.where(of_topic, (2 * rank + topic[:, None]) % d, rank)
    X = sparse.csr_matrix((np.ones(20 * n), word.ravel(), np.arange(0, 20 * n + 1, 20)), (n, d))
    X.sum_duplicates()
    return X, topic


def serve(folder: Path) -> None:
    """Run the tasks that standard input names, and answer with their processor times."""
    warnings.simplefilter("ignore")
    known = tasks(folder)
    print("ready", flush=True)
    for line in sys.stdin:
        start = time.process_time()
        known[json.loads(line)]()
        print(time.process_time() - start, flush=True)


class Tree:
    """A process that runs tasks with one tree."""

    def __init__(self, src: Path, folder: Path) -> None:
        one = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.same_speed", "--worker", str(folder)],
            env={**os.environ, **one, "PYTHONPATH": str(src)}, cwd=SRC.parent, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        if self._answer() != "ready":
            raise SystemExit(f"the tasks cannot be made with {src}")

    def seconds(self, name: str) -> float:
        """Run a task once, and return its time."""
        assert self.process.stdin is not None
        print(json.dumps(name), file=self.process.stdin, flush=True)
        return float(self._answer())

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


def run(arguments: list[str]) -> None:
    """`python -m benchmarks same_speed OLD_SRC [--repeats 5] [--only NAME]`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks same_speed")
    parser.add_argument("old", type=Path, help="the folder src of the older tree")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        old, new = Tree(given.old.resolve(), Path(folder)), Tree(SRC, Path(folder))
        print(f"{'':32s}{'old, s':>10s}{'new, s':>10s}{'new / old':>12s}")
        for name in NAMES:
            if given.only not in name:
                continue
            times = np.array(
                [[tree.seconds(name) for tree in (old, new)] for _ in range(given.repeats)]
            )
            before, after = times.min(axis=0)
            slow = "" if after <= SLOWER * before else f"   slower by more than {SLOWER - 1:.0%}"
            print(f"{name:32s}{before:10.3f}{after:10.3f}{after / before:12.2f}{slow}", flush=True)
        for tree in (old, new):
            tree.process.terminate()


if __name__ == "__main__":
    serve(Path(sys.argv[2]))
