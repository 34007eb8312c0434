"""What a release ships: links of the README, extras, pages of all public objects."""

import importlib
import inspect
import re
import tomllib
from pathlib import Path

import fuzzytwin
from tests.project.test_public_names import IMPORTS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_links_and_pictures_of_the_readme_exist():
    for name in (
        "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "RELEASING.md", "SECURITY.md",
    ):  # fmt: skip
        text = (ROOT / name).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)", text):
            assert "://" in target or (ROOT / target).exists(), f"{name} links to {target}"


def test_one_version_everywhere():
    version = re.escape(fuzzytwin.__version__)
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(rf"^## {version} - (\d{{4}}-\d\d-\d\d)$", changelog, re.M)
    assert newest is not None
    assert newest[0] == re.search(r"^## .*$", changelog, re.M)[0]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(rf"^version: {version}$", citation, re.M)
    assert f"date-released: {newest[1]}" in citation
    page = (ROOT / "docs" / "cite.md").read_text(encoding="utf-8")
    assert re.search(rf"version = \{{{version}\}}", page)
    assert f"{{{newest[1][:4]}}}" in page


def test_the_paper_is_short_and_its_citations_are_in_the_bibliography():
    _, header, text = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8").split("---\n", 2)
    assert "bibliography: paper.bib" in header
    words = [word for word in text.split() if re.search(r"\w", word)]
    assert len(words) <= 1000
    bibliography = (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8")
    entries = re.findall(r"^@\w+\{(\w+),", bibliography, re.M)
    assert set(re.findall(r"@([a-z]+\d{4}\w*)", text)) == set(entries)


def test_types_are_shipped():
    assert (ROOT / "src" / "fuzzytwin" / "py.typed").exists()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_all_is_every_extra_but_those_for_developers():
    extras = PROJECT["optional-dependencies"]
    (every,) = extras["all"]
    named = set(re.fullmatch(r"fuzzytwin\[(.*)\]", every)[1].split(","))
    assert named == set(extras) - {"all", "benchmarks", "docs", "test"}
    page = (ROOT / "docs" / "start" / "install.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.M)) == set(extras)


LISTED = re.findall(
    r"^   (fuzzytwin[\w.]+)$",
    (ROOT / "docs" / "api" / "index.rst").read_text(encoding="utf-8"),
    re.M,
)


def test_every_object_with_a_page_has_an_example():
    """Exceptions, and what starts Spark, may stay without one."""
    without = []
    for address in LISTED:
        module, _, name = address.rpartition(".")
        if module == "fuzzytwin.spark":
            continue
        found = getattr(importlib.import_module(module), name)
        raised = inspect.isclass(found) and issubclass(found, Exception)
        if not raised and ">>>" not in inspect.getdoc(found):
            without.append(address)
    assert not without


def test_every_public_object_has_a_page():
    """Functions of the core that estimators are built of may stay without one."""
    listed = LISTED
    assert len(listed) == len(set(listed))
    inner = {
        "fuzzytwin.core.moments", "fuzzytwin.core.planes", "fuzzytwin.core.printed_planes",
        "fuzzytwin.core.distances", "fuzzytwin.kernels", "fuzzytwin.twin", "fuzzytwin.committee",
        "fuzzytwin.classics", "fuzzytwin.memberships",
        "fuzzytwin.cli", "fuzzytwin.demo", "fuzzytwin.tables",
    }  # fmt: skip
    constants = {"fuzzytwin.__version__", "fuzzytwin.store.TRUSTED", "fuzzytwin.plot.COLORS"}
    elsewhere = {"fuzzytwin.label_issues.find_label_issues"}  # fuzzytwin.find_label_issues has one
    public = {
        f"{module}.{name}"
        for module, names in IMPORTS.items()
        if module not in inner
        for name in names.split()
    }
    assert public - constants - elsewhere <= set(listed)
