"""Whether this source gives the numbers of an older one: the same calls, run by each of them.

Twenty tables of at most 500 rows (one has 2,000, so that landmarks are a sample), ten of them the
paper's. A difference is relative to the largest number that it is compared with (at least 1).
Labels, sets and flags must be equal. Parameters whose defaults differ between versions are given.
What only one of the two sources has is listed and not compared. Exit code 1 above 1e-9.

``--except KIND`` names a difference that was decided, in the words of the output: a whole kind
("search: scores"), a call ("search"), a kind of number ("memberships") or a table ("frame"). It may
be repeated.
"""

from __future__ import annotations

import argparse
import inspect
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

TOLERANCE = 1e-9
SRC = Path(__file__).resolve().parent.parent / "src"
PINNED = {"C": 1.0, "random_state": 0, "n_jobs": 1}
SEED = 0

Answers = dict[str, np.ndarray]


class OnlyInOne(Exception):
    """This source does not have what is asked for."""


def tables() -> Iterator[tuple[str, Any, np.ndarray]]:
    """Yield the ten tables of the paper, those of scikit-learn, and made ones: twenty in all."""
    import pandas as pd
    from scipy import sparse
    from sklearn import datasets
    from sklearn.preprocessing import scale

    from fuzzytwin.datasets import list_uci, load_uci

    rng = np.random.default_rng(SEED)
    made = datasets.make_classification
    for name in list_uci():
        X, y = load_uci(name, return_X_y=True)
        first = rng.permutation(len(y))[:500]
        X = scale(pd.get_dummies(pd.DataFrame(X)).fillna(0.0).astype(float))
        yield name, X[first], y[first]
    for name in ("iris", "wine", "breast_cancer", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        first = rng.permutation(len(y))[:500]
        yield name, scale(X)[first], np.array([f"class {label}" for label in y[first]])
    yield "moons", *datasets.make_moons(300, noise=0.3, random_state=0)
    yield "blobs", *datasets.make_blobs(300, 5, centers=4, cluster_std=3.0, random_state=0)[:2]
    yield "wide", *made(60, 600, n_informative=10, random_state=0)
    yield "many rows", *made(2000, 6, n_informative=4, flip_y=0.1, random_state=2)
    X, y = made(400, 30, n_informative=8, random_state=1)
    yield "sparse", sparse.csr_matrix(np.where(np.abs(X) > 1, X, 0.0)), y
    X, y = made(300, 5, n_informative=4, n_redundant=1, random_state=3)
    frame = pd.DataFrame(X.round(3)).add_prefix("x")
    frame["ward"] = rng.permutation(
        np.array(["north", "south", "west"])[y + rng.integers(0, 2, 300)]
    )
    frame["city"] = rng.choice(["Ulm", "Bonn", "Kiel"], 300)
    yield "frame", frame, np.array(["no", "yes"])[y]


def make(name: str, *args: Any, **parameters: Any) -> Any:
    """Make an estimator of this source, or raise `OnlyInOne` if it lacks a parameter."""
    import fuzzytwin

    if not hasattr(fuzzytwin, name):
        raise OnlyInOne(name)
    known = inspect.signature(getattr(fuzzytwin, name)).parameters
    if not set(parameters) <= set(known):
        raise OnlyInOne(name)
    pinned = {key: value for key, value in PINNED.items() if key in known}
    return getattr(fuzzytwin, name)(*args, **{**pinned, **parameters})


def answers(model: Any, X: Any) -> Answers:
    """Collect what a fitted model says of rows."""
    found = {"labels": model.predict(X).astype(str)}
    if hasattr(model, "predict_membership"):
        found["memberships"] = model.predict_membership(X)
    if getattr(model, "calibration", "loo") == "loo" and hasattr(model, "predict_set"):
        found["probabilities"] = model.predict_proba(X)
        found["sets"] = model.predict_set(X, coverage=0.9)
    # Coordinates of nonlinear planes are free: signs of the eigenvectors of the landmarks.
    if getattr(model, "kernel", "linear") == "linear":
        fitted = (
            ("coefficients", "coef_"),
            ("intercepts", "intercept_"),
            ("widths", "width_coef_"),
        )
        for kind, name in fitted:
            if getattr(model, name, None) is not None:
                found[kind] = getattr(model, name)
    return found


def planes() -> dict[str, Callable[[], Any]]:
    """Return the twin SVMs and classics, by name."""
    from functools import partial

    svc = partial(make, "FuzzyTwinSVC", alpha=1.0)
    sampled = {"n_landmarks": 40, "alpha": 1.0}
    names = ("center", "hyperplane", "neighbor", "entropy", "intuitionistic")
    return {
        "crisp": svc,
        "automatic ridge": partial(make, "FuzzyTwinSVC"),
        "residual": partial(svc, C=0.5, rule="residual"),
        "balanced": partial(svc, class_weight="balanced"),
        "fuzzy": partial(svc, planes="fuzzy"),
        **{f"membership {name}": partial(svc, membership=name) for name in names},
        **{
            f"kernel {kernel}": partial(make, "FuzzyTwinSVC", kernel=kernel, **sampled)
            for kernel in ("rbf", "laplacian", "poly")
        },
        "calibrated": partial(svc, calibration="loo"),
        "calibrated rbf": partial(make, "FuzzyTwinSVC", kernel="rbf", calibration="loo", **sampled),
        "LeastSquaresTwinSVC": partial(make, "LeastSquaresTwinSVC", alpha=1.0),
        "TwinSVC": partial(make, "TwinSVC", tol=1e-10, max_iter=10**6),
        "ProximalSVC": partial(make, "ProximalSVC"),
        "LeastSquaresSVC": partial(make, "LeastSquaresSVC"),
        "GEPSVC": partial(make, "GEPSVC", alpha=1.0),
        "MembershipWeighted": lambda: make("MembershipWeighted", estimator=make("ProximalSVC")),
    }


def whole_calls(X: Any, y: np.ndarray, folder: Path) -> dict[str, Callable[[], Answers]]:
    """Return all calls that are compared on a table of numbers, by name."""
    from fuzzytwin import CenterMembership, files

    n = len(y)
    rng = np.random.default_rng(SEED)
    weight = rng.integers(1, 4, size=n).astype(float)
    parts = np.array_split(rng.permutation(n), 3)
    kept = np.delete(np.arange(n), np.s_[::5])
    classes = np.unique(y)

    def fitted(make_model: Callable[[], Any]) -> Answers:
        return answers(make_model().fit(X, y), X)

    def svc() -> Any:
        return make("FuzzyTwinSVC", alpha=1.0)

    def weighted() -> Answers:
        model = make("FuzzyTwinSVC", alpha=1.0, membership="center").fit(X, y, weight)
        return {**answers(model, X), "leave-one-out": model.loo_membership(X, y, weight)}

    def soft() -> Answers:
        share = np.where(y[:, None] == classes, 0.8, 0.2 / (len(classes) - 1))
        model = make("FuzzyTwinSVC", alpha=1.0, calibration="loo").fit(X, y, membership=share)
        return {**answers(model, X), "leave-one-out": model.loo_membership(X, y, membership=share)}

    def grouped() -> Answers:
        model = make("FuzzyTwinSVC", alpha=1.0, calibration="loo")
        model.fit(X, y, weight, groups=np.arange(n) // 3)
        held_out = model.loo_membership(X, y, weight, groups=np.arange(n) // 3)
        return {**answers(model, X), "leave-one-out": held_out}

    def degrees() -> Answers:
        return {"degrees": CenterMembership().compute(X, y)}

    def search(**given: Any) -> Answers:
        model = make("FuzzyTwinSVCCV", memberships=(None, "center"), cv=3, **given)
        model.fit(X, y, weight)
        results = model.cv_results_
        points = [str(sorted(point.items())) for point in map(plain_point, results["params"])]
        order = np.argsort(points)
        return {**answers(model, X), "scores": np.asarray(results["mean_test_score"])[order]}

    def streamed() -> Answers:
        model = svc()
        for part in parts:
            model.partial_fit(X[part], y[part], classes=classes, sample_weight=weight[part])
        return answers(model, X)

    def merged() -> Answers:
        return answers(svc().fit(X, y).merge(svc().fit(X[kept], y[kept])), X)

    def forgotten() -> Answers:
        return answers(svc().fit(X, y).forget(X[::5], y[::5]), X)

    def from_file() -> Answers:
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = X.toarray() if hasattr(X, "toarray") else X
        columns = {f"x{j}": rows[:, j] for j in range(rows.shape[1])}
        pq.write_table(pa.table({**columns, "y": y.astype(str)}), folder / "rows.parquet")
        model = make("FuzzyTwinSVC", membership="center")
        return answers(files.fit(model, folder / "rows.parquet", target="y"), rows)

    return {
        **{name: (lambda model=model: fitted(model)) for name, model in planes().items()},
        "weighted": weighted,
        "soft labels": soft,
        "groups": grouped,
        "CenterMembership": degrees,
        "search": lambda: search(),
        "search, best score": lambda: search(selection="score", scoring="balanced_accuracy"),
        "search of kernels": lambda: search(kernels="rbf", n_landmarks=30),
        "partial_fit": streamed,
        "merge": merged,
        "forget": forgotten,
        "files.fit": from_file,
    }


def plain_point(point: dict[str, Any]) -> dict[str, Any]:
    """Return the searched parameters of a point of a search."""
    searched = ("C", "alpha", "gamma", "kernel", "membership", "rule")
    return {key: point[key] for key in searched if key in point}


def table_calls(X: Any, y: np.ndarray) -> dict[str, Callable[[], Answers]]:
    """Return all calls that are compared on arrays and data frames alike, by name."""
    from fuzzytwin import find_label_issues

    weight = np.random.default_rng(SEED).integers(1, 4, size=len(y)).astype(float)

    def committee(**given: Any) -> Answers:
        model = make("FuzzyTwinCommittee", **given).fit(X, y, weight)
        found = {"leave-one-out": model.loo_proba_, "log loss": np.array(model.loo_log_loss_)}
        if model.noise is not None:
            found |= {"noise matrix": model.noise_matrix_, "degrees": model.membership_}
        return {**answers(model, X), **found}

    def issues(**given: Any) -> Answers:
        report = find_label_issues(X, y, **given)
        return {
            "label quality": report.label_quality,
            "flags": report.is_label_issue,
            "suggestions": report.suggested_labels.astype(str),
            "numbers of errors": np.array([report.n_errors, *report.n_errors_interval]),
        }

    def reviewed() -> Answers:
        report = find_label_issues(X, y)
        rows = np.arange(0, len(y), 11)
        return {"label quality": report.with_reviews({i: y[i] for i in rows}).label_quality}

    return {
        "committee": lambda: committee(members="auto"),
        "committee of planes, noise": lambda: committee(members="planes", noise="auto"),
        "label issues": issues,
        "label issues, annotated": lambda: issues(labels="annotated"),
        "label issues, weights": lambda: issues(sample_weight=weight),
        "label issues, reviewed": reviewed,
    }


def run_all(folder: Path) -> None:
    """Run all calls on every table, and write what they give to a file for each table."""
    for number, (table, X, y) in enumerate(tables()):
        calls = table_calls(X, y)
        if table != "frame":
            calls |= whole_calls(X, y, folder)
        found: Answers = {"table": np.array(table)}
        for name, call in calls.items():
            try:
                given = call()
            except OnlyInOne as missing:
                given = {"not there": np.array(str(missing))}
            except Exception as error:
                given = {"refused": np.array(f"{type(error).__name__}: {error}")}
            found |= {f"{name}: {kind}": np.asarray(value) for kind, value in given.items()}
        np.savez(folder / f"{number:02d}.npz", **found)
        print(".", end="", flush=True, file=sys.stderr)


def difference(old: np.ndarray, new: np.ndarray) -> float:
    """Return the largest difference, relative to the largest old number (at least 1)."""
    if old.shape != new.shape:
        return np.inf
    if old.dtype.kind not in "fiu":
        return 0.0 if np.array_equal(old, new) else np.inf
    finite = np.isfinite(old)
    if not np.array_equal(old[~finite], new[~finite], equal_nan=True):
        return np.inf
    largest = max(1.0, np.abs(old[finite]).max(initial=0.0))
    return float(np.abs(old - new)[finite].max(initial=0.0) / largest)


def compare(old: Path, new: Path, excepted: list[str]) -> bool:
    """Print the largest difference of every kind of number, and return whether all are small."""
    gaps: dict[str, dict[str, float]] = {}
    notes: Counter[str] = Counter()
    for path in sorted(old.glob("*.npz")):
        before, after = np.load(path), np.load(new / path.name)
        table = str(before["table"])
        for key in {**dict.fromkeys(before.files), **dict.fromkeys(after.files)}:
            name, _, kind = key.partition(": ")
            if (
                not kind
                or kind == "not there"
                or (key in before and key in after and kind == "refused")
            ):
                continue
            if f"{name}: not there" in before or f"{name}: not there" in after:
                notes[f"{name}: only one of the sources has it"] += 1
                continue
            if key in before and key in after:
                gap = difference(before[key], after[key])
            elif kind == "refused":
                source, who = (before, "old") if key in before else (after, "new")
                notes[f"{table}: {name}: the {who} source raises {source[key]}"[:200]] += 1
                gap = np.inf
            elif f"{name}: refused" in before or f"{name}: refused" in after:
                continue
            else:
                notes[f"{key}: only the {'old' if key in before else 'new'} source has it"] += 1
                continue
            gaps.setdefault(key, {})[table] = gap
    print(f"\n{'kind of number':48s}{'tables':>8s}{'largest difference':>20s}")
    good = True
    for key, of_table in gaps.items():
        above = [table for table, gap in of_table.items() if gap > TOLERANCE]
        names = {key, *key.split(": ")}
        wrong = [table for table in above if not {table, *names} & set(excepted)]
        good &= not wrong
        verdict = f"  {'ABOVE 1e-9' if wrong else 'excepted'}: {', '.join(above)}" if above else ""
        print(f"{key:48s}{len(of_table):8d}{max(of_table.values()):20.2g}{verdict}")
    print(*notes, sep="\n")
    print(f"{len(list(old.glob('*.npz')))} tables, within {TOLERANCE:g} where not excepted: {good}")
    return good


def run(arguments: list[str]) -> None:
    """`python -m benchmarks same_numbers OLD_SRC [--except KIND]`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks same_numbers")
    parser.add_argument("old", type=Path, help="the folder src of the older source")
    parser.add_argument("--except", dest="excepted", action="append", default=[], metavar="KIND")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folders = Path(temporary) / "old", Path(temporary) / "new"
        for src, folder in zip((given.old.resolve(), SRC), folders, strict=True):
            folder.mkdir()
            one = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
            command = [sys.executable, "-m", "benchmarks.same_numbers", "--worker", str(folder)]
            environment = {**os.environ, **one, "PYTHONPATH": str(src)}
            if subprocess.run(command, env=environment, cwd=SRC.parent, check=False).returncode:
                raise SystemExit(f"the calls cannot be run with {src}")
        if not compare(*folders, given.excepted):
            raise SystemExit(1)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    run_all(Path(sys.argv[2]))
