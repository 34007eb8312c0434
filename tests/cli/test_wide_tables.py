"""Tables with many columns on the command line."""

import json

import numpy as np
import pandas as pd
import pytest


def write_text(path, n=60, d=4000):
    """Write texts of ten words as rows of flags; the words below 100 tell the classes apart."""
    rng = np.random.default_rng(0)
    X = np.zeros((n, d), dtype=np.int8)
    for i in range(n):
        X[i, rng.integers(100, d, 10)] = 1
        X[i, rng.integers(0, 50, 4) + 50 * (i % 2)] = 1
    frame = pd.DataFrame(X, columns=[f"word{j}" for j in range(d)])
    frame.assign(y=np.arange(n) % 2).to_parquet(path)
    return path.name


@pytest.mark.parametrize(
    ("solver", "words"),
    [
        ("auto", ["--model=planes"]),
        ("gram", ["--model=planes"]),
        ("iterative", ["--model=planes"]),
        ("auto", ["--membership", "center"]),
    ],
)
def test_train_and_predict(run, folder, solver, words):
    data = write_text(folder / "t.parquet")
    facts = json.loads(
        run("train", data, "--target", "y", "--solver", solver, "--json", "--folds", 3, *words)
    )
    assert facts["score"]["accuracy"] > 0.7
    assert run("predict", "t.skops", data).count("\n") == 61
    assert "accuracy" in run("evaluate", "t.skops", data)
    assert run("explain", "t.skops")


def test_a_solver_for_other_planes_is_refused(run, folder):
    data = write_text(folder / "t.parquet")
    text = run(
        "train",
        data,
        "--target",
        "y",
        "--solver",
        "gram",
        "--planes",
        "fuzzy",
        "--model=planes",
        code=2,
    )
    assert "solver='gram' has no widths" in " ".join(text.split())
