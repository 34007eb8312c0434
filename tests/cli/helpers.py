"""Small tables for the tests of the command line."""

import numpy as np
import pandas as pd

TARGETS = {
    "australian": "class", "bupa": "selector", "cmc": "Contraceptive_method",
    "heart_cleveland": "class", "heart_statlog": "class", "hepatitis": "class", "pima": "Class",
    "sonar": "class", "votes": "party", "wpbc": "outcome",
}  # fmt: skip


def table(file, **columns):
    pd.DataFrame(columns).to_csv(file, index=False)
    return file


def some(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return {"a": rng.normal(y, 1.0, n), "b": rng.normal(0, 1, n), "y": np.where(y, "yes", "no")}


QUICK = ("--folds", "2")
