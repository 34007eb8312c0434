"""Use a model: ``fuzzytwin predict``, ``evaluate``, ``explain``, ``info`` and ``export``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import typer

from fuzzytwin._utils.extras import extras, versions
from fuzzytwin.cli import _options as o
from fuzzytwin.cli import _shared as shared
from fuzzytwin.cli import _show as show


def predict(
    model: Path = o.MODEL,
    data: Path = typer.Argument(metavar="DATA", help=f"{o.TABLES} file with the rows to label."),
    out: Path | None = o.file(
        f"{o.OUTPUTS} file to write (text also as .gz)  [default: print CSV]"
    ),
    keep: list[str] = o.columns("Column to copy to the output (may be repeated)."),
    id_column: str | None = o.MODEL_ID,
    keep_all: bool = o.KEEP_ALL,
    coverage: float | None = o.option(
        "Also write prediction sets, which contain the true label with this probability, such as "
        "0.9.",
        metavar="SHARE",
    ),
    class_conditional: bool | None = o.option(
        "Coverage for each class instead of on average  [default: only if a class is rare]",
        "--class-conditional/--no-class-conditional",
    ),
    allow_missing: bool = o.ALLOW_MISSING,
    reading: dict[str, Any] = o.READING,
    stream: bool = o.option(
        "Read the file in chunks, or all rows at once.", "--stream/--no-stream", default=True
    ),
    force: bool = o.FORCE,
    as_json: bool = o.JSON,
) -> None:
    """Predict labels, probabilities and prediction sets.

    Prediction sets need --coverage. Twin SVMs that were saved from Python without calibration give
    memberships instead of probabilities.
    """
    from fuzzytwin._utils.text import count, printable
    from fuzzytwin.experiment._estimators import quiet
    from fuzzytwin.experiment._words import notes
    from fuzzytwin.files._predict import predict_table
    from fuzzytwin.tables import read_table
    from fuzzytwin.tables._columns import missing_column
    from fuzzytwin.tables._writer import (
        as_csv,
        check_out,
        output_style,
        text_style,
        write_tables,
    )

    shared.check_outputs([model, data], out, None, force)
    if out is not None:
        check_out(out)
    fitted, metadata = shared.load_model(model)
    set_notes: list[str] = []
    if coverage is not None:
        if not 0 < coverage < 1:
            raise ValueError(f"--coverage {coverage} is not valid; use a number between 0 and 1.")
        if not hasattr(fitted[-1], "conformity_scores_"):
            raise ValueError(
                f"--coverage needs a model with prediction sets, which {model} does not have; use "
                "train, or in Python a twin SVM with calibration='loo'."
            )
        class_conditional, note_on_coverage = _choose_coverage(
            metadata, coverage, class_conditional
        )
        set_notes.append(note_on_coverage)
    schema = shared.schema_of(metadata)
    kept = [id_column, *keep]
    required = list(schema.reads)
    reader = read_table(data, like=schema, **shared.reading_like(schema, reading))
    names = reader.names
    absent = [name for name in required if name not in names]
    if absent and (not allow_missing or len(absent) == len(required)):
        columns = "columns" if len(absent) > 1 else "column"
        raise ValueError(
            f"{missing_column(absent[0], names, data, required, schema.training_names)} Rename the "
            f"{columns}, or use --allow-missing to treat absent columns as missing values."
        )
    if id_column is None and metadata.get("id") in names:
        kept[0] = metadata["id"]
    kept += names if keep_all else []
    predicted = predict_table(
        fitted,
        reader,
        schema,
        keep=list(dict.fromkeys(name for name in kept if name is not None)),
        batch_rows=None if stream else 1 << 31,
        coverage=coverage,
        class_conditional=bool(class_conditional),
        allow_missing=allow_missing,
    )
    if out is not None:
        reader.check_output(out)
    rows = 0
    records = []
    n_empty = 0
    # Sets are written as JSON if a label holds a bar.
    empty_set = "[]" if any("|" in str(name) for name in fitted.classes_.tolist()) else ""

    def tables() -> Iterator[Any]:
        nonlocal n_empty
        for table in predicted.tables:
            if coverage is not None:
                prefix = table.schema.names[-1].partition("probability_")[0]
                n_empty += table[f"{prefix}set"].to_pylist().count(empty_set)
            yield table

    with quiet():
        if out is not None:
            style = output_style(reader)
            rows = write_tables(
                out, tables(), force, "labelled", reader.n_rows, sys.stderr.isatty(), **style
            )
        else:
            for table in tables():
                if as_json:
                    records += table.to_pylist()
                else:
                    text = as_csv(table, header=not rows, **text_style(reader))
                    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
                rows += table.num_rows
    if n_empty:
        is_are = "is" if n_empty == 1 else "are"
        set_notes.append(
            f"{count(n_empty, 'prediction set')} {is_are} empty: the row is unlike every class at "
            "this coverage. Review such rows, or use a higher --coverage"
        )
    all_notes = [*notes(predicted.issues.findings()), *set_notes]
    if as_json and out is not None:
        return show.print_json({"rows": rows, "out": str(out), "notes": all_notes})
    for text in all_notes:
        shared.note(text)
    if as_json:
        return show.print_json(records)
    if out is not None:
        show.echo(f"{count(rows, 'row')} labelled and written to {show.short(out)}.")


def _choose_coverage(
    metadata: dict[str, Any], coverage: float, by_class: bool | None
) -> tuple[bool, str]:
    """Choose marginal or class-conditional coverage, and describe it."""
    sizes = metadata.get("classes") or {"": 1}
    rarest = min(sizes, key=lambda label: sizes[label])
    rare = sizes[rarest] < sum(sizes.values()) / len(sizes) / 2  # half of an equal share
    text = f"prediction sets contain the true label for {coverage:.0%} of"
    if by_class or (by_class is None and rare):
        return True, f"{text} the rows of every class"
    more = f". Class {rarest} may be covered less: use --class-conditional" if rare else ""
    return False, f"{text} all rows (marginal, not per-class, coverage){more}"


def evaluate(
    model: Path = o.MODEL,
    data: Path = typer.Argument(metavar="DATA", help=f"{o.TABLES} file with labelled rows."),
    target: str | None = o.column("Column of labels  [default: as in training]"),
    groups: str | None = o.column(
        "Column of groups, such as patients, for the confidence intervals."
    ),
    id_column: str | None = o.MODEL_ID,
    allow_missing: bool = o.ALLOW_MISSING,
    reading: dict[str, Any] = o.READING,
    as_json: bool = o.JSON,
) -> None:
    """Measure a model on new labelled rows.

    Rows that were used in training would give optimistic scores.
    """
    from fuzzytwin.experiment._estimators import quiet
    from fuzzytwin.experiment._metrics import measure
    from fuzzytwin.experiment._rows import labelled_rows
    from fuzzytwin.experiment._words import notes
    from fuzzytwin.twin._prediction import class_values, last_step

    fitted, metadata = shared.load_model(model)
    schema = shared.schema_of(metadata)
    rows = labelled_rows(
        str(data), schema, target, groups, metadata.get("groups"), id_column, metadata.get("id"),
        allow_missing=allow_missing, **shared.reading_like(schema, reading),
    )  # fmt: skip
    classes, y = fitted.classes_.astype(str), rows.y.astype(str)
    if not set(y) & set(classes):
        column = target or schema.target
        raise ValueError(
            f"no label in column {column!r} of {data} is a class of the model; the classes are "
            f"{', '.join(classes[:10])}. Name the column of labels with --target."
        )
    with quiet():
        classifier, X = last_step(fitted, rows.X)
        has_values = any(hasattr(classifier, f"predict_{name}") for name in ("proba", "membership"))
        P = class_values(classifier, X) if has_values else None
        predicted = fitted.predict(rows.X)
    score = measure(
        y, predicted.astype(str), membership=P, classes=classes, weight=rows.weight,
        groups=rows.groups, probabilities=hasattr(fitted, "predict_proba"),
    )  # fmt: skip
    with shared.reading_metadata(model):
        score["thresholds"] = _at_thresholds(metadata.get("thresholds"), classes, P, y, rows)
    score["unknown_labels"] = sorted(set(y) - set(classes))
    score["trained_on_this"] = Path(str(metadata.get("data"))).name == data.name
    score["notes"] = notes(rows.findings)
    if as_json:
        return show.print_json(score)
    show.evaluated(score, data)


def _at_thresholds(
    chosen: dict[str, Any] | None, classes: Any, P: Any, y: Any, rows: Any
) -> dict[str, Any] | None:
    """Measure the thresholds that were chosen in training."""
    from fuzzytwin.experiment._curves import scores_at

    if chosen is None:
        return None
    label = chosen["class"]
    probability = P[:, classes.tolist().index(label)]
    scores = [
        scores_at(entry["threshold"], y == label, probability, rows.weight, rows.groups)
        for entry in chosen["scores"]
    ]
    return {"class": label, "scores": scores}


def explain(
    model: Path = o.MODEL,
    data: Path | None = typer.Argument(
        None,
        metavar="DATA",
        help="Rows at which effects are computed. Use rows that were not used in training: effects "
        "at training rows are too small.  [default: the training rows, each held out]",
    ),
    label: str | None = o.option(
        "Class to explain  [default: the rarer of two, or every class]", metavar="LABEL"
    ),
    limit: int = o.number("Columns to show for each class.", "--limit", default=8, min=1),
    id_column: str | None = o.MODEL_ID,
    reading: dict[str, Any] = o.READING,
    as_json: bool = o.JSON,
) -> None:
    """Show which columns drive the predictions."""
    from fuzzytwin.experiment._estimators import quiet
    from fuzzytwin.experiment._words import notes

    fitted, metadata = shared.load_model(model)
    if data is not None:
        from fuzzytwin.experiment._rows import read_features
        from fuzzytwin.explain import explain as explain_model

        schema = shared.schema_of(metadata)
        like = shared.reading_like(schema, reading)
        X, findings = read_features(str(data), schema, id_column, **like)
        for text in notes(findings):
            shared.note(text)
        with quiet():
            explained = explain_model(fitted, X)
    elif id_column is not None:
        raise ValueError("--id needs DATA: it names a column of these rows.")
    elif "effects" in metadata:
        explained = metadata["effects"]
    else:
        raise ValueError(f"{model} contains no effects; use fuzzytwin explain {model} DATA.")
    with shared.reading_metadata(model) if data is None else nullcontext():
        explained, others = _select_classes(explained, label, metadata.get("classes", {}))
        if as_json:
            page = {"classes": [*explained, *others], "parameters": metadata.get("parameters")}
            return show.print_json(page)
        value = "probability" if hasattr(fitted, "predict_proba") else "membership"
        show.explained(explained, others, limit, value)


def _select_classes(
    explained: list[dict[str, Any]], label: str | None, sizes: dict[str, int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Divide the classes into those to show and the others.

    Of two classes only one is shown, because the effects on the other are the opposite.
    """
    names = [str(entry["class"]) for entry in explained]
    if label is not None and label not in names:
        raise ValueError(
            f"--label {label!r} is not a class of the model; use one of {', '.join(names[:10])}."
        )
    if label is None and len(explained) == 2 and not any(e["vagueness"] > 0 for e in explained):
        from fuzzytwin.explain._effects import rarest

        label = names[rarest([sizes.get(name, 0) for name in names])]
    shown = [entry for entry in explained if label in (None, str(entry["class"]))]
    return shown, [entry for entry in explained if entry not in shown]


