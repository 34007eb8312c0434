"""What the screens of all commands share: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from fuzzytwin._utils.progress import Progress


def new_console() -> Any:
    """Make a console on standard output."""
    from rich.console import Console

    return Console(soft_wrap=False)


def new_table(*heads: str, title: str | None = None, tight: bool = False) -> Any:
    """Make a table; heads that end in ">" stand over numbers. A tight one fits more columns."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", show_edge=False,
                  pad_edge=False, show_header=any(heads), title_style="bold")  # fmt: skip
    if tight:
        table.padding = (0, 1, 0, 0)
    for head in heads:
        right = head.endswith(">")
        table.add_column(head.rstrip(">"), justify="right" if right else "left")
    return table


def progress(total: int) -> Progress:
    """Make a progress bar for people; nothing is shown where no terminal is."""
    return Progress("starting", total, wanted=sys.stderr.isatty(), transient=True)


def print_json(page: object) -> None:
    """Print a value as JSON."""
    print(json.dumps(page, indent=1, default=_plain))


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def mark(value: float, best: float) -> str:
    """Write a score, in bold letters if it is the best."""
    return f"[bold]{value:.3f}[/]" if value >= best - 1e-12 else f"{value:.3f}"


def short(text: object, width: int = 1000) -> str:
    """Cut a text to a width, and escape it for rich."""
    from rich.markup import escape

    words = str(text)
    return escape(words if len(words) <= width else words[: width - 3] + "...")


def short_name(name: str, width: int) -> str:
    """Cut the name of a prepared column in the middle; " = value" stays."""
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


def class_counts(facts: dict[str, Any]) -> str:
    """List the classes with their numbers of rows."""
    return ", ".join(f"{label} ({n:,})" for label, n in facts["classes"].items())


def parameter_words(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Describe the parameters of a model, a line each."""
    chosen = facts["parameters"]
    yield "planes", f"{chosen['planes']}, rule {chosen['rule']}"
    if "kernel" in chosen:
        gamma = chosen.get("gamma", "")
        if isinstance(gamma, list):  # one for each column
            gamma = f", gammas {min(gamma):.4g} to {max(gamma):.4g}"
        elif gamma:
            gamma = f", gamma {gamma:.4g}"
        yield "kernel", f"{chosen['kernel']}{gamma}, {facts['landmarks']:,} landmarks"
    yield "membership", str(facts["degree"] or chosen["membership"] or "none")
    if "class_weight" in chosen:
        yield "class weight", str(chosen["class_weight"])
    yield "C", _penalties(chosen["C"], facts["classes"])
    yield "alpha", f"{chosen['alpha']:.3g}"


def _penalties(C: float | list[float], classes: dict[str, int]) -> str:
    """Write C as one number, or as one for each class."""
    if not isinstance(C, list):
        return f"{C:g}"
    if len(set(C)) == 1 or len(C) != len(classes):
        return ", ".join(f"{c:g}" for c in dict.fromkeys(C))
    return ", ".join(f"{label} {c:g}" for label, c in zip(classes, C, strict=True))


def show_score(screen: Any, score: dict[str, Any]) -> None:
    """Show what `fuzzytwin.tables.measures.measure` returned."""
    from fuzzytwin.tables.measures import verdict

    low, high = score["balanced_accuracy_interval"]
    screen.print(
        f"balanced accuracy [bold]{score['balanced_accuracy']:.3f}[/] ({low:.3f} to {high:.3f}), "
        f"accuracy {score['accuracy']:.3f}",
        highlight=False,
    )
    screen.print(f"always the largest class: accuracy {score['baseline']:.3f}", highlight=False)
    screen.print(short(verdict(score)) + "\n", highlight=False)
    measures = {"specificity": "specificity", "precision": "precision", "roc_auc": "ROC\nAUC",
                "average_precision": "avg.\nprec."}  # fmt: skip
    if screen.width < 78:
        measures = {}
    heads = (f"{head}>" for head in measures.values())
    table = new_table("class", "rows>", "sensitivity (95 %)>", *heads, tight=True)
    for entry in score["per_class"][:30]:
        share = number(entry["sensitivity"])
        if entry["sensitivity"] is not None:
            share += " ({:.2f}-{:.2f})".format(*entry["sensitivity_interval"])
        cells = (number(entry[name]) for name in measures)
        table.add_row(short(entry["class"], 14), f"{entry['rows']:,}", share, *cells)
    screen.print(table)


def number(value: float | None) -> str:
    """Write a score, or a dash."""
    return "-" if value is None else f"{value:.3f}"
