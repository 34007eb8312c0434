"""A first look: ``python -m fuzzytwin.demo``. Needs nothing but the package itself."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from fuzzytwin._utils.extras import install_command
from fuzzytwin._utils.files import replacing
from fuzzytwin._utils.progress import Progress
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.datasets import load_uci, uci_preprocessor
from fuzzytwin.doubts import find_doubtful

# As they come: nobody has tuned anything.
MODELS: dict[str, Any] = {
    "FuzzyTwinCommittee": FuzzyTwinCommittee(random_state=0),
    "LogisticRegression": LogisticRegression(max_iter=1000),
    "SVC (calibrated)": CalibratedClassifierCV(SVC(), ensemble=False),
    "RandomForestClassifier": RandomForestClassifier(random_state=0),
    "HistGradientBoostingClassifier": HistGradientBoostingClassifier(random_state=0),
}
SHARES = {"clean": 0.0, "20 % flipped": 0.2}
TABLES = {"heart_cleveland": "heart disease", "sonar": "sonar", "hepatitis": "hepatitis"}
FOLDS = 5
STEPS = FOLDS * len(SHARES) * len(TABLES) + 1
PICTURE = "fuzzytwin-demo.png"
NEXT = """Try next, in Python:
  from fuzzytwin import FuzzyTwinCommittee
  model = FuzzyTwinCommittee().fit(X, y)   # X: numbers; y: labels
  model.predict_proba(X_new)               # probability of every class
or on a table of your own, with gaps and categories (CSV, Excel, Parquet):
  fuzzytwin train DATA.csv --target COLUMN --report report.html
  fuzzytwin doubts DATA.csv --target COLUMN
No table at hand? This makes one:
  fuzzytwin generate patients patients.csv"""


def main() -> None:
    """Show what the library does, and say what to try next."""
    print(in_words(*look(PICTURE, True)))
    print(f"(The command needs: {install_command('cli')})")


def look(out: str | os.PathLike[str], force: bool) -> tuple[dict[str, Any], str | None]:
    """Return what `run` found, and where its picture is; None without matplotlib."""
    with Progress("starting", STEPS, wanted=sys.stderr.isatty(), transient=True) as bar:
        found = run(bar.begin)
    figure = picture(found)
    if figure is None:
        return found, None
    with replacing(out, overwrite=force) as draft:
        figure.savefig(draft, format="png", dpi=120)
    return found, os.fspath(out)


def run(step: Callable[[str], None]) -> dict[str, Any]:
    """Compute all that is shown; `step` is called with what begins."""
    with threadpool_limits(1):  # small tables: threads would only wait for each other
        scores = {name: _scores(share, step) for name, share in SHARES.items()}
        step("looking for wrong labels")
        return {"scores": scores, **_doubts()}


def in_words(found: dict[str, Any], drawn: object) -> str:
    """Write what `run` found for people, where the picture is, and what to try next."""
    doubts, row = found["doubts"], found["row"]
    low, high = doubts["n_wrong_interval"]
    table = [" " * 32 + "".join(f"{name:>22s}" for name in SHARES)]
    for name in MODELS:
        cells = (found["scores"][share][name] for share in SHARES)
        shown = "".join(f"{cell['accuracy']:13.3f}{cell['log_loss']:9.3f}" for cell in cells)
        table.append(f"{name:32s}{shown}")
    words = [
        f"1. One model, nothing to tune. Means of {len(TABLES)} tables "
        f"({', '.join(TABLES.values())}), with labels as they are and with one in five of the "
        f"training labels flipped: accuracy and log loss (lower is better) in {FOLDS} folds.",
        f"2. Wrong labels are found. Breast cancer, {doubts['rows']} rows, {doubts['flipped']} "
        f"labels flipped: {doubts['flagged']} rows are flagged, {doubts['hits']} of them flipped "
        f"ones; about {doubts['n_wrong']:.0f} ({low:.0f} to {high:.0f}) labels are said to be "
        f"wrong. The most doubtful rows: {', '.join(map(str, doubts['first']))}.",
        "3. Answers say how sure they are. A row of breast cancer that is hard to tell: "
        f"probabilities {row['probabilities']}; with 99 % coverage, the set of labels is "
        f"{row['set']}.",
    ]
    needed = f"A picture needs matplotlib; install it with: {install_command('plot')}"
    place = f"The picture is in {drawn}." if drawn else needed
    first, *rest = (textwrap.fill(text, 80) for text in words)
    return "\n\n".join([first, "\n".join(table), *rest, place, NEXT])


def picture(found: dict[str, Any]) -> Any:
    """Draw log losses, and how degrees give flipped labels away; None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    from fuzzytwin.plot import MembershipDisplay

    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    places = np.arange(len(MODELS))
    for i, share in enumerate(SHARES):
        losses = [found["scores"][share][name]["log_loss"] for name in MODELS]
        left.barh(places + 0.4 * i, losses, height=0.36, label=share, color=f"C{i}")
    left.set_yticks(places + 0.2, [name.partition(" ")[0] for name in MODELS])
    left.invert_yaxis()
    left.legend(title="training labels", fontsize=8)
    left.set_title("Log loss on rows left out, mean of three tables (lower is better)", fontsize=10)
    degrees, wrong = found["drawn"]
    label = np.where(wrong, "flipped", "left as it is")
    MembershipDisplay(degrees, label, np.arange(len(label)), n_doubtful=0).plot(right)
    right.set_xlabel("degree to which the given label is right")
    right.set_title("Breast cancer: degrees give flipped labels away", fontsize=10)
    return figure


