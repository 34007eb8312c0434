"""What a release ships: links of the README, extras, pages of all public objects."""

import importlib
import inspect
import pkgutil
import re
import tomllib
from pathlib import Path

import fuzzytwin

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


def test_citations_of_the_paper_are_in_the_bibliography():
    text = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
    bibliography = (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8")
    entries = re.findall(r"^@\w+\{(\w+),", bibliography, re.M)
    assert set(re.findall(r"@([a-z]+\d{4}\w*)", text)) == set(entries)


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


# Names without a page, which are private by the stability policy: constants, and classes that
# packages of the library share or that model files name.
WITHOUT_PAGE = {
    "committee": "TreeEnsemble",
    "experiment": "Experiment",
    "kernels": "KERNELS",
    "memberships": "MEMBERSHIPS MomentMembership",
    "plot": "COLORS",
    "store": "TRUSTED import_skops",
    "tables": "ParseIssues TableBatch TableRows",
}


def test_every_public_object_has_a_page():
    """Each name of ``__all__``, at this address or at another one."""
    pages = [getattr(importlib.import_module(home), name) for home, name in map(split, LISTED)]
    assert len(LISTED) == len(set(LISTED))
    without = {}
    public = [module.name for module in pkgutil.iter_modules(fuzzytwin.__path__)]
    for module in [name for name in public if not name.startswith("_")]:
        found = importlib.import_module(f"fuzzytwin.{module}")
        names = getattr(found, "__all__", [])
        missing = [name for name in names if not any(getattr(found, name) is p for p in pages)]
        if missing:
            without[module] = " ".join(sorted(missing))
    assert without == WITHOUT_PAGE
    assert {f"fuzzytwin.{name}" for name in fuzzytwin.__all__} <= set(LISTED)


def split(address):
    home, _, name = address.rpartition(".")
    return home, name
