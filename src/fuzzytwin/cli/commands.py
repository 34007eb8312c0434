"""What ``fuzzytwin`` can do. Heavy imports stand inside the commands, so that help is quick."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

import fuzzytwin
from fuzzytwin.cli import inputs as _inputs
from fuzzytwin.cli import screens as _screens

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)

Force = Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Drop = Annotated[
    list[str],
    typer.Option("--drop", metavar="COLUMN", help="A column to leave out; may be given often."),
]
Seed = Annotated[int, typer.Option(help="Same seed, same folds.")]
Folds = Annotated[int, typer.Option(min=2, help="Folds to measure by.")]


class Planes(Enum):
    """Kinds of planes."""

    CRISP = "crisp"
    FUZZY = "fuzzy"


class Membership(Enum):
    """Ways to compute degrees."""

    NONE = "none"
    CENTER = "center"
    HYPERPLANE = "hyperplane"
    NEIGHBOR = "neighbor"
    ENTROPY = "entropy"
    INTUITIONISTIC = "intuitionistic"


class Kernel(Enum):
    """Kernels of curved planes, and none."""

    LINEAR = "linear"
    RBF = "rbf"
    POLY = "poly"
    SIGMOID = "sigmoid"
    LAPLACIAN = "laplacian"
    COSINE = "cosine"


class Kind(Enum):
    """Kinds of made-up data."""

    NDC = "ndc"
    XOR = "xor"


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"fuzzytwin {fuzzytwin.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error (anywhere in a line).")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version.")
    ] = False,
) -> None:
    """Classifiers for tables whose labels are doubtful: fuzzy least-squares twin SVMs.

    First look: fuzzytwin demo. Your own table: fuzzytwin train DATA --target COLUMN.
    """


@app.command()
def demo(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to put the picture.")] = Path(
        "fuzzytwin-demo.png"
    ),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Take a first look: a table that ships, with labels flipped."""
    from fuzzytwin import demo as show
    from fuzzytwin._utils.files import replacing

    _inputs.check_output(out, force)
    X, y = show.data()
    with _screens.progress(2) as step:
        scores = {}
        for title, flip in (("clean", 0.0), ("flipped", 0.2)):
            step(f"3 x 10 folds, {title}")
            scores[title] = show.accuracies(X, y, flip)
    found, wrong = show.found_flips(X, y)
    try:
        figure = show.picture(X, y)
    except ImportError:
        figure = None
    if figure is not None:
        with replacing(out, overwrite=force) as draft:
            figure.savefig(draft, format="png", dpi=120)
    if as_json:
        _screens.print_json(
            {"accuracy": scores, "flipped": wrong, "found": found, "picture": str(out)}
        )
        return
    console = _screens.new_console()
    console.print(show.ABOUT)
    table = _screens.new_table("", *(f"{head}>" for head in show.HEADS))
    best = {title: max(values.values()) for title, values in scores.items()}
    for name in scores["clean"]:
        cells = (_screens.mark(scores[title][name], best[title]) for title in ("clean", "flipped"))
        table.add_row(name, *cells)
    console.print(table)
    console.print(show.in_words(found, wrong, len(y)))
    if figure is None:
        console.print('A picture needs matplotlib: pip install "fuzzytwin[plot]"')
    else:
        console.print(f"The picture is in {out}.", markup=False, highlight=False)
    console.print("\nTry next, with a table of your own (CSV, Parquet, Feather):")
    console.print("  fuzzytwin train DATA.csv --target COLUMN --report report.html", markup=False)


