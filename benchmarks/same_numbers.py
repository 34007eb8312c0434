"""Whether two source trees give the same numbers: the same script, run by each of them.

It fits, searches, streams, saves, loads, exports and predicts on twenty tables, and prints the
largest difference of every kind, relative to the largest number it is compared with, and of every
table. Labels must be equal.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

TOLERANCE = 1e-9
SRC = Path(__file__).resolve().parent.parent / "src"


def tables() -> Iterator[tuple[str, object, np.ndarray]]:
    """Yield the ten tables of the paper, those of scikit-learn, and made ones: twenty in all."""
    import pandas as pd
    from scipy import sparse
    from sklearn import datasets
    from sklearn.preprocessing import scale

    from fuzzytwin.datasets import list_uci, load_uci

    for name in list_uci():
        X, y = load_uci(name, return_X_y=True)
        yield name, scale(pd.get_dummies(pd.DataFrame(X)).fillna(0.0).astype(float)), y
    for name in ("iris", "wine", "breast_cancer", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        yield name, scale(X), np.array([f"class {label}" for label in y])
    made = {
        "moons": datasets.make_moons(300, noise=0.3, random_state=0),
        "circles": datasets.make_circles(300, noise=0.1, factor=0.5, random_state=0),
        "blobs": datasets.make_blobs(400, 5, centers=4, cluster_std=3.0, random_state=0)[:2],
        "three classes": datasets.make_classification(
            500, 12, n_informative=6, n_classes=3, random_state=0
        ),
        "wide": datasets.make_classification(60, 200, n_informative=10, random_state=0),
    }
    for name, (X, y) in made.items():
        yield name, X, y
    X, y = datasets.make_classification(400, 30, n_informative=8, random_state=1)
    yield "sparse", sparse.csr_matrix(np.where(np.abs(X) > 1, X, 0.0)), y


def estimators() -> dict[str, object]:
    """Return what is fitted on every table, by kind."""
    import fuzzytwin as f

    uses_kernel = {"n_landmarks": 40, "random_state": 0}
    return {
        "M1": f.FuzzyTwinSVC(alpha=1.0),
        "M1 of all others": f.FuzzyTwinSVC(alpha=1.0, multi_class="ovr"),
        "M1 by residuals": f.FuzzyTwinSVC(C=0.5, alpha=0.1, rule="residual"),
        "M1 balanced": f.FuzzyTwinSVC(alpha=1.0, class_weight="balanced"),
        "M1 by Gram matrices": f.FuzzyTwinSVC(alpha=1.0, solver="gram"),
        "M2": f.FuzzyTwinSVC("fuzzy", alpha=1.0),
        **{
            f"membership {name}": f.FuzzyTwinSVC(alpha=1.0, membership=name)
            for name in ("center", "hyperplane", "neighbor", "entropy", "intuitionistic")
        },
        "membership in both": f.FuzzyTwinSVC(membership="center", membership_scope="both"),
        **{
            f"kernel {kernel}": f.FuzzyTwinSVC(alpha=1.0, kernel=kernel, **uses_kernel)
            for kernel in ("rbf", "laplacian", "poly")
        },
        "calibration loo": f.FuzzyTwinSVC(alpha=1.0, calibration="loo"),
        "calibration moments": f.FuzzyTwinSVC(alpha=1.0, calibration="moments"),
        "LeastSquaresTwinSVC": f.LeastSquaresTwinSVC(alpha=1.0),
        "TwinSVC": f.TwinSVC(random_state=0, tol=1e-10, max_iter=10**6),
        "ProximalSVC": f.ProximalSVC(),
        "LeastSquaresSVC": f.LeastSquaresSVC(),
        "GEPSVC": f.GEPSVC(alpha=1.0),
        "MembershipWeighted": f.MembershipWeighted(f.ProximalSVC(), membership="center"),
    }


TWO_CLASSES = ("LeastSquaresTwinSVC", "TwinSVC", "ProximalSVC", "LeastSquaresSVC", "GEPSVC")


def answers(model, X) -> dict[str, np.ndarray]:
    """Collect what a fitted model says of rows; labels are texts."""
    found = {"labels": np.asarray(model.predict(X)).astype(str)}
    for method in ("decision_function", "predict_membership", "predict_proba"):
        if hasattr(model, method):
            found[method] = np.asarray(getattr(model, method)(X), dtype=float)
    # Coordinates of kernel planes are free: signs of the eigenvectors of the landmarks.
    linear = getattr(model, "kernel", "linear") == "linear"
    for name in ("coef_", "intercept_", "width_coef_") if linear else ():
        if getattr(model, name, None) is not None:
            found[name] = np.asarray(getattr(model, name), dtype=float)
    return found


def run_all(folder: Path) -> None:
    """Run everything on every table, and write what it gives to a file for each table."""
    for number, (name, X, y) in enumerate(tables()):
        found = {"name": np.array(name), **run_table(folder, number, X, y)}
        np.savez(folder / f"answers{number}.npz", **found)
        print(".", end="", flush=True, file=sys.stderr)


def run_table(folder: Path, number: int, X, y) -> dict[str, np.ndarray]:
    """Run everything on one table."""
    found: dict[str, np.ndarray] = {}

    def note(kind: str, make: Callable[[], dict[str, np.ndarray]]) -> None:
        try:
            made = make()
        except Exception as error:
            made = {"error": np.array(f"{type(error).__name__}: {error}")}
        found.update({f"{kind}|{what}": value for what, value in made.items()})

    two = len(np.unique(y)) == 2
    for kind, model in estimators().items():
        if two or kind not in TWO_CLASSES:
            note(kind, lambda model=model: answers(model.fit(X, y), X))
    _note_the_rest(note, folder, number, X, y)
    return found


def _note_the_rest(note, folder: Path, number: int, X, y) -> None:
    """Search, stream, leave rows out, save and export."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    from fuzzytwin import FuzzyTwinCommittee, FuzzyTwinSVC, FuzzyTwinSVCCV

    fit_files = either("fuzzytwin.files.fit", "fuzzytwin.sources.fit_source")
    n, rng = len(y), np.random.default_rng(0)
    weight = rng.integers(1, 4, size=n).astype(float)
    parts = np.array_split(rng.permutation(n), 3)
    classes = np.unique(y)
    # An axis of the search that one of the trees may have.
    one_bandwidth = {"relevances": [None]} if hasattr(FuzzyTwinSVCCV(), "relevances") else {}

    def search(**given):
        model = FuzzyTwinSVCCV(memberships=(None, "center"), **given).fit(X, y, weight)
        scores = model.cv_results_["mean_test_score"]
        return {**answers(model, X), "scores": scores}

    note("search", lambda: search(cv=3))
    note("search by score", lambda: search(cv=3, selection="score", scoring="balanced_accuracy"))
    note("search by leave-one-out", lambda: search(cv="loo", Cs=[0.5, 2.0], alphas=[0.1, 10.0]))
    note(
        "search of kernels",
        lambda: search(cv=3, kernels="rbf", n_landmarks=30, random_state=0, **one_bandwidth),
    )

    def streamed(model):
        for part in parts:
            model.partial_fit(X[part], y[part], classes=classes, sample_weight=weight[part])
        return answers(model, X)

    def merged():
        models = [FuzzyTwinSVC(alpha=1.0).fit(X, y, weight)]
        models += [FuzzyTwinSVC(alpha=1.0).fit(X[::2], y[::2], weight[::2])]
        return answers(models[0].merge(models[1]), X)

    def forgotten():
        whole = FuzzyTwinSVC(alpha=1.0).fit(X, y, weight)
        return answers(whole.forget(X[::5], y[::5], weight[::5]), X)

    def from_file():
        table = X.toarray() if hasattr(X, "toarray") else X
        path = folder / "rows.parquet"
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {f"x{j}": table[:, j] for j in range(table.shape[1])}
        pq.write_table(pa.table({**columns, "y": y.astype(str)}), path)
        return answers(fit_files(FuzzyTwinSVC(membership="center"), path, target="y"), table)

    def left_out():
        model = FuzzyTwinSVC(alpha=1.0, membership="center").fit(X, y, weight)
        sets = FuzzyTwinSVC(alpha=1.0, calibration="loo").fit(X, y)
        return {
            "loo_membership": model.loo_membership(X, y, weight),
            "labels": sets.predict_set(X, 0.9).astype(str),
        }

    note("partial_fit", lambda: streamed(FuzzyTwinSVC(alpha=1.0)))
    note("partial_fit of M2", lambda: streamed(FuzzyTwinSVC("fuzzy", alpha=1.0)))
    note("merge", merged)
    note("forget", forgotten)
    note("files.fit", from_file)
    note("leave-one-out, sets", left_out)

    def committee():
        model = FuzzyTwinCommittee().fit(X, y, weight)
        return {
            **answers(model, X),
            "loo_log_loss_": np.array(model.loo_log_loss_),
            "loo_proba": model.loo_proba(X, y, weight),
            "sets": model.predict_set(X, 0.9).astype(str),
        }

    def committee_with_noise():
        model = FuzzyTwinCommittee(noise="auto").fit(X, y)
        return {
            **answers(model, X),
            "noise_matrix_": model.noise_matrix_,
            "membership_": model.membership_,
        }

    def label_issues():
        find = either("fuzzytwin.find_label_issues", "fuzzytwin.doubts.find_doubtful")
        report = find(X, y)
        quality = getattr(report, "label_quality", None)
        return {"label_quality": np.asarray(report.degrees if quality is None else quality)}

    note("committee", committee)
    note("committee with noise", committee_with_noise)
    note("label issues", label_issues)
    piped = make_pipeline(
        MaxAbsScaler(), FuzzyTwinSVC(kernel="rbf", n_landmarks=30, random_state=0, alpha=1.0)
    ).fit(X, y)

    def stored():
        from fuzzytwin.store import save

        save(piped, folder / f"model{number}")
        return _load(folder / f"model{number}", X)

    def exported():
        import onnxruntime

        from fuzzytwin.store import to_onnx

        onnxruntime.set_default_logger_severity(3)
        graph = to_onnx(piped).SerializeToString()
        session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
        table = X.toarray() if hasattr(X, "toarray") else X
        labels, memberships = session.run(None, {"X": np.asarray(table, dtype=np.float64)})
        return {"labels": np.asarray(labels).astype(str), "memberships": memberships}

    note("save and load", stored)
    note("ONNX", exported)


