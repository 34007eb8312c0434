"""A demonstration on bundled data: ``python -m fuzzytwin.demo``. Needs no extra."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from fuzzytwin._utils.extras import install_command
from fuzzytwin._utils.files import atomic_write
from fuzzytwin._utils.progress import Progress
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.datasets import load_uci
from fuzzytwin.label_issues import find_label_issues

# With their defaults.
MODELS: dict[str, Any] = {
    "FuzzyTwinCommittee": FuzzyTwinCommittee(random_state=0),
    "LogisticRegression": LogisticRegression(max_iter=1000),
    "SVC (calibrated)": CalibratedClassifierCV(SVC(), ensemble=False),
    "RandomForestClassifier": RandomForestClassifier(random_state=0),
    "HistGradientBoostingClassifier": HistGradientBoostingClassifier(random_state=0),
}
SHARES = {"clean": 0.0, "20% flipped": 0.2}
TABLES = {"heart_cleveland": "heart disease", "sonar": "sonar", "hepatitis": "hepatitis"}
FOLDS = 5
STEPS = FOLDS * len(SHARES) * len(TABLES) + 1
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
    description = (
        "Compare classifiers with and without label noise, find flipped labels, and draw both as "
        f"{PICTURE}, which replaces the picture of an earlier run. Takes about 20 s."
    )
    argparse.ArgumentParser("python -m fuzzytwin.demo", description=description).parse_args()
    print(describe(*run_and_draw(PICTURE, True)))
    print(f"(The command needs: {install_command('cli')})")


def run_and_draw(out: str | os.PathLike[str], force: bool) -> tuple[dict[str, Any], str | None]:
    """Return the result of `run`, and the path of its picture (None without matplotlib)."""
    with Progress("starting", STEPS, enabled=sys.stderr.isatty(), transient=True) as bar:
        result = run(bar.begin)
    figure = picture(result)
    if figure is None:
        return result, None
    with atomic_write(out, overwrite=force) as temporary:
        figure.savefig(temporary, format="png", dpi=120)
    return result, os.fspath(out)


def run(step: Callable[[str], None]) -> dict[str, Any]:
    """Compute all results. `step` is called with the name of each step."""
    with threadpool_limits(1):  # threads slow down small tables
        scores = {name: _scores(share, step) for name, share in SHARES.items()}
        step("finding label issues")
        return {"scores": scores, **_label_issues()}


def describe(result: dict[str, Any], path: object) -> str:
    """Describe the result of `run`, name the picture, and list commands to try next."""
    issues = result["label_issues"]
    row = result["row"]
    low, high = issues["n_errors_interval"]
    table = [" " * 32 + "".join(f"{name:>22s}" for name in SHARES)]
    table.append(" " * 32 + f"{'accuracy':>13s}{'log loss':>9s}" * len(SHARES))
    for name in MODELS:
        cells = (result["scores"][share][name] for share in SHARES)
        shown = "".join(f"{cell['accuracy']:13.3f}{cell['log_loss']:9.3f}" for cell in cells)
        table.append(f"{name:32s}{shown}")
    paragraphs = [
        f"1. One model, nothing to tune. Means of {len(TABLES)} tables "
        f"({', '.join(TABLES.values())}), with labels as they are and with one in five of the "
        f"training labels flipped: accuracy and log loss (lower is better) in {FOLDS} folds.",
        f"2. Label errors are found. Breast cancer, {issues['rows']} rows, {issues['flipped']} "
        f"labels flipped: {issues['flagged']} label issues, {issues['hits']} of them flipped. "
        f"An estimated {low:.0f} to {high:.0f} labels are wrong (95% interval), about "
        f"{issues['n_errors']:.0f}. Lowest label quality: rows "
        f"{', '.join(map(str, issues['first']))}.",
        "3. Predictions come with their uncertainty. The least certain row of breast cancer has "
        f"the probabilities {row['probabilities']}. Its 99% prediction set is {row['set']}.",
    ]
    no_picture = f"A picture needs matplotlib. Install it with: {install_command('plot')}"
    about_picture = f"The picture is in {path}." if path else no_picture
    first, *others = (textwrap.fill(text, 80) for text in paragraphs)
    return "\n\n".join([first, "\n".join(table), *others, about_picture, NEXT])


def picture(result: dict[str, Any]) -> Any:
    """Draw log losses, and the label quality of flipped labels; None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    from fuzzytwin.plot import MembershipDisplay

    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    places = np.arange(len(MODELS))
    for i, share in enumerate(SHARES):
        losses = [result["scores"][share][name]["log_loss"] for name in MODELS]
        left.barh(places + 0.4 * i, losses, height=0.36, label=share, color=f"C{i}")
    left.set_yticks(places + 0.2, [name.partition(" ")[0] for name in MODELS])
    left.invert_yaxis()
    left.legend(title="training labels", fontsize=8, loc="lower right")
    left.set_xlim(right=1.45 * left.get_xlim()[1])  # room for the legend beside the bars
    left.set_title("Log loss on held-out rows, mean of three tables (lower is better)", fontsize=10)
    quality, is_flipped = result["drawn"]
    label = np.where(is_flipped, "flipped", "not flipped")
    MembershipDisplay(quality, label, np.arange(len(label)), n_named=0).plot(right)
    right.set_xlabel("label quality: probability that the given label is correct")
    right.set_title("Breast cancer: flipped labels have a low label quality", fontsize=10)
    return figure


