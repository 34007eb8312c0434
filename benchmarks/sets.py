"""Conformal prediction sets: coverage and size, against split conformal on the same planes.

Two hundred random splits of three tables, of two, two and six classes: 60% of the rows to train
on, the rest to cover. Split conformal fits on half of the training rows, with the same settings,
and takes the quantile of the same scores from the other half. The binomial error is that of the
mean over all splits, from the spread between splits.

`--only settings` generates rows: 54 shapes and kernels, and difficult settings (soft labels with
class weights, a search, small weights, groups, a rare class).
`--only committee`: the splits of the tables with `FuzzyTwinCommittee`.
`--only weights`: splits of breast_cancer, pima and cmc (three classes), 300 rows to train on,
with weights of several kinds, for a committee and for planes. Coverage is that of the population
that the weights describe. Random weights are independent of the row, so that new rows count the
same. Class weights apply to new rows of the class too. The promise is the requested coverage, and
because sets are discrete, up to one effective row or group of the fit (of the class) more.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks._keel import has_keel, keel_table, say_what_runs
from benchmarks._tables import tasks
from fuzzytwin import FuzzyTwinCommittee, FuzzyTwinSVC, FuzzyTwinSVCCV
from fuzzytwin.core.conformal import prediction_sets
from fuzzytwin.datasets import load_uci
from reproduction.preprocessing import uci_preprocessor

SPLITS = 200
COVERAGES = (0.8, 0.9, 0.95)
KINDS = ("predict_set", "split", "predict_set, by class", "split, by class")
# Of the drawn settings: how often each is drawn, and new rows to cover.
REPEATS, NEW_ROWS = 25, 400
# Of the splits with weights: rows to learn from.
LEARNING_ROWS = 300


def tables():
    """Name, rows and labels of each table, encoded. Missing ones are printed."""
    names = ("breast_cancer", "pima", "satimage")
    say_what_runs(names if has_keel() else names[:2], names)
    yield "breast_cancer", *load_breast_cancer(return_X_y=True)
    for name, X, y in tasks():
        if name == "pima":
            yield name, np.asarray(uci_preprocessor(name).fit_transform(X), float), y
    if has_keel():
        table = keel_table("satimage")
        y = np.unique(table.pop("label"), return_inverse=True)[1]
        yield "satimage", table.to_numpy(float), y


def split_sets(A, a, B, coverage, class_conditional, seed):
    """Sets by split conformal: half of the rows for planes, half for scores."""
    order = np.random.default_rng(seed).permutation(len(a))
    learn, score = order[: len(a) // 2], order[len(a) // 2 :]
    model = FuzzyTwinSVC(calibration="loo").fit(A[learn], a[learn])
    P = model.predict_proba(A[score])
    own = np.searchsorted(model.classes_, a[score])
    scores = np.column_stack([1 - P[np.arange(len(own)), own], own, np.ones(len(own))])
    scores = scores[np.argsort(scores[:, 0], kind="stable")]
    return [
        prediction_sets(scores, model.predict_proba(B), c, class_conditional=class_conditional)
        for c in coverage
    ]


def one_split(X, y, seed):
    """Coverage, least coverage of a class and mean size of every kind of set."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[: 6 * len(y) // 10], order[6 * len(y) // 10 :]
    prepare = StandardScaler().fit(X[train])
    A, B, a, b = prepare.transform(X[train]), prepare.transform(X[test]), y[train], y[test]
    model = FuzzyTwinSVC(calibration="loo").fit(A, a)
    found = []
    for within in (False, True):
        ours = [model.predict_set(B, c, class_conditional=within) for c in COVERAGES]
        theirs = split_sets(A, a, B, COVERAGES, within, seed)
        for sets in (ours, theirs):
            hits = [s[np.arange(len(b)), b] for s in sets]
            by_class = [[h[b == k].mean() for k in range(y.max() + 1)] for h in hits]
            found.append(([h.mean() for h in hits], by_class, [s.sum(axis=1).mean() for s in sets]))
    return found


