"""How often a reader changes file: functions in the order in which they are first entered."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import fuzzytwin

HOME = Path(fuzzytwin.__file__).parent
# About how many changes of file a reader should need.
AIMS = {
    "FuzzyTwinSVC.fit": 20,
    "FuzzyTwinSVCCV.fit": 50,
    "FuzzyTwinCommittee.fit": 20,
    "files.fit, Parquet": 45,
    "fuzzytwin train, CSV": 90,
}


class Walk:
    """Functions of the package in the order in which they were first entered.

    Comprehensions and lambdas do not count: they stand in the function that is being read.
    """

    def __init__(self) -> None:
        self.steps: list[tuple[str, str]] = []
        self._entered: set[object] = set()

    def __call__(self, frame, event, _) -> None:
        code = frame.f_code
        if event != "call" or code in self._entered:
            return
        self._entered.add(code)
        path = Path(code.co_filename)
        if HOME in path.parents and not code.co_name.startswith("<"):
            self.steps.append((path.relative_to(HOME).as_posix(), code.co_qualname))

    def changes(self) -> list[bool]:
        """For each change of file, whether it goes back to a file that was visited before."""
        files = [file for file, _ in self.steps]
        return [file in files[:i] for i, file in enumerate(files) if i and file != files[i - 1]]


@contextlib.contextmanager
def traced() -> Iterator[Walk]:
    """Trace this thread and those that it starts."""
    walk = Walk()
    threading.setprofile(walk)
    sys.setprofile(walk)
    try:
        yield walk
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def tasks() -> dict[str, Callable[[], object]]:
    """What is traced. Rows and files are made here, in the current directory."""
    import dask
    import dask.array as da
    from sklearn.datasets import load_iris

    from fuzzytwin import FuzzyTwinCommittee, FuzzyTwinSVC, FuzzyTwinSVCCV, files
    from fuzzytwin.cli import run as command
    from fuzzytwin.dask import FuzzyTwinSVC as DaskFuzzyTwinSVC

    X, y = load_iris(return_X_y=True)
    frame = load_iris(as_frame=True).frame
    frame.to_csv("rows.csv", index=False)
    frame.to_parquet("rows.parquet")
    chunks = da.from_array(X, chunks=(50, 4)), da.from_array(y, chunks=50)
    train = ["train", "rows.csv", "--target", "target", "--out", "model.fuzzytwin", "--force"]

    def fit_on_dask():
        with dask.config.set(scheduler="synchronous"):
            DaskFuzzyTwinSVC(membership="center").fit(*chunks)

    return {
        "FuzzyTwinSVC.fit": lambda: FuzzyTwinSVC().fit(X, y),
        "FuzzyTwinSVCCV.fit": lambda: FuzzyTwinSVCCV().fit(X, y),
        "FuzzyTwinCommittee.fit": lambda: FuzzyTwinCommittee().fit(X, y),
        "files.fit, Parquet": lambda: files.fit(
            FuzzyTwinSVC(membership="center"), "rows.parquet", target="target"
        ),
        "fuzzytwin train, CSV": lambda: command(train),
        "dask FuzzyTwinSVC.fit": fit_on_dask,
    }


def run(arguments: list[str]) -> None:
    """`python -m benchmarks walks [--verbose]`: a sign of the layout, not a limit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks walks")
    parser.add_argument("--verbose", action="store_true", help="print the functions, too")
    verbose = parser.parse_args(arguments).verbose
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for name, task in tasks().items():
                with contextlib.redirect_stdout(io.StringIO()):
                    task()  # what is imported on the way is no part of the walk
                    with traced() as walk:
                        task()
                changes = walk.changes()
                aim = f"; aim: about {AIMS[name]}" if name in AIMS else ""
                print(
                    f"{name:24s}{len(changes):4d} changes of file, {sum(changes):3d} of them back"
                    f"{aim}"
                )
                for file, function in walk.steps if verbose else ():
                    print(f"    {file:32s} {function}")
        finally:
            os.chdir(here)
