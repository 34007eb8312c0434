"""What `fuzzytwin train` is asked to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Options of a training run, as on the command line."""

    target: str | None
    search: bool = True
    planes: str = "crisp"
    membership: str | None = None
    kernel: str = "linear"
    solver: str = "auto"
    class_weight: str | Mapping[str, float] | None = None
    scoring: str | None = None
    calibrate: bool = False
    weight: str | None = None
    degree: str | None = None
    groups: str | None = None
    id: str | None = None
    drop: Sequence[str] = ()
    numeric: Sequence[str] = ()
    category: Sequence[str] = ()
    folds: int = 5
    seed: int = 0

    @property
    def columns(self) -> list[str]:
        """Name the columns that are not features."""
        named = (self.target, self.weight, self.degree, self.groups, self.id)
        return list(dict.fromkeys(name for name in named if name is not None))

    def named(self) -> dict[str, Sequence[str]]:
        """Give all columns that are named, by their option."""
        one = {
            "--target": self.target, "--weight": self.weight, "--degree": self.degree,
            "--groups": self.groups, "--id": self.id,
        }  # fmt: skip
        found = {option: [] if name is None else [name] for option, name in one.items()}
        many = {"--drop": self.drop, "--numeric": self.numeric, "--category": self.category}
        return {**found, **many}