@app.command()
def train(
    data: Annotated[Path, typer.Argument(help="CSV, Parquet, Feather or LIBSVM file.")],
    target: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column to predict.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to put the model  [default: DATA's name.skops]"),
    ] = None,
    search: Annotated[bool, typer.Option(help="Tune the parameters.")] = True,
    planes: Annotated[Planes, typer.Option(help="Planes with or without widths.")] = Planes.CRISP,
    membership: Annotated[
        Membership | None,
        typer.Option(
            metavar="WAY",
            help="How degrees are computed: none, center, hyperplane, neighbor, entropy or "
            "intuitionistic  [default: the search picks]",
        ),
    ] = None,
    kernel: Annotated[
        Kernel, typer.Option(metavar="NAME", help="linear, or rbf and others to curve the planes.")
    ] = Kernel.LINEAR,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of sample weights.")
    ] = None,
    degree: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of degrees, 0 to 1.")
    ] = None,
    drop: Drop = [],  # noqa: B006
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page about the model.")
    ] = None,
    folds: Folds = 5,
    seed: Seed = 0,
    stream: Annotated[
        bool | None,
        typer.Option("--stream/--no-stream", help="Read batches  [default: if memory is short]"),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Train on a table, measure honestly, save a safe model file."""
    from fuzzytwin import store
    from fuzzytwin._utils.files import replacing
    from fuzzytwin.tables import files as _tables
    from fuzzytwin.tables.training import Settings, train, train_stream

    name = data.name.split(".")[0] or "model"
    out = Path(f"{name}.skops") if out is None else out
    if target is not None or _tables.kind_of(data) == "libsvm":
        for path in (out, report):
            _inputs.check_output(path, force)  # without a target, training asks for it first
    store.need_skops()
    settings = Settings(
        target, search, planes.value, membership.value if membership else None, weight, degree,
        drop, folds, seed, kernel.value,
    )  # fmt: skip
    streaming = _inputs.too_large(data) if stream is None else stream
    with _screens.progress(6 if streaming else folds + 2) as step:
        work = train_stream if streaming else train
        trained = work(str(data), settings, step)
    page = None
    if report is not None:
        from fuzzytwin.report.page import report as write_report

        page = write_report(trained, _inputs.command_line(), store.versions())
    with ExitStack() as both:  # both files or neither
        if report is not None and page is not None:
            draft = both.enter_context(replacing(report, overwrite=force))
            draft.write_text(page, encoding="utf-8")
        store.save(trained.model, out, overwrite=force, facts=trained.facts)
    if as_json:
        _screens.print_json({**trained.facts, "model": str(out), "report": report and str(report)})
        return
    _screens.tell_trained(trained.facts, out, report)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A model that train saved.")],
    data: Annotated[Path, typer.Argument(help="Rows to label.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV, Parquet or Feather  [default: print CSV]"),
    ] = None,
    stream: Annotated[
        bool | None,
        typer.Option("--stream/--no-stream", help="Read batches  [default: if memory is short]"),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Label rows: the label, and the membership in every class."""
    from fuzzytwin._utils.files import replacing
    from fuzzytwin.report.insight import predictions
    from fuzzytwin.tables import files as _tables

    _inputs.check_output(out, force)
    kind = "csv" if out is None else _tables.kind_of(out)
    if kind == "libsvm":
        raise _tables.TableError(f"{out}: labels are written as .csv, .parquet or .feather.")
    fitted, facts = _inputs.load_model(model)
    if out is not None and (_inputs.too_large(data) if stream is None else stream):
        rows = _inputs.predict_stream(fitted, facts, data, out, force)
    else:
        frame = predictions(fitted, _inputs.features_of(fitted, facts, data, None, False)[0])
        rows = len(frame)
        if as_json and out is None:
            _screens.print_json(json.loads(frame.to_json(orient="records")))
            return
        if out is None:
            frame.to_csv(sys.stdout, index=False)
            return
        with replacing(out, overwrite=force) as draft:
            _tables.write_frame(frame, draft, kind)
    if as_json:
        _screens.print_json({"rows": rows, "out": str(out)})
    else:
        _screens.new_console().print(
            f"{rows:,} rows labelled; they are in {out}.", markup=False, highlight=False
        )


@app.command()
def evaluate(
    model: Annotated[Path, typer.Argument(help="A model that train saved.")],
    data: Annotated[Path, typer.Argument(help="Rows with their true labels.")],
    target: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of the labels  [default: as in training]"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure a model on labelled rows that it was not trained on."""
    from fuzzytwin.report.insight import measure, predictions
    from fuzzytwin.tables.columns import numbers

    fitted, facts = _inputs.load_model(model)
    column = target or facts.get("target")
    X, frame, y = _inputs.features_of(fitted, facts, data, column, labelled=True)
    said = predictions(fitted, X)["label"].to_numpy()
    weight = None
    if frame is not None and facts.get("weight") in frame:
        weight = numbers(frame, facts["weight"], "weights", data)
    known = {str(label) for label in fitted.classes_}
    strange = sorted({str(label) for label in y} - known)
    told = measure(y.astype(str), said.astype(str), weight)
    told["unknown_labels"] = strange
    told["trained_on_this"] = _inputs.same_file(facts, data)
    if as_json:
        _screens.print_json(told)
        return
    _screens.tell_evaluated(told, data)


@app.command()
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
    from fuzzytwin.cli import contest as _contest
    from fuzzytwin.compare import CriticalDifferenceDisplay, compare_classifiers

    _inputs.check_output(diagram, force)
    targets = target * len(data) if len(target) == 1 else target
    if len(targets) != len(data):
        raise ValueError(
            f"{len(data)} tables but {len(target)} targets; give --target once, or once per table."
        )
    if diagram is not None and len(data) < 2:
        raise ValueError("a diagram needs at least two tables.")
    scores = {}
    with _screens.progress(len(data) * folds * len(_contest.MEANINGS)) as step:
        for path, column in zip(data, targets, strict=True):
            present = [name for name in drop if len(data) == 1 or _inputs.has_column(path, name)]
            scores[str(path)] = _contest.contest(str(path), column, folds, seed, present, step)
    means = {
        name: [sum(table[name]) / len(table[name]) for table in scores.values()]
        for name in _contest.MEANINGS
    }
    result = compare_classifiers(means, control="FLST") if len(data) > 1 else None
    if diagram is not None and result is not None:
        _screens.save_figure(
            lambda ax: CriticalDifferenceDisplay.from_result(result, ax), diagram, force
        )
    if as_json:
        ranks = None if result is None else dict(zip(result.names, result.mean_ranks, strict=True))
        _screens.print_json({
            "scores": scores,
            "mean_ranks": ranks,
            "friedman_p": None if result is None else result.chi2_ties_p,
            "critical_difference": None if result is None else result.critical_difference,
        })  # fmt: skip
        return
    _screens.tell_compared(scores, result, diagram)


@app.command()
def explain(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    top: Annotated[int, typer.Option(min=1, help="Columns to show for each plane.")] = 8,
    as_json: Json = False,
) -> None:
    """Show which columns drive each plane, and how vague it is."""
    from fuzzytwin.report.insight import explain as explain_model

    fitted, facts = _inputs.load_model(model)
    planes = explain_model(fitted)
    if as_json:
        _screens.print_json({"planes": planes, "parameters": facts.get("parameters")})
        return
    console = _screens.new_console()
    fuzzy = any(plane["vagueness"] > 0 for plane in planes)
    for plane in planes:
        vague = f"; vagueness {plane['vagueness']:.2f} of the margin" if fuzzy else ""
        heads = ["", "share>", "for or against", *(["vagueness>"] if fuzzy else [])]
        table = _screens.new_table(
            *heads, title=f"class {_screens.short(plane['class'], 40)}{vague}"
        )
        most = plane["features"][0]["share"] or 1.0
        for feature in plane["features"][:top]:
            bar = "■" * max(1, round(14 * feature["share"] / most))
            none = "" if plane["one_sided"] else f"± {bar}"
            signs = {1: f"[green]+ {bar}[/]", -1: f"[yellow]- {bar}[/]", 0: none}
            more = [f"{feature['vagueness']:.3f}"] if fuzzy else []
            table.add_row(
                _screens.short_name(feature["name"], 34),
                f"{feature['share']:.0%}",
                signs[feature["sign"]],
                *more,
            )
        console.print(table)
    console.print("+ speaks for the class, - against it; shares of all columns add up to 100 %.")
    if not all(plane["one_sided"] for plane in planes):
        console.print("±: the class's rivals lie on both sides of its plane, so no sign tells.")


@app.command()
def generate(
    kind: Annotated[Kind, typer.Argument(help="ndc: clusters; xor: two crossing lines.")],
    out: Annotated[Path, typer.Argument(help="CSV, Parquet or Feather file.")],
    rows: Annotated[int, typer.Option(min=4, help="Number of rows.")] = 1000,
    columns: Annotated[int, typer.Option(min=1, help="Number of columns (ndc).")] = 32,
    seed: Annotated[int, typer.Option(help="Same seed, same rows.")] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a table of made-up data, as the paper describes them."""
    import pandas

    from fuzzytwin._utils.files import replacing
    from fuzzytwin.datasets import make_ndc, make_xor
    from fuzzytwin.tables import files as _tables

    _inputs.check_output(out, force)
    file_kind = _tables.kind_of(out)
    more: dict[str, Any] = {}
    if kind is Kind.NDC:
        X, y = make_ndc(rows, columns, random_state=seed)
    else:
        X, y, degrees = make_xor(rows, random_state=seed)
        more["degree"] = degrees
    frame = pandas.DataFrame(X, columns=[f"x{j + 1}" for j in range(X.shape[1])])
    frame = frame.assign(label=y, **more)
    with replacing(out, overwrite=force) as draft:
        _tables.write_frame(frame, draft, file_kind)
    if as_json:
        _screens.print_json({"out": str(out), "rows": len(frame), "columns": list(frame.columns)})
        return
    hint = f"fuzzytwin train {out} --target label" + (" --degree degree" if more else "")
    console = _screens.new_console()
    console.print(f"{len(frame):,} rows are in {out}. Try next:", markup=False, highlight=False)
    console.print(f"  {hint}", markup=False, highlight=False)


@app.command()
def reproduce(
    quick: Annotated[bool, typer.Option("--quick", help="A look in under a minute.")] = False,
    only: Annotated[
        str, typer.Option(metavar="NAMES", help="Some of toy,uci,ndc,noise,audit.")
    ] = "toy,uci,ndc,noise,audit",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the results.")] = Path(
        "reproduction"
    ),
    jobs: Annotated[int, typer.Option(help="Processes; -1: one for each core.")] = -1,
    as_json: Json = False,
) -> None:
    """Run and audit the paper's experiments; a run that was stopped goes on."""
    from fuzzytwin import paper

    report = paper.reproduce(out, quick=quick, only=only, jobs=jobs, progress=not as_json)
    if as_json:
        _screens.print_json({"report": str(report)})
        return
    _screens.new_console().print(f"The report is {report}.", markup=False, highlight=False)


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    out: Annotated[Path, typer.Argument(help="An .onnx file.")],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a model as ONNX, with the same answers."""
    from fuzzytwin._utils.files import replacing
    from fuzzytwin.store import to_onnx

    _inputs.check_output(out, force)
    if out.suffix != ".onnx":
        raise ValueError(f"{out} should end in .onnx.")
    fitted, _ = _inputs.load_model(model)
    graph = to_onnx(fitted)
    with replacing(out, overwrite=force) as draft:
        draft.write_bytes(graph.SerializeToString())
    kinds = {11: "double", 8: "string"}
    inputs = {
        entry.name: kinds.get(entry.type.tensor_type.elem_type, "?") for entry in graph.graph.input
    }
    outputs = [entry.name for entry in graph.graph.output]
    if as_json:
        _screens.print_json({"out": str(out), "inputs": inputs, "outputs": outputs})
        return
    shown = ", ".join(f"{name} ({kind})" for name, kind in list(inputs.items())[:6])
    more = f" and {len(inputs) - 6} more" if len(inputs) > 6 else ""
    console = _screens.new_console()
    console.print(f"The model is in {out}.", markup=False, highlight=False)
    console.print(f"In: {shown}{more}. Out: {', '.join(outputs)}.", markup=False, highlight=False)


@app.command()
def info(
    model: Annotated[Path | None, typer.Argument(help="A model file.")] = None,
    as_json: Json = False,
) -> None:
    """Tell about a model file, or about this installation."""
    from fuzzytwin import store

    if model is not None:
        page = store.about(model)
        if as_json:
            _screens.print_json(page)
        else:
            _screens.tell_about(page, model)
        return
    from importlib.util import find_spec

    from fuzzytwin.datasets import list_uci

    extras = {
        "plot": "matplotlib", "files": "pyarrow", "store": "skops", "onnx": "skl2onnx",
        "dask": "dask", "spark": "pyspark",
    }  # fmt: skip
    there = {extra: find_spec(module) is not None for extra, module in extras.items()}
    if as_json:
        _screens.print_json({"versions": store.versions(), "extras": there, "datasets": list_uci()})
        return
    console, table = _screens.new_console(), _screens.new_table("", "")
    for name, version in store.versions().items():
        table.add_row(name, version)
    for extra, present in there.items():
        remedy = f'pip install "fuzzytwin\\[{extra}]"'
        table.add_row(f"extra {extra}", "installed" if present else remedy)
    table.add_row("shipped tables", ", ".join(list_uci()))
    console.print(table)