def flip_labels(y: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Exchange a share of labels 0 and 1; also return which."""
    wrong = np.zeros(len(y), dtype=bool)
    rng = np.random.default_rng(seed)
    wrong[rng.choice(len(y), round(share * len(y)), replace=False)] = True
    return np.where(wrong, 1 - y, y), wrong


def _scores(share: float, step: Callable[[str], None]) -> dict[str, dict[str, float]]:
    """Measure each model; all is fitted on training rows alone, and only their labels flipped."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in MODELS}
    for table, words in TABLES.items():
        X, y = load_uci(table, return_X_y=True)
        y = np.unique(y, return_inverse=True)[1]
        P = {name: np.zeros((len(y), 2)) for name in MODELS}
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
        for fold, (train, test) in enumerate(folds.split(X, y)):
            step(f"{words}, {share:.0%} of labels flipped")
            prepare = uci_preprocessor(table)
            A, B = prepare.fit_transform(X[train]), prepare.transform(X[test])
            labels, _ = flip_labels(y[train], share, fold)
            for name, model in MODELS.items():
                P[name][test] = model.fit(A, labels).predict_proba(B)
        for name, p in P.items():
            found[name].append((float((p.argmax(axis=1) == y).mean()), log_loss(y, p)))
    means = {name: np.mean(values, axis=0).tolist() for name, values in found.items()}
    return {name: {"accuracy": a, "log_loss": b} for name, (a, b) in means.items()}


def _doubts() -> dict[str, Any]:
    """Flip a tenth of the labels, look for them, and ask about a row that is hard to tell."""
    X, y = load_breast_cancer(return_X_y=True)
    given, wrong = flip_labels(y, 0.1, 0)
    report = find_doubtful(X, given)
    model = FuzzyTwinCommittee(random_state=0).fit(X, y)
    P = model.predict_proba(X)
    hard = int(P.max(axis=1).argmin())
    names = np.array(["malignant", "benign"])
    inside = model.predict_set(X[hard : hard + 1], 0.99)[0]
    return {
        "doubts": {
            "rows": len(y),
            "flipped": int(wrong.sum()),
            "flagged": int(report.doubtful.sum()),
            "hits": int((report.doubtful & wrong).sum()),
            "n_wrong": report.n_wrong,
            "n_wrong_interval": list(report.n_wrong_interval),
            "first": report.order[:8].tolist(),
        },
        "row": {
            "probabilities": ", ".join(map("{} {:.2f}".format, names, P[hard])),
            "set": " or ".join(names[inside]) or "empty (the row is strange with any label)",
        },
        "drawn": (report.degrees, wrong),
    }


if __name__ == "__main__":
    main()
