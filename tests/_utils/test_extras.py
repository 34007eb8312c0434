"""Hints at missing packages that work: from a checkout, and for an installed copy."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fuzzytwin
from fuzzytwin._utils import extras

SOURCE = Path(fuzzytwin.__file__).parent
PROJECT = SOURCE.parents[1] / "pyproject.toml"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """As for a copy in site-packages, whose metadata a build of pyproject.toml wrote."""
    optional = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    lines = ["numpy>=1.26.0"]
    for extra, needs in optional.items():
        lines += [f"{need}; extra == '{extra}'" for need in needs]
    monkeypatch.setattr(extras, "PACKAGE", tmp_path / "site-packages" / "fuzzytwin")
    monkeypatch.setattr(extras.metadata, "requires", lambda name: lines)
    return optional


def test_hint_from_a_checkout(monkeypatch, tmp_path):
    monkeypatch.chdir(PROJECT.parent)
    assert extras.install_command("plot") == 'pip install -e ".[plot]"'
    monkeypatch.chdir(tmp_path)
    assert extras.install_command("plot") == f'pip install -e "{PROJECT.parent}[plot]"'


def test_hint_of_an_installed_copy(installed):
    assert extras.install_command("plot") == 'pip install "matplotlib>=3.8"'
    names = re.findall('"(.*?)"', extras.install_command("all"))
    assert len(names) == len(set(names))
    assert {re.split("[>[]", name)[0] for name in names} >= {
        "matplotlib", "pyarrow", "dask", "pyspark", "skops", "skl2onnx", "typer", "pandas",
    }  # fmt: skip
    for extra in installed:
        assert "fuzzytwin" not in extras.install_command(extra)


def test_metadata_of_this_environment():
    """The lines that a build backend really writes are understood."""
    assert extras.requirements("plot") == ["matplotlib>=3.8"]
    assert any(name.startswith("skops") for name in extras.requirements("all"))


def test_every_hint_names_an_extra_that_exists(installed):
    """And no module writes a hint of its own."""
    named = set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r"""\bimport_optional\(\s*[^()]*?, "(\w+)", """, text))
        named |= set(re.findall(r"""\bmissing_package\([^()]*?, "(\w+)", error\)""", text))
        named |= set(re.findall(r"""install_command\(["'](\w+)["']\)""", text))
        assert path.name == "extras.py" or "pip install" not in text, path
    assert named == {"plot", "files", "dask", "spark", "store", "onnx", "cli", "studio"}
    assert named <= set(installed)


def test_a_missing_package_is_named_with_its_cause(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"a plot needs matplotlib \(.*halted.*\[plot\]"):
        extras.import_optional("matplotlib.pyplot", "plot", "a plot")
    with pytest.raises(ImportError, match=r"to_frame needs nothing_such .* pip install nothing_su"):
        extras.import_optional("nothing_such.at_all", None, "to_frame")


MISSING = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)

sys.meta_path.insert(0, Absent())
sys.argv[1:] = {arguments!r}
import runpy
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""


def run_without(absent, module, *arguments):
    """Run ``python -m module`` from a checkout as if packages were not installed."""
    program = MISSING.format(absent=absent, module=module, arguments=list(arguments))
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=PROJECT.parent, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("module", "arguments", "absent", "extra"),
    [
        ("benchmarks", ["label_issues"], ["pandas"], "benchmarks"),
        ("benchmarks", ["label_issues"], ["cleanlab"], "benchmarks"),
        ("benchmarks", ["engines"], ["pyspark"], "spark"),
        ("reproduction", [], ["pandas"], "benchmarks"),
    ],
)
def test_a_missing_package_is_one_line_with_the_command(module, arguments, absent, extra):
    result = run_without(absent, module, *arguments)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert absent[0] in result.stderr
    assert f'pip install -e ".[{extra}]"' in result.stderr


def test_errors_of_this_project_are_no_missing_packages():
    with pytest.raises(ModuleNotFoundError):
        extras.one_line(ModuleNotFoundError("no", name="benchmarks.nothing"), "benchmarks")
    with pytest.raises(ImportError):
        extras.one_line(ImportError("cannot import name", name="pandas"), "benchmarks")
