r"""How K memberships come from pairs of classes, and how pairs are tuned.

Plane (k, j) has the rows of class k as its own and only those of class j as rivals. All follow
from the K class moments. With a_kj the distance of a row to plane (k, j), eq29 gives the pair's
membership r_kj = a_jk / (a_kj + a_jk); powers of a, signed values and Gaussian posteriors are
tried instead. Every rule here makes K memberships of the r_kj: rows sum
to 1 and the label is the greatest. 5 outer folds, shuffled, scaled by the training rows, clean
and with 20% of the training labels replaced. Choices are made on one half of the tables
(`CHOOSE`) and confirmed on the other (`CONFIRM`).

`python -m benchmarks pairs rules` compares the rules, the distances and the default ridge;
`python -m benchmarks pairs tuning` compares C and ridge in common with C and ridge per pair.
"""

from __future__ import annotations

import warnings

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks._multiclass import CHOOSE, outer_folds, say_which
from benchmarks._multiclass import names as table_names
from benchmarks._pairs import (
    COMBINATIONS,
    TINY,
    gaussian,
    norms,
    plane_values,
    planes,
    ratio,
    rest_planes,
    rest_votes,
    signed,
)
from benchmarks._tables import FLIPPED
from fuzzytwin.core.moments import ClassMoments

ALPHAS = (0.01, 0.1, 1.0, 10.0, 100.0)
GRID_ALPHAS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
GRID_CS = (0.25, 1.0, 4.0)
DEFAULT = 10.0
MOST_CLASSES = 12  # for C per class, which takes K searches


# Scores.


def quality(p, y):
    """Accuracy, log loss and Brier score of memberships p."""
    own = p[np.arange(len(y)), y]
    brier = (p**2).sum(1) - 2 * own + 1
    return np.array([
        (p.argmax(1) == y).mean(), -np.log(np.clip(own, TINY, 1)).mean(), brier.mean()
    ])  # fmt: skip


def baselines():
    return {
        "LogisticRegression": LogisticRegression(),
        "LDA": LinearDiscriminantAnalysis(),
        "LinearSVC": LinearSVC(),
        "SVC linear": SVC(kernel="linear"),
    }


BY_SHARE = "distance, alpha (n_k + n_j) / n"
REST = {f"LST-KSVC rest={rest:g}/K margin={margin:g}": (rest, margin)
        for rest in (1.0, 0.1) for margin in (0.1, 0.4)}  # fmt: skip


def untuned(name, seed, flip):
    """Accuracy, log loss and Brier score of every rule, alpha by alpha, and of the baselines."""
    found: dict = {}

    def note(key, p, y):
        found.setdefault(key, []).append(quality(p, y))

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for A, labels, B, truth in outer_folds(name, seed=seed, flip=flip):
            K = labels.max() + 1
            moments = ClassMoments.from_rows(A, labels, n_classes=K)
            C, n = np.ones(K), moments.weight
            for alpha in ALPHAS:
                w, b = planes(moments, C, alpha)
                f = plane_values(B, w, b)
                a = np.abs(f) / norms(w)
                pairs = {
                    "distance": ratio(a),
                    "residual": ratio(np.abs(f)),
                    "distance^2": ratio(a**2),
                    "distance^3": ratio(a**3),
                    "signed": signed(f),
                    "gaussian": gaussian(f, w, b, moments),
                }
                for pair, r in pairs.items():
                    for rule, combine in COMBINATIONS.items():
                        note((alpha, pair, rule), combine(r), truth)
                # K = 2 stays as it is; more classes have fewer rows a pair, so less ridge each.
                w, b = planes(moments, C, alpha * (n[:, None] + n) / n.sum())
                f = np.abs(plane_values(B, w, b))
                r = ratio(f / norms(w))
                for rule in ("mean", "coupling"):
                    note((alpha, BY_SHARE, rule), COMBINATIONS[rule](r), truth)
                for key, (rest, margin) in REST.items():
                    w, b = rest_planes(moments, rest / K, margin, alpha)
                    f = plane_values(B, w, b)
                    note((alpha, key, "votes"), rest_votes(f, margin), truth)
                    for rule in ("mean", "coupling"):
                        note((alpha, key, rule), COMBINATIONS[rule](ratio(np.abs(f))), truth)
            for key, model in baselines().items():
                model.fit(A, labels)
                known = hasattr(model, "predict_proba")
                p = model.predict_proba(B) if known else np.eye(K)[model.predict(B)]
                note((key,), p, truth)
    return {key: np.mean(each, axis=0) for key, each in found.items()}


# Tuning: one table of distances per inner fold serves every choice.


