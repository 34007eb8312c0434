"""Options that several commands share."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

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
