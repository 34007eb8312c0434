"""Use a model: ``fuzzytwin predict``, ``evaluate``, ``explain``, ``info`` and ``export``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from fuzzytwin._utils.extras import extras, versions
from fuzzytwin.apps.cli import options as o
from fuzzytwin.apps.cli import shared, show


def predict(
    model: Path = o.MODEL,
    data: Path = typer.Argument(help="Rows to label."),
    out: Path | None = o.file(f"{o.TABLES}; text also as .gz  [default: print CSV]"),
    keep: list[str] = o.columns("A column to copy beside the labels; may be repeated."),
    id_column: str | None = o.column(
        "Column that names the rows  [default: as in training]", "--id"
    ),
    keep_all: bool = o.KEEP_ALL,
    coverage: float | None = o.option(
        "Also a set of labels that holds the true one with this probability, such as 0.9, "
        "separated by |; not of planes without --calibrate.",
        metavar="SHARE",
    ),
    class_conditional: bool | None = o.option(
        "Keep the coverage within every class, not on average over all rows  [default: if a "
        "class is rare]",
        "--class-conditional/--no-class-conditional",
    ),
    sheet: str | None = o.SHEET,
    allow_missing: bool = o.flag(
        "Take columns that the file does not have as missing in every row.", "--allow-missing"
    ),
    stream: bool = o.option(
        "Read in batches, or all rows at once.", "--stream/--no-stream", default=True
    ),
    force: bool = o.FORCE,
    as_json: bool = o.JSON,
) -> None:
    """Label rows: the label, and the probability of every class (membership: not calibrated).

    With --coverage also a set of labels that holds the true one with that probability.
    """
    from fuzzytwin._utils.text import count
    from fuzzytwin.apps.study import quiet
    from fuzzytwin.data.files import open_table
    from fuzzytwin.data.predict_source import label
    from fuzzytwin.data.schema import missing_column
    from fuzzytwin.data.writers import as_csv, check_out, write_tables

    shared.check_output(out, force)
    if out is not None:
        check_out(out)
    fitted, facts = shared.load_model(model)
    notes: list[str] = []
    if coverage is not None:
        if not 0 < coverage < 1:
            raise ValueError(
                f"--coverage {coverage} is not allowed; give a number between 0 and 1."
            )
        if not hasattr(fitted[-1], "conformity_scores_"):
            raise ValueError(
                f"{model} does not have what --coverage needs; train it with --calibrate."
            )
        class_conditional, promise = _promise(facts, coverage, class_conditional)
        notes.append(promise)
    schema = shared.schema_of(facts, data)
    kept = [id_column, *keep]
    if schema.zero_based is None:
        wanted = [c.name for c in schema.features]
        expected = [] if allow_missing else wanted
        names = open_table(data, expected, schema.separator, sheet).schema.names
        lost = [name for name in wanted if name not in names]
        if lost and (not allow_missing or len(lost) == len(wanted)):
            remedy = "Rename the columns" if len(lost) > 1 else "Rename the column"
            raise ValueError(
                f"{missing_column(lost[0], names, data, wanted, schema.known)} {remedy}, or take "
                "what is not there as missing: --allow-missing."
            )
        if id_column is None and facts.get("id") in names:
            kept[0] = facts["id"]
        kept += names if keep_all else []
    source, tables = label(
        fitted,
        data,
        keep=list(dict.fromkeys(name for name in kept if name is not None)),
        schema=schema,
        batch_rows=None if stream else 1 << 31,
        coverage=coverage,
        class_conditional=bool(class_conditional),
        sheet=sheet,
        allow_missing=allow_missing,
    )
    if out is not None:
        source.refuse_output(out)
    rows, records = 0, []
    odd_sets = OddSets(as_json=any("|" in str(name) for name in fitted.classes_.tolist()))
    tables = tables if coverage is None else odd_sets.counted(tables)
    with quiet():
        if out is not None:
            rows = write_tables(out, tables, force, "labelled", source.rows, sys.stderr.isatty())
        else:
            for table in tables:
                if as_json:
                    records += table.to_pylist()
                else:
                    sys.stdout.write(as_csv(table, header=not rows))
                rows += table.num_rows
    absent = [
        f"{path} has no column {name!r}: it counts as missing in every row"
        for name, path in source.absent.items()
    ]
    notes = [*absent, *source.odd_cells.notes(), *notes, *odd_sets.notes()]
    if as_json and out is not None:
        return show.print_json({"rows": rows, "out": str(out), "notes": notes})
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    if as_json:
        return show.print_json(records)
    if out is not None:
        show.say(f"{count(rows, 'row')} labelled, in {show.short(out)}.")


class OddSets:
    """Counts prediction sets that are empty, or that lack the label beside them."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json  # whether sets are written as JSON, as a label holds a bar
        self.empty = 0
        self.without_label = 0

    def counted(self, tables: Iterable[Any]) -> Iterator[Any]:
        """Yield tables of predictions, and count their sets."""
        for table in tables:
            prefix = table.schema.names[-1].partition("probability_")[0]
            labels, sets = (table[prefix + name].to_pylist() for name in ("label", "set"))
            for label, text in zip(map(str, labels), sets, strict=True):
                members = json.loads(text) if self.as_json else text.split("|")
                is_empty = not any(members)
                self.empty += is_empty
                self.without_label += not is_empty and label not in members
            yield table

    def notes(self) -> list[str]:
        """Say how many there were, and what they mean."""
        from fuzzytwin._utils.text import count

        notes = []
        if self.empty:
            is_are = "is" if self.empty == 1 else "are"
            notes.append(
                f"{count(self.empty, 'set')} {is_are} empty: no label is probable enough for the "
                "row at this coverage. Look at such rows, or ask for a greater --coverage"
            )
        if self.without_label:
            lack = "lacks" if self.without_label == 1 else "lack"
            notes.append(
                f"{count(self.without_label, 'set')} {lack} the predicted label: each label is "
                "compared with the training rows of its own class, and theirs had higher "
                "probabilities. Take such rows as undecided"
            )
        return notes


