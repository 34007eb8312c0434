"""All solvers give the same planes, in the memory that they state."""

import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from fuzzytwin import (
    GEPSVC,
    CenterMembership,
    FuzzyTwinSVC,
    HyperplaneMembership,
    LeastSquaresSVC,
    LeastSquaresTwinSVC,
    ProximalSVC,
)
from fuzzytwin._utils.memory import NotEnoughMemoryError
from fuzzytwin.core.solvers import (
    OF_ROWS,
    choose_solver,
)
from tests.checks import scikit_learn_checks
from tests.pairs import every_pair

SHAPES = {"wide": (45, 70), "tall": (160, 24)}


def table(shape, n_classes, *, is_sparse=False, offset=0.0, seed=0):
    """Columns of several sizes, one constant, two equal; rows, labels, weights, degrees."""
    rng = np.random.default_rng(seed)
    n, d = SHAPES[shape]
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d))
    X[np.arange(n), y] += 1.5
    if is_sparse:
        X[rng.random(X.shape) < 0.7] = 0.0
    X *= rng.lognormal(size=d)
    X[:, 5], X[:, 7] = 3.0, X[:, 6]
    if is_sparse:
        X[:, :4] += offset
        X = sparse.csr_matrix(X)
    else:
        X += offset
    s = rng.random(n) + 0.5
    s[::9] = 0.0
    return X, y, s, rng.random(n)


def assert_same_planes(model, expected, rtol=1e-6):
    """Compare coefficients by their norm, and intercepts by the size of their terms."""
    assert model.coef_.shape == expected.coef_.shape
    np.testing.assert_array_equal(model.plane_classes_, expected.plane_classes_)
    norms = np.linalg.norm(expected.coef_, axis=1)
    gap = np.linalg.norm(model.coef_ - expected.coef_, axis=1)
    assert (gap <= rtol * norms).all(), gap / norms


def assert_same_model(model, expected, X, rtol=1e-6):
    assert_same_planes(model, expected, rtol)
    f, g = (one.plane_values(X)[0] for one in (model, expected))
    np.testing.assert_allclose(f, g, atol=10 * rtol * np.abs(g).max())
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))


CASES = {
    "plain": ({}, ()),
    "C": ({"C": "each"}, ()),
    "weights": ({"C": 0.5}, ("s",)),
    "degrees": ({"C": 2.0}, ("s", "mu")),
    "soft labels": ({"C": 2.0}, ("s", "soft")),
    "balanced": ({"class_weight": "balanced"}, ("s", "mu")),
    "center": ({"membership": "center_balanced", "C": 2.0}, ("s",)),
    "exponential": ({"membership": CenterMembership(decay="exponential", beta=0.1)}, ("s",)),
    "hyperplane": ({"membership": "hyperplane", "class_weight": {0: 2.0, 1: 1.0, 2: 3.0}}, ("s",)),
    "distance": ({"membership": HyperplaneMembership(kind="distance")}, ("s",)),
    "neighbor": ({"membership": "neighbor"}, ("s",)),
    "entropy": ({"membership": "entropy"}, ("s",)),
    "intuitionistic": ({"membership": "intuitionistic"}, ("s",)),
    "callable": ({"membership": lambda X, y, s: 0.2 + 0.7 * (np.arange(len(y)) % 2)}, ("s",)),
}


