"""How much is run: all of it, or a quick look."""

from __future__ import annotations

from dataclasses import dataclass

from reproduction.published import TABLE_III, TABLE_V

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4)


@dataclass(frozen=True)
class Scale:
    """Sizes of a run.

    A quick run goes through everything with fewer folds, draws and points of the grids. Its
    numbers are rough; its report says so.
    """

    quick: bool
    folds: int = 10
    repeats: int = 3
    inner: int = 5
    toy_draws: int = 10
    ndc_draws: int = 5
    noise_folds: int = 5
    sizes: tuple[str, ...] = tuple(TABLE_V)
    tables: tuple[str, ...] = tuple(TABLE_III)
    noise_tables: tuple[str, ...] = tuple(TABLE_III)
    shares: tuple[float, ...] = SHARES

    @classmethod
    def of(cls, quick: bool) -> Scale:
        """Choose the sizes of a full or a quick run."""
        if not quick:
            return cls(False)
        return cls(
            True, folds=3, repeats=1, inner=3, toy_draws=2, ndc_draws=2, noise_folds=2,
            sizes=("1k", "5k", "10k"), noise_tables=("pima", "heart_cleveland", "votes"),
            shares=(0.0, 0.2, 0.4),
        )  # fmt: skip
