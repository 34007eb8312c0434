"""The paper's twelve errors, measured on the ten tables.

Each table is run through every reading of the disputed formulas: as printed, as the gradients
have it, and as the objective means it. Penalties are 1, there is no ridge and memberships are
the paper's (distance to the centre), unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import SVC

from fuzzytwin._utils.types import Array
from fuzzytwin.core import distances
from fuzzytwin.memberships import CenterMembership
from fuzzytwin.twin._svc import FuzzyTwinSVC
from reproduction import uci
from reproduction.cache import Cell, Records
from reproduction.literal import FORMS, fit_m2
from reproduction.noise import spoil_rows
from reproduction.preprocessing import uci_preprocessor
from reproduction.protocol import best_point, load_task, outer_fold, prepared
from reproduction.scale import Scale

RULES = ("distance", "residual")
CLAIMED = ("FLST-M2", "M2+")  # methods that error 11 is about
OUTLIERS = 0.2


def cells(scale: Scale) -> Iterator[Cell]:
    """List the cells of the audit."""
    for table in scale.tables:
        for form in FORMS:
            yield form_cell(scale, table, form)
        yield readings_cell(scale, table)
        yield Cell("audit.facts", {"table": table})
        for fold in range(scale.folds):
            yield reference_cell(scale, table, fold)
    yield from uci.cells(scale, CLAIMED)


def form_cell(scale: Scale, table: str, form: str) -> Cell:
    """Make the cell of one form of model M2 on one table."""
    Cs = [2.0**p for p in (range(-6, 7, 3) if scale.quick else range(-8, 9, 2))]
    settings = {"table": table, "form": form, "folds": scale.folds, "Cs": Cs}
    return Cell("audit.form_accuracy", settings)


def readings_cell(scale: Scale, table: str) -> Cell:
    """Make the cell of all readings of the other formulas on one table."""
    return Cell("audit.readings", {"table": table, "folds": scale.folds})


def reference_cell(scale: Scale, table: str, fold: int) -> Cell:
    """Make the cell of the nonlinear classifiers on one fold."""
    return Cell("audit.reference", {"table": table, "fold": fold, "folds": scale.folds})


def form_accuracy(table: str, form: str, folds: int, Cs: list[float]) -> dict[str, Any]:
    """Measure the accuracy of M2 with C = 1 and with the best pair of C (chosen by test rows)."""
    X, y = load_task(table)
    at_one: dict[str, list[float]] = {rule: [] for rule in RULES}
    grid: dict[str, Records] = {rule: [] for rule in RULES}
    for fold in range(folds):
        A, a, B, b = _fold(table, X, y, folds, fold)
        near: dict[str, list[Array]] = {rule: [] for rule in RULES}
        for C in Cs:
            model = fit_m2(form, A, a, C=C, membership="center")
            for rule in RULES:
                near[rule].append(_near(model, B, rule))
        for rule in RULES:
            table_of_C = np.array(near[rule])
            # Plane k depends on its own C alone: any two of them make a classifier.
            second = table_of_C[None, :, :, 1] < table_of_C[:, None, :, 0]
            hits = (second == (b == 1)).sum(axis=-1)
            one = Cs.index(1.0)
            at_one[rule].append(float(hits[one, one] / len(b)))
            grid[rule].append({"hits": hits.ravel().tolist(), "rows": len(b)})
    return {
        rule: {
            "fixed": float(np.mean(at_one[rule])),
            "best": float(np.mean(best_point(grid[rule]))),
        }
        for rule in RULES
    }


def readings(table: str, folds: int) -> dict[str, float]:
    """Measure each reading of eq10, eq12, Definition 1 and the center membership."""
    X, y = load_task(table)
    scores: dict[str, list[float]] = {}

    def note(name: str, predicted: Array, truth: Array) -> None:
        scores.setdefault(name, []).append(float(np.mean(predicted == truth)))

    for fold in range(folds):
        A, a, B, b = _fold(table, X, y, folds, fold)
        mu = CenterMembership()(A, a)
        note("LST-SVM", _fitted(A, a, None).predict(B), b)
        note("diagonal", _fitted(A, a, mu).predict(B), b)
        note("scalar", _nearest(B, *_planes(A, a, mu, _scalar_plane)), b)
        note("eq12", _nearest(B, *_planes(A, a, mu, _eq12_plane)), b)
        note("squared", _fitted(A, a, mu**2).predict(B), b)
        fuzzy = FuzzyTwinSVC(planes="fuzzy", alpha=0.0).fit(A, a, membership=mu)
        note("width", fuzzy.predict(B), b)
        note("definition 1", _definition_1(fuzzy, B), b)
        for noise, (R, r) in {
            "clean": (A, a), "outliers": spoil_rows(A, a, "outliers", OUTLIERS, fold)
        }.items():  # fmt: skip
            degrees = CenterMembership()(R, r)
            note(f"center, {noise}", _fitted(R, r, degrees).predict(B), b)
            note(f"printed center, {noise}", _fitted(R, r, 1 - degrees).predict(B), b)
            note(f"no membership, {noise}", _fitted(R, r, None).predict(B), b)
    return {name: float(np.mean(each)) for name, each in scores.items()}


def facts(table: str) -> dict[str, float]:
    """Measure what the formulas do to all rows of a table, in numbers other than accuracy."""
    X, y = load_task(table)
    A, _ = prepared(uci_preprocessor(table), X, np.arange(len(y)), np.arange(1))
    mu = CenterMembership()(A, y)
    rng = np.random.default_rng(0)
    shuffled = mu.copy()
    for k in (0, 1):
        shuffled[y == k] = rng.permutation(mu[y == k])
    ours, moved = (_values(A, _fitted(A, y, m)) for m in (mu, shuffled))
    scalar, scalar_moved = (_first_values(A, y, m, _scalar_plane) for m in (mu, shuffled))
    length = np.linalg.norm(mu[y == 1])
    lst = _values(A, FuzzyTwinSVC(C=float(length), alpha=0.0).fit(A, y))
    eq12 = _first_values(A, y, mu, _eq12_plane)
    crisp = _fitted(A, y, mu)
    printed, stationary, endpoints = (fit_m2(form, A, y, mu) for form in FORMS)
    B = A[y == 1]
    f = B @ rng.standard_normal(A.shape[1])
    sums, apart = [], []
    for _ in range(20):
        g, margin = np.abs(B) @ rng.random(A.shape[1]) + rng.random(), rng.random()
        upper, lower = 1 + margin - (f + g), 1 - margin - (f - g)  # the two slacks of eq161
        sums.append((upper + lower) ** 2)
        apart.append(upper**2 + lower**2)
    gamma = np.abs(A @ crisp.coef_.T) / np.linalg.norm(crisp.coef_, axis=1)  # c = d = 0
    return {
        "own": float((y == 0).sum()),
        "rivals": float((y == 1).sum()),
        "turn of ours by a shuffle": _turn(ours, moved),
        "turn of scalar by a shuffle": _turn(scalar, scalar_moved),
        "turn of scalar from LST-SVM": _turn(scalar, lst),
        "turn of eq12": _turn(ours, eq12),
        "stationary w": float(np.linalg.norm(stationary.coef_, axis=1).max()),
        "endpoints w": float(np.linalg.norm(endpoints.coef_, axis=1).max()),
        "stationary b": float(stationary.intercept_.mean()),
        "stationary d": float(stationary.width_intercept_.mean()),
        "sum of slacks": float(np.ptp(sums, axis=0).max() / np.max(sums)),
        "slacks apart": float(np.ptp(apart, axis=0).max() / np.max(apart)),
        "negative widths, stationary": _negative(stationary),
        "negative widths, printed": _negative(printed),
        "negative widths, endpoints": _negative(endpoints),
        "width of crisp planes": float(np.median(gamma)),
    }


def reference(table: str, fold: int, folds: int) -> dict[str, Any]:
    """Count the hits of a random forest and a Gaussian SVM, neither of them tuned."""
    X, y = load_task(table)
    A, a, B, b = _fold(table, X, y, folds, fold)
    methods = {
        "forest": RandomForestClassifier(200, random_state=0),
        "gaussian": SVC(),
    }
    hits = {name: int((m.fit(A, a).predict(B) == b).sum()) for name, m in methods.items()}
    return {**hits, "rows": len(b)}


def records(scale: Scale, result: Callable[[Cell], Any]) -> Records:
    """List all that was measured, table by table: a name and a number (accuracies in percent)."""
    rows = []
    for table in scale.tables:
        found: dict[str, float] = {}
        for form in FORMS:
            for rule, pair in result(form_cell(scale, table, form)).items():
                found |= {f"M2 {form}, {rule}, {what}": 100 * v for what, v in pair.items()}
        for name, value in result(readings_cell(scale, table)).items():
            found[f"reading {name}"] = 100 * value
        done = [result(reference_cell(scale, table, fold)) for fold in range(scale.folds)]
        for name in ("forest", "gaussian"):
            rates = [d[name] / d["rows"] for d in done]
            found[f"reference {name}"] = 100 * float(np.mean(rates))
        found |= result(Cell("audit.facts", {"table": table}))
        rows += [{"table": table, "what": what, "value": value} for what, value in found.items()]
    return rows


def _fold(table: str, X: Array, y: Array, folds: int, fold: int) -> tuple[Array, ...]:
    train, test = outer_fold(y, folds, 0, fold)
    A, B = prepared(uci_preprocessor(table), X, train, test)
    return A, y[train], B, y[test]


def _fitted(A: Array, a: Array, mu: Array | None) -> FuzzyTwinSVC:
    model: FuzzyTwinSVC = FuzzyTwinSVC(alpha=0.0).fit(A, a, membership=mu)
    return model


def _near(model: FuzzyTwinSVC, B: Array, rule: str) -> Array:
    """Compute the effective distances of eq29 under either rule."""
    f = distances.plane_values(B, model.coef_, model.intercept_)
    g = distances.plane_values(B, model.width_coef_, model.width_intercept_, absolute=True)
    norms = distances.plane_norms(model.coef_) if rule == "distance" else np.ones(2)
    return distances.effective_distances(*distances.fuzzy_distances(f, g, norms))


def _definition_1(model: FuzzyTwinSVC, B: Array) -> Array:
    """Predict labels with the width as Definition 1 prints it: of w + c, without d."""
    norms = distances.plane_norms(model.coef_)
    delta, _ = distances.fuzzy_distances(
        distances.plane_values(B, model.coef_, model.intercept_), None, norms
    )
    gamma = np.abs(B @ (model.coef_ + model.width_coef_).T) / norms
    labels: Array = distances.effective_distances(delta, gamma).argmin(axis=1)
    return labels


def _planes(
    A: Array, a: Array, mu: Array, solve: Callable[[Array, Array, Array], Array]
) -> tuple[Array, Array]:
    """Compute both planes by a formula for one of them."""
    Z = np.column_stack([A, np.ones(len(A))])
    each = [solve(Z[a == k], Z[a != k], mu[a != k]) for k in (0, 1)]
    z = np.array(each)
    return z[:, :-1], z[:, -1]


def _scalar_plane(E: Array, F: Array, mu: Array) -> Array:
    """Minimise eq10 as printed, with the length of the vector of degrees for the degrees."""
    p = np.linalg.norm(mu)
    return _least(E.T @ E + p * F.T @ F, -p * F.sum(axis=0))


def _eq12_plane(E: Array, F: Array, mu: Array) -> Array:
    """Solve eq12 with a degree per sample on the left and, as printed, none on the right."""
    return _least((F.T * mu) @ F + E.T @ E, -F.sum(axis=0))


def _least(M: Array, r: Array) -> Array:
    solution: Array = np.linalg.lstsq(M, r, rcond=1e-12)[0]
    return solution


def _nearest(B: Array, coef: Array, intercept: Array) -> Array:
    f = distances.plane_values(B, coef, intercept)
    delta, _ = distances.fuzzy_distances(f, None, distances.plane_norms(coef))
    labels: Array = delta.argmin(axis=1)
    return labels


def _values(A: Array, model: FuzzyTwinSVC) -> Array:
    """Compute the values of the first plane, which are unique even where w is not."""
    values: Array = distances.plane_values(A, model.coef_[:1], model.intercept_[:1])[:, 0]
    return values


def _first_values(
    A: Array, a: Array, mu: Array, solve: Callable[[Array, Array, Array], Array]
) -> Array:
    coef, intercept = _planes(A, a, mu, solve)
    values: Array = A @ coef[0] + intercept[0]
    return values


def _turn(v: Array, w: Array) -> float:
    """Compute the angle in degrees between the values of two planes, whatever scale and sign."""
    v, w = v / np.linalg.norm(v), w / np.linalg.norm(w)
    # By the chord, which is exact for small angles too.
    chord = min(float(np.linalg.norm(v - w)), float(np.linalg.norm(v + w)))
    return float(np.degrees(2 * np.arcsin(min(1.0, chord / 2))))


def _negative(model: FuzzyTwinSVC) -> float:
    """Compute the share of widths below zero, in percent."""
    widths = np.column_stack([model.width_coef_, model.width_intercept_])
    return 100 * float((widths < 0).mean())
