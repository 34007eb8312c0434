"""Small tables for the tests of the command line."""

import re

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


def refused(run, folder, *words, match):
    before = sorted(folder.rglob("*"))
    said = run(*words, code=2)
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert len(said) < 400
    assert re.search(match, said), said
    assert sorted(folder.rglob("*")) == before
