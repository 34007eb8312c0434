"""The ten tables as classification tasks, and noise for their labels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.model_selection import StratifiedKFold

from fuzzytwin.datasets import list_uci, load_uci
from reproduction.preprocessing import uci_preprocessor

FLIPPED = 0.2


def tasks() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, rows and binary labels of each table (cmc: no use against use)."""
    for name in list_uci():
        X, y = load_uci(name, return_X_y=True)
        if name == "cmc":
            y = (y != 1).astype(int)
        yield name, X, np.unique(y, return_inverse=True)[1]


def outer_folds(name, X, y, *, seed, flip, folds=10):
    """Training and test parts, imputed, encoded and scaled by the training rows only.

    With `flip`, that share of the training labels is flipped, and test labels never are. Training
    rows come in random order, because some tables are sorted and inner folds are often cut
    without shuffling.
    """
    splits = StratifiedKFold(folds, shuffle=True, random_state=seed).split(X, y)
    for fold, (train, test) in enumerate(splits):
        rng = np.random.default_rng([seed, fold])
        train = rng.permutation(train)
        prepare = uci_preprocessor(name)
        A, B = prepare.fit_transform(X[train]), prepare.transform(X[test])
        labels = y[train].copy()
        wrong = rng.choice(len(labels), round(flip * len(labels)), replace=False)
        labels[wrong] = 1 - labels[wrong]
        yield np.asarray(A, float), labels, np.asarray(B, float), y[test]
