"""The project's own rules: style, types, import direction, and a light import."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT_IMPORTS = "from importlinter.cli import lint_imports_command; lint_imports_command()"
EXTRAS = (
    "matplotlib pandas polars pyarrow dask pyspark skops skl2onnx onnxruntime typer rich nicegui"
)


def run(*arguments):
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300
    )


@pytest.mark.integration
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("-m", "ruff", "check", "."), id="ruff-check"),
        pytest.param(("-m", "ruff", "format", "--check", "."), id="ruff-format"),
        pytest.param(("-m", "mypy"), id="mypy"),
        pytest.param(("-c", LINT_IMPORTS), id="lint-imports"),
    ],
)
def test_tool_finds_nothing(arguments):
    done = run(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", ["fuzzytwin", "fuzzytwin.datasets"])
def test_import_needs_no_extra(module):
    block = f"import sys; sys.modules.update(dict.fromkeys('{EXTRAS}'.split()))"
    done = run("-W", "error", "-c", f"{block}; import {module}")
    assert done.returncode == 0, done.stderr


def test_ci_runs_the_command_of_the_readme():
    command = 'pip install -e ".[test]" && python -m pytest'
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