def _load(path: Path, X) -> dict[str, np.ndarray]:
    from fuzzytwin.store import load

    return answers(load(path), X)


def either(*addresses: str) -> Any:
    """Return the first object that exists: names may differ between the trees."""
    for address in addresses:
        module, _, name = address.rpartition(".")
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise SystemExit(f"none of {', '.join(addresses)} exists")


def difference(old: np.ndarray, new: np.ndarray) -> float:
    """Return the largest difference, relative to the largest old number (at least 1)."""
    if old.shape != new.shape:
        return np.inf
    if old.dtype.kind in "US":
        return 0.0 if (old == new).all() else np.inf
    both = np.isfinite(old)
    if (both != np.isfinite(new)).any():
        return np.inf
    gap = np.abs(old - new)[both]
    return float(gap.max(initial=0.0) / max(1.0, np.abs(old[both]).max(initial=0.0)))


def worker(src: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start the script on one tree."""
    command = [sys.executable, "-m", "benchmarks.same_numbers", "--worker", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(src)}
    return subprocess.Popen(command, env=environment, cwd=SRC.parent)


def run(arguments: list[str]) -> None:
    """`python -m benchmarks same_numbers OLD_SRC`: compare this tree with an older one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks same_numbers")
    parser.add_argument("old", type=Path, help="the folder src of the older tree")
    old_src = parser.parse_args(arguments).old.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        old, new = Path(temporary) / "old", Path(temporary) / "new"
        for src, folder in ((old_src, old), (SRC, new)):
            folder.mkdir()
            if worker(src, folder).wait():
                raise SystemExit(f"the script failed with {src}")
        report(old, new)


def report(old: Path, new: Path) -> None:
    """Print the largest differences by kind and by table."""
    by_kind: dict[str, list[float]] = {}
    by_table: dict[str, list[float]] = {}
    notes: list[str] = []
    for path in sorted(old.glob("answers*.npz"), key=lambda path: int(path.stem[7:])):
        before, after = np.load(path), np.load(new / path.name)
        table = str(before["name"])
        for key in after.files:
            kind, _, what = key.partition("|")
            if not what:
                continue
            if key not in before.files:
                notes.append(f"{table}: {key} is new: {after[key]}"[:200])
                gap = 0.0 if f"{kind}|error" in before.files else np.inf
            else:
                gap = difference(before[key], after[key])
            by_kind.setdefault(kind, []).append(gap)
            by_table.setdefault(table, []).append(gap)
            if gap > TOLERANCE:
                notes.append(f"{table}: {key} differs by {gap:.2g}")
        gone = [key for key in before.files if key not in after.files]
        notes += [f"{table}: {key} is gone: {before[key]}"[:200] for key in gone]
    for title, differences in (("kind", by_kind), ("table", by_table)):
        print(f"\n{title:28s}{'arrays':>8s}{'largest difference':>22s}")
        for name, values in differences.items():
            good = "" if max(values) <= TOLERANCE else f"   above {TOLERANCE:g}"
            print(f"{name:28s}{len(values):8d}{max(values):22.2g}{good}")
    print()
    for line in notes:
        print(line)
    equal = not any(gap > TOLERANCE for values in by_kind.values() for gap in values)
    print(f"{len(by_table)} tables; numbers within {TOLERANCE:g} and labels equal: {equal}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    run_all(Path(sys.argv[2]))
