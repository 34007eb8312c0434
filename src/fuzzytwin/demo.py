"""A first look: ``python -m fuzzytwin.demo``. Needs nothing but the package itself."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, cross_val_predict
from sklearn.preprocessing import scale
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from fuzzytwin._utils.extras import install_command
from fuzzytwin._utils.progress import Progress
from fuzzytwin._utils.types import Array
from fuzzytwin.datasets import load_uci, make_xor, uci_preprocessor
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.report.doubts import own_degrees
from fuzzytwin.search.estimator import FuzzyTwinSVCCV

# As they come, but for degrees by neighbours, which are what is shown.
MODELS: dict[str, Any] = {
    "FuzzyTwinSVC, neighbor degrees": FuzzyTwinSVC(membership="neighbor", membership_scope="both"),
    "FuzzyTwinSVC": FuzzyTwinSVC(),
    "LogisticRegression": LogisticRegression(max_iter=1000),
    "SVC (Gaussian kernel)": SVC(),
    "RandomForestClassifier": RandomForestClassifier(random_state=0),
    "HistGradientBoostingClassifier": HistGradientBoostingClassifier(random_state=0),
}
SHARES = {"clean": 0.0, "20 %": 0.2, "30 %": 0.3}
FOLDS, REPEATS = 10, 2
STEPS = FOLDS * REPEATS * len(SHARES) + 2


def main() -> None:
    """Show what the library does, and say what to try next."""
    with Progress("starting", STEPS, wanted=sys.stderr.isatty(), transient=True) as bar:
        found = run(bar.begin)
    print(in_words(found))
    print("\nTry next, in Python:")
    print("  from fuzzytwin import FuzzyTwinSVCCV")
    print("  search = FuzzyTwinSVCCV().fit(X, y)   # X: scaled numbers; y: labels")
    print("  search.predict_proba(X_new)           # membership in every class")
    print("or on a table of your own, with a report to read:")
    print("  fuzzytwin train DATA.csv --target COLUMN --report report.html")
    print(f"  (the command needs: {install_command('cli')})")


def run(step: Callable[[str], None]) -> dict[str, Any]:
    """Compute all that is shown; `step` is called with what begins."""
    with threadpool_limits(1):  # small tables: threads would only wait for each other
        accuracy = {name: _accuracies(share, step) for name, share in SHARES.items()}
        step("looking for wrong labels")
        doubts = {"Heart disease": find_flips(*heart()), "Breast cancer": find_flips(*cancer())}
        step("tuning")
        return {"accuracy": accuracy, "doubts": doubts, "tuning": _tuning()}


def in_words(found: dict[str, Any]) -> str:
    """Write what `run` found for people."""
    heads = "".join(f"{name:>9s}" for name in SHARES)
    lines = [
        "1. Wrong labels do less harm. Heart disease (Cleveland), 303 patients; a share",
        "of the training labels is flipped. Accuracy on untouched labels, "
        f"{REPEATS} x {FOLDS} folds:",
        "",
        f"{'':32s}{heads}",
    ]
    for name in MODELS:
        cells = "".join(f"{found['accuracy'][share][name]:9.3f}" for share in SHARES)
        lines.append(f"{name:32s}{cells}")
    lines += [
        "",
        "2. Wrong labels are found. One label in five is flipped; looked at are the rows",
        "that fit their label worst, by models that were trained without them.",
        "",
    ]
    for table, (hits, wrong, n) in found["doubts"].items():
        looked = f"{table}: of the {wrong} most doubtful rows"
        lines.append(f"{looked} {hits} are flipped ones (chance: {wrong * wrong / n:.0f}).")
    tuning = found["tuning"]
    lines += [
        "",
        f"3. Tuning is quick. {tuning['settings']:,} settings, each scored in 5 folds, take",
        f"FuzzyTwinSVCCV {tuning['seconds']:.1f} s; GridSearchCV would take about "
        f"{tuning['grid_seconds']:,.0f} s.",
    ]
    return "\n".join(lines)


def heart() -> tuple[Array, Array]:
    """Load heart disease (Cleveland), prepared; labels are 0 and 1."""
    X, y = load_uci("heart_cleveland", return_X_y=True)
    return np.asarray(uci_preprocessor("heart_cleveland").fit_transform(X)), y


def cancer() -> tuple[Array, Array]:
    """Load breast cancer (Wisconsin), scaled; labels are 0 and 1."""
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


def find_flips(X: Array, y: Array) -> tuple[int, int, int]:
    """Flip a fifth of the labels and look for them.

    Returns how many of the most doubtful rows are flipped ones, how many were flipped (and looked
    at), and the number of rows.
    """
    degrees, wrong = _doubts(X, y)
    doubtful = np.argsort(degrees, kind="stable")[: wrong.sum()]
    return int(wrong[doubtful].sum()), int(wrong.sum()), len(y)


def picture() -> Any:
    """Draw two fuzzy planes, and how degrees give flipped labels away. Needs matplotlib."""
    from matplotlib.figure import Figure

    from fuzzytwin.plot import MembershipDisplay, PlanesDisplay

    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    points, side, degrees = make_xor(noise=0.15, random_state=0)
    model = FuzzyTwinSVC(planes="fuzzy", C=0.03, alpha=0.0, margin_width=2.0)
    model.fit(points, side, membership=degrees)
    PlanesDisplay.from_estimator(model, points, side, degrees=degrees, ax=left)
    left.set_title("Two fuzzy planes; the size of a sample is its degree", fontsize=10)
    degrees, wrong = _doubts(*cancer())
    label = np.where(wrong, "flipped", "left as it is")
    MembershipDisplay(degrees, label, np.arange(len(label)), n_doubtful=0).plot(right)
    right.set_xlabel("degree of membership in the given label")
    right.set_title("Breast cancer: degrees give flipped labels away", fontsize=10)
    return figure


def flip_labels(y: Array, share: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Exchange a share of binary labels; also return which."""
    wrong = np.zeros(len(y), dtype=bool)
    wrong[rng.choice(len(y), round(share * len(y)), replace=False)] = True
    return np.where(wrong, y.min() + y.max() - y, y), wrong


