"""A first look: ``python -m fuzzytwin.demo``. Needs nothing but the package itself."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.svm import LinearSVC

from fuzzytwin.datasets import load_uci, make_xor, uci_preprocessor
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.memberships import NeighborMembership

MODELS: dict[str, Any] = {
    "FuzzyTwinSVC": FuzzyTwinSVC(),
    "FuzzyTwinSVC, neighbor memberships": FuzzyTwinSVC(membership="neighbor", rule="residual"),
    "LST-SVM (the paper's baseline)": FuzzyTwinSVC(alpha=0.0),
    "LogisticRegression": LogisticRegression(max_iter=1000),
    "LinearSVC": LinearSVC(),
}


ABOUT = (
    "Heart disease (Cleveland): 303 patients, 13 columns, disease yes or no.\n"
    "Accuracy in 3 x 10 folds; only training labels are flipped."
)
HEADS = ("clean", "20 % of labels flipped")


def main() -> None:
    """Compare classifiers on a shipped table, clean and with a fifth of the labels flipped."""
    X, y = data()
    print(f"{ABOUT}\n")
    print(f"{'':36s}{HEADS[0]:>8s}{HEADS[1]:>26s}")
    clean, noisy = (accuracies(X, y, flip) for flip in (0.0, 0.2))
    for name in MODELS:
        print(f"{name:36s}{clean[name]:8.3f}{noisy[name]:26.3f}")

    print(f"\n{in_words(*found_flips(X, y), len(y))}")


def data() -> tuple[Any, Any]:
    """The table, which ships with the package."""
    X, y = load_uci("heart_cleveland", return_X_y=True)
    return X, y


def accuracies(X: Any, y: Any, flip: float) -> dict[str, float]:
    """Share of right test labels of each model; everything is fitted on training rows alone."""
    hits, rows = dict.fromkeys(MODELS, 0), 0
    splits = RepeatedStratifiedKFold(n_splits=10, n_repeats=3, random_state=0).split(X, y)
    for fold, (train, test) in enumerate(splits):
        prepare = uci_preprocessor("heart_cleveland")
        A, B = prepare.fit_transform(X[train]), prepare.transform(X[test])
        labels, _ = flip_labels(y[train], flip, np.random.default_rng(fold))
        for name, model in MODELS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                hits[name] += int((model.fit(A, labels).predict(B) == y[test]).sum())
        rows += len(test)
    return {name: count / rows for name, count in hits.items()}


def doubts(X: Any, y: Any) -> tuple[Any, Any]:
    """Degrees of samples a fifth of whose labels were flipped, and which were."""
    Z = np.asarray(uci_preprocessor("heart_cleveland").fit_transform(X))
    given, wrong = flip_labels(y, 0.2, np.random.default_rng(0))
    return NeighborMembership()(Z, given), wrong


def found_flips(X: Any, y: Any) -> tuple[int, int]:
    """How many flipped labels are among as many most doubtful samples; and how many there are."""
    degrees, wrong = doubts(X, y)
    doubtful = np.argsort(degrees, kind="stable")[: wrong.sum()]
    return int(wrong[doubtful].sum()), int(wrong.sum())


def in_words(found: int, wrong: int, n: int) -> str:
    """What `found_flips` found among n samples, beside what guessing would."""
    return (
        f"{found} of the {wrong} most doubted samples are flipped ones; chance would give "
        f"{wrong * wrong / n:.0f}."
    )


def picture(X: Any, y: Any) -> Any:
    """Two fuzzy planes, and how degrees give flipped labels away. Needs matplotlib."""
    from matplotlib.figure import Figure

    from fuzzytwin.plot import MembershipDisplay, PlanesDisplay

    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    points, side, degrees = make_xor(noise=0.15, random_state=0)
    model = FuzzyTwinSVC(planes="fuzzy", C=0.03, alpha=0.0, margin_width=2.0)
    model.fit(points, side, membership=degrees)
    PlanesDisplay.from_estimator(model, points, side, degrees=degrees, ax=left)
    left.set_title("Two fuzzy planes; the size of a sample is its degree", fontsize=10)
    degrees, wrong = doubts(X, y)
    label = np.where(wrong, "flipped", "left as it is")
    MembershipDisplay(degrees, label, np.arange(len(label)), n_doubtful=0).plot(right)
    right.set_xlabel("degree of membership")
    right.set_title("Heart disease: degrees give flipped labels away", fontsize=10)
    return figure


def flip_labels(y: Any, share: float, rng: np.random.Generator) -> tuple[Any, Any]:
    """Exchange a share of binary labels; also tell which."""
    wrong = np.zeros(len(y), dtype=bool)
    wrong[rng.choice(len(y), round(share * len(y)), replace=False)] = True
    return np.where(wrong, y.min() + y.max() - y, y), wrong


if __name__ == "__main__":
    main()