def flip_labels(y: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Flip a share of the labels 0 and 1; also return which."""
    is_flipped = np.zeros(len(y), dtype=bool)
    rng = np.random.default_rng(seed)
    is_flipped[rng.choice(len(y), round(share * len(y)), replace=False)] = True
    return np.where(is_flipped, 1 - y, y), is_flipped


def _scores(share: float, step: Callable[[str], None]) -> dict[str, dict[str, float]]:
    """Cross-validate each model; only labels of training rows are flipped."""
    scores: dict[str, list[tuple[float, float]]] = {name: [] for name in MODELS}
    for table, title in TABLES.items():
        X, y = load_uci(table, return_X_y=True)
        y = np.unique(y, return_inverse=True)[1]
        P = {name: np.zeros((len(y), 2)) for name in MODELS}
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
        for fold, (train, test) in enumerate(folds.split(X, y)):
            step(f"{title}, {share:.0%} of labels flipped")
            preprocessor = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
            X_train = preprocessor.fit_transform(X[train])
            X_test = preprocessor.transform(X[test])
            labels, _ = flip_labels(y[train], share, fold)
            for name, model in MODELS.items():
                P[name][test] = model.fit(X_train, labels).predict_proba(X_test)
        for name, p in P.items():
            scores[name].append((float((p.argmax(axis=1) == y).mean()), log_loss(y, p)))
    means = {name: np.mean(values, axis=0).tolist() for name, values in scores.items()}
    return {name: {"accuracy": a, "log_loss": b} for name, (a, b) in means.items()}


def _label_issues() -> dict[str, Any]:
    """Flip a tenth of the labels, find them, and predict the least certain row."""
    X, y = load_breast_cancer(return_X_y=True)
    y_flipped, is_flipped = flip_labels(y, 0.1, 0)
    report = find_label_issues(X, y_flipped)
    model = FuzzyTwinCommittee(random_state=0).fit(X, y)
    P = model.predict_proba(X)
    uncertain = int(P.max(axis=1).argmin())
    names = np.array(["malignant", "benign"])
    in_set = model.predict_set(X[uncertain : uncertain + 1], 0.99)[0]
    return {
        "label_issues": {
            "rows": len(y),
            "flipped": int(is_flipped.sum()),
            "flagged": int(report.is_label_issue.sum()),
            "hits": int((report.is_label_issue & is_flipped).sum()),
            "n_errors": report.n_errors,
            "n_errors_interval": list(report.n_errors_interval),
            "first": report.ranked_rows[:8].tolist(),
        },
        "row": {
            "probabilities": ", ".join(map("{} {:.2f}".format, names, P[uncertain])),
            "set": " or ".join(names[in_set]) or "empty (the row is unlike every class)",
        },
        "drawn": (report.label_quality, is_flipped),
    }


if __name__ == "__main__":
    main()