@every_pair(
    solver=OF_ROWS,
    shape=SHAPES,
    n_classes=[2, 3],
    is_sparse=[False, True],
    case=CASES,
)
def test_same_planes(case, is_sparse, n_classes, shape, solver):
    X, y, s, mu = table(shape, n_classes, is_sparse=is_sparse)
    parameters, given = CASES[case]
    parameters = {"alpha": 2.0, **parameters}
    if isinstance(parameters.get("class_weight"), dict):
        parameters["class_weight"] = {k: parameters["class_weight"][k] for k in range(n_classes)}
    if parameters.get("C") == "each":
        parameters["C"] = [0.25, 2.0, 3.0][:n_classes]
    soft = 0.1 + 0.9 * (y[:, None] == np.arange(n_classes)) * mu[:, None]
    degrees = soft if "soft" in given else mu if "mu" in given else None
    weights = s if "s" in given else None
    fits = [
        FuzzyTwinSVC(solver=name, **parameters).fit(X, y, weights, degrees)
        for name in ("moments", solver)
    ]
    assert_same_model(*fits[::-1], X)
    np.testing.assert_allclose(fits[1].membership_, fits[0].membership_, atol=1e-6)
    assert fits[1].solver_ == solver
    assert not hasattr(fits[1], "moments_")


@every_pair(
    solver=OF_ROWS,
    n_classes=[2, 3],
    shape=SHAPES,
    offset=[0.0, 1e6],
    is_sparse=[False, True],
    alpha=[0.0, 1e-3, 10.0],
)
def test_far_from_zero_and_without_a_ridge(alpha, is_sparse, offset, shape, n_classes, solver):
    """The solution of least norm, columns scaled to equal size: the same within 1e-6."""
    X, y, s, mu = table(shape, n_classes, is_sparse=is_sparse, offset=offset)
    fits = [
        FuzzyTwinSVC(solver=name, alpha=alpha, C=0.5).fit(X, y, s, mu)
        for name in ("moments", solver)
    ]
    assert_same_planes(*fits[::-1])
    if solver == "gram" and alpha == 0:
        assert fits[1].rank_ == fits[0].rank_


@every_pair(
    model=[
        LeastSquaresTwinSVC(alpha=0.5),
        LeastSquaresTwinSVC(C=0.3, class_weight="balanced"),
        GEPSVC(),
        GEPSVC(alpha=0.1),
        ProximalSVC(C=2.0),
        ProximalSVC(class_weight="balanced"),
        LeastSquaresSVC(C=0.1),
    ],
    shape=SHAPES,
    n_classes=[2, 3],
    is_sparse=[False, True],
)
def test_classics_in_the_space_of_the_rows(is_sparse, n_classes, shape, model):
    X, y, s, _ = table(shape, n_classes, is_sparse=is_sparse)
    expected = clone(model).set_params(solver="moments").fit(X, y, s)
    found = clone(model).set_params(solver="gram").fit(X, y, s)
    assert_same_model(found, expected, X)
    assert not hasattr(found, "moments_")


def test_classics_without_an_iterative_solver_say_so():
    X, y, *_ = table("wide", 2)
    for model in (GEPSVC(), ProximalSVC(), LeastSquaresSVC()):
        with pytest.raises(ValueError, match=r"solver='iterative' is not available.*'gram'"):
            model.set_params(solver="iterative").fit(X, y)


@pytest.mark.parametrize("solver", OF_ROWS)
def test_rows_cannot_be_added_without_moments(solver):
    X, y, *_ = table("wide", 2)
    model = FuzzyTwinSVC(solver=solver).fit(X, y)
    before = model.coef_.copy()
    for call in (
        lambda: model.partial_fit(X, y),
        lambda: model.forget(X[:2], y[:2]),
        lambda: model.merge(FuzzyTwinSVC(solver=solver).fit(X, y)),
        lambda: FuzzyTwinSVC().fit(X, y).merge(model),
        lambda: FuzzyTwinSVC(solver=solver).partial_fit(X, y, classes=[0, 1]),
    ):
        with pytest.raises(ValueError, match=rf"needs moments, which .*solver='{solver}'"):
            call()
    np.testing.assert_array_equal(model.coef_, before)


def test_auto_adds_rows_by_moments_where_columns_allow():
    X, y, *_ = table("wide", 2)
    model = FuzzyTwinSVC().partial_fit(X[:20], y[:20], classes=[0, 1]).partial_fit(X[20:], y[20:])
    assert_same_planes(model, FuzzyTwinSVC(solver="gram").fit(X, y))


