"""Every code block of the documentation's pages runs, and prints what the page says.

A page is one session in a folder of its own. ``pycon`` blocks are doctests, ``python`` blocks are
executed, and of ``console`` blocks the commands of this package are run.
"""

import doctest
import re
import shlex
import sys
from pathlib import Path

import pytest

from fuzzytwin.cli import run

ROOT = Path(__file__).parents[2]
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
RUN = {"console", "pycon", "python"}
KNOWN = RUN | {"bibtex", "csharp", "javascript"}  # programs that run without Python
# Installing, measuring for minutes, and a server that does not end: not here.
NOT_RUN = (
    "pip install",
    "python -m benchmarks",
    "python -m build",
    "python -m pytest",
    "python -m reproduction",
    "python -m sphinx",
    "fuzzytwin studio",
)
pytestmark = pytest.mark.integration


def pages():
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(("docs/_build/", "docs/gallery/")) and RUN & set(kinds(path)):
            yield pytest.param(path, id=name)


def kinds(path):
    return [kind for kind, _ in BLOCK.findall(path.read_text(encoding="utf-8"))]


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
@pytest.mark.parametrize("path", pages())
def test_blocks_of_a_page_run(path, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    text, session = path.read_text(encoding="utf-8"), {"__name__": "page"}
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    for match in BLOCK.finditer(text):
        kind, block = match[1], match[2]
        line = text[: match.start()].count("\n") + 1
        if kind == "python":
            exec(compile("\n" * line + block, str(path), "exec"), session)
        elif kind == "pycon":
            test = doctest.DocTestParser().get_doctest(block, session, path.name, str(path), line)
            failures = []
            runner.run(test, out=failures.append, clear_globs=False)
            session = test.globs
            assert not failures, "".join(failures)
        elif kind == "console":
            for command in re.findall(r"^\$ (.*)$", block, re.M):
                if not command.startswith(NOT_RUN):
                    run_command(command)
    capfd.readouterr()


def run_command(command):
    words = shlex.split(command, comments=True)
    if words[:2] == ["python", "-m"]:
        assert words[2] == "fuzzytwin.demo", f"{command!r} is not run by any test"
        return  # by .ci/release, outside of the checkout
    assert words[0] == "fuzzytwin", f"{command!r} is not run by any test"
    assert run(words[1:]) == 0, command


def test_no_page_has_a_block_that_is_not_run():
    for folder in (".", "start", "guide", "method"):
        for path in (ROOT / "docs" / folder).glob("*.md"):
            unknown = set(kinds(path)) - KNOWN
            assert not unknown, f"{path.name} has blocks of kind {unknown}, which nothing runs"


def test_every_example_has_a_page_of_the_gallery():
    """The site's build runs files called plot_*, in folders with a header."""
    examples = sorted((ROOT / "examples").rglob("*.py"))
    assert len(examples) >= 12
    assert all(path.name.startswith("plot_") for path in examples)
    assert all((path.parent / "README.rst").exists() for path in examples)
