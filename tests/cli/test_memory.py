"""Tables that are too large for memory are read in chunks or refused, and the number is said."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fuzzytwin import cli
from tests.cli.helpers import some


@pytest.fixture
def data(folder, monkeypatch):
    pd.DataFrame(some(400)).to_parquet("t.parquet", index=False)
    # Reading needs 400 rows x 3 columns x 8 bytes, some times.
    monkeypatch.setattr("fuzzytwin._utils.memory.available_memory", lambda: 40_000.0)
    return "t.parquet"


def said_by(capsys, *words, code=0):
    capsys.readouterr()
    got = cli.run(list(words))
    out, err = capsys.readouterr()
    assert got == code, (out, err)
    return " ".join(err.split())


NUMBER = r"t\.parquet would take about 0\.1 MiB of memory \(about 400 rows of 3 columns\), but only"


def test_doubts_reads_in_batches_by_itself_and_says_why(capsys, folder, data):
    words = ("label-issues", data, "--target", "y", "--out")
    said = said_by(capsys, *words, "itself.csv")
    assert re.search(rf"note: {NUMBER} .* read in chunks \(--stream\)", said)
    assert "note" not in said_by(capsys, *words, "asked.csv", "--stream")
    assert (folder / "itself.csv").read_bytes() == (folder / "asked.csv").read_bytes()
    assert "note" not in said_by(capsys, *words, "whole.csv", "--no-stream")
    assert "rank" in pd.read_csv("whole.csv")  # all rows at once


@pytest.mark.parametrize(
    ("more", "remedy"),
    [
        (["--out", "d.csv", "--keep-all"], "--keep-all needs all rows in memory"),
        (["--report", "r.html"], "--report needs all rows in memory"),
    ],
)
def test_doubts_refuses_what_memory_does_not_suffice_for(capsys, folder, data, more, remedy):
    said = said_by(capsys, "label-issues", data, "--target", "y", *more, code=1)
    assert re.search(f"error: {NUMBER}", said)
    assert remedy in said
    assert "--no-stream" in said
    assert [file.name for file in folder.iterdir()] == ["t.parquet"]


def test_train_says_why_it_reads_in_batches(capsys, data):
    said = said_by(capsys, "train", data, "--target", "y")
    assert re.search(rf"note: {NUMBER} .* read in chunks \(--stream\)", said)


def test_memory_that_runs_out_names_the_remedy(capsys, folder, monkeypatch):
    pd.DataFrame(some(100)).to_parquet("t.parquet", index=False)

    def fails(*given):
        raise pa.ArrowMemoryError("malloc of size 184960 failed")
        yield

    monkeypatch.setattr("fuzzytwin.tables._formats._Parquet._frames", fails)
    said = said_by(capsys, "label-issues", "t.parquet", "--target", "y", code=1)
    assert "too little memory to read t.parquet (malloc of size 184960 failed)" in said
    assert "--stream" in said
    assert "fix the line" not in said


@pytest.mark.parametrize(
    ("command", "remedy"), [("label-issues", "--stream"), ("studio", "--sample ROWS")]
)
def test_memory_that_runs_out_later_names_the_remedy_of_the_command(
    capsys, folder, monkeypatch, command, remedy
):
    if command == "studio":
        pytest.importorskip("nicegui")
    pd.DataFrame(some(100)).to_parquet("t.parquet", index=False)

    def fails(*given, **more):
        raise MemoryError("Unable to allocate 3.81 GiB")

    monkeypatch.setattr("fuzzytwin.experiment._experiment.rows_of", fails)
    said = said_by(capsys, command, "t.parquet", "--target", "y", code=1)
    assert f"not enough memory (Unable to allocate 3.81 GiB); try {remedy}" in said


def test_columns_of_wide_tables_are_judged_by_fewer_rows(capsys, folder, monkeypatch):
    monkeypatch.setattr("fuzzytwin.tables._reader.SAMPLE_BYTES", 8 * 3 * 150)
    monkeypatch.setattr("fuzzytwin.tables._reader.MIN_SAMPLE_ROWS", 10)
    frame = pd.DataFrame(some(400))
    frame["y"] = np.where(np.arange(400) % 2, "yes", "no")
    frame.to_parquet("t.parquet", index=False)
    assert cli.run(["train", "t.parquet", "--target", "y", "--stream"]) == 0
    assert "first 150 rows" in " ".join(capsys.readouterr().out.split())