def grid_values(A, labels, B, K):
    """Plane values of B for every alpha and C: residuals and distances (alphas, Cs, n, K, K)."""
    moments = ClassMoments.from_rows(A, labels, n_classes=K)
    shape = (len(GRID_ALPHAS), len(GRID_CS), len(B), K, K)
    residual, distance = np.empty(shape, np.float32), np.empty(shape, np.float32)
    for i, alpha in enumerate(GRID_ALPHAS):
        for c, C in enumerate(GRID_CS):
            w, b = planes(moments, np.full(K, C), alpha)
            f = np.abs(plane_values(B, w, b))
            residual[i, c], distance[i, c] = f, f / norms(w)
    return {"residual": residual, "distance": distance}


def scores_in_common(a, y, combine):
    """Accuracy and negative Brier score for each alpha and common C, of shape (2, alphas, Cs)."""
    found = np.array([[quality(combine(ratio(x.astype(float))), y) for x in row] for row in a])
    return found[..., 0], -found[..., 2]


def chosen_per_pair(a, y, by, Cs):
    """Places (K, K) of alpha and of C in the grid for each plane, by its pair's own score.

    `Cs`: places of C that may be chosen, each plane its own.
    """
    K = a.shape[-1]
    alpha_at, C_at = np.zeros((K, K), int), np.zeros((K, K), int)
    for k in range(K):
        for j in range(k + 1, K):
            rows = (y == k) | (y == j)
            own, rival = a[:, :, rows, k, j][:, Cs], a[:, :, rows, j, k][:, Cs]
            r = rival[:, None] / (own[:, :, None] + rival[:, None])  # alpha, C_k, C_j, row
            error = np.where(y[rows] == k, 1 - r, r)
            score = (error < 0.5).mean(-1) if by == "accuracy" else 0.0
            score = score - (1e-3 if by == "accuracy" else 1.0) * (error**2).mean(-1)
            i, c, e = np.unravel_index(score.argmax(), score.shape)
            alpha_at[k, j] = alpha_at[j, k] = i
            C_at[k, j], C_at[j, k] = Cs[c], Cs[e]
    return alpha_at, C_at


def taken(a, alpha_at, C_at):
    """Values of each plane at its place in the grid, of shape (n, K, K)."""
    K = a.shape[-1]
    k, j = np.indices((K, K))
    alpha_at, C_at = np.broadcast_to(alpha_at, (K, K)), np.broadcast_to(C_at, (K, K))
    return a[alpha_at, C_at, :, k, j].transpose(2, 0, 1).astype(float)


def chosen_per_class(a, y, i, c, combine):
    """C of each class in turn, the others held, from a common alpha and C."""
    K = a.shape[-1]
    at = np.full(K, c)

    def score(at):
        return quality(combine(ratio(taken(a, i, at[:, None]))), y)

    best = score(at)
    for k in range(K):
        for other in set(range(len(GRID_CS))) - {c}:
            trial = at.copy()
            trial[k] = other
            found = score(trial)
            if (found[0], -found[2]) > (best[0], -best[2]):
                at, best = trial, found
    return at[:, None]


def best_place(accuracy, brier, by, Cs):
    """Alpha and C (places) of the best score; ties go to the other score."""
    first, second = (accuracy, brier) if by == "accuracy" else (brier, accuracy)
    score = (first + 1e-6 * second)[:, Cs]
    i, c = np.unravel_index(score.argmax(), score.shape)
    return i, Cs[c], score.max()


def tuned(name, seed, flip, combination="coupling"):
    """Accuracy, log loss and Brier score of every way to choose C and alpha."""
    combine = COMBINATIONS[combination]
    one, every = [GRID_CS.index(1.0)], list(range(len(GRID_CS)))
    found: dict = {}
    with threadpool_limits(1):
        for A, labels, B, truth in outer_folds(name, seed=seed, flip=flip):
            K = labels.max() + 1
            test = grid_values(A, labels, B, K)
            parts = []
            order = []
            for train, held in StratifiedKFold(5, shuffle=True, random_state=0).split(A, labels):
                parts.append(grid_values(A[train], labels[train], A[held], K))
                order.append(held)
            y = labels[np.concatenate(order)]
            chosen: dict = {}
            best: dict = {}
            for rule in ("distance", "residual"):
                a = np.concatenate([part[rule] for part in parts], axis=2)
                scores = scores_in_common(a, y, combine)
                chosen[f"{rule}: untuned"] = rule, GRID_ALPHAS.index(DEFAULT), one[0]
                for by in ("accuracy", "Brier"):
                    for Cs, text in ((one, "C = 1"), (every, "C")):
                        i, c, score = best_place(*scores, by, Cs)
                        chosen[f"{rule}: alpha, {text} in common, by {by}"] = rule, i, c
                        key = f"either: alpha, {text} in common, by {by}"
                        if key not in best or score > best[key]:
                            best[key], chosen[key] = score, (rule, i, c)
                        chosen[f"{rule}: alpha, {text} per pair, by {by}"] = (
                            rule, *chosen_per_pair(a, y, by, Cs)
                        )  # fmt: skip
                if K > MOST_CLASSES:
                    continue
                i, c, _ = best_place(*scores, "accuracy", every)
                chosen[f"{rule}: alpha in common, C per class, by accuracy"] = (
                    rule, i, chosen_per_class(a, y, i, c, combine)
                )  # fmt: skip
            for key, (rule, i, c) in chosen.items():
                p = combine(ratio(taken(test[rule], i, c)))
                found.setdefault(key, []).append(quality(p, truth))
    return {key: np.mean(each, axis=0) for key, each in found.items()}


