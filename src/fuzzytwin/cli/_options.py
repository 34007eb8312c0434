"""Options that several commands share, as defaults of their arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import typer

import fuzzytwin


def option(help: str, *names: str, default: Any = None, **more: Any) -> Any:
    """Make an option."""
    return typer.Option(default, *names, help=help, **more)


column = partial(option, metavar="COLUMN")
columns = partial(column, default=[])
file = partial(option, metavar="FILE")
flag = partial(option, default=False)
number = partial(option, metavar="N")


def one_of(help: str, *choices: str) -> Any:
    """Make an option with given choices."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in choices:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(choices)}.")
        return value

    return option(help, metavar="NAME", callback=check)


TABLES = "CSV, TSV, Excel, Parquet or Feather"
OUTPUTS = "CSV, TSV, Parquet or Feather"
DATA = typer.Argument(metavar="DATA", help=f"{TABLES} file.")
MODEL = typer.Argument(metavar="MODEL", help="Model file written by train.")
FORCE = flag("Overwrite existing files.", "--force")
JSON = flag("Print the result as JSON.", "--json")
ID = column("Column with the id of each row.", "--id")
MODEL_ID = column("Column with the id of each row  [default: as in training]", "--id")
WEIGHT = column("Column of sample weights.")
DEGREE = column("Column of membership degrees, 0 to 1.")
TARGET = column("Column of labels.", "--target")
GROUPS = column("Column of groups, such as patients: rows of a group are held out together.")
DROP = columns("Column to ignore (may be repeated).", "--drop")
NUMERIC = columns("Column to treat as numbers (may be repeated). Dates become days.")
CATEGORY = columns("Column to treat as categories (may be repeated).")
MISSING = option(
    "Another value to treat as missing, such as -999 (may be repeated). Empty cells, NA, ?, NULL "
    "and so on always count as missing.",
    default=[],
    metavar="MARK",
)
MODEL_MISSING = option(
    "Another value to treat as missing, such as -999 (may be repeated). Marks used in "
    "training always count as missing.",
    default=[],
    metavar="MARK",
)
KEEP_NA = flag("Treat NA, ?, NULL and so on as values: only empty cells are missing.", "--keep-na")
LABELS = one_of(
    "How the labels arose: annotated (people make errors where classes meet), observed (outcomes "
    "such as death: overlap of classes is no error), or auto  [default: auto]",
    "auto",
    "annotated",
    "observed",
)
VOTES = columns(
    "Columns with the labels of one annotator each, such as 'ann_*' (may be repeated). Empty cells "
    "and -1 are not votes.",
    "--votes",
    metavar="COLUMNS",
)
SHEET = option("Sheet of a workbook  [default: the first]", metavar="NAME")
SEP = option("Separator of a text file  [default: detected]", metavar="TEXT")
DECIMAL = option(
    "Decimal mark of a text file, . or ,  [default: that of training, or detected]", metavar="MARK"
)
ENCODING = option("Encoding of a text file, such as cp1252  [default: detected]", metavar="NAME")
STREAM = option(
    "Read the file in chunks  [default: only above 256 MiB of numbers]", "--stream/--no-stream"
)


class Bundle(dict[str, tuple[Any, Any]]):
    """Options that a command takes as one dict: their names, types and defaults."""


TEXT = Bundle(
    sep=(str | None, SEP),
    decimal=(str | None, DECIMAL),
    encoding=(str | None, ENCODING),
    sheet=(str | None, SHEET),
)
READING = Bundle(missing=(list[str], MODEL_MISSING), **TEXT)  # of rows for a model
TABLE = Bundle(
    drop=(list[str], DROP),
    numeric=(list[str], NUMERIC),
    category=(list[str], CATEGORY),
    missing=(list[str], MISSING),
    keep_na=(bool, KEEP_NA),
    **TEXT,
)


def expand(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with an option for each entry of its bundles."""
    signature = inspect.signature(command, eval_str=True)
    bundles = {
        name: parameter.default
        for name, parameter in signature.parameters.items()
        if isinstance(parameter.default, Bundle)
    }
    parameters = []
    for name, parameter in signature.parameters.items():
        if name not in bundles:
            parameters.append(parameter)
            continue
        for option_name, (kind, default) in bundles[name].items():
            parameters.append(parameter.replace(name=option_name, annotation=kind, default=default))

    @wraps(command)
    def call(**arguments: Any) -> None:
        for name, bundle in bundles.items():
            arguments[name] = {option_name: arguments.pop(option_name) for option_name in bundle}
        command(**arguments)

    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


ALLOW_MISSING = flag("Treat columns that are not in the file as missing values.", "--allow-missing")
KEEP_ALL = flag("Copy all columns of the table to the output.", "--keep-all")
SEED = number("Random seed.", default=0)
FOLDS = number("Number of cross-validation folds.", default=5, min=2)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"fuzzytwin {fuzzytwin.__version__}")
        raise typer.Exit


def root(
    debug: bool = flag("Show the traceback of an error.", "--debug"),
    version: bool = flag("Show the version.", "--version", is_eager=True, callback=_version),
) -> None:
    """Find label errors in tables, and train classifiers that cope with them.

    Start with: fuzzytwin demo. With your own table: fuzzytwin label-issues DATA --target COLUMN.
    """
