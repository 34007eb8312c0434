"""What the commands show: tables for people, JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def new_console(stderr: bool = False) -> Any:
    from rich.console import Console

    return Console(stderr=stderr, soft_wrap=False)


def new_table(*heads: str, title: str | None = None) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", show_edge=False,
                  pad_edge=False, show_header=any(heads), title_style="bold")  # fmt: skip
    for head in heads:
        right = head.endswith(">")
        table.add_column(head.rstrip(">"), justify="right" if right else "left")
    return table


@contextmanager
def progress(total: int) -> Iterator[Any]:
    """A bar on stderr where a person looks; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda what: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description:30.30}"), BarColumn(bar_width=28), TimeElapsedColumn(),
        console=new_console(stderr=True), transient=True,
    )  # fmt: skip
    with bar:
        task = bar.add_task("starting", total=total)
        first = True

        def step(what: str) -> None:
            nonlocal first
            bar.update(task, description=what, advance=0 if first else 1)
            first = False

        yield step


def print_json(page: Any) -> None:
    print(json.dumps(page, indent=1, default=_plain))


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def mark(value: float, best: float) -> str:
    return f"[bold]{value:.3f}[/]" if value >= best - 1e-12 else f"{value:.3f}"


def short(text: object, width: int = 1000) -> str:
    """A text as it is, for rich, cut to a width."""
    from rich.markup import escape

    words = str(text)
    return escape(words if len(words) <= width else words[: width - 3] + "...")


