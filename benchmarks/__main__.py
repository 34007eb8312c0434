"""``python -m benchmarks NAME``: run one of the measurements."""

import ast
import importlib
import sys
from pathlib import Path

from fuzzytwin._utils.extras import one_line

NAMES = {
    "fit": "time and memory of one fit as ratios to X.T @ X and to baselines",
    "search": "a whole search as multiples of one fit, and against GridSearchCV",
    "reading": "reading a CSV file, as a multiple of pyarrow.csv",
    "scale": "files beyond memory, Dask and Spark: time as a multiple of reading, peak memory",
    "engines": "fits on Dask and Spark as ratios to the least these engines need",
    "quality": "accuracy on the ten tables, nested, against linear baselines",
    "imbalance": "which settings of a search suit tables with a rare class",
    "kernel": "nonlinear planes: accuracy against baselines, time and memory against SVC",
    "pairs": "more than two classes: how memberships come from pairs",
    "committee": "the committee against what people use: accuracy, probabilities, time",
    "pictures": "what docs/compare.md shows of committee accuracy: tables, tests, CSV, pictures",
    "label_issues": "how well label errors are found, against cleanlab",
    "studio": "the studio: flips that a reviewer repairs, time from a key to the updated page",
    "wide": "tables with many columns: time, memory and accuracy against linear baselines",
    "calibration": "log loss of calibrated probabilities, against logistic regression and eq29",
    "serving": "one prediction of a served model: time, memory, size of its file",
    "sets": "prediction sets: coverage and size, against split conformal on the same planes",
    "error_tables": "download the tables with real label errors that label_issues reads",
    "same_speed": "times of this tree as ratios to those of an older one: OLD_SRC",
    "same_numbers": "numbers of this tree compared with those of an older one: OLD_SRC",
    "walks": "modules and functions of this package that one call runs through",
}


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in NAMES:
        print("usage: python -m benchmarks NAME, where NAME is one of")
        for name, summary in NAMES.items():
            print(f"  {name:13s} {summary}")
        return 2
    if {"-h", "--help"} & set(sys.argv[2:]):
        print_help(name)
        return 0
    try:
        importlib.import_module(f"benchmarks.{name}").run(sys.argv[2:])
    except ImportError as error:
        print(one_line(error, "benchmarks"), file=sys.stderr)
        return 1
    return 0


def print_help(name: str) -> None:
    """Print the docstring of a benchmark and, if its packages are installed, its options."""
    source = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
    print(ast.get_docstring(ast.parse(source)))
    if "argparse.ArgumentParser" not in source:
        return
    try:
        module = importlib.import_module(f"benchmarks.{name}")
    except ImportError as error:
        print(f"\n{one_line(error, 'benchmarks')}")
        return
    print()
    module.run(["--help"])


if __name__ == "__main__":
    raise SystemExit(main())