def _accuracies(share: float, step: Callable[[str], None]) -> dict[str, float]:
    """Measure each model; all is fitted on training rows alone, and only their labels flipped."""
    X, y = load_uci("heart_cleveland", return_X_y=True)
    hits, rows = dict.fromkeys(MODELS, 0), 0
    folds = RepeatedStratifiedKFold(n_splits=FOLDS, n_repeats=REPEATS, random_state=0)
    for fold, (train, test) in enumerate(folds.split(X, y)):
        step(f"{share:.0%} of labels flipped")
        prepare = uci_preprocessor("heart_cleveland")
        A, B = prepare.fit_transform(X[train]), prepare.transform(X[test])
        labels, _ = flip_labels(y[train], share, np.random.default_rng(fold))
        for name, model in MODELS.items():
            hits[name] += int((model.fit(A, labels).predict(B) == y[test]).sum())
        rows += len(test)
    return {name: count / rows for name, count in hits.items()}


def _doubts(X: Array, y: Array) -> tuple[Array, Array]:
    """Flip a fifth of the labels; give each row's degree in its label, and which were flipped."""
    given, wrong = flip_labels(y, 0.2, np.random.default_rng(0))
    u = cross_val_predict(FuzzyTwinSVC(), X, given, cv=10, method="predict_proba")
    return own_degrees(u, given)[np.arange(len(given)), given], wrong


def _tuning() -> dict[str, float]:
    """Time a search, and a sample of the same settings by scikit-learn."""
    X, y = heart()
    start = time.perf_counter()
    search = FuzzyTwinSVCCV(memberships=(None, "center", "hyperplane")).fit(X, y)
    seconds = time.perf_counter() - start
    settings = search.cv_results_["params"]
    some = [{name: [value] for name, value in params.items()} for params in settings[::400]]
    start = time.perf_counter()
    GridSearchCV(FuzzyTwinSVC(), some, refit=False).fit(X, y)
    each = (time.perf_counter() - start) / len(some)
    return {"settings": len(settings), "seconds": seconds, "grid_seconds": each * len(settings)}


if __name__ == "__main__":
    main()