def short_name(name: str, width: int) -> str:
    """The name of a prepared column for rich, cut in the middle; " = value" stays."""
    from rich.markup import escape

    column, equals, value = name.rpartition(" = ")
    if not equals:
        column, value = value, ""
    value = equals + _middle(value, width // 2)
    return escape(_middle(column, width - len(value)) + value)


def _middle(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    end = (width - 3) // 2
    return f"{text[: width - 3 - end]}...{text[-end:]}"


def save_figure(draw: Any, path: Path, force: bool) -> None:
    from fuzzytwin._utils.files import replacing

    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            'pictures need matplotlib; install it with: pip install "fuzzytwin[plot]"'
        ) from error
    figure = Figure(figsize=(7, 3), layout="constrained")
    draw(figure.subplots())
    with replacing(path, overwrite=force) as draft:
        figure.savefig(draft, format=path.suffix.lstrip(".") or "png", dpi=120)


def tell_trained(facts: dict[str, Any], out: Path, report: Path | None) -> None:
    from fuzzytwin.report.page import verdict

    screen, score = new_console(), facts["score"]
    tell_columns(screen, facts["columns"])
    screen.print()
    counts = ", ".join(f"{label} ({n:,})" for label, n in list(facts["classes"].items())[:8])
    rows = new_table("", "")
    rows.add_row("rows", f"{facts['rows']:,}")
    rows.add_row("classes", short(counts, 60))
    chosen = facts["parameters"]
    rows.add_row("planes", f"{chosen['planes']}, rule {chosen['rule']}")
    if "kernel" in chosen:
        rows.add_row("kernel", _kernel(facts))
    rows.add_row("membership", short(facts["degree"] or chosen["membership"] or "none"))
    rows.add_row("C", short(_penalties(chosen["C"], facts["classes"]), 60))
    rows.add_row("alpha", f"{chosen['alpha']:.3g}")
    for note in facts["notes"]:
        rows.add_row("note", short(note))
    screen.print(rows)
    spread = "standard deviation over the folds" if "folds" in score else "standard error"
    how = score["how"] + (", tuned inside each fold" if facts["tuned"] and "folds" in score else "")
    screen.print(
        f"\naccuracy [bold]{score['accuracy']:.3f} ± {score['accuracy_std']:.3f}[/] ({spread}),\n"
        f"by {how}\nalways the largest class: {score['baseline']:.3f}\n{verdict(score)}\n",
        highlight=False,
    )
    screen.print(f"The model is in [bold]{short(out)}[/].", highlight=False)
    if report is not None:
        screen.print(f"The report is in [bold]{short(report)}[/].", highlight=False)
    screen.print("Try next:", highlight=False)
    look = "info" if "kernel" in chosen else "explain"  # no column drives a curved plane alone
    for line in (f"predict {out} NEW-DATA", f"{look} {out}", f"export {out} {out.stem}.onnx"):
        screen.print(f"  fuzzytwin {line}", markup=False, highlight=False)


def _kernel(facts: dict[str, Any]) -> str:
    """What curves the planes, in words."""
    chosen = facts["parameters"]
    gamma = f", gamma {chosen['gamma']:.4g}" if "gamma" in chosen else ""
    return short(f"{chosen['kernel']}{gamma}, {facts['landmarks']:,} landmarks")


def _penalties(C: Any, classes: Any) -> str:
    """C as one number, or one for each class."""
    if not isinstance(C, list):
        return f"{C:g}"
    if len(set(C)) == 1 or len(C) != len(classes):
        return ", ".join(f"{c:g}" for c in dict.fromkeys(C))
    return ", ".join(f"{label} {c:g}" for label, c in zip(classes, C, strict=True))


def tell_columns(screen: Any, columns: list[dict[str, Any]]) -> None:
    """One table of what became of the columns; long ones are cut in the middle of a kind."""
    table = new_table("column", "taken as", "values>", "missing>", "")
    shown = [c for c in columns if c["note"]][:12] if len(columns) > 24 else columns
    for column in shown:
        table.add_row(
            short(column["name"], 26), column["kind"], f"{column['distinct']:,}",
            f"{column['missing']:,}", short(column["note"], 30),
        )  # fmt: skip
    kinds: dict[str, int] = {}
    for column in columns:
        if column not in shown:
            kinds[column["kind"]] = kinds.get(column["kind"], 0) + 1
    for kind, count in kinds.items():
        table.add_row(f"... {count:,} more", kind, "", "", "")
    screen.print(table)


def tell_evaluated(told: dict[str, Any], data: Path) -> None:
    screen = new_console()
    screen.print(
        f"accuracy [bold]{told['accuracy']:.3f}[/], balanced {told['balanced_accuracy']:.3f}, on "
        f"{told['rows']:,} rows; always the largest class: {told['baseline']:.3f}",
        highlight=False,
    )
    labels = told["classes"]
    if len(labels) <= 8:
        table = new_table("", *(f"said {short(label, 10)}>" for label in labels), "found>")
        for label, row in zip(labels, told["confusion"], strict=True):
            share = f"{row[labels.index(label)] / sum(row):.0%}" if sum(row) else "-"
            table.add_row(f"is {short(label, 14)}", *(f"{n:,}" for n in row), share)
        screen.print(table)
    if told["unknown_labels"]:
        names = short(", ".join(told["unknown_labels"][:5]), 200)
        screen.print(f"The model does not know the label(s) {names}.", highlight=False)
    if told["trained_on_this"]:
        screen.print(
            f"Beware: the model was trained on a file named {short(data.name)}; on the rows that "
            "it has learned from, it looks better than it is.",
            highlight=False,
        )


def tell_compared(scores: dict[str, Any], result: Any, diagram: Path | None) -> None:
    from fuzzytwin.cli.contest import MEANINGS

    screen = new_console()
    table = new_table("", *(f"{name}>" for name in MEANINGS))
    for path, found in scores.items():
        means = {name: sum(values) / len(values) for name, values in found.items()}
        cells = (mark(means[name], max(means.values())) for name in MEANINGS)
        table.add_row(short(Path(path).stem, 18), *cells)
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
        screen.print(f"The diagram is in {short(diagram)}.", highlight=False)


def tell_about(page: dict[str, Any], model: Path) -> None:
    screen, table = new_console(), new_table("", "")
    facts = page["facts"]
    table.add_row("file", short(str(model)))
    table.add_row("holds", short(f"{page['model']}, saved {page['saved']}"))
    table.add_row("versions", short(", ".join(f"{k} {v}" for k, v in page["versions"].items())))
    if "score" in facts:
        score = facts["score"]
        table.add_row(
            "data", short(f"{facts['data']}, {facts['rows']:,} rows, target {facts['target']}")
        )
        table.add_row(
            "classes", short(", ".join(f"{k} ({n:,})" for k, n in facts["classes"].items()))
        )
        said = f"{score['accuracy']:.3f} ± {score['accuracy_std']:.3f} by {score['how']}"
        table.add_row("accuracy", short(said))
        chosen = dict(facts["parameters"])
        table.add_row("C", short(_penalties(chosen.pop("C"), facts["classes"])))
        table.add_row("alpha", f"{chosen.pop('alpha'):.3g}")
        if "kernel" in chosen:
            table.add_row("kernel", _kernel(facts))
            chosen = {k: v for k, v in chosen.items() if k not in ("kernel", "gamma")}
        table.add_row("parameters", short(", ".join(f"{k} {v}" for k, v in chosen.items())))
        kinds: dict[str, list[str]] = {}
        for column in facts["columns"]:
            kinds.setdefault(column["kind"], []).append(column["name"])
        for kind, names in kinds.items():
            table.add_row(f"{kind} columns", short(", ".join(names), 400))
    screen.print(table)