def info(
    model: Path | None = typer.Argument(None, metavar="MODEL", help="Model file."),
    as_json: bool = o.JSON,
) -> None:
    """Describe a model file, or this installation."""
    from fuzzytwin import store
    from fuzzytwin.datasets import list_uci

    if model is not None:
        page = store.read_metadata(model)
        metadata = page["metadata"]
        if isinstance(metadata, dict) and "schema" not in metadata:  # saved from Python
            with suppress(store.ModelFileError):
                _, page["metadata"] = shared.load_model(model)
    else:
        installed = {extra: version is not None for extra, version in extras().items()}
        page = {"versions": versions(), "extras": installed, "datasets": list_uci()}
    if as_json:
        return show.print_json(page)
    with nullcontext() if model is None else shared.reading_metadata(model):
        show.info(model, page)


def export(
    model: Path = o.MODEL,
    out: Path = typer.Argument(metavar="OUT", help="ONNX file to write."),
    force: bool = o.FORCE,
    as_json: bool = o.JSON,
) -> None:
    """Export a model to ONNX."""
    from fuzzytwin.store import to_onnx

    shared.check_outputs([model], out, None, force)
    if out.suffix != ".onnx":
        raise ValueError(f"{out} must end in .onnx.")
    fitted, _ = shared.load_model(model)
    graph = to_onnx(fitted)
    shared.write_file(out, graph.SerializeToString(), force, [str(model)])
    kinds = {11: "double", 8: "string"}
    columns = {
        entry.name: kinds.get(entry.type.tensor_type.elem_type, "?") for entry in graph.graph.input
    }
    outputs = [entry.name for entry in graph.graph.output]
    if as_json:
        return show.print_json({"out": str(out), "inputs": columns, "outputs": outputs})
    shown = ", ".join(f"{name} ({kind})" for name, kind in list(columns.items())[:6])
    more = f" and {len(columns) - 6} more" if len(columns) > 6 else ""
    text = f"Model written to {out}.\nInputs: {shown}{more}. Outputs: {', '.join(outputs)}."
    show.echo(show.short(text))