def committee_split(X, y, seed):
    """Coverage, coverage of each class and mean size of the sets of a committee."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[: 6 * len(y) // 10], order[6 * len(y) // 10 :]
    model, b = FuzzyTwinCommittee(random_state=0).fit(X[train], y[train]), y[test]
    found = []
    for within in (False, True):
        sets = [model.predict_set(X[test], c, class_conditional=within) for c in COVERAGES]
        hits = [s[np.arange(len(b)), b] for s in sets]
        by_class = [[h[b == k].mean() for k in range(y.max() + 1)] for h in hits]
        found.append(([h.mean() for h in hits], by_class, [s.sum(axis=1).mean() for s in sets]))
    return found


def drawn(rng, n, d=4, K=2, shift=1.2, share=None):
    """Rows of classes whose means differ in one column each; `share` is that of the last class."""
    chance = None if share is None else np.append(np.full(K - 1, (1 - share) / (K - 1)), share)
    y = rng.choice(K, size=n, p=chance)
    X = rng.normal(size=(n, d))
    X[np.arange(n), y % d] += shift
    return X, y


def one_informative(rng, n, d):
    """Rows of which one column tells the label."""
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)


def covered(make: Callable, fit: Callable, *, only: int | None = None, **asked) -> Callable:
    """Make a function of a seed: coverage of new rows (of one class, if `only` is given)."""

    def once(seed):
        rng = np.random.default_rng(seed)
        model = fit(rng, *make(rng))
        X, y = make(rng)
        X, y = X[:NEW_ROWS], y[:NEW_ROWS]
        hits = model.predict_set(X, 0.9, **asked)[np.arange(len(y)), y]
        return hits.mean() if only is None else hits[y == only].mean()

    return once


def repeated(X, y, times) -> Callable:
    """Make a function of a seed: coverage of new rows if rows of the fit are duplicated."""

    def once(seed):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(y))
        train, test = order[:120], order[120:]
        prepare = StandardScaler().fit(X[train])
        groups = np.repeat(np.arange(len(train)), times)
        A = np.repeat(prepare.transform(X[train]), times, axis=0)
        A += 0.02 * rng.normal(size=A.shape)
        model = FuzzyTwinSVC(calibration="loo").fit(A, y[train][groups], groups=groups)
        return model.predict_set(prepare.transform(X[test]), 0.9)[range(len(test)), y[test]].mean()

    return once


def settings() -> Iterator[tuple[str, Callable]]:
    """Name each setting, with a function of a seed that gives its coverage."""

    def fitted(rng, X, y, n=None, **parameters):
        return FuzzyTwinSVC(calibration="loo", **parameters).fit(X[:n], y[:n])

    kernels = ("linear", "rbf", "laplacian")
    for n, d, K, kernel in product((60, 200, 600), (3, 10, 40), (2, 4), kernels):
        yield (
            f"{n} x {d}, {K} classes, {kernel}",
            covered(
                lambda rng, n=n, d=d, K=K: drawn(rng, max(n, NEW_ROWS), d, K),
                lambda rng, X, y, n=n, k=kernel: fitted(rng, X, y, n, kernel=k, alpha="auto"),
            ),
        )

    def soft(rng, X, y):
        model = FuzzyTwinSVC(calibration="loo", class_weight="balanced")
        return model.fit(X, y, membership=np.eye(2)[y])

    yield "soft labels, class_weight", covered(lambda rng: drawn(rng, 400, share=0.1), soft)

    def searched(rng, X, y):
        return FuzzyTwinSVCCV(kernels="auto", calibration="loo").fit(X[:40], y[:40])

    yield (
        "FuzzyTwinSVCCV(kernels='auto'), 40 x 5",
        covered(lambda rng: one_informative(rng, NEW_ROWS, 5), searched),
    )

    def light(rng, X, y):
        weight = rng.uniform(0.5, 1.5, size=len(y))
        return FuzzyTwinSVC(calibration="loo", alpha="auto").fit(X, y, weight / weight.sum())

    yield "weights that sum to 1", covered(lambda rng: drawn(rng, 400), light)

    def visits(rng, X, y, kernel):
        X, y, groups = (np.repeat(part[:80], 5, axis=0) for part in (X, y, np.arange(len(y))))
        X = X + 0.05 * rng.normal(size=X.shape)
        model = FuzzyTwinSVC(calibration="loo", kernel=kernel, alpha="auto")
        return model.fit(X, y, groups=groups)

    for kernel in ("linear", "rbf"):
        yield (
            f"80 groups of 5 near copies, {kernel}",
            covered(
                lambda rng: drawn(rng, NEW_ROWS),
                lambda rng, X, y, k=kernel: visits(rng, X, y, k),
            ),
        )
    few = [table for table in tables() if len(table[2]) < 1000]
    for name, X, y in [*few, ("wine", *load_wine(return_X_y=True))]:
        for times in (1, 2, 5, 10):
            yield f"{name}, rows {times} times with jitter, groups", repeated(X, y, times)
    yield (
        "a rare class of 5 %, class_conditional=True",
        covered(lambda rng: drawn(rng, 1000, share=0.05), fitted, only=1, class_conditional=True),
    )


def run_settings(repeats: int) -> None:
    """Print the coverage of every setting. 0.9 is requested."""
    less = more = count = 0
    for name, once in settings():
        found = np.array([once(seed) for seed in range(repeats)])
        mean, error = np.nanmean(found), np.nanstd(found, ddof=1) / np.sqrt(repeats)
        too_little, too_much = mean < 0.9 - 2 * error, mean > 0.9 + 2 * error
        less, more, count = less + too_little, more + too_much, count + 1
        note = "less than promised" if too_little else "more" if too_much else ""
        print(f"{name:44s}{mean:8.4f} ({error:.4f})  {note}", flush=True)
    print(
        f"\nasked 0.9, {repeats} draws each: of {count} settings, {less} cover less by more than "
    )
    print(f"two standard errors and {more} more")


def weighted_tables():
    """Name, rows and labels of the tables that are split with weights."""
    for name, X, y in tables():
        if name in ("breast_cancer", "pima"):
            yield name, X, y
    X, y = load_uci("cmc", return_X_y=True)
    X = np.asarray(uci_preprocessor("cmc").fit_transform(X), float)
    yield "cmc", X, np.unique(y, return_inverse=True)[1]


def drawn_weights(kind, rng, y):
    """Weights of rows, and of new rows of each class."""
    K = y.max() + 1
    if kind == "of classes":  # the rarest class weighs 3
        of_class = np.where(np.arange(K) == np.bincount(y).argmin(), 3.0, 1.0)
        return of_class[y], of_class
    weights = {
        "none": np.ones(len(y)),
        "whole, 1 to 3": rng.integers(1, 4, len(y)).astype(float),
        "fractions": rng.exponential(size=len(y)),
        "in groups": rng.integers(1, 4, len(y)).astype(float),
    }
    return weights[kind], np.ones(K)


WEIGHTS = ("none", "whole, 1 to 3", "fractions", "of classes", "in groups")


def weighted_split(model, kind, X, y, seed):
    """Coverage of new rows on average, and within each class by class-conditional sets."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    train, test = order[:LEARNING_ROWS], order[LEARNING_ROWS:]
    prepare = StandardScaler().fit(X[train])
    A, B, a, b = prepare.transform(X[train]), prepare.transform(X[test]), y[train], y[test]
    weight, of_class = drawn_weights(kind, rng, a)
    groups = None
    if kind == "in groups":  # a hundred groups of a row and two near copies
        rows = np.repeat(np.arange(LEARNING_ROWS // 3), 3)
        A = A[rows] + 0.05 * rng.normal(size=(len(rows), A.shape[1]))
        B = B + 0.05 * rng.normal(size=B.shape)  # a new group is one of them
        a, groups = a[rows], rows
    fitted = clone(model).fit(A, a, weight, groups=groups)
    new, found = of_class[b], []
    for coverage in COVERAGES:
        hits = fitted.predict_set(B, coverage)[np.arange(len(b)), b]
        within = fitted.predict_set(B, coverage, class_conditional=True)[np.arange(len(b)), b]
        by_class = [within[b == k].mean() for k in range(y.max() + 1)]
        found.append((np.average(hits, weights=new), np.mean(by_class)))
    units = np.arange(len(a)) if groups is None else groups
    rows = [effective_number(weight, units)]
    rows.append(min(effective_number(weight[a == k], units[a == k]) for k in np.unique(a)))
    return found, 1 / (1 + np.array(rows))


def effective_number(weight, units):
    """Effective number of units (groups, or rows) of these weights."""
    total = np.bincount(units, weight)
    return total.sum() ** 2 / (total**2).sum()


def run_weights(splits: int, only: str | None) -> None:
    """Print coverage with weights of every kind, of a committee and of planes."""
    models = {
        "committee": FuzzyTwinCommittee(random_state=0),
        "planes": FuzzyTwinSVC(calibration="loo"),
        "planes, rbf": FuzzyTwinSVC(
            kernel="rbf", alpha="auto", calibration="loo", n_landmarks=LEARNING_ROWS
        ),
    }
    print("coverage of new rows (its error), and of classes by class-conditional sets;")
    print("* less than promised by more than two errors, + more")
    print(f"{'':44s}" + "".join(f"{c:>15.0%}  by class      " for c in COVERAGES))
    for name, X, y in weighted_tables():
        for (of_model, model), kind in product(models.items(), WEIGHTS):
            if only not in (None, name):
                continue
            found = [weighted_split(model, kind, X, y, seed) for seed in range(splits)]
            shares = np.array([part for part, _ in found])
            one_row = np.mean([part for _, part in found], axis=0)
            mean, error = shares.mean(axis=0), shares.std(axis=0, ddof=1) / np.sqrt(splits)
            cells = []
            for c, means, errors in zip(COVERAGES, mean, error, strict=True):
                for m, e, row in zip(means, errors, one_row, strict=True):
                    mark = "*" if m < c - 2 * e else "+" if m > c + row + 2 * e else " "
                    cells.append(f"{m:8.4f} ({e:.4f}){mark}")
            print(f"{name:14s}{of_model:13s}{kind:15s}" + " ".join(cells), flush=True)


def run(arguments: list[str]) -> None:
    """`python -m benchmarks sets [--only settings|committee|weights] [times]`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks sets")
    parser.add_argument("times", type=int, nargs="?", help="splits of a table, or draws")
    parser.add_argument("--only", choices=("tables", "settings", "committee", "weights"))
    parser.add_argument("--table", help="one of the tables with weights")
    given = parser.parse_args(arguments)
    with threadpool_limits(1):
        if given.only == "settings":
            run_settings(given.times or REPEATS)
        elif given.only == "committee":
            run_tables(given.times or SPLITS, committee_split, ("predict_set", "by class"))
        elif given.only == "weights":
            run_weights(given.times or SPLITS, given.table)
        else:
            run_tables(given.times or SPLITS, one_split, KINDS)


def run_tables(splits: int, one: Callable, kinds: tuple[str, ...]) -> None:
    """Print coverage and size on the tables, of each kind of set."""
    for name, X, y in tables():
        results = [one(X, y, seed) for seed in range(splits)]
        print(f"\n{name}: {len(y)} rows, {y.max() + 1} classes, {splits} splits")
        print(f"{'':24s}" + "".join(f"{c:>10.0%} (error) least class  size" for c in COVERAGES))
        for i, kind in enumerate(kinds):
            cover = np.array([r[i][0] for r in results])
            least = np.nanmean([r[i][1] for r in results], axis=0).min(axis=1)
            size = np.mean([r[i][2] for r in results], axis=0)
            error = cover.std(axis=0, ddof=1) / np.sqrt(splits)
            cells = zip(cover.mean(axis=0), error, least, size, strict=True)
            print(
                f"{kind:24s}"
                + "".join(f"{c:10.4f} ({e:.4f}) {k:11.3f} {s:5.3f}" for c, e, k, s in cells),
                flush=True,
            )
