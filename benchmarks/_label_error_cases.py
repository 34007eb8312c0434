"""Tables with wrong labels: clean ones in two halves whose labels are exchanged, and real ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit, softmax
from scipy.stats import norm, rankdata
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
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
DRAWN = ("outcome", "overlap")  # the true classes are drawn from p(x)
RARE_SHARES, FEWEST = (0.02, 0.05, 0.1, 0.2), 12
OUTCOME_RATES = (0.0, 0.02, 0.05)
SLOPES = (1.0, 2.0, 4.0)  # of the log odds, in standard deviations of a score
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


def score(X, rng):
    """Normal scores of a random quadratic function of the leading principal components."""
    n_components = min(5, X.shape[1])
    Z = PCA(n_components, random_state=0, svd_solver="full").fit_transform(X)
    Z /= Z.std(axis=0) + 1e-12
    z = Z @ rng.normal(size=n_components) + 0.5 * Z[:, 0] * Z[:, -1]
    return norm.ppf((rankdata(z) - 0.5) / len(z))


def outcome(X, turn):
    """A rare outcome, drawn from p(x), and labels of which 0, 2 or 5% are wrong at random."""
    rng = np.random.default_rng([turn, 4])
    z = 2 * score(X, rng)
    share = max(RARE_SHARES[turn % 4], FEWEST / len(X))
    intercept = brentq(lambda b: expit(z + b).mean() - share, -50, 50)
    truth = (rng.random(len(z)) < expit(z + intercept)).astype(int)
    rate = OUTCOME_RATES[turn % 3]
    wrong = rng.choice(len(z), round(rate * len(z)), replace=False)
    labels = truth.copy()
    labels[wrong] = 1 - truth[wrong]
    return labels, truth, rate


def overlap(X, turn):
    """Two or three classes of similar size, drawn from p(x): no label is wrong."""
    rng = np.random.default_rng([turn, 5])
    K = 3 if turn % 3 == 2 else 2
    Z = SLOPES[turn // 3 % 3] * np.column_stack([score(X, rng) for _ in range(K - 1)])
    P = softmax(np.column_stack([np.zeros(len(Z)), Z]), axis=1)
    labels = (P.cumsum(axis=1) < rng.random(len(Z))[:, None]).sum(axis=1)
    return labels, labels, 0.0


def real():
    """Tables whose labels were wrong in fact: see `benchmarks._keel.REAL` for their sources."""
    for name, file in sorted(error_tables().items()):
        frame = pd.read_csv(file)
        truth, labels = frame.pop("truth").to_numpy(), frame.pop("label").to_numpy()
        rate = round(float((truth != labels).mean()), 3)
        yield Case("real", name, "real", rate, frame.to_numpy(float), labels, truth)


def certain():
    """Labels that cannot be wrong, with features that show them more or less."""
    names = ("pima", "magic", "wine", "cmc", "ring", "segment", "sonar", "page-blocks0")
    for place, name in enumerate(names):
        if name in KEEL and not has_keel():
            continue
        X, _ = table(name)
        rng = np.random.default_rng([place, 6])
        arms = rng.integers(0, 2 + place % 3, len(X))  # randomised arms, and their small effects
        effects = rng.normal(size=(arms.max() + 1, X.shape[1])) / np.sqrt(X.shape[1])
        yield f"arms, {name}", X + (0.3 + 0.1 * place) * effects[arms], arms
    for name in ("iris", "wine", "digits", "breast_cancer"):
        X, species = table(name)
        yield f"species, {name}", X[:600], species[:600]
    for place in range(12):
        rng = np.random.default_rng([place, 7])
        n = (200, 500, 1000, 2000)[place % 4]
        if place < 4:  # sex, by measures of the body; one sex is rare in some tables
            y = (rng.random(n) < (0.5, 0.3, 0.1, 0.05)[place]).astype(int)
            X = rng.normal(size=(n, 4)) + rng.uniform(0.3, 1.2, 4) * y[:, None]
            kind = "sex"
        elif place < 8:  # days of the week: the weekend differs
            y = np.arange(n) % 7
            X = rng.normal(size=(n, 6)) + (y >= 5)[:, None] + 0.5 * (y == 6)[:, None]
            kind = "days"
        else:  # three species in each of three genera
            y = rng.integers(0, 9, n)
            genera = 3 * rng.normal(size=(3, 5))
            X = rng.normal(size=(n, 5)) + genera[y // 3] + rng.normal(size=(9, 5))[y]
            kind = "species by genus"
        yield f"{kind}, {n} rows", X, y


def two_normal_classes(seed, n=500):
    """Two normal classes, two deviations apart, without label errors."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return np.column_stack([rng.normal(size=n) + 2 * y, rng.normal(size=n)]), y


def hospital(seed):
    """Visits of patients, a rare outcome, and labels that missed it in unclear cases.

    2,000 patients, about 4,200 visits, 7% "yes", 3% of the labels wrong, mostly "no" for "yes".
    Return X, labels, truth and patients.
    """
    rng = np.random.default_rng([seed, 8])
    patients = np.repeat(np.arange(2000), rng.choice([1, 2, 3, 4], 2000, p=[0.3, 0.4, 0.2, 0.1]))
    n = len(patients)
    X = rng.normal(size=(n, 8)) + 0.7 * rng.normal(size=(2000, 8))[patients]
    z = X[:, 0] + 0.8 * X[:, 1] + 0.6 * np.maximum(X[:, 2], 0) - 0.5 * X[:, 3]
    p = expit(1.6 * z - 4.9)
    truth = (rng.random(n) < p).astype(int)
    unclear = p * (1 - p) * np.where(truth == 1, 4.0, 0.4)
    wrong = rng.choice(n, round(0.03 * n), replace=False, p=unclear / unclear.sum())
    labels = truth.copy()
    labels[wrong] = 1 - truth[wrong]
    return X, labels, truth, patients


def confusable(seed, n=10_000, d=256, K=12, n_wrong=500, apart=0.11):
    """Embeddings of twelve classes in six confusable pairs, with errors within the pairs.

    Return X, labels and truth.
    """
    rng = np.random.default_rng([seed, 9])
    means = np.repeat(rng.normal(size=(K // 2, d)), 2, axis=0) * 0.25
    means += apart * rng.normal(size=(K, d))
    truth = rng.integers(0, K, n)
    X = means[truth] + rng.normal(size=(n, d)) * rng.uniform(0.5, 1.5, d)
    other = truth ^ 1
    closeness = ((X - means[truth]) ** 2).sum(axis=1) - ((X - means[other]) ** 2).sum(axis=1)
    share = expit((closeness - np.quantile(closeness, 0.9)) / (0.5 * closeness.std()))
    wrong = rng.choice(n, n_wrong, replace=False, p=share / share.sum())
    labels = truth.copy()
    labels[wrong] = other[wrong]
    return X, labels, truth


def cases(kind, everything=False, only=()):
    """All cases of a kind; each table has one rate, by turns, unless everything is wanted."""
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
        if kind in DRAWN:
            labels, truth, rate = (outcome if kind == "outcome" else overlap)(X, place)
            if np.bincount(labels).min() > 1:
                yield Case(half, name, kind, rate, X, labels, truth)
            continue
        X, y = cut(X, y)
        turn = (place + MADE.index(kind)) % 3
        for rate in RATES if everything else RATES[turn : turn + 1]:
            labels = exchanged(X, y, kind, rate)
            if len(np.unique(labels)) <= y.max():
                continue  # a class lost its last row
            yield Case(half, name, kind, rate, X, labels, y)
