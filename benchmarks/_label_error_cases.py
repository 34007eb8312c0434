"""Tables with wrong labels: clean ones in two halves whose labels are exchanged, and real ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks._keel import KEEL, REAL, error_tables, has_keel, keel_table, say_what_runs
from fuzzytwin.datasets import list_uci, load_uci
from reproduction.preprocessing import uci_preprocessor

HALVES = {
    "chosen on": (
        "australian", "bupa", "heart_cleveland", "heart_statlog", "pima", "banana", "magic",
        "chess", "yeast4", "yeast6", "page-blocks0", "car-good", "breast_cancer", "iris",
        "satimage", "penbased", "texture",
    ),
    "confirmed on": (
        "cmc", "hepatitis", "sonar", "votes", "wpbc", "ring", "twonorm", "segment0", "abalone19",
        "abalone9-18", "winequality-red-4", "poker-9_vs_7", "wine", "splice", "segment",
        "marketing", "optdigits", "digits", "letter",
    ),
}  # fmt: skip
MADE = ("uniform", "class", "pair", "border")
RATES = (0.05, 0.15, 0.3)
MIXED, MIXED_RATES = ("uniform", "pair", "class"), (0.1, 0.2, 0.3)
SHIPPED = {
    "iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer,
    "digits": load_digits,
}  # fmt: skip
MOST_ROWS, MANY_CLASSES = 600, 6  # tables of many classes are cut: boosting takes minutes else


@dataclass(frozen=True)
class Case:
    """One table with wrong labels."""

    half: str
    name: str
    kind: str
    rate: float
    X: np.ndarray
    labels: np.ndarray
    truth: np.ndarray

    @property
    def key(self) -> str:
        return f"{self.name}, {self.kind}, {self.rate}"

    @property
    def wrong(self) -> np.ndarray:
        return self.labels != self.truth


def table(name):
    """Rows as numbers, scaled, and labels from 0 on."""
    if name in list_uci():
        X, y = load_uci(name, return_X_y=True)
        X = uci_preprocessor(name).fit_transform(X)
    elif name in SHIPPED:
        X, y = SHIPPED[name](return_X_y=True)
        X = StandardScaler().fit_transform(X)
    else:
        frame = keel_table(name)
        y = frame.pop("label")
        X = make_column_transformer(
            (StandardScaler(), make_column_selector(dtype_include="number")),
            remainder=OneHotEncoder(sparse_output=False),
        ).fit_transform(frame)
    return np.asarray(X, float), np.unique(np.asarray(y).astype(str), return_inverse=True)[1]


def cut(X, y):
    """Keep at most `MOST_ROWS` rows of tables of many classes."""
    if y.max() + 1 < MANY_CLASSES or len(y) <= MOST_ROWS:
        return X, y
    some = np.sort(np.random.default_rng(0).choice(len(y), MOST_ROWS, replace=False))
    return X[some], np.unique(y[some], return_inverse=True)[1]


def uncertainty(X, y):
    """One minus the largest out-of-bag probability of a forest, and its likeliest other class."""
    forest = RandomForestClassifier(300, oob_score=True, random_state=0).fit(X, y)
    P = np.nan_to_num(forest.oob_decision_function_)
    doubt = 1 - P.max(axis=1)
    P[np.arange(len(y)), y] = -1
    return doubt, P.argmax(axis=1)


def exchanged(X, y, kind, rate):
    """Labels of which some are wrong.

    uniform: of any row, into any class. pair: of any row, into the class whose mean is nearest.
    class: rows of the largest class. border: with a probability that grows with the uncertainty of
    a forest, into the class that it thinks likeliest; at most one half, so it may be fewer rows.
    """
    number = ("uniform", "pair", "class", "border").index(kind)
    rng = np.random.default_rng([int(100 * rate), number])
    K, labels, rows = y.max() + 1, y.copy(), np.arange(len(y))
    if kind == "border":
        doubt, other = uncertainty(X, y)
        shares = np.geomspace(0.01, 1000, 400)[:, None] * (doubt + 0.01)
        shares = np.minimum(shares, 0.5)
        share = shares[np.abs(shares.mean(axis=1) - rate).argmin()]
        wrong = np.flatnonzero(rng.random(len(y)) < share)
        labels[wrong] = other[wrong]
        return labels
    if kind == "class":
        rows = np.flatnonzero(y == np.bincount(y).argmax())
    wrong = rng.choice(rows, round(rate * len(rows)), replace=False)
    if kind == "pair":
        means = np.array([X[y == k].mean(axis=0) for k in range(K)])
        apart = ((means[:, None] - means) ** 2).sum(axis=-1)
        np.fill_diagonal(apart, np.inf)
        labels[wrong] = apart.argmin(axis=1)[y[wrong]]
    else:
        labels[wrong] = (y[wrong] + rng.integers(1, K, len(wrong))) % K
    return labels


def real():
    """Tables whose labels were wrong in fact: see `benchmarks._keel.REAL` for their sources."""
    for name, file in sorted(error_tables().items()):
        frame = pd.read_csv(file)
        truth, labels = frame.pop("truth").to_numpy(), frame.pop("label").to_numpy()
        rate = round(float((truth != labels).mean()), 3)
        yield Case("real", name, "real", rate, frame.to_numpy(float), labels, truth)


def cases(kind, everything=False, only=()):
    """All cases of a kind; each table has one rate, by turns, unless everything is wanted.

    mixed: the 108 cases of earlier versions, of 10, 20 and 30 %.
    """
    if kind == "real":
        say_what_runs(error_tables(), REAL)
        yield from (case for case in real() if not only or case.name in only)
        return
    names = [(half, name) for half, some in HALVES.items() for name in some]
    here = [name for _, name in names if name not in KEEL or has_keel()]
    say_what_runs(here, [name for _, name in names])
    for place, (half, name) in enumerate(names):
        if name not in here or (only and name not in only):
            continue
        X, y = table(name)
        if kind == "mixed":
            pairs = [(each, MIXED_RATES[(place + i) % 3]) for i, each in enumerate(MIXED)]
        else:
            X, y = cut(X, y)
            turn = (place + MADE.index(kind)) % 3
            pairs = [(kind, rate) for rate in (RATES if everything else RATES[turn : turn + 1])]
        for each, rate in pairs:
            labels = exchanged(X, y, each, rate)
            if len(np.unique(labels)) <= y.max():
                continue  # a class lost its last row
            yield Case(half, name, each if kind != "mixed" else f"mixed {each}", rate, X, labels, y)
