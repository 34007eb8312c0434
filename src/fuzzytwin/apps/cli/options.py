"""Options of the commands, as defaults of their arguments; those that several commands share.

What may be chosen is what the library offers. Words of help are written here, as importing the
registries takes long; a test compares them.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
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

    return option(help, metavar="NAME", callback=check)


TABLES = "CSV, TSV, Excel, Parquet or Feather"
DATA = typer.Argument(help=f"{TABLES} file, or LIBSVM text.")
MODEL = typer.Argument(help="A model that train saved.")
FORCE = flag("Overwrite existing files.", "--force")
JSON = flag("Print JSON, for programs.", "--json")
ID = column("Column that names the rows.", "--id")
WEIGHT = column("Column of sample weights.")
DEGREE = column("Column of degrees, 0 to 1.")
TARGET = column("Column of labels.", "--target")
GROUPS = column("Column of groups, such as patients: rows of a group are left out together.")
DROP = columns("A column to leave out; may be repeated.", "--drop")
NUMERIC = columns("A column to take as numbers (dates: days); may be repeated.")
CATEGORY = columns("A column to take as categories; may be repeated.")
MISSING = option(
    "A mark for missing values, such as -999, instead of NA, ?, NULL and the like (empty cells are "
    "always missing); may be repeated.",
    default=[],
    metavar="MARK",
)
VOTES = columns(
    "Columns of annotators, such as 'ann_*': each holds the labels that one of them gave; empty "
    "cells and -1 are no votes; may be repeated.",
    "--votes",
    metavar="COLUMNS",
)
SHEET = option("Sheet of a workbook  [default: the first]", metavar="NAME")
KEEP_ALL = flag("Copy all columns of the table, too.", "--keep-all")
PLANES = one_of("crisp, or fuzzy: planes with widths.", "", "crisp", "fuzzy")
KERNEL = one_of("linear, or rbf and others to curve the planes.", "fuzzytwin.kernels:KERNELS")
MEMBERSHIP = one_of(
    "How degrees are computed: none, center, hyperplane, neighbor, entropy, intuitionistic, or "
    "one of them balanced by the sizes of the classes, such as entropy_balanced  [default: the "
    "search picks]",
    "fuzzytwin.memberships:MEMBERSHIPS",
    "none",
)
SOLVER = one_of(
    "How planes are found: moments, gram (fewer rows than columns), iterative (many sparse "
    "columns), or auto: by the shape of the table.",
    "fuzzytwin.core.solvers:SOLVERS",
    "auto",
    "rows",  # the former name of gram
)
SEED = option("Same seed, same folds.", default=0)
FOLDS = option("Folds to measure by.", default=5, min=2)
SCORING = option(
    "Score to tune by: balanced_accuracy, roc_auc or another of scikit-learn's.", metavar="NAME"
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"fuzzytwin {fuzzytwin.__version__}")
        raise typer.Exit


def root(
    debug: bool = flag("Show the traceback of an error (anywhere in a line).", "--debug"),
    version: bool = flag("Show the version.", "--version", is_eager=True, callback=_version),
) -> None:
    """Classifiers for tables whose labels are doubtful: fuzzy least-squares twin SVMs.

    First look: fuzzytwin demo. Your own table: fuzzytwin train DATA --target COLUMN.
    """
