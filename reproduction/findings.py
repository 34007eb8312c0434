"""The twelve findings of the audit in words, each with the numbers that show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from reproduction.audit import OUTLIERS, RULES
from reproduction.cache import Records
from reproduction.document import Card, Figure, Table, Value, Words
from reproduction.literal import FORMS
from reproduction.published import COLUMNS, FRIEDMAN, MEAN_RANKS, TABLE_III, TITLES
from reproduction.ranks import compare_ranks

Cell = str | Value
# Title, what is printed, what is intended, and what was measured.
Finding = tuple[str, str, str, list[str | Figure | Table]]


@dataclass(frozen=True)
class Evidence:
    """Measured numbers by table and name; `claimed` are the records of Table III for error 11."""

    found: dict[tuple[str, str], float]
    claimed: Records

    @property
    def tables(self) -> list[str]:
        """List the tables in their order."""
        return list(dict.fromkeys(table for table, _ in self.found))

    def every(self, what: str) -> list[float]:
        """Return one number of each table."""
        return [self.found[table, what] for table in self.tables]

    def mean(self, what: str) -> float:
        """Compute the mean of one number over the tables."""
        return float(np.mean(self.every(what)))


def lookup(rows: Records) -> dict[tuple[str, str], float]:
    """Arrange the records of the audit by table and name, with the share of the larger class."""
    found = {(row["table"], row["what"]): row["value"] for row in rows}
    for table in dict.fromkeys(row["table"] for row in rows):
        own, rivals = found[table, "own"], found[table, "rivals"]
        found[table, "majority"] = 100 * max(own, rivals) / (own + rivals)
    return found


def findings(found: dict[tuple[str, str], float], claimed: Records) -> list[Card]:
    """List all twelve; `claimed` are the records of Table III for the methods of error 11."""
    make: list[Callable[[Evidence], Finding]] = [
        _sizes, _scalar, _right_side, _gradients, _closed_form, _cancel, _negative, _definition,
        _center, _ranks, _claims, _code,
    ]  # fmt: skip
    cards = []
    for number, write in enumerate(make, start=1):
        title, printed, intended, measured = write(Evidence(found, claimed))
        cards.append(Card(number, title, (
            Words(f"**Printed:** {printed}"),
            Words(f"**Intended:** {intended}"),
            *(Words(f"**Measured:** {m}") if isinstance(m, str) else m for m in measured),
        )))  # fmt: skip
    return cards


def _sizes(e: Evidence) -> Finding:
    unequal = sum(e.found[t, "own"] != e.found[t, "rivals"] for t in e.tables)
    pima = f"{e.found['pima', 'own']:.0f} against {e.found['pima', 'rivals']:.0f}"
    return (
        "eq8, eq9: degrees of the wrong class",
        "the degrees of a class multiply the slacks of the other class, which has a different "
        "number of rows.",
        "each slack is weighted by the degree of its own row.",
        [
            f"on {unequal} of {len(e.tables)} datasets the two vectors have different lengths "
            f"(Pima: {pima}), so the product is not defined."
        ],
    )


def _scalar(e: Evidence) -> Finding:
    return (
        "eq10, eq11: all degrees become one number",
        "the weighted sum of squares becomes the norm of the vector of degrees times the "
        "unweighted sum.",
        "a diagonal matrix, so that every row keeps its own degree.",
        [
            f"if the degrees are shuffled within each class, the values of the plane of eq10 "
            f"turn by {max(e.every('turn of scalar by a shuffle')):.0e} angular degrees at most, "
            f"which is rounding. So it does not matter which row has which degree. With the "
            f"diagonal matrix they turn by {e.mean('turn of ours by a shuffle'):.1f} angular "
            f"degrees on average. The plane of eq10 is that of LST-SVM with another penalty (they "
            f"differ by {max(e.every('turn of scalar from LST-SVM')):.0e} angular degrees at "
            f"most). As printed, with penalties of 1, the mean accuracy is "
            f"{e.mean('reading scalar'):.1f}%. With the diagonal matrix it is "
            f"{e.mean('reading diagonal'):.1f}%, and for LST-SVM {e.mean('reading LST-SVM'):.1f}%."
        ],
    )


def _right_side(e: Evidence) -> Finding:
    low, high = min(e.every("turn of eq12")), max(e.every("turn of eq12"))
    return (
        "eq12, eq13: the degrees are missing on the right-hand side",
        "the matrix contains the degrees, and the right-hand side does not. Also, eq11 has a wrong "
        "sign inside the norm.",
        "degrees on both sides. If the degree is a single number, the error only rescales the "
        "plane, and the sign only flips it. With a degree for each row, the first error gives "
        "another plane.",
        [
            f"the values of the two planes differ by {low:.1f} to {high:.1f} angular degrees. The "
            f"mean accuracy is {e.mean('reading eq12'):.1f}% as printed and "
            f"{e.mean('reading diagonal'):.1f}% as intended."
        ],
    )


def _gradients(e: Evidence) -> Finding:
    forms = [f"M2 {form}, distance, fixed" for form in FORMS]
    head = ["dataset", "majority class"]
    head += [f"{form}, {rule}" for rule in RULES for form in FORMS]
    rows = []
    for table in [*e.tables, None]:
        row: list[Cell] = ["mean" if table is None else TITLES[table]]
        chance = e.mean("majority") if table is None else e.found[table, "majority"]
        row.append(Value(f"{chance:.1f}", tone="faint"))
        for rule in RULES:
            for form in FORMS:
                fixed, best = (
                    e.mean(name) if table is None else e.found[table, name]
                    for name in (f"M2 {form}, {rule}, {what}" for what in ("fixed", "best"))
                )
                tone = "short" if fixed < chance - 1 else "plain"
                row.append(Value(f"{fixed:.1f}", f"best C {best:.1f}", tone))
        rows.append(row)
    stuck = sum(e.found[t, forms[1]] < e.found[t, "majority"] + 2 for t in e.tables)
    return (
        "eq16: the gradients of model M2 have a trivial solution",
        "the objective adds the values of the own class and their widths before it squares them. "
        "Then w = 0, b = -1, c = 0, d = 1 makes both squares zero, whatever the data are. Only the "
        "term `tau d` changes this solution.",
        'both end points of the fuzzy value are penalised.',
        [
            f"on average b = {e.mean('stationary b'):.3f} and d = {e.mean('stationary d'):.3f}, "
            f"and the longer of the two w has a norm of {e.mean('stationary w'):.3f} (with "
            f"endpoints {e.mean('endpoints w'):.3f}). By the paper's rule, which divides by that "
            f"norm, the mean accuracy is {e.mean(forms[1]):.1f}%, against {e.mean(forms[2]):.1f}% "
            f"with endpoints. On {stuck} of {len(e.tables)} datasets it is no better than always "
            f"predicting the larger class. Without the division (residual) it is "
            f"{e.mean('M2 stationary, residual, fixed'):.1f}%.",
            Figure(
                "forms", "Accuracy of three forms of model M2 on ten datasets",
                "Model M2 by the printed closed form, by the gradients, and as intended, with "
                "penalties of 1 and the paper's rule. Lines: always predicting the larger class.",
            ),
            Table(
                "Cross-validated accuracy of model M2 in percent, with penalties of 1, and with "
                "the best pair of penalties (best C), chosen by the test rows.",
                head, rows, foot=1,
            ),
        ],
    )  # fmt: skip


def _closed_form(e: Evidence) -> Finding:
    name = "M2 printed, distance, fixed"
    worse = sum(e.found[t, name] < 50 for t in e.tables)
    best = e.mean("M2 printed, distance, best")
    return (
        "The printed closed form of model M2 has its sign reversed",
        "on the right-hand side there is the mean degree instead of the sum, there is a matrix "
        "full of tau instead of tau times the identity, and the signs contradict the gradients.",
        "the stationary point of the objective.",
        [
            f"plane 1 lies near the rival class. The accuracy is below one half on {worse} of "
            f"{len(e.tables)} datasets: {e.found['votes', name]:.1f}% on Votes, "
            f"{e.found['pima', name]:.1f}% on Pima and {e.mean(name):.1f}% on average. With the "
            f"best penalties that the test rows can choose it is {best:.1f}%. On Votes, the "
            "opposite of its predictions would be accurate. Error 4 has the table."
        ],
    )


def _cancel(e: Evidence) -> Finding:
    return (
        "eq161: the widths cancel out",
        "the two slacks are added before they are squared: (1 + O - f - g) + (1 - O - f + g) = "
        "2 (1 - f). Neither the width g nor the fuzzy margin O is left.",
        "each slack is squared on its own.",
        [
            f"over 20 random widths and margins, the squared sum changes by "
            f"{max(e.every('sum of slacks')):.0e} of its size at most, which is rounding. The sum "
            f"of squares changes by {100 * min(e.every('slacks apart')):.0f}% at least."
        ],
    )


def _negative(e: Evidence) -> Finding:
    s, p = e.mean("negative widths, stationary"), e.mean("negative widths, printed")
    return (
        "Widths may become negative",
        "nothing keeps c and d from being negative. A fuzzy number has no negative width.",
        "c >= 0 and d >= 0: a small non-negative least-squares problem.",
        [
            f"{s:.0f}% of the widths are negative by the gradients, {p:.0f}% by the printed "
            f"closed form, and {e.mean('negative widths, endpoints'):.0f}% in this library."
        ],
    )


def _definition(e: Evidence) -> Finding:
    return (
        "Definition 1: the width of a distance lacks d and contains w",
        "gamma = |(w + c).x| / |w|: a plane without any width (c = d = 0) gets a positive gamma, "
        "and d has no effect.",
        "gamma = (c.|x| + d) / |w|, the width of the fuzzy value.",
        [
            f"for crisp planes the printed gamma has a median of "
            f"{e.mean('width of crisp planes'):.2f} instead of 0. The mean accuracy is "
            f"{e.mean('reading definition 1'):.1f}% with it, and {e.mean('reading width'):.1f}% "
            "with the width."
        ],
    )


def _center(e: Evidence) -> Finding:
    clean, spoilt = (
        [
            e.mean(f"reading {name}, {noise}")
            for name in ("printed center", "center", "no membership")
        ]
        for noise in ("clean", "outliers")
    )
    return (
        'The center membership has no "1 -"',
        "mu = d / (r + eps). The farther a row is from the centre, the more it counts, while "
        "according to the text outliers should count less.",
        "mu = 1 - d / (r + eps).",
        [
            f"with {100 * OUTLIERS:.0f}% of the training rows made outliers, the mean accuracy is "
            f"{spoilt[0]:.1f}% as printed, {spoilt[1]:.1f}% as intended and {spoilt[2]:.1f}% "
            f"without a membership. On clean rows it is {clean[0]:.1f}%, {clean[1]:.1f}% and "
            f"{clean[2]:.1f}%."
        ],
    )


def _ranks(e: Evidence) -> Finding:
    again = compare_ranks({c: [TABLE_III[t][c][0] for t in TABLE_III] for c in COLUMNS})
    rows: list[Sequence[Cell]] = [
        ["printed", *(f"{MEAN_RANKS[c]:g}" for c in COLUMNS), f"{FRIEDMAN}"],
        ["from the printed accuracies", *(f"{r:g}" for r in again.mean_ranks.round(4)),
         f"{again.chi2:.2f}"],
    ]  # fmt: skip
    return (
        "A rank and the Friedman statistic",
        f"the mean rank of T-SVM is 3.5, and the statistic {FRIEDMAN}.",
        "what the printed accuracies give.",
        [
            f"the printed ranks sum to {sum(MEAN_RANKS.values()):.1f}, but ranks of six methods "
            f"must sum to 21. The mean rank of T-SVM is 3.6. Friedman's statistic is "
            f"{again.chi2:.2f} ({again.chi2_ties:.2f} with the correction for ties). The "
            "conclusions stand: FLST-SVM is significantly better than all others except LST-SVM.",
            Table("Mean ranks and Friedman's statistic of Table III.",
                  ["", *COLUMNS, "chi-square"], rows),
        ],
    )  # fmt: skip


def _claims(e: Evidence) -> Finding:
    by = {(row["table"], row["method"]): row for row in e.claimed}
    methods = list(dict.fromkeys(row["method"] for row in e.claimed))
    rows: list[Sequence[Cell]] = []
    shortfalls: list[float] = []
    reached = 0
    for table in e.tables:
        paper = TABLE_III[table]["FLST-SVM"][0]
        best = max(by[table, m]["honest"] for m in methods)
        lucky = max(by[table, m]["optimistic"] for m in methods)
        forest, gaussian = (e.found[table, f"reference {name}"] for name in ("forest", "gaussian"))
        bent = max(forest, gaussian)
        shortfalls.append(paper - best)
        reached += max(lucky, bent) >= paper
        rows.append([
            TITLES[table], f"{paper:.1f}", f"{best:.1f}", f"{lucky:.1f}",
            f"{forest:.1f}", f"{gaussian:.1f}",
            Value(f"{paper - best:+.1f}", tone="short" if paper - max(best, bent) > 2 else "plain"),
        ])  # fmt: skip
    below = sum(shortfall > 0 for shortfall in shortfalls)
    named = ", ".join(methods)
    return (
        "Accuracies out of reach",
        "FLST-SVM has 95.1% on Sonar, 98.2% on WPBC and 79.6% on Bupa.",
        "the accuracy on rows to which the model was neither fitted nor tuned.",
        [
            f"the best of {len(methods)} methods here ({named}), tuned honestly, stays below "
            f"the paper's FLST-SVM on {below} of {len(e.tables)} datasets, by "
            f"{np.mean(shortfalls):.1f} points on average and {max(shortfalls):.1f} at most. "
            "Methods that are not linear, and methods whose parameters were chosen by the test "
            f"rows, reach it on {reached} of them.",
            Table(
                "Accuracy in percent. The best honest and the best optimistic accuracy are those "
                "of the methods named above. The random forest and the Gaussian SVM are "
                "scikit-learn's, untuned and cross-validated.",
                ["dataset", "paper's FLST-SVM", "best honest", "best optimistic", "random forest",
                 "Gaussian SVM", "paper - best honest"],
                rows,
            ),
        ],
    )  # fmt: skip


def _code(e: Evidence) -> Finding:
    return (
        "The authors' code differs from the text",
        "the public MATLAB code squares the memberships, uses 1 - d / (r + eps), does not divide "
        "distances by |w|, runs nine of ten folds, and has a Pima dataset of 246 rows.",
        "nothing of this is in the text, and Pima has 768 rows.",
        [
            f"the mean accuracy is {e.mean('reading squared'):.1f}% with squared memberships and "
            f"{e.mean('reading diagonal'):.1f}% with plain ones. Model M2 reaches "
            f"{e.mean('M2 endpoints, residual, fixed'):.1f}% without the division by |w|, and "
            f"{e.mean('M2 endpoints, distance, fixed'):.1f}% with it. What the code does is known "
            "from reading it, not from this run."
        ],
    )
