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


# What people type into a search engine, and the page that answers it in its first screen.
QUESTIONS = {
    "find mislabeled rows in a CSV": "start/tutorial",
    "cleanlab alternative tabular": "guide/from_cleanlab",
    "twin svm python": "twin_svm",
    "conformal prediction sets small data": "guide/sets",
    "noisy labels classifier sklearn": "guide/noisy_labels",
    "out of core label errors parquet": "guide/scale",
    "calibrated probabilities small dataset": "guide/probabilities",
    "annotator agreement dawid skene": "guide/annotators",
    "explain prediction of kernel svm": "guide/explaining",
    "fuzzy svm imbalanced": "guide/imbalance",
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_words_that_people_search_for_are_in_the_title_or_description(question):
    text = (ROOT / "docs" / f"{QUESTIONS[question]}.md").read_text(encoding="utf-8")
    title = re.search(r"^# (.*)$", text, re.M)[1]
    description = re.search(r"^    description: (.*)$", text, re.M)[1]
    there = words_of(f"{title} {description}")
    assert words_of(question) <= there, words_of(question) - there


def words_of(text):
    """Words without their endings: "labels" and "scikit-learn" are "label" and "sklearn"."""
    plain = text.lower().replace("scikit-learn", "sklearn")
    return {word.removesuffix("s") for word in re.findall(r"[a-z]+", plain)}


def test_descriptions_are_short():
    """Search engines cut longer ones. A page without one gets its first paragraph."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        for description in re.findall(r"^    description: (.*)$", path.read_text("utf-8"), re.M):
            assert 50 <= len(description) <= 200, f"{path.name}: {len(description)} characters"
