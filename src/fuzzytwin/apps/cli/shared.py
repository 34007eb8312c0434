"""What the commands share: opening what they are given, tables for people, JSON for programs."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzzytwin._utils.progress import Progress

if TYPE_CHECKING:
    from fuzzytwin.data.schema import Schema

# What is given


def load_model(model: Path) -> tuple[Any, dict[str, Any]]:
    """Load a model and the facts that were saved with it."""
    from fuzzytwin import store

    facts = store.about(model).get("facts")
    return store.load(model), facts if isinstance(facts, dict) else {}


def schema_of(facts: dict[str, Any], data: Path) -> Schema:
    """Give the schema of a model; refuse data of another kind than it was trained on."""
    from fuzzytwin.data.files import known_kind
    from fuzzytwin.data.schema import Schema

    if "schema" not in facts:
        raise ValueError(
            "the model was not made by `fuzzytwin train`, so its columns are not known; use it "
            "from Python: fuzzytwin.store.load."
        )
    schema = Schema.from_dict(facts["schema"])
    sparse = schema.zero_based is not None
    if sparse != (known_kind(data) == "libsvm"):
        raise ValueError(
            f"{data} is {'no' if sparse else ''} LIBSVM text, but the model was trained on "
            f"{'LIBSVM text' if sparse else 'a table with named columns'}; give such a file."
        )
    return schema


def too_large(data: Path) -> bool:
    """Return whether a table would take more than half of the available memory."""
    from fuzzytwin._utils.memory import available_memory
    from fuzzytwin.data.files import file_size, known_kind

    try:
        return known_kind(data) != "libsvm" and 2 * file_size(data) > available_memory()
    except (ValueError, OSError):
        return False  # reading it reports what is wrong


def same_file(facts: dict[str, Any], data: Path) -> bool:
    """Return whether the data have the name of those that the model was trained on."""
    return os.path.basename(str(facts.get("data"))) == data.name


def stem(path: Path) -> str:
    """Give the name of a file without its ending: my.v2.csv is my.v2."""
    from fuzzytwin.data.files import ENDINGS

    known = [ending for ending in ENDINGS if path.name.lower().endswith(ending)]
    return path.name[: -max(map(len, known), default=1)] or "model"


def check_output(path: Path | None, force: bool) -> None:
    """Refuse, before any work, an output that could not be written."""
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory; name a file in it.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no directory {path.parent}; make it first.")
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists already; take another name, or --force.")


def write_text(path: Path, text: str, force: bool) -> None:
    """Write a text file, complete or not at all."""
    from fuzzytwin._utils.files import replacing

    with replacing(path, overwrite=force) as draft:
        draft.write_text(text, encoding="utf-8")


def write_table(path: Path, frame: Any, force: bool) -> None:
    """Write a frame or an Arrow table as the kind of file that its name says."""
    from fuzzytwin._utils.files import replacing
    from fuzzytwin.data.cells import pa
    from fuzzytwin.data.writers import TableWriter

    if not hasattr(frame, "num_rows"):
        frame = pa.Table.from_pandas(frame, preserve_index=False)
    with replacing(path, overwrite=force) as draft, TableWriter(path, draft) as writer:
        writer.write(frame)


def command_line() -> str:
    """Give the command that is running, as it was typed."""
    return shlex.join(["fuzzytwin", *sys.argv[1:]])


# What is shown


def new_console() -> Any:
    """Make a console on standard output."""
    from rich.console import Console

    return Console(soft_wrap=False, highlight=False)


def say(*lines: object) -> None:
    """Print lines as they are."""
    console = new_console()
    for line in lines:
        console.print(str(line), markup=False)


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


def progress(total: int | None) -> Progress:
    """Make a progress bar for people; nothing is shown where no terminal is."""
    return Progress("starting", total, wanted=sys.stderr.isatty(), transient=True)


def print_json(page: object) -> None:
    """Print a value as JSON."""
    print(json.dumps(_finite(page), indent=1, default=_plain))


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def _finite(page: Any) -> Any:
    """Write what is not a number as null, as JSON has nothing else for it."""
    if isinstance(page, dict):
        return {key: _finite(value) for key, value in page.items()}
    if isinstance(page, (list, tuple)):
        return [_finite(value) for value in page]
    return None if isinstance(page, float) and page != page else page


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
    if "members" in chosen:
        marks = f", {facts['landmarks']:,} landmarks" if facts["landmarks"] else ""
        yield "model", f"committee of {len(chosen['members'])}{marks}"
        yield from (("", member) for member in chosen["members"])
    else:
        yield "planes", f"{chosen['planes']}, rule {chosen['rule']}"
    if "kernel" in chosen:
        gamma = chosen.get("gamma", "")
        if isinstance(gamma, list):  # one for each column
            gamma = f", gammas {min(gamma):.4g} to {max(gamma):.4g}"
        elif gamma:
            gamma = f", gamma {gamma:.4g}"
        yield "kernel", f"{chosen['kernel']}{gamma}, {facts['landmarks']:,} landmarks"
    if facts["degree"] or "membership" in chosen:
        yield "membership", str(facts["degree"] or chosen["membership"] or "none")
    if "class_weight" in chosen:
        yield "class weight", str(chosen["class_weight"])
    if "C" in chosen:
        yield "C", _penalties(chosen["C"], facts["classes"])
        yield "alpha", f"{chosen['alpha']:.3g}"


def _penalties(C: float | list[float], classes: dict[str, int]) -> str:
    """Write C as one number, or as one for each class."""
    if not isinstance(C, list):
        return f"{C:g}"
    if len(set(C)) == 1 or len(C) != len(classes):
        return ", ".join(f"{c:g}" for c in dict.fromkeys(C))
    return ", ".join(f"{label} {c:g}" for label, c in zip(classes, C, strict=True))


def show_columns(columns: list[dict[str, Any]]) -> None:
    """Show what became of the columns; of many, those without a remark share a line by kind."""
    screen = new_console()
    shown = [c for c in columns if c["note"]][:40] if len(columns) > 24 else columns
    table = new_table("column", "taken as", "values>", "missing>", "")
    for column in shown:
        table.add_row(
            short(column["name"], 26), column["kind"], f"{column['distinct']:,}",
            f"{column['missing']:,}", short(column["note"]),
        )  # fmt: skip
    if shown:
        screen.print(table)
    kinds: dict[str, list[str]] = {}
    for column in columns:
        if column not in shown:
            kinds.setdefault(column["kind"], []).append(column["name"])
    for kind, names in kinds.items():
        many = f"{len(names):,} columns" if len(names) > 1 else "1 column"
        screen.print(short(f"{many} taken as {kind}: {', '.join(names)}", 400))


def show_score(score: dict[str, Any]) -> None:
    """Show what `fuzzytwin.apps.measures.measure` returned."""
    screen = new_console()
    low, high = score["balanced_accuracy_interval"]
    lost = f", log loss {score['log_loss']:.3f}" if "log_loss" in score else ""
    screen.print(
        f"balanced accuracy [bold]{score['balanced_accuracy']:.3f}[/] ({low:.3f} to {high:.3f}), "
        f"accuracy {score['accuracy']:.3f}{lost}"
    )
    screen.print(f"always the largest class: accuracy {score['baseline']:.3f}")
    screen.print(short(score["verdict"]) + "\n")
    measures = {"specificity": "specificity", "precision": "precision", "roc_auc": "ROC\nAUC",
                "average_precision": "avg.\nprec."}  # fmt: skip
    if screen.width < 78:
        measures = {}
    heads = (f"{head}>" for head in measures.values())
    table = new_table("class", "rows>", "sensitivity (95 %)>", *heads, tight=True)
    for entry in score["per_class"][:30]:
        share = _number(entry["sensitivity"])
        if entry["sensitivity"] is not None:
            share += " ({:.2f}-{:.2f})".format(*entry["sensitivity_interval"])
        cells = (_number(entry[name]) for name in measures)
        table.add_row(short(entry["class"], 14), f"{entry['rows']:,}", share, *cells)
    screen.print(table)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
