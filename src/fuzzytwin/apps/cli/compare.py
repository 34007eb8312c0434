"""Compare classifiers on tables: ``fuzzytwin compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from fuzzytwin._utils.extras import need
from fuzzytwin.apps.cli import options as o
from fuzzytwin.apps.cli import shared, show


def compare(
    data: list[Path] = typer.Argument(metavar="DATA", hidden=True),
    target: list[str] = o.columns(
        "Column to predict; once for all, or once per table.", default=...
    ),
    folds: int = o.FOLDS,
    repeats: int | None = o.option(
        "Repetitions of the folds  [default: 3 for one table, 1 for several]", min=1
    ),
    scoring: str | None = o.SCORING,
    groups: str | None = o.GROUPS,
    sheet: str | None = o.SHEET,
    drop: list[str] = o.DROP,
    numeric: list[str] = o.NUMERIC,
    category: list[str] = o.CATEGORY,
    missing: list[str] = o.MISSING,
    diagram: Path | None = o.file("Draw ranks and critical difference (PNG)."),
    seed: int = o.SEED,
    force: bool = o.FORCE,
    as_json: bool = o.JSON,
) -> None:
    """Compare with other SVMs, forests and boosting.

    DATA are one or more tables with named columns, as for train. On one table, scores of
    repeated folds are compared by the corrected resampled t-test; on several, ranks by
    Friedman's, Nemenyi's and Wilcoxon's tests.
    """
    from fuzzytwin.apps import rivals
    from fuzzytwin.apps.study import check_scoring
    from fuzzytwin.apps.table_rows import Settings
    from fuzzytwin.compare import compare_classifiers, compare_folds
    from fuzzytwin.data.files import open_table

    shared.check_output(diagram, force)
    targets = target * len(data) if len(target) == 1 else target
    if len(targets) != len(data):
        raise ValueError(
            f"{len(data)} tables but {len(target)} targets; give --target once, or once per table."
        )
    if diagram is not None and len(data) < 2:
        raise ValueError("--diagram needs at least two tables; leave it out.")
    check_scoring(scoring)
    rounds = repeats or (3 if len(data) == 1 else 1)
    scores: dict[str, dict[str, list[float]]] = {}
    # What a classifier offers does not depend on the table.
    left_out = rivals.without_response(Settings(targets[0], scoring=scoring))
    n_classifiers = len(rivals.NAMES) - len(left_out)
    with shared.progress(len(data) * rounds * folds * n_classifiers) as bar:
        for path, column in zip(data, targets, strict=True):
            named: dict[str, Any] = {"drop": drop, "numeric": numeric, "category": category}
            if len(data) > 1:  # a column that is named need not be in every table
                there = open_table(path, sheet=sheet).schema.names
                named = {key: [n for n in names if n in there] for key, names in named.items()}
            settings = Settings(
                column, scoring=scoring, groups=groups, sheet=sheet, folds=folds, seed=seed,
                missing=missing, **named,
            )  # fmt: skip
            scores[str(path)] = rivals.score_table(str(path), settings, rounds, bar.begin)
    score = (scoring or "accuracy").replace("_", " ")
    left_out_names = [rivals.NAMES[name] for name in left_out]
    if left_out and not as_json:
        listed = "; ".join(left_out_names)
        show.say(f"Left out, as --scoring {scoring} needs probabilities: {listed}.\n")
    if len(data) == 1:
        found = {rivals.NAMES[name]: values for name, values in scores[str(data[0])].items()}
        on_folds = compare_folds(found, 1 / folds, control=rivals.NAMES["FTC"])
        if as_json:
            columns = ("means", "differences", "p", "holm_p")
            by_name = {c: dict(zip(found, getattr(on_folds, c), strict=True)) for c in columns}
            return show.print_json({"scores": scores, "left_out": left_out_names, **by_name})
        how = f"{score} on {rounds} x {folds} folds, each classifier tuned by {rivals.INNER}"
        show.say(f"{show.short(data[0].name)}: {how} inner folds\n")
        return print(on_folds)
    means = {
        name: [sum(table[name]) / len(table[name]) for table in scores.values()]
        for name in rivals.NAMES
        if name not in left_out
    }
    result = compare_classifiers(means, control="FTC")
    if diagram is not None:
        _draw(result, diagram, force)
    if as_json:
        return show.print_json({
            "scores": scores,
            "left_out": left_out_names,
            "mean_ranks": dict(zip(result.names, result.mean_ranks, strict=True)),
            "friedman_p": result.chi2_ties_p,
            "critical_difference": result.critical_difference,
        })  # fmt: skip
    show.compared(list(scores), means, result, score)
    if diagram is not None:
        show.say(f"The diagram is in {show.short(diagram)}.")


def _draw(result: Any, path: Path, force: bool) -> None:
    from fuzzytwin._utils.files import replacing
    from fuzzytwin.compare import CriticalDifferenceDisplay

    figure = need("matplotlib.figure", "plot", "a diagram").Figure(
        figsize=(7, 3), layout="constrained"
    )
    CriticalDifferenceDisplay.from_result(result, figure.subplots())
    with replacing(path, overwrite=force) as draft:
        figure.savefig(draft, format=path.suffix.lstrip(".") or "png", dpi=120)
