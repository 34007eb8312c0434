"""Versions, in one place and as they are."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import sklearn

import fuzzytwin
from fuzzytwin._utils import extras

PROJECT = Path(fuzzytwin.__file__).parents[2] / "pyproject.toml"


def test_the_version_is_written_once():
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    path = PROJECT.parent / project["tool"]["hatch"]["version"]["path"]
    # As hatchling looks for it.
    written = re.findall(r'^__version__ = "(.*)"$', path.read_text(encoding="utf-8"), re.M)
    assert written == [fuzzytwin.__version__]


def test_versions_are_those_that_run():
    found = extras.versions()
    assert found["numpy"] == np.__version__
    assert found["scikit-learn"] == sklearn.__version__
    assert found["fuzzytwin"] == fuzzytwin.__version__


def test_every_extra_is_listed():
    optional = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    assert set(extras.EXTRAS) == set(optional) - {"all", "benchmarks", "docs", "test"}
    for extra, package in extras.EXTRAS.items():
        assert any(need.startswith(package) for need in optional[extra])


def test_show_versions(capsys, monkeypatch):
    monkeypatch.setitem(extras.EXTRAS, "plot", "no-such-package")
    fuzzytwin.show_versions()
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        "System", "Packages", "Extras", "Threads",
    ]  # fmt: skip
    assert f"    fuzzytwin: {fuzzytwin.__version__}" in lines
    assert any(re.match(r"    joblib: \d", line) for line in lines)
    assert any(
        re.match(r"    plot \(no-such-package\): not installed: pip", line) for line in lines
    )
    assert any(
        re.match(r"    (openblas|mkl|blis|openmp|flexiblas).*: \d+$", line) for line in lines
    )


def test_show_versions_needs_no_extra():
    block = (
        "import sys; sys.modules.update(dict.fromkeys('matplotlib pandas pyarrow dask'.split()))"
    )
    code = f"{block}; import fuzzytwin; fuzzytwin.show_versions()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
