"""The files that commands write: who may read them, and what they never replace."""

import errno
import os
import stat

import pytest

from fuzzytwin import files, store
from tests.cli.helpers import QUICK, some, table

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


@pytest.mark.parametrize(
    ("folder_name", "model"),
    [("parts", "parts.skops"), ("visits.2024", "visits.2024.skops"), (".", "here.skops")],
)
def test_the_model_of_a_folder_has_its_whole_name(run, folder, monkeypatch, folder_name, model):
    (folder / "here").mkdir()
    monkeypatch.chdir("here")
    os.makedirs(folder_name, exist_ok=True)
    table(f"{folder_name}/a.csv", **some())
    run("train", folder_name, "--target", "y", *QUICK)
    assert os.path.exists(model)


def test_the_model_is_never_replaced_by_its_predictions(run, folder, refused):
    data = table("t.csv", **some())
    run("train", data, "--target", "y", *QUICK, "--out", "model.csv")
    before = (folder / "model.csv").read_bytes()
    words = ("predict", "model.csv", data, "--out", "model.csv", "--force")
    refused(*words, match="model.csv is the input file")
    assert (folder / "model.csv").read_bytes() == before


def test_a_full_disk_is_noticed_before_the_analysis(run, monkeypatch):
    data = table("t.csv", **some())

    def fail(**_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", fail)
    monkeypatch.setattr("fuzzytwin.experiment.Experiment.rows", property(lambda _: 1 / 0))
    for words in (
        ["label-issues", data, "--target", "y", "--out", "i.csv"],
        ["train", data, "--target", "y"], ["generate", "patients", "p.csv"],
    ):  # fmt: skip
        assert "cannot be written: No space left on device; choose" in run(*words, code=1)
