"""Compare classifiers on tables: ``fuzzytwin compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fuzzytwin._utils.extras import need
from fuzzytwin.cli import inputs, screens
from fuzzytwin.cli.options import Category, Drop, Folds, Force, Groups, Json, Numeric, Scoring, Seed

if TYPE_CHECKING:
    from fuzzytwin.compare import ComparisonResult, FoldsResult

Scores = dict[str, dict[str, list[float]]]


def compare(
    data: Annotated[list[Path], typer.Argument(metavar="DATA", hidden=True)],
    target: Annotated[
        list[str],
        typer.Option(metavar="COLUMN", help="Column to predict; once for all, or once per table."),
    ],
    folds: Folds = 5,
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1, help="Repetitions of the folds  [default: 3 for one table, 1 for several]"
        ),
    ] = None,
    scoring: Scoring = None,
    groups: Groups = None,
    drop: Drop = [],  # noqa: B006
    numeric: Numeric = [],  # noqa: B006
    category: Category = [],  # noqa: B006
    diagram: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw ranks and critical difference (PNG).")
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compare with other SVMs, forests and boosting.

    DATA are one or more tables: CSV, TSV, Excel, Parquet or Feather files. On one table, scores of
    repeated folds are compared by the corrected resampled t-test; on several, ranks by
    Friedman's, Nemenyi's and Wilcoxon's tests.
    """
    from fuzzytwin.cli import rivals
    from fuzzytwin.compare import compare_classifiers, compare_folds
    from fuzzytwin.tables.settings import Settings
    from fuzzytwin.tables.training import check_scoring

    inputs.check_output(diagram, force)
    targets = target * len(data) if len(target) == 1 else target
    if len(targets) != len(data):
        raise ValueError(
            f"{len(data)} tables but {len(target)} targets; give --target once, or once per table."
        )
    if diagram is not None and len(data) < 2:
        raise ValueError("--diagram needs at least two tables; leave it out.")
    check_scoring(scoring)
    rounds = repeats or (3 if len(data) == 1 else 1)
    scores: Scores = {}
    with screens.progress(len(data) * rounds * folds * len(rivals.NAMES)) as bar:
        for path, column in zip(data, targets, strict=True):
            there = None if len(data) == 1 else inputs.column_names(path)

            def of_table(names: list[str], there: list[str] | None = there) -> list[str]:
                return [name for name in names if there is None or name in there]

            settings = Settings(
                column,
                scoring=scoring,
                groups=groups,
                drop=of_table(drop),
                numeric=of_table(numeric),
                category=of_table(category),
                folds=folds,
                seed=seed,
            )
            scores[str(path)] = rivals.score_table(str(path), settings, rounds, bar.begin)
    if len(data) == 1:
        ours, table = rivals.NAMES["FLST"], scores[str(data[0])]
        found = {rivals.NAMES[name]: values for name, values in table.items()}
        on_folds = compare_folds(found, 1 / folds, control=ours)
        if as_json:
            screens.print_json(_folds_page(scores, on_folds))
        else:
            _show_folds(on_folds, data[0], scoring, rounds, folds)
        return
    result = compare_classifiers(_means(scores), control="FLST")
    if diagram is not None:
        _draw(result, diagram, force)
    if as_json:
        screens.print_json({
            "scores": scores,
            "mean_ranks": dict(zip(result.names, result.mean_ranks, strict=True)),
            "friedman_p": result.chi2_ties_p,
            "critical_difference": result.critical_difference,
        })  # fmt: skip
        return
    _show_tables(scores, result, scoring, diagram)


def _means(scores: Scores) -> dict[str, list[float]]:
    names = next(iter(scores.values()))
    return {name: [sum(t[name]) / len(t[name]) for t in scores.values()] for name in names}


def _folds_page(scores: Scores, result: FoldsResult) -> dict[str, Any]:
    return {
        "scores": scores,
        "means": dict(zip(result.names, result.means, strict=True)),
        "differences": dict(zip(result.names, result.differences, strict=True)),
        "p": dict(zip(result.names, result.p, strict=True)),
        "holm_p": dict(zip(result.names, result.holm_p, strict=True)),
    }


def _show_folds(
    result: FoldsResult, data: Path, scoring: str | None, rounds: int, folds: int
) -> None:
    score = (scoring or "accuracy").replace("_", " ")
    screen = screens.new_console()
    screen.print(
        screens.short(
            f"{data.name}: {score} on {rounds} x {folds} folds, each classifier tuned by 3 inner "
            "folds\n"
        ),
        highlight=False,
    )
    screen.print(str(result), markup=False, highlight=False, soft_wrap=True)


def _show_tables(
    scores: Scores, result: ComparisonResult, scoring: str | None, diagram: Path | None
) -> None:
    from fuzzytwin.cli.rivals import NAMES

    screen = screens.new_console()
    table = screens.new_table("", *(f"{name}>" for name in NAMES), tight=True)
    for path, found in scores.items():
        means = {name: sum(values) / len(values) for name, values in found.items()}
        cells = (screens.mark(means[name], max(means.values())) for name in NAMES)
        table.add_row(screens.short_name(Path(path).stem, 12), *cells)
    ranks = dict(zip(result.names, result.mean_ranks, strict=True))
    table.add_section()
    table.add_row("mean rank", *(f"{ranks[name]:.2f}" for name in NAMES))
    screen.print(table)
    names = ", ".join(f"{name}: {what}" for name, what in NAMES.items())
    score = (scoring or "accuracy").replace("_", " ")
    screen.print(f"{names}. Mean {score} over outer folds, each tuned by 3 inner folds.")
    if len(scores) < 10:
        screen.print("Tests over so few tables find large differences only; ten are a good start.")
    screen.print(f"\n{result}", markup=False, highlight=False)
    if diagram is not None:
        screen.print(f"The diagram is in {screens.short(diagram)}.", highlight=False)


def _draw(result: ComparisonResult, path: Path, force: bool) -> None:
    from fuzzytwin._utils.files import replacing
    from fuzzytwin.compare import CriticalDifferenceDisplay

    figure = need("matplotlib.figure", "plot", "a diagram").Figure(
        figsize=(7, 3), layout="constrained"
    )
    CriticalDifferenceDisplay.from_result(result, figure.subplots())
    with replacing(path, overwrite=force) as draft:
        figure.savefig(draft, format=path.suffix.lstrip(".") or "png", dpi=120)
