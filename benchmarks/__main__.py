"""``python -m benchmarks NAME``: run one of the measurements."""

import importlib
import sys

NAMES = {
    "fit": "time and memory of one fit as ratios to X.T @ X and to peers",
    "search": "a whole search as multiples of one fit, and against GridSearchCV",
    "classics": "one fit of TwinSVC as ratios to LinearSVC",
    "defaults": "which membership, rule and alpha do best on the ten tables",
    "scale": "files beyond memory, Dask and Spark: time against reading alone, peak memory",
    "reading": "reading a CSV file, against pyarrow.csv",
    "engines": "fits on Dask and Spark as ratios to the least these engines need",
    "quality": "accuracy on the ten tables, nested, against linear peers",
    "imbalance": "which settings of a search serve tables with a rare class",
    "kernel": "curved planes: accuracy against curved peers, time and memory against SVC",
    "pairs": "more than two classes: how memberships come from pairs, and how pairs are tuned",
    "committee": "the committee against what people use: accuracy, probabilities, time",
    "pictures": "the pictures of docs/compare.md, from the caches of committee accuracy",
    "contest": "our place among published classifiers, on the tables of their study",
    "multiclass": "more than two classes: accuracy, nested, against peers; speed against K = 2",
    "label_issues": "how well label errors are found, against cleanlab",
    "studio": "the studio: flips that a reviewer repairs, time from a key to the updated page",
    "wide": "tables with many columns: time, memory and accuracy against linear peers",
    "loo": "leave-one-out of all rows as multiples of one fit",
    "calibration": "log loss of calibrated probabilities, against logistic regression and eq29",
    "sets": "conformal sets: coverage and size, against split conformal on the same planes",
    "walks": "how often a reader of a fit, a search, a command changes file",
    "same_numbers": "whether this tree and an older one give the same numbers: OLD_SRC",
    "same_speed": "times of this tree as ratios to those of an older one: OLD_SRC",
}


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in NAMES:
        print("usage: python -m benchmarks NAME, where NAME is one of")
        for known, what in NAMES.items():
            print(f"  {known:13s} {what}")
        return 2
    importlib.import_module(f"benchmarks.{name}").run(sys.argv[2:])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
