"""A demonstration on bundled data: ``python -m fuzzytwin.demo``. Needs no extra."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from fuzzytwin import FuzzyTwinCommittee, FuzzyTwinSVC, find_label_issues
from fuzzytwin._utils.extras import install_command
from fuzzytwin._utils.files import atomic_write
from fuzzytwin._utils.progress import Progress
from fuzzytwin._utils.types import Array
from fuzzytwin.datasets import load_uci, make_xor
from fuzzytwin.label_issues import LabelIssueReport

# With their defaults.
MODELS: dict[str, Any] = {
    "FuzzyTwinCommittee": FuzzyTwinCommittee(),
    "LogisticRegression": LogisticRegression(max_iter=1000),
    "RandomForestClassifier": RandomForestClassifier(random_state=0),
    "HistGradientBoostingClassifier": HistGradientBoostingClassifier(random_state=0),
}
SHARES = {"clean": 0.0, "20% flipped": 0.2}
TABLES = {"heart_cleveland": "heart disease", "sonar": "sonar", "hepatitis": "hepatitis"}
FOLDS = 5
PICTURE = "fuzzytwin-demo.png"
NEXT = """Try next, in Python:
  from fuzzytwin import FuzzyTwinCommittee
  model = FuzzyTwinCommittee().fit(X, y)   # X: array, or data frame as it is
  model.predict_proba(X_new)               # probability of every class
or on the command line, with your table (CSV, Excel, Parquet):
  fuzzytwin label-issues DATA.csv --target COLUMN
  fuzzytwin train DATA.csv --target COLUMN --report report.html
Without a table, begin with:
  fuzzytwin generate patients patients.csv"""


def main() -> None:
    """Run the demonstration, and name commands to try next."""
    print(describe(*run_and_draw(PICTURE, True)))
    print(f"(The command needs: {install_command('cli')})")


def run_and_draw(out: str | os.PathLike[str], force: bool) -> tuple[dict[str, Any], str | None]:
    """Return the result of `run`, and the path of its picture (None without matplotlib)."""
    steps = FOLDS * len(SHARES) * len(TABLES) + 1
    with Progress("starting", steps, enabled=sys.stderr.isatty(), transient=True) as bar:
        result, report = run(bar.begin)
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return result, None
    from fuzzytwin.label_issues import LabelIssueDisplay
    from fuzzytwin.plot import PlanesDisplay

    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    X, y, degrees = make_xor(noise=0.15, random_state=0)
    planes = FuzzyTwinSVC(planes="fuzzy", C=0.03, alpha=0.0, margin_width=2.0)
    planes.fit(X, y, membership=degrees)
    PlanesDisplay.from_estimator(planes, X, y, degrees=degrees, ax=left)
    left.set_title("Fuzzy twin planes: uncertain rows (small) have little weight", fontsize=10)
    LabelIssueDisplay.from_report(report, n_named=0, ax=right)
    with atomic_write(out, overwrite=force) as temporary:
        figure.savefig(temporary, format="png", dpi=120)
    return result, os.fspath(out)


def run(step: Callable[[str], None]) -> tuple[dict[str, Any], LabelIssueReport]:
    """Compute all results, and the label issues. `step` is called with the name of each step."""
    with threadpool_limits(1):  # threads slow down small tables
        losses = {name: _log_losses(share, step) for name, share in SHARES.items()}
        step("finding label issues")
        X, y = load_breast_cancer(return_X_y=True)
        labels = np.array(["malignant", "benign"])
        given, is_flipped = flip_labels(y, 0.1, 0)
        report = find_label_issues(X, labels[given])
        model = FuzzyTwinCommittee().fit(X, y)
        P = model.predict_proba(X)
        row = int(P.max(axis=1).argmin())
        in_set = model.predict_set(X[row : row + 1], 0.99)[0]
    issues = {
        "rows": len(y),
        "flipped": int(is_flipped.sum()),
        "flagged": int(report.is_label_issue.sum()),
        "hits": int((report.is_label_issue & is_flipped).sum()),
        "n_errors": report.n_errors,
        "n_errors_interval": list(report.n_errors_interval),
        "first": report.ranked_rows[:8].tolist(),
    }
    least_certain = {
        "probabilities": ", ".join(map("{} {:.2f}".format, labels, P[row])),
        "set": " or ".join(labels[in_set]) or "empty (the row is unlike every class)",
    }
    return {"log_loss": losses, "label_issues": issues, "row": least_certain}, report


def describe(result: dict[str, Any], path: object) -> str:
    """Describe the result of `run`, name the picture, and list commands to try next."""
    issues = result["label_issues"]
    low, high = issues["n_errors_interval"]
    table = [" " * 32 + "".join(f"{name:>14s}" for name in SHARES)]
    for name in MODELS:
        losses = (result["log_loss"][share][name] for share in SHARES)
        table.append(f"{name:32s}" + "".join(f"{loss:14.3f}" for loss in losses))
    paragraphs = [
        f"1. One model, nothing to tune. Means of {len(TABLES)} tables "
        f"({', '.join(TABLES.values())}), with labels as they are and with one in five of the "
        f"training labels flipped: log loss (lower is better) in {FOLDS} folds.",
        f"2. Label errors are found. Breast cancer, {issues['rows']} rows, {issues['flipped']} "
        f"labels flipped: {issues['flagged']} label issues, {issues['hits']} of them flipped. "
        f"An estimated {low:.0f} to {high:.0f} labels are wrong (95% interval), about "
        f"{issues['n_errors']:.0f}. Lowest label quality: rows "
        f"{', '.join(map(str, issues['first']))}.",
        "3. Predictions come with their uncertainty. The least certain row of breast cancer has "
        f"the probabilities {result['row']['probabilities']}. Its 99% prediction set is "
        f"{result['row']['set']}.",
    ]
    no_picture = f"A picture needs matplotlib. Install it with: {install_command('plot')}"
    about_picture = f"The picture is in {path}." if path else no_picture
    first, *others = (textwrap.fill(text, 80) for text in paragraphs)
    return "\n\n".join([first, "\n".join(table), *others, about_picture, NEXT])


def flip_labels(y: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Flip a share of the labels 0 and 1; also return which."""
    is_flipped = np.zeros(len(y), dtype=bool)
    rng = np.random.default_rng(seed)
    is_flipped[rng.choice(len(y), round(share * len(y)), replace=False)] = True
    return np.where(is_flipped, 1 - y, y), is_flipped


def _log_losses(share: float, step: Callable[[str], None]) -> dict[str, float]:
    """Cross-validate each model; only labels of training rows are flipped."""
    losses = dict.fromkeys(MODELS, 0.0)
    for table, title in TABLES.items():
        X, y = load_uci(table, return_X_y=True)
        y = np.unique(y, return_inverse=True)[1]
        P = {name: np.zeros((len(y), 2)) for name in MODELS}
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
        for fold, (train, test) in enumerate(folds.split(X, y)):
            step(f"{title}, {share:.0%} of labels flipped")
            labels, _ = flip_labels(y[train], share, fold)
            for name, model in MODELS.items():
                piped = make_pipeline(SimpleImputer(strategy="median"), StandardScaler(), model)
                P[name][test] = piped.fit(X[train], labels).predict_proba(X[test])
        for name, p in P.items():
            losses[name] += log_loss(y, p) / len(TABLES)
    return losses


if __name__ == "__main__":
    main()