def _promise(facts: dict[str, Any], coverage: float, by_class: bool | None) -> tuple[bool, str]:
    """Decide whether sets are to cover every class, and say which promise they keep."""
    sizes = facts.get("classes") or {"": 1}
    rarest = min(sizes, key=lambda label: sizes[label])
    rare = sizes[rarest] < sum(sizes.values()) / len(sizes) / 2  # half of an equal share
    words = f"sets hold the true label for {coverage:.0%} of"
    if by_class or (by_class is None and rare):
        return True, f"{words} the rows of every class"
    more = f"; rows of class {rarest} may be covered less: --class-conditional" if rare else ""
    return False, f"{words} all rows, on average, not of every class{more}"


def evaluate(
    model: Path = o.MODEL,
    data: Path = typer.Argument(help="Rows with their true labels."),
    target: str | None = o.column("Column of labels  [default: as in training]"),
    groups: str | None = o.column("Column of groups, such as patients: intervals count groups."),
    sheet: str | None = o.SHEET,
    as_json: bool = o.JSON,
) -> None:
    """Measure a model on labelled rows that it was not trained on."""
    from fuzzytwin.apps.measures import measure
    from fuzzytwin.apps.study import is_calibrated, quiet
    from fuzzytwin.apps.table_rows import labelled_rows

    fitted, facts = shared.load_model(model)
    rows = labelled_rows(
        str(data), shared.schema_of(facts, data), fitted.n_features_in_, target, groups,
        facts.get("groups"), sheet,
    )  # fmt: skip
    with quiet():
        P = fitted.predict_proba(rows.X) if hasattr(fitted, "predict_proba") else None
        predicted = fitted.predict(rows.X)
    classes, y = fitted.classes_.astype(str), rows.y.astype(str)
    score = measure(
        y, predicted.astype(str), membership=P, classes=classes, weight=rows.weight,
        groups=rows.groups, probabilities=is_calibrated(fitted[-1]),
    )  # fmt: skip
    score["unknown_labels"] = sorted(set(y) - set(classes))
    score["trained_on_this"] = Path(str(facts.get("data"))).name == data.name
    score["notes"] = rows.notes
    if as_json:
        return show.print_json(score)
    show.evaluated(score, data)


