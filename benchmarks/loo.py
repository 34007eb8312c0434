"""Processor time of `loo_membership` as a multiple of one fit, on one thread."""

from __future__ import annotations

import time

import numpy as np
from threadpoolctl import threadpool_limits

from fuzzytwin import FuzzyTwinSVC

SHAPES = (
    (100_000, 32, 2, {}), (100_000, 32, 2, {"C": 0.5}), (100_000, 32, 5, {}), (20_000, 128, 2, {}),
    (500, 20, 2, {}), (150, 4, 3, {}), (1_000, 20, 2, {"kernel": "rbf"}),
    (1_800, 64, 10, {"kernel": "rbf"}),
)  # fmt: skip


def processor_time(function, repeats=7):
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def run(arguments: list[str]) -> None:
    print(f"{'rows':>8s}{'columns':>8s}{'classes':>8s}{'fit, ms':>10s}{'loo, ms':>10s}{'fits':>7s}")
    for n, d, K, settings in SHAPES:
        rng = np.random.default_rng(0)
        y = rng.integers(0, K, n)
        X = rng.normal(size=(n, d)) + rng.normal(size=(K, d))[y]
        model = FuzzyTwinSVC(**settings).fit(X, y)
        with threadpool_limits(1):
            fit = processor_time(lambda: model.fit(X, y))  # noqa: B023
            loo = processor_time(lambda: model.loo_membership(X, y))  # noqa: B023
        shown = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        print(f"{n:8d}{d:8d}{K:8d}{1e3 * fit:10.1f}{1e3 * loo:10.1f}{loo / fit:7.1f}  {shown}")
