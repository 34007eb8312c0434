"""Compare classifiers on a table: ``fuzzytwin compare``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzzytwin.cli import _options as o
from fuzzytwin.cli import _shared as shared
from fuzzytwin.cli import _show as show

if TYPE_CHECKING:
    from fuzzytwin.cli._fold_differences import Difference


def compare(
    data: Path = o.DATA,
    target: str = o.column("Column to predict.", default=...),
    folds: int = o.FOLDS,
    repeats: int = o.number("Number of repetitions of the cross-validation.", default=3, min=1),
    scoring: str | None = o.SCORING,
    groups: str | None = o.GROUPS,
    id_column: str | None = o.ID,
    table: dict[str, Any] = o.TABLE,
    seed: int = o.SEED,
    as_json: bool = o.JSON,
) -> None:
    """Compare the committee with SVMs, random forests and boosting.

    Each classifier is tuned within each training fold. The scores of repeated folds are compared
    by the corrected resampled t-test. It takes minutes for a few thousand rows. Use --repeats 1 for
    a first look.
    """
    from fuzzytwin.cli import _baselines as baselines
    from fuzzytwin.cli._fold_differences import fold_differences
    from fuzzytwin.experiment._estimators import check_scoring
    from fuzzytwin.experiment._rows import Settings

    check_scoring(scoring)
    settings = Settings(
        target, scoring=scoring, groups=groups, id=id_column, folds=folds, seed=seed, **table
    )
    omitted = baselines.without_response(settings)
    n_classifiers = len(baselines.classifiers(settings)) - len(omitted)
    with shared.progress(repeats * folds * n_classifiers, log=True) as bar:
        scores = baselines.score_table(str(data), settings, repeats, bar.begin)
    differences = fold_differences(scores, baselines.CONTROL, 1 / folds)
    if as_json:
        by_name = {name: asdict(difference) for name, difference in differences.items()}
        return show.print_json({"scores": scores, "omitted": omitted, "differences": by_name})
    score = (scoring or "accuracy").replace("_", " ")
    if score.startswith("neg "):
        score = f"negative {score.removeprefix('neg ')} (higher is better)"
    show.echo(
        f"{show.short(data.name)}: {score} in {repeats} x {folds} folds. Each classifier is tuned "
        f"by {baselines.N_INNER_FOLDS} inner folds.\n"
    )
    _print(differences, baselines.CONTROL)
    if omitted:
        show.echo(
            f"Omitted, because --scoring {scoring} needs probabilities: {'; '.join(omitted)}."
        )


def _print(differences: dict[str, Difference], control: str) -> None:
    from fuzzytwin.cli._fold_differences import conclusions

    rows = []
    for name, result in differences.items():
        cells = ["control", "", "", ""]
        if name != control:
            low, high = result.interval
            interval = f"{low:+.4f} to {high:+.4f}"
            p_values = [f"{result.p:.2g}", f"{result.holm_p:.2g}"]
            cells = [f"{result.difference:+.4f}", interval, *p_values]
        rows.append((name, f"{result.mean:.4f}", *cells))
    heads = ["classifier", "mean>", "difference>", "95% interval>", "p>", "Holm p>"]
    show.table(heads, rows, tight=True)
    show.echo("", *conclusions(differences, control))
