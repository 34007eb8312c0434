"""Damaged Arrow files end in an error that names the file, never in the end of the process."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fuzzytwin.cli import run
from fuzzytwin.tables import TableSchema, read_table

SEEDS = 60


def write(path, kind):
    frame = pd.DataFrame({"a": range(200), "t": [f"text {i}" for i in range(200)]})
    frame["k"] = frame["t"].str[-1].astype("category")
    frame["list"] = [[float(i), 1.0] for i in range(200)]
    frame["y"] = ["no", "yes"] * 100
    table = pa.Table.from_pandas(frame, preserve_index=False)
    options = pa.ipc.IpcWriteOptions(compression="lz4" if kind == "compressed" else None)
    make = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
    with make(path, table.schema, options=options) as writer:
        writer.write_table(table, 64)


def read_damaged(path):
    """Read a file with three bytes changed, for many choices of these."""
    with open(path, "rb") as file:
        data = file.read()
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        damaged = bytearray(data)
        for place in rng.integers(8, len(data), 3):
            damaged[place] = rng.integers(256)
        with open(path, "wb") as file:
            file.write(damaged)
        try:
            sample = read_table(path).sample()
            TableSchema.infer(sample, target="y").decode(sample)
        except UnicodeError:
            raise
        except (ValueError, MemoryError):
            pass
    print("all read or refused")


@pytest.mark.parametrize("kind", ["file", "stream", "compressed"])
def test_a_damaged_file_is_an_error(tmp_path, kind):
    path = tmp_path / "t.arrow"
    write(path, kind)
    done = subprocess.run(
        [sys.executable, __file__, str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "all read or refused\n"), done.stderr


def test_a_name_that_is_not_utf_8_is_an_error_that_names_the_file(tmp_path):
    path = tmp_path / "t.arrow"
    table = pa.table({"naive": [1, 2], "y": [0, 1]})
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)
    path.write_bytes(path.read_bytes().replace(b"naive", b"na\xefve"))
    with pytest.raises(ValueError, match=r"t\.arrow cannot be read: .*Write the file again"):
        read_table(path).sample()


if __name__ == "__main__":
    read_damaged(sys.argv[1])


@pytest.mark.skipif(not hasattr(pa, "string_view"), reason="this pyarrow has no such type")
def test_views_of_text_are_text(tmp_path):
    """Polars writes them."""
    cells = pa.array(["Rom", "Oslo"] * 50).cast(pa.string_view())
    table = pa.table({"a": np.arange(100.0) ** 2, "c": cells, "y": ["p", "q"] * 50})
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table)
    assert run(["label-issues", str(tmp_path / "t.arrow"), "--target", "y"]) == 0