@pytest.mark.parametrize(
    ("parameters", "remedy"),
    [
        ({"kernel": "rbf"}, "works with kernel='linear' only"),
        ({"planes": "fuzzy"}, "has no widths; use planes='crisp'"),
    ],
)
def test_what_a_solver_cannot_do_is_refused(parameters, remedy):
    X, y, *_ = table("wide", 2)
    for solver in ("gram", "iterative"):
        with pytest.raises(ValueError, match=rf"solver='{solver}' {remedy}"):
            FuzzyTwinSVC(solver=solver, **parameters).fit(X, y)
    with pytest.raises(ValueError, match="solver='fast' is unknown"):
        FuzzyTwinSVC(solver="fast").fit(X, y)


@pytest.mark.parametrize("solver", OF_ROWS)
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(("value", "words"), [(np.nan, "NaN in column 3"), (1e200, "overflow")])
def test_bad_numbers_are_named(value, words, is_sparse, solver):
    X, y, *_ = table("wide", 2)
    X[4, 3] = value
    rows = sparse.csr_matrix(X) if is_sparse else X
    with pytest.raises(ValueError, match=words):
        FuzzyTwinSVC(solver=solver).fit(rows, y)


def test_iterations_that_do_not_converge_warn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 200)) * 10.0 ** rng.uniform(-6, 6, size=200)
    y = np.arange(300) % 2
    with pytest.warns(ConvergenceWarning, match=r"above 1e-06; scale.*larger alpha"):
        FuzzyTwinSVC(solver="iterative", alpha=1e-9).fit(X, y)


def test_tolerance_bounds_the_error(monkeypatch):
    X, y, s, mu = table("wide", 2)
    exact = FuzzyTwinSVC(solver="gram", C=0.5).fit(X, y, s, mu)
    gaps = []
    for tol in (1e-2, 1e-5, 1e-9):
        monkeypatch.setattr("fuzzytwin.twin._fit.ITERATIVE_TOL", tol)
        found = FuzzyTwinSVC(solver="iterative", C=0.5).fit(X, y, s, mu)
        gap = np.linalg.norm(found.coef_ - exact.coef_, axis=1)
        assert (gap <= tol * np.linalg.norm(exact.coef_, axis=1)).all()
        gaps.append(gap.max())
    assert gaps[0] > gaps[1] > gaps[2]


def test_shape_decides():
    def chosen(n, d, per_row=None, n_classes=2, **given):
        if per_row is None:
            X = np.broadcast_to(0.0, (n, d))
        else:
            indices = np.random.default_rng(0).integers(0, d, n * per_row)
            starts = np.arange(0, n * per_row + 1, per_row)
            X = sparse.csr_matrix((np.ones(n * per_row), indices, starts), shape=(n, d))
        return choose_solver(X, n_classes, **given)

    assert chosen(150, 4) == chosen(10**6, 32) == chosen(20, 500) == "moments"
    assert chosen(500, 3000) == chosen(200, 20_000) == chosen(1000, 50_000) == "gram"
    assert chosen(2000, 20_000, 40) == chosen(20_000, 100_000, 20) == "iterative"
    assert chosen(2000, 20_000, 40, possible=("moments", "gram")) == "gram"


@pytest.mark.parametrize("solver", OF_ROWS)
def test_only_the_rows_of_the_fit_are_left_out(solver):
    X, y, *_ = table("wide", 2)
    with pytest.raises(ValueError, match="not those of the model"):
        FuzzyTwinSVC(solver=solver).fit(X, y).loo_membership(X, np.roll(y, 1))


