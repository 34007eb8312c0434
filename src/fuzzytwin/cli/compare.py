"""Compare classifiers on tables: ``fuzzytwin compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fuzzytwin._utils.extras import need
from fuzzytwin.cli import inputs, screens
from fuzzytwin.cli.options import Drop, Folds, Force, Json, Seed


def compare(
    data: Annotated[list[Path], typer.Argument(metavar="DATA", hidden=True)],
    target: Annotated[
        list[str],
        typer.Option(metavar="COLUMN", help="Column to predict; once for all, or once per table."),
    ],
    folds: Folds = 5,
    drop: Drop = [],  # noqa: B006
    diagram: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw ranks and critical difference (PNG).")
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compare with the classic machines and scikit-learn's.

    DATA are one or more tables: CSV, Parquet or Feather files.
    """
    from fuzzytwin.cli import contest as contest
    from fuzzytwin.compare import CriticalDifferenceDisplay, compare_classifiers

    inputs.check_output(diagram, force)
    targets = target * len(data) if len(target) == 1 else target
    if len(targets) != len(data):
        raise ValueError(
            f"{len(data)} tables but {len(target)} targets; give --target once, or once per table."
        )
    if diagram is not None and len(data) < 2:
        raise ValueError("a diagram needs at least two tables.")
    scores = {}
    with screens.progress(len(data) * folds * len(contest.MEANINGS)) as bar:
        for path, column in zip(data, targets, strict=True):
            present = [name for name in drop if len(data) == 1 or inputs.has_column(path, name)]
            scores[str(path)] = contest.contest(str(path), column, folds, seed, present, bar.begin)
    means = {
        name: [sum(table[name]) / len(table[name]) for table in scores.values()]
        for name in contest.MEANINGS
    }
    result = compare_classifiers(means, control="FLST") if len(data) > 1 else None
    if diagram is not None and result is not None:
        _save_figure(lambda ax: CriticalDifferenceDisplay.from_result(result, ax), diagram, force)
    if as_json:
        ranks = None if result is None else dict(zip(result.names, result.mean_ranks, strict=True))
        screens.print_json({
            "scores": scores,
            "mean_ranks": ranks,
            "friedman_p": None if result is None else result.chi2_ties_p,
            "critical_difference": None if result is None else result.critical_difference,
        })  # fmt: skip
        return
    _show_compared(scores, result, diagram)


def _show_compared(scores: dict[str, Any], result: Any, diagram: Path | None) -> None:
    from fuzzytwin.cli.contest import MEANINGS

    screen = screens.new_console()
    table = screens.new_table("", *(f"{name}>" for name in MEANINGS))
    for path, found in scores.items():
        means = {name: sum(values) / len(values) for name, values in found.items()}
        cells = (screens.mark(means[name], max(means.values())) for name in MEANINGS)
        table.add_row(screens.short(Path(path).stem, 18), *cells)
    if result is not None:
        ranks = dict(zip(result.names, result.mean_ranks, strict=True))
        table.add_section()
        table.add_row("mean rank", *(f"{ranks[name]:.2f}" for name in MEANINGS))
    screen.print(table)
    names = ", ".join(f"{name}: {what}" for name, what in MEANINGS.items())
    screen.print(f"{names}. Mean accuracy over outer folds, each tuned by 3 inner folds.")
    if result is None:
        screen.print("Tests and ranks need at least two tables; trust them from some ten on.")
        return
    screen.print(f"\n{result}", markup=False, highlight=False)
    if diagram is not None:
        screen.print(f"The diagram is in {screens.short(diagram)}.", highlight=False)


def _save_figure(draw: Any, path: Path, force: bool) -> None:
    from fuzzytwin._utils.files import replacing

    figure = need("matplotlib.figure", "plot", "--diagram").Figure(
        figsize=(7, 3), layout="constrained"
    )
    draw(figure.subplots())
    with replacing(path, overwrite=force) as draft:
        figure.savefig(draft, format=path.suffix.lstrip(".") or "png", dpi=120)
