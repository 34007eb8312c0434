"""Options that several commands share. What may be chosen is what the library offers."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

import fuzzytwin


def option(help: str, *names: str, metavar: str | None = None, **more: Any) -> Any:
    """Make an option."""
    return typer.Option(*names, help=help, metavar=metavar, **more)


def column(help: str, *names: str) -> Any:
    """Make an option that names a column."""
    return typer.Option(*names, help=help, metavar="COLUMN")


def file(help: str, *names: str) -> Any:
    """Make an option that names a file."""
    return typer.Option(*names, help=help, metavar="FILE")


def one_of(help: str, where: str, *more: str) -> Any:
    """Make an option for the names that a module lists; it is imported when one is given."""

    def check(value: str | None) -> str | None:
        if value is not None:
            names = list(more)
            if where:
                module, _, listed = where.partition(":")
                names += getattr(import_module(module), listed)
            if value not in names:
                raise typer.BadParameter(f"{value!r} is not one of {', '.join(names)}.")
        return value

    return typer.Option(help=help, metavar="NAME", callback=check)


Name: TypeAlias = str | None
Data: TypeAlias = Annotated[
    Path, typer.Argument(help="CSV, TSV, Excel, Parquet, Feather or LIBSVM file.")
]
Model: TypeAlias = Annotated[Path, typer.Argument(help="A model that train saved.")]
Force: TypeAlias = Annotated[bool, option("Overwrite existing files.", "--force")]
Json: TypeAlias = Annotated[bool, option("Print JSON, for programs.", "--json")]
Id: TypeAlias = Annotated[Name, column("Column that names the rows.", "--id")]
Weight: TypeAlias = Annotated[Name, column("Column of sample weights.")]
Degree: TypeAlias = Annotated[Name, column("Column of degrees, 0 to 1.")]
Labels: TypeAlias = Annotated[Name, column("Column of labels.", "--target")]
Groups: TypeAlias = Annotated[
    Name, column("Column of groups, such as patients: rows of a group are left out together.")
]
Drop: TypeAlias = Annotated[list[str], column("A column to leave out; may be repeated.", "--drop")]
Numeric: TypeAlias = Annotated[
    list[str], column("A column to take as numbers (dates: days); may be repeated.")
]
Category: TypeAlias = Annotated[
    list[str], column("A column to take as categories; may be repeated.")
]
Sheet: TypeAlias = Annotated[
    Name, option("Sheet of a workbook  [default: the first]", metavar="NAME")
]
KeepAll: TypeAlias = Annotated[bool, option("Copy all columns of the table, too.", "--keep-all")]
Planes: TypeAlias = Annotated[
    Name, one_of("crisp, or fuzzy: planes with widths.", "", "crisp", "fuzzy")
]
Kernel: TypeAlias = Annotated[
    Name,
    one_of("linear, or rbf and others to curve the planes.", "fuzzytwin.fit.kernels:KERNELS"),
]
Membership: TypeAlias = Annotated[
    Name,
    one_of(
        "How degrees are computed: none, center, hyperplane, neighbor, entropy, intuitionistic, or "
        "one of them balanced by the sizes of the classes, such as entropy_balanced  [default: the "
        "search picks]",
        "fuzzytwin.memberships:MEMBERSHIPS",
        "none",
    ),
]
Solver: TypeAlias = Annotated[
    Name,
    one_of(
        "How planes are found: moments, gram (fewer rows than columns), iterative (many sparse "
        "columns), or auto: by the shape of the table.",
        "fuzzytwin.core.solvers:SOLVERS",
        "auto",
        "rows",  # the former name of gram
    ),
]
Seed: TypeAlias = Annotated[int, option("Same seed, same folds.")]
Folds: TypeAlias = Annotated[int, option("Folds to measure by.", min=2)]
Scoring: TypeAlias = Annotated[
    Name,
    option(
        "Score to tune by: balanced_accuracy, roc_auc or another of scikit-learn's.",
        metavar="NAME",
    ),
]
Stream: TypeAlias = Annotated[
    bool | None, option("Read in batches  [default: if memory is short]", "--stream/--no-stream")
]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"fuzzytwin {fuzzytwin.__version__}")
        raise typer.Exit


def root(
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
