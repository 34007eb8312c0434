"""Files larger than memory: `files.fit` as a multiple of reading the batches, and its memory."""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

COLUMNS = 32
FILE_ROWS = 1_000_000
MOST_MIB = 600
MOST_RATIO = 2.0
REPEATS = 3


def run(arguments: list[str]) -> None:
    """`python -m benchmarks scale [files] [rows ...]`; by default 1, 5 and 20 million rows.

    With `files` only the Parquet part, without Dask and Spark.
    """
    files_only = "files" in arguments
    arguments = [argument for argument in arguments if argument != "files"]
    sizes = [int(float(size)) for size in arguments] or [10**6, 5 * 10**6, 20 * 10**6]
    need = 1.3 * max(sizes) * (4 * COLUMNS + 1)
    folder = Path(tempfile.mkdtemp(prefix="fuzzytwin-scale-"))
    try:
        free = shutil.disk_usage(folder).free
        if free < 2 * need:
            raise SystemExit(f"{folder} has {free / 1e9:.1f} GB free; {2 * need / 1e9:.1f} needed.")
        start = time.perf_counter()
        size = write(folder, max(sizes))
        took = time.perf_counter() - start
        print(
            f"{max(sizes):,} x {COLUMNS} float32 rows as Parquet: {size / 2**30:.2f} GiB, written "
            f"in {took:.0f} s by a generator"
        )
        table(folder, sizes)
    finally:
        shutil.rmtree(folder)
    if not files_only and importlib.util.find_spec("benchmarks.engines"):
        from benchmarks import engines

        engines.dask_ratio()
        engines.spark_ratio()


def table(folder: Path, sizes: list[int]) -> None:
    """One line per size. Every time is the least of several runs, each in its own process."""
    print(
        f"\n{'':12s}{'seconds':>18s}{'':6s}{'seconds of CPU':>20s}\n"
        f"{'rows':>12s}{'reading':>9s}{'fit':>9s}{'ratio':>6s}{'reading':>10s}{'fit':>9s}"
        f"{'ratio':>6s}{'peak MiB':>10s}{'rows/s':>12s}"
    )
    rates, worst, peak = [], 0.0, 0.0
    for rows in sizes:
        # Called in turn, so that a slow moment of the machine affects all of them.
        repeats = max(REPEATS, REPEATS * 5 * 10**6 // rows)
        runs = [(child("read", folder, rows), child("fit", folder, rows)) for _ in range(repeats)]
        reading, read_cpu = (min(read[kind] for read, _ in runs) for kind in ("seconds", "cpu"))
        fitting, fit_cpu = (min(fit[kind] for _, fit in runs) for kind in ("seconds", "cpu"))
        memory = max(fit["peak"] for _, fit in runs)
        worst, peak = max(worst, fitting / reading), max(peak, memory)
        rates.append(fit_cpu / rows)
        print(
            f"{rows:12,d}{reading:9.2f}{fitting:9.2f}{fitting / reading:6.2f}"
            f"{read_cpu:10.2f}{fit_cpu:9.2f}{fit_cpu / read_cpu:6.2f}"
            f"{memory:10.0f}{rows / fitting:12,.0f}",
            flush=True,
        )
    fixed = child("fit", folder, sizes[0])["import_peak"]
    linear = max(rates) / min(rates)
    print(f"\ninterpreter and libraries only: {fixed:.0f} MiB")
    print(f"peak memory   {peak:6.0f} MiB, at most {MOST_MIB}: {verdict(peak < MOST_MIB)}")
    print(f"against reading {worst:4.2f}, at most {MOST_RATIO}: {verdict(worst <= MOST_RATIO)}")
    print(f"CPU per row, dearest to cheapest size: {linear:.2f} (1 is linear)")
    print(
        f"load average of the machine meanwhile: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    middle = sizes[len(sizes) // 2]
    for task in ("center", "predict"):
        done = child(task, folder, middle)
        print(
            f"{task:8s}{middle:12,d} rows: {done['seconds']:.2f} s, peak {done['peak']:.0f} MiB",
            flush=True,
        )


def verdict(good: bool) -> str:
    return "kept" if good else "MISSED"


def write(folder: Path, rows: int) -> int:
    """Two normal classes, a million rows per file, written one row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    shift = rng.normal(size=COLUMNS).astype(np.float32)
    names = [f"x{j}" for j in range(COLUMNS)]
    schema = pa.schema([(name, pa.float32()) for name in names] + [("y", pa.int8())])
    for start in range(0, rows, FILE_ROWS):
        path = folder / f"part-{start // FILE_ROWS:05d}.parquet"
        # Random floats repeat too seldom for a dictionary to pay.
        with pq.ParquetWriter(path, schema, use_dictionary=["y"]) as writer:
            left = min(FILE_ROWS, rows - start)
            while left:
                n = min(left, 1 << 17)
                y = rng.integers(0, 2, n, dtype=np.int8)
                X = rng.standard_normal((COLUMNS, n), dtype=np.float32) + shift[:, None] * y
                writer.write_table(pa.table([*X, y], schema=schema))
                left -= n
    return sum(file.stat().st_size for file in folder.iterdir())


def child(task: str, folder: Path, rows: int) -> dict[str, float]:
    """A task in a process of its own, so that its peak memory is its own too."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", task, str(folder), str(rows)],
        env=os.environ | one, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def work(task: str, folder: str, rows: int) -> None:
    import pyarrow.compute  # noqa: F401  # before memory is measured

    from fuzzytwin import FuzzyTwinSVC, files
    from fuzzytwin.files._chunks import Selection
    from fuzzytwin.files._tables import open_source

    parts = sorted(str(file) for file in Path(folder).glob("part-*.parquet"))
    parts = parts[: -(-rows // FILE_ROWS)]
    before = peak()
    model = FuzzyTwinSVC(membership="center" if task == "center" else None)
    if task == "predict":
        files.fit(model, parts[:1], target="y")
    start, cpu = time.perf_counter(), time.process_time()
    if task == "read":
        for _ in open_source(parts, Selection(target="y"), batch_rows=65_536).batches():
            pass
    elif task == "predict":
        files.predict(model, parts, Path(folder) / "out.parquet", overwrite=True)
    else:
        files.fit(model, parts, target="y")
    took = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    print(json.dumps(took | {"peak": peak(), "import_peak": before}))


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], int(sys.argv[3]))
