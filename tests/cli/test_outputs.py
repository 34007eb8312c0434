"""The files that commands write: who may read them, and what they never replace."""

import os
import stat

import pytest

from fuzzytwin import files, store
from tests.cli.helpers import some, table

posix = pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")


@posix
def test_outputs_of_a_private_table_are_private(run, folder):
    data = folder / table("t.csv", **some())
    data.chmod(0o600)
    before = os.umask(0o022)
    try:
        run("label-issues", "t.csv", "--target", "y", "--out", "issues.csv", "--report", "i.html")
        run("train", "t.csv", "--target", "y", "--report", "model.html", "--folds", 2)
        run("predict", "t.skops", "t.csv", "--out", "labels.csv")
        run("export", "t.skops", "t.onnx")
        files.predict(store.load("t.skops"), "t.csv", "python.parquet")
        files.find_label_issues("t.csv", "python.csv", target="y")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert len(modes) == 9
    assert set(modes.values()) == {0o600}, modes
