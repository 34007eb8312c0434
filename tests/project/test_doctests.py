"""The doctests of every public object run, wherever its file is.

Classes have a public address, so ``--doctest-modules`` does not find theirs in the file that
defines them. A doctest that both find runs twice.
"""

import doctest
import importlib
import inspect

import pytest

from fuzzytwin._utils.public import public_in
from tests.project.test_public_names import IMPORTS

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def documented(found):
    """An object, and of a class the classes of ours that it inherits from."""
    if not inspect.isclass(found):
        return [found]
    return [base for base in found.__mro__ if base.__module__.split(".")[0] == "fuzzytwin"]


def doctests(found, name):
    """All doctests of an object and of its methods."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    for base in documented(found):
        for test in finder.find(base, name if base is found else base.__qualname__, module=False):
            if test.examples:
                yield test


def collect():
    tests = {}
    for module, names in IMPORTS.items():
        if module in ("fuzzytwin.dask", "fuzzytwin.spark"):  # start engines; see their tests
            continue
        home = importlib.import_module(module)
        for name in names.split():
            if inspect.isclass(found := getattr(home, name)) or inspect.isroutine(found):
                for test in doctests(found, f"{module}.{name}"):
                    tests.setdefault(test.docstring, test)
    return list(tests.values())


TESTS = collect()


def failures(test):
    text = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    failed = runner.run(test, out=text.append).failed
    return failed, "".join(text)


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_examples_print_what_they_say(test):
    failed, text = failures(test)
    assert failed == 0, text


def test_examples_are_found():
    found = {test.name for test in TESTS}
    for name in (
        "fuzzytwin.FuzzyTwinSVC",
        "fuzzytwin.FuzzyTwinSVC.forget",
        "fuzzytwin.FuzzyTwinSVCCV",
        "fuzzytwin.TwinSVC",
        "fuzzytwin.NeighborMembership",
        "fuzzytwin.moments.ClassMoments",
        "fuzzytwin.moments.ClassMoments.without",
        "fuzzytwin.plot.PlanesDisplay.from_estimator",
        "fuzzytwin.sources.fit_source",
        "fuzzytwin.store.save",
    ):
        assert name in found


@public_in("fuzzytwin")
class Broken:
    """A class.

    >>> 1 + 1
    2
    """

    def method(self):
        """Add.

        >>> 1 + 1
        3
        """

    @classmethod
    def maker(cls):
        """Add.

        >>> 1 + 2
        4
        """

    @property
    def fact(self):
        """Add.

        >>> 1 + 3
        5
        """


class Heir(Broken):
    """Inherits all of it."""


@pytest.mark.parametrize("kind", [Broken, Heir])
def test_a_broken_example_fails(kind):
    kind.__module__ = "fuzzytwin"
    failed = {test.name: failures(test)[0] for test in doctests(kind, kind.__qualname__)}
    assert failed == {
        "Broken": 0, "Broken.method": 1, "Broken.maker": 1, "Broken.fact": 1,
    }  # fmt: skip
