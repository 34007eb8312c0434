"""How much of this package one call runs through: distinct modules and functions, on one thread.

A short walk is code that can be read. Lambdas and generator expressions belong to their functions.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from types import CodeType, FrameType

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification

import fuzzytwin
from fuzzytwin import FuzzyTwinCommittee, FuzzyTwinSVC, FuzzyTwinSVCCV, find_label_issues

PACKAGE = str(next(iter(fuzzytwin.__path__)))


def walk(call: Callable[[], object]) -> set[CodeType]:
    """Return the functions of the package that a call enters, on any thread."""
    entered: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            entered.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # as the documentation says
    return {
        code
        for code in entered
        if code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<")
    }


def calls() -> dict[str, Callable[[], object]]:
    """Return what is walked through: two classes, 200 rows, default settings."""
    X, y = make_classification(200, 8, n_informative=4, flip_y=0.1, random_state=0)
    frame = pd.DataFrame(X).add_prefix("x")
    frame["ward"] = np.array(["north", "south", "west"])[np.arange(200) % 3]
    labels = np.array(["no", "yes"])[y]
    return {
        "FuzzyTwinSVC().fit(X, y)": lambda: FuzzyTwinSVC().fit(X, y),
        "FuzzyTwinSVCCV().fit(X, y)": lambda: FuzzyTwinSVCCV().fit(X, y),
        "FuzzyTwinCommittee().fit(X, y)": lambda: FuzzyTwinCommittee().fit(X, y),
        "find_label_issues(frame, labels)": lambda: find_label_issues(frame, labels),
    }


def run(arguments: list[str]) -> None:
    """`python -m benchmarks walks [--list]`: print the numbers, and the functions if asked for."""
    warnings.simplefilter("ignore")
    print(f"{'':34s}{'modules':>8s}{'functions':>11s}")
    for name, call in calls().items():
        call()  # what is imported late is not part of the walk
        functions = walk(call)
        modules = {code.co_filename for code in functions}
        print(f"{name:34s}{len(modules):8d}{len(functions):11d}")
        if "--list" in arguments:
            for code in sorted(functions, key=lambda code: (code.co_filename, code.co_firstlineno)):
                print(f"    {code.co_filename.removeprefix(PACKAGE)[1:]}: {code.co_qualname}")
