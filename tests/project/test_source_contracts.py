"""Contracts of the library half that a reader of one file cannot see, checked on the sources.

One carrier of rows, one validator of rows, one module that knows leverages, fitted attributes that
are set at once and last, and no warning that counts stack levels by hand.
"""

import ast
import re
from pathlib import Path

import pytest

import fuzzytwin

SOURCES = Path(fuzzytwin.__file__).parent
LIBRARY = ("core", "kernels", "memberships", "twin", "committee", "classics", "datasets", "_utils")
# Names that fields of features, and of labels or weights of the same rows, have.
FEATURES = {"X", "Z", "rows_X", "features"}
OF_ROWS = {"y", "codes", "labels", "weight", "weights", "sample_weight", "s", "degree", "mu"}
# Dataclasses that may have both. `Rows` is the carrier; the others hold no rows to be passed on.
CARRIERS = {
    "_rows.py": {"Rows"},
    # The summary of classes with too many columns for covariances keeps its rows to solve from.
    "core/solvers.py": {"ClassMeans"},
    # Features, targets and weights of one ridge regression: what rows have become.
    "committee/_members.py": {"RidgeProblem"},
    # Columns and weights of one logistic regression, likewise.
    "twin/_calibration.py": {"_PairProblem"},
    # The row space of some planes, with the columns that it is mapped back to.
    "twin/_loo.py": {"RowSpace"},
}


def library_files():
    files = [*SOURCES.glob("*.py")]
    for folder in LIBRARY:
        files += (SOURCES / folder).rglob("*.py")
    return sorted(files)


def name_of(path):
    return path.relative_to(SOURCES).as_posix()


def is_dataclass(node):
    decorators = [getattr(item, "func", item) for item in node.decorator_list]
    bases = [getattr(base, "id", getattr(base, "attr", "")) for base in node.bases]
    names = [getattr(item, "id", getattr(item, "attr", "")) for item in decorators]
    return "dataclass" in names or "NamedTuple" in bases


def fields_of(node):
    return {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}


def carriers(source):
    """Find dataclasses with features and also labels, weights or degrees of the same rows."""
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    return {
        node.name
        for node in classes
        if is_dataclass(node) and fields_of(node) & FEATURES and fields_of(node) & OF_ROWS
    }


def functions_called(source):
    calls = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return {getattr(call, "attr", getattr(call, "id", "")) for call in calls}


@pytest.mark.parametrize("path", library_files(), ids=name_of)
def test_rows_have_one_carrier(path):
    allowed = CARRIERS.get(name_of(path), set())
    assert carriers(path.read_text()) <= allowed, "use fuzzytwin._rows.Rows"


def test_a_second_carrier_would_be_found():
    second = "@dataclass\nclass Sample:\n    X: Any\n    codes: Array\n"
    assert carriers(second) == {"Sample"}
    assert carriers(second.replace("codes", "n_rows")) == set()
    tuples = "class Sample(NamedTuple):\n    Z: Any\n    weight: Array\n"
    assert carriers(tuples) == {"Sample"}


# `Membership.__call__` is called by users with rows of their own, and landmarks are no rows.
VALIDATORS = {"_rows.py", "memberships/_base.py", "kernels/_landmarks.py"}


@pytest.mark.parametrize("path", library_files(), ids=name_of)
def test_rows_have_one_validator(path):
    if name_of(path) not in VALIDATORS:
        used = functions_called(path.read_text()) & {"check_array", "check_X_y", "validate_data"}
        assert not used, "use validate_rows, validate_chunk or validate_features"


LEVERAGES = {"h", "H", "hat", "leverage", "leverages"}


def leverages(source):
    """Find functions that compute leverages h, and what is divided by 1 - h."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and "leverage" in node.name:
            found.add(node.name)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            names = {part.id for part in ast.walk(node.right) if isinstance(part, ast.Name)}
            if getattr(node.left, "value", None) in (1, 1.0) and names & LEVERAGES:
                found.add(ast.unparse(node))
    return found


# Mean leverages of a class from its moments, which core/ridge.py computes, correct a calibration.
KNOW_LEVERAGES = {"core/ridge.py", "twin/_calibration.py"}


@pytest.mark.parametrize("path", library_files(), ids=name_of)
def test_one_module_knows_leverages(path):
    if name_of(path) not in KNOW_LEVERAGES:
        assert not leverages(path.read_text()), "use fuzzytwin.core.ridge"


def test_a_second_algebra_of_leverages_would_be_found():
    assert leverages("loo = residual / (1 - h)") == {"1 - h"}
    assert leverages("def row_leverages(Q): ...") == {"row_leverages"}
    assert leverages("rest = 1 - share") == set()


# A model of one point is scored and dropped, a committee gets the columns of its preprocessor.
SET_LATER = {"twin/_folds.py", "committee/_preprocessing.py"}
FITTED = re.compile(r"[a-z]_$")


def is_return(statement):
    """Tell whether a statement returns without calling anything that could fail."""
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return isinstance(statement, ast.Return) and not calls


def attributes_set_early(source):
    """Find fitted attributes that are set one by one, and what follows after all are set."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {ast.unparse(part) for part in targets if isinstance(part, ast.Attribute)}
            is_set = not isinstance(node, ast.AnnAssign) or node.value is not None
            found |= {name for name in names if is_set and FITTED.search(name)}
        body = getattr(node, "body", None)
        for i, statement in enumerate(body if isinstance(body, list) else ()):
            call = getattr(statement, "value", None)
            name = getattr(getattr(call, "func", None), "id", "")
            if isinstance(statement, ast.Expr) and name == "set_fitted_attributes":
                found |= {ast.unparse(later) for later in body[i + 1 :] if not is_return(later)}
    return found


@pytest.mark.parametrize("path", library_files(), ids=name_of)
def test_fitted_attributes_are_set_at_once_and_last(path):
    # A fit that fails before its last statement has changed nothing.
    if name_of(path) not in SET_LATER:
        assert not attributes_set_early(path.read_text()), "use set_fitted_attributes"


def test_attributes_that_are_set_early_would_be_found():
    assert attributes_set_early("self.coef_ = w") == {"self.coef_"}
    assert attributes_set_early("self.alpha = alpha; self._cache = 1") == set()
    last = "def fit(self):\n    set_fitted_attributes(self, coef_=w)\n    return self"
    assert attributes_set_early(last) == set()
    early = last.replace("    return", "    self.check()\n    return")
    assert attributes_set_early(early) == {"self.check()"}


@pytest.mark.parametrize("path", library_files(), ids=name_of)
def test_warnings_find_the_line_of_the_user(path):
    if name_of(path) != "_utils/notices.py":
        assert "stacklevel" not in path.read_text(), "use warn_user"
