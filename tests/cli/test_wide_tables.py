"""Tables with many columns on the command line."""

import json

import numpy as np
import pytest


def write_text(path, n=60, d=4000):
    """Write texts of ten words as LIBSVM rows; the words below 100 tell the classes apart."""
    rng = np.random.default_rng(0)
    lines = []
    for i in range(n):
        common, own = rng.integers(100, d, 10), rng.integers(0, 50, 4) + 50 * (i % 2)
        words = np.unique(np.append(common, own))
        lines.append(f"{i % 2} " + " ".join(f"{j + 1}:1" for j in words))
    lines[0] += f" {d}:1" if not lines[0].endswith(f"{d}:1") else ""
    path.write_text("\n".join(lines))
    return path.name


@pytest.mark.parametrize(
    ("solver", "words"),
    [
        ("auto", ["--no-search"]),
        ("gram", ["--no-search"]),
        ("iterative", ["--no-search"]),
        ("auto", ["--membership", "center"]),
    ],
)
def test_train_and_predict(run, folder, solver, words):
    data = write_text(folder / "t.svm")
    facts = json.loads(run("train", data, "--solver", solver, "--json", "--folds", 3, *words))
    assert facts["score"]["accuracy"] > 0.7
    assert run("predict", "t.skops", data).count("\n") == 61
    assert "accuracy" in run("evaluate", "t.skops", data)
    assert run("explain", "t.skops")


def test_a_solver_for_other_planes_is_refused(run, folder):
    data = write_text(folder / "t.svm")
    text = run("train", data, "--solver", "gram", "--planes", "fuzzy", "--no-search", code=2)
    assert "solver='gram' has no widths" in " ".join(text.split())
