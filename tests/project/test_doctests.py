"""Every doctest runs, once.

Classes are also found at their public addresses, where pytest's own ``--doctest-modules`` would run
some of them twice. Here an object belongs to the file that defines it; ``-k store`` selects those
of a folder.
"""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import fuzzytwin
import reproduction
from tests.project.test_public_names import IMPORTS

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
ELSEWHERE = ("fuzzytwin.spark", "fuzzytwin.spark._estimators")  # start Java: tests/spark


def modules():
    for package in (fuzzytwin, reproduction):
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.startswith(ELSEWHERE) and not found.name.endswith(".__main__"):
                yield importlib.import_module(found.name)


def home(found):
    """Name the module that defines a function or class."""
    return found.__module__


def doctests(found, name, names):
    """All doctests of an object and of the methods that it defines itself."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    tests = finder.find(found, name, module=False, globs=names)
    # A class that is an attribute of another has its examples where it is defined.
    held = tuple(f"{name}.{key}" for key, one in vars(found).items() if inspect.isclass(one))
    return [test for test in tests if test.examples and not test.name.startswith(held)]


def collect():
    tests = []
    for module in modules():
        names = vars(module)
        parser = doctest.DocTestParser()
        top = parser.get_doctest(module.__doc__ or "", names, module.__name__, module.__file__, 0)
        tests += [top] if top.examples else []
        for name, found in names.items():
            is_own = inspect.isclass(found) or inspect.isfunction(found)
            if is_own and name == found.__name__ and home(found) == module.__name__:
                tests += doctests(found, f"{module.__name__}.{name}", names)
    return tests


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


@pytest.mark.parametrize("module", sorted(set(IMPORTS) - {"fuzzytwin.spark"}))
def test_no_example_of_a_public_object_is_missed(module):
    """Of functions and of classes, with the methods that they inherit from others of ours."""
    texts = [test.docstring for test in TESTS]
    assert len(texts) == len(set(texts))  # nor is one run twice
    for name in IMPORTS[module].split():
        found = getattr(importlib.import_module(module), name)
        if inspect.isclass(found) or inspect.isroutine(found):
            for base in inspect.getmro(found) if inspect.isclass(found) else [found]:
                if base.__module__.split(".")[0] == "fuzzytwin":
                    missed = [
                        test.name
                        for test in doctests(base, base.__qualname__, {})
                        if test.docstring not in texts
                    ]
                    assert not missed