@pytest.mark.parametrize("solver", OF_ROWS)
def test_stored_and_exported(solver, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    from fuzzytwin import store

    X, y, *_ = table("wide", 3)
    model = FuzzyTwinSVC(solver=solver).fit(X, y)
    store.save(model, tmp_path / "model.skops")
    loaded = store.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    assert loaded.solver_ == solver
    session = ort.InferenceSession(store.to_onnx(model).SerializeToString())
    label, u = session.run(None, {"X": X})
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(u, model.predict_membership(X), atol=1e-12)


@scikit_learn_checks(
    slow=[
        FuzzyTwinSVC(solver="gram"),
        FuzzyTwinSVC(solver="iterative"),
        LeastSquaresTwinSVC(solver="gram"),
    ],
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        # Some checks have random labels and no ridge.
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def in_little_memory(code, mebibytes):
    """Run code in a process whose address space may grow by so much once imports are done."""
    start = f"""
        import resource
        import numpy as np
        from scipy import sparse
        import sklearn.neighbors
        from fuzzytwin import *
        from fuzzytwin.memberships import *
        rng = np.random.default_rng(0)
        def text(n, d, per_row=20):
            columns = np.minimum((d * rng.random(n * per_row) ** 3).astype(int), d - 1)
            starts = np.arange(0, n * per_row + 1, per_row)
            X = sparse.csr_matrix((np.ones(n * per_row), columns, starts), shape=(n, d))
            X.sum_duplicates()
            return X, np.arange(n) % 2
        np.ones((300, 300)) @ np.ones((300, 300))
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        limit = used + {mebibytes} * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    """
    program = textwrap.dedent(start) + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    return done.stdout, done.stderr


linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@linux
def test_too_little_memory_is_reported_before_any_work():
    out, err = in_little_memory(
        """
        X, y = text(3000, 30_000)
        for solver in ("moments", "gram"):
            try:
                FuzzyTwinSVC(solver=solver).fit(X, y)
            except ValueError as error:
                print(isinstance(error, MemoryError), error)
        X, y = text(3000, 3_000_000)
        try:
            FuzzyTwinSVC().fit(X, y)
        except ValueError as error:
            print(isinstance(error, MemoryError), error)
        """,
        200,
    )
    assert not err
    first, second, third = out.splitlines()
    for line, solver in ((first, "moments"), (second, "gram"), (third, "auto")):
        assert line.startswith(f"True solver={solver!r} does not fit into memory")
        assert all(f"with solver={name!r}" in line for name in ("moments", "gram", "iterative"))
    assert "use solver='iterative'" in first
    assert "fewer columns" in third


@linux
@pytest.mark.parametrize(
    "memberships",
    [
        (None, "center"),
        pytest.param(
            ("hyperplane", "neighbor", "entropy", "intuitionistic"), marks=pytest.mark.slow
        ),
    ],
)
def test_wide_sparse_rows_are_never_made_dense(memberships):
    """Neither n x d (3 GB) nor d x d (0.8 TB) numbers fit: no block of 500 dense rows does."""
    out, err = in_little_memory(
        f"""
        X, y = text(1200, 320_000)
        for membership in {memberships}:
            model = FuzzyTwinSVC(membership=membership).fit(X, y)
            u = model.predict_membership(X)
            print(model.solver_, u.shape, model.predict(X).shape)
        """,
        1000,
    )
    assert not err, err[-2000:]
    assert out.splitlines() == ["iterative (1200, 2) (1200,)"] * len(memberships)


def test_batches_that_do_not_fit_are_reported(monkeypatch):
    from fuzzytwin import files

    X, y = sparse.random_array((20, 4000), density=0.01, format="csr"), np.arange(20) % 2
    with pytest.raises(ValueError, match="solver='gram' needs all rows at once"):
        files.fit(FuzzyTwinSVC(solver="gram"), [(X, y)])
    monkeypatch.setattr("fuzzytwin._utils.memory.available_memory", lambda: 1e6)
    for call in (
        lambda: files.fit(FuzzyTwinSVC(), [(X, y)]),
        lambda: FuzzyTwinSVC().partial_fit(X, y, classes=[0, 1]),
    ):
        with pytest.raises(NotEnoughMemoryError, match=r"MiB with solver='moments'"):
            call()