# Reports.


def table(title, results, keys):
    """Print mean ranks and mean scores on both halves of the tables, best rank first.

    `results` is {(table, flip): {key: scores}}; ranks are by accuracy, among `keys`.
    """
    print(f"\n{title}")
    print(f"{'':48s}{'tables to choose on':^36s}{'tables to confirm':^36s}")
    print(f"{'':48s}" + 2 * f"{'rank':>8s}{'accuracy':>10s}{'log loss':>10s}{'Brier':>7s} ")
    tasks = list(results)
    scores = np.array([[results[task][key] for key in keys] for task in tasks])
    ranks = rankdata(-scores[..., 0].round(6), axis=1)
    half = np.array([task[0] in CHOOSE for task in tasks])
    for i in ranks[half].mean(axis=0).argsort(kind="stable"):
        name = keys[i] if isinstance(keys[i], str) else ", ".join(map(str, keys[i]))
        row = f"{name:48s}"
        for part in (half, ~half):
            accuracy, loss, brier = scores[part, i].mean(axis=0)
            row += f"{ranks[part, i].mean():8.2f}{accuracy:10.4f}{loss:10.3f}{brier:7.3f} "
        print(row, flush=True)


def report_rules(results):
    peers = [(key,) for key in baselines()]
    for alpha in (1.0, DEFAULT):
        title = f"memberships of K classes, alpha = {alpha:g}, C = 1 (there both rules are one)"
        table(title, results, [(alpha, "distance", rule) for rule in COMBINATIONS])
    kinds = ("distance", "distance^2", "distance^3", "signed", "gaussian")
    some = ("mean", "coupling", "inverse sum", "product", "votes")
    for alpha in (1.0, DEFAULT):
        keys = [(alpha, kind, rule) for kind in kinds for rule in some]
        table(f"memberships of a pair, alpha = {alpha:g}", results, keys + peers)
    keys = [(alpha, kind, "coupling") for alpha in ALPHAS for kind in ("distance", BY_SHARE)]
    table("ridge, coupling", results, keys + peers)
    keys = [(1.0, key, rule) for key in REST for rule in ("votes", "mean", "coupling")]
    keys += [(1.0, "distance", rule) for rule in ("votes", "mean", "coupling")]
    table("LST-KSVC, alpha = 1", results, keys)
    for flip in (0.0, FLIPPED):
        part = {task: found for task, found in results.items() if task[1] == flip}
        title = f"defaults against peers, {flip:.0%} of the training labels replaced"
        table(title, part, [(DEFAULT, "distance", "coupling"), *peers])


def report_tuning(results):
    per_class = [key for key in max(results.values(), key=len) if "C per class" in key]
    shared = [key for key in max(results.values(), key=len) if key not in per_class]
    table("tuned, coupling", results, shared)
    few = {task: found for task, found in results.items() if per_class[0] in found}
    keys = per_class + [key for key in shared if "in common, by accuracy" in key]
    table(f"tuned, C per class, tables of at most {MOST_CLASSES} classes", few, keys)


STUDIES = {"rules": (untuned, report_rules), "tuning": (tuned, report_tuning)}


def run(arguments: list[str]) -> None:
    """`python -m benchmarks pairs [rules] [tuning]`; both by default."""
    say_which(table_names())
    tasks = [(name, flip) for name in table_names() for flip in (0.0, FLIPPED)]
    for study in arguments or STUDIES:
        measure, report = STUDIES[study]
        found = Parallel(n_jobs=2)(delayed(measure)(name, 0, flip) for name, flip in tasks)
        report(dict(zip(tasks, found, strict=True)))
