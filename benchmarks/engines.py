"""Fits on Dask and Spark as ratios to the least that these engines need for the same rows."""

from __future__ import annotations

import os
import sys
import tempfile
import time

import numpy as np

COLUMNS = 32


def dask_ratio(rows: int = 4_000_000, repeats: int = 12) -> float:
    """Time of a fit by Dask's own ``X.T @ X``, on a `LocalCluster` with two processes.

    The rows are generated on the workers and stay there. The limit is 1.5.
    """
    import dask.array as da
    from dask.distributed import Client, LocalCluster, wait

    from fuzzytwin.dask import FuzzyTwinSVC

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster),
    ):
        rng = da.random.default_rng(0)
        X = rng.standard_normal((rows, COLUMNS), chunks=(250_000, COLUMNS)).persist()
        y = (X[:, 0] + rng.standard_normal(rows, chunks=250_000) > 0).astype(np.int8).persist()
        wait([X, y])
        ours, limit = _in_turns(
            lambda: FuzzyTwinSVC().fit(X, y), lambda: (X.T @ X).compute(), repeats
        )
    _tell("Dask, 2 processes", rows, ours, "X.T @ X", limit, 1.5)
    return ours / limit


def spark_ratio(rows: int = 2_000_000, repeats: int = 5) -> float:
    """Time of a fit by a pass that only counts the rows through `mapInArrow`, on `local[2]`.

    Both read the same Parquet files. The limit is 2.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    from fuzzytwin.spark import FuzzyTwinSVC

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    names = [f"x{i}" for i in range(COLUMNS)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            made = spark.range(0, rows, 1, 8).select(
                *(F.randn(seed).alias(name) for seed, name in enumerate(names)),
                (F.rand(99) < 0.5).cast("int").alias("label"),
            )
            made.write.parquet(f"{folder}/rows")
            table = spark.read.parquet(f"{folder}/rows")
            estimator = FuzzyTwinSVC(featuresCol=names)
            ours, limit = _in_turns(
                lambda: estimator.fit(table),
                lambda: table.mapInArrow(_count, "n long").collect(),
                repeats,
            )
    finally:
        spark.stop()
    _tell("Spark, local[2]", rows, ours, "counting through mapInArrow", limit, 2.0)
    return ours / limit


def _count(batches):
    import pyarrow as pa

    yield pa.RecordBatch.from_arrays([pa.array([sum(batch.num_rows for batch in batches)])], ["n"])


def _in_turns(first, second, repeats):
    """Least time of each, called in turn so that a slow moment affects all of them."""
    times = []
    for _ in range(repeats + 1):
        marks = [time.perf_counter()]
        for function in (first, second):
            function()
            marks.append(time.perf_counter())
        times.append(np.diff(marks))
    return np.min(times[1:], axis=0)  # the first round starts workers up


def _tell(engine, rows, ours, name, limit, bar):
    print(
        f"{engine}, {rows:,} x {COLUMNS}: fit {ours:.2f} s, {name} {limit:.2f} s, "
        f"ratio {ours / limit:.2f} (bar {bar})",
        flush=True,
    )


def run(arguments: list[str]) -> None:
    """`python -m benchmarks engines [dask] [spark]`: both unless one is named."""
    for name, ratio in (("dask", dask_ratio), ("spark", spark_ratio)):
        if not arguments or name in arguments:
            ratio()


if __name__ == "__main__":
    run(sys.argv[1:])
