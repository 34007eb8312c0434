"""Options that several commands share."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, TypeAlias

import typer

Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Drop: TypeAlias = Annotated[
    list[str],
    typer.Option("--drop", metavar="COLUMN", help="A column to leave out; may be repeated."),
]
Numeric: TypeAlias = Annotated[
    list[str],
    typer.Option(
        metavar="COLUMN", help="A column to take as numbers (dates: days); may be repeated."
    ),
]
Category: TypeAlias = Annotated[
    list[str],
    typer.Option(metavar="COLUMN", help="A column to take as categories; may be repeated."),
]
Seed: TypeAlias = Annotated[int, typer.Option(help="Same seed, same folds.")]
Folds: TypeAlias = Annotated[int, typer.Option(min=2, help="Folds to measure by.")]
Groups: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column of groups, such as patients: rows of a group stay in one fold.",
    ),
]
Scoring: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Score to tune by: balanced_accuracy, roc_auc or another of scikit-learn's  "
        "[default: accuracy]",
    ),
]
Stream: TypeAlias = Annotated[
    bool | None,
    typer.Option("--stream/--no-stream", help="Read in batches  [default: if memory is short]"),
]


class Planes(Enum):
    """Kinds of planes."""

    CRISP = "crisp"
    FUZZY = "fuzzy"


class Membership(Enum):
    """Memberships, plain and balanced by the sizes of the classes."""

    NONE = "none"
    CENTER = "center"
    HYPERPLANE = "hyperplane"
    NEIGHBOR = "neighbor"
    ENTROPY = "entropy"
    INTUITIONISTIC = "intuitionistic"
    CENTER_BALANCED = "center_balanced"
    HYPERPLANE_BALANCED = "hyperplane_balanced"
    NEIGHBOR_BALANCED = "neighbor_balanced"
    ENTROPY_BALANCED = "entropy_balanced"
    INTUITIONISTIC_BALANCED = "intuitionistic_balanced"


class Kernel(Enum):
    """Kernels; all but linear curve the planes."""

    LINEAR = "linear"
    RBF = "rbf"
    POLY = "poly"
    SIGMOID = "sigmoid"
    LAPLACIAN = "laplacian"
    COSINE = "cosine"


class Solver(Enum):
    """How planes are found."""

    AUTO = "auto"
    MOMENTS = "moments"
    ROWS = "rows"
    ITERATIVE = "iterative"


class Kind(Enum):
    """Kinds of made-up data."""

    NDC = "ndc"
    XOR = "xor"