def explain(
    model: Path = o.MODEL,
    data: Path | None = typer.Argument(None, help="Rows to look at  [default: those of training]"),
    label: str | None = o.option(
        "Class to explain  [default: the rarer of two, or every class]", metavar="LABEL"
    ),
    top: int = o.option("Columns to show for each class.", default=8, min=1),
    sheet: str | None = o.SHEET,
    as_json: bool = o.JSON,
) -> None:
    """Show which columns drive the prediction."""
    from fuzzytwin.apps.study import is_calibrated

    fitted, facts = shared.load_model(model)
    if data is not None:
        from fuzzytwin.apps.table_rows import read_features
        from fuzzytwin.explain import explain as explain_model

        schema = shared.schema_of(facts, data)
        X, _, _ = read_features(str(data), schema, fitted.n_features_in_, sheet=sheet)
        explained = explain_model(fitted, X)
    elif "effects" in facts:
        explained = facts["effects"]
    else:
        raise ValueError(f"{model} holds no effects; give rows: fuzzytwin explain {model} DATA.")
    explained, others = _asked(explained, label, facts.get("classes", {}))
    if as_json:
        page = {"classes": [*explained, *others], "parameters": facts.get("parameters")}
        return show.print_json(page)
    value = "probability" if is_calibrated(fitted[-1]) else "membership"
    show.explained(explained, others, top, value)


def _asked(
    explained: list[dict[str, Any]], label: str | None, sizes: dict[str, int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Divide classes into those to show and others: of two, one gains what the other loses."""
    names = [str(entry["class"]) for entry in explained]
    if label is not None and label not in names:
        raise ValueError(
            f"--label {label!r} is not a class of the model; use one of {', '.join(names[:10])}."
        )
    if label is None and len(explained) == 2 and not any(e["vagueness"] > 0 for e in explained):
        from fuzzytwin.explain.effects import rarest

        label = names[rarest([sizes.get(name, 0) for name in names])]
    shown = [entry for entry in explained if label in (None, str(entry["class"]))]
    return shown, [entry for entry in explained if entry not in shown]


def info(
    model: Path | None = typer.Argument(None, help="A model file."),
    as_json: bool = o.JSON,
) -> None:
    """Describe a model file, or this installation."""
    from fuzzytwin import store
    from fuzzytwin.datasets import list_uci

    if model is not None:
        page = store.about(model)
        facts = page["facts"]
        if isinstance(facts, dict) and "schema" not in facts:  # it was saved from Python
            with suppress(store.ModelFileError):
                _, page["facts"] = shared.load_model(model)
    else:
        there = {extra: version is not None for extra, version in extras().items()}
        page = {"versions": versions(), "extras": there, "datasets": list_uci()}
    if as_json:
        return show.print_json(page)
    show.info(model, page)


def export(
    model: Path = typer.Argument(help="A model file."),
    out: Path = typer.Argument(help="An .onnx file."),
    force: bool = o.FORCE,
    as_json: bool = o.JSON,
) -> None:
    """Write a model as ONNX, with the same answers."""
    from fuzzytwin.store import to_onnx

    shared.check_output(out, force)
    if out.suffix != ".onnx":
        raise ValueError(f"{out} should end in .onnx.")
    fitted, _ = shared.load_model(model)
    graph = to_onnx(fitted)
    shared.write_file(out, graph.SerializeToString(), force)
    kinds = {11: "double", 8: "string"}
    columns = {
        entry.name: kinds.get(entry.type.tensor_type.elem_type, "?") for entry in graph.graph.input
    }
    outputs = [entry.name for entry in graph.graph.output]
    if as_json:
        return show.print_json({"out": str(out), "inputs": columns, "outputs": outputs})
    shown = ", ".join(f"{name} ({kind})" for name, kind in list(columns.items())[:6])
    more = f" and {len(columns) - 6} more" if len(columns) > 6 else ""
    text = f"The model is in {out}.\nIn: {shown}{more}. Out: {', '.join(outputs)}."
    show.say(show.short(text))
