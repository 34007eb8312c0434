"""Degenerate kernels, extreme gammas, bad values: right, or a clear error."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fuzzytwin import FuzzyTwinSVC, TwinSVC
from tests.kernels.helpers import CLASSICS, kernel_matrix, positive_part, quadratic
from tests.pairs import every_pair


def test_constant_kernel_tells_nothing(two):
    X, y = two
    model = FuzzyTwinSVC(kernel=lambda A, B: np.ones((len(A), len(B)))).fit(X, y)
    u = model.predict_membership(X)
    assert np.isfinite(u).all()
    assert len(set(model.predict(X))) == 1


@pytest.mark.parametrize(
    ("kernel", "gamma", "match"),
    [
        (lambda A, B: -A @ B.T, "scale", "no positive eigenvalue"),
        (lambda A, B: np.zeros((len(A), len(B))), "scale", "no positive eigenvalue"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), "scale", "is not finite"),
        (lambda A, B: np.ones(len(A)), "scale", "returned shape"),
        ("poly", 1e200, r"kernel='poly' with gamma=1e\+200.* is not finite.*lower gamma"),
    ],
)
def test_kernels_that_cannot_be(two, kernel, gamma, match):
    X, y = two
    with pytest.raises(ValueError, match=match):
        FuzzyTwinSVC(kernel=kernel, gamma=gamma).fit(X, y)


def test_kernel_that_fails_at_new_rows(two):
    """No membership that is not a number ever comes out."""
    X, y = two
    model = FuzzyTwinSVC(kernel="poly", degree=9).fit(X, y)
    with pytest.raises(
        ValueError, match=r"is not finite at row 0 of X, which holds 1e\+80 in column 0; scale"
    ):
        model.predict(np.full((1, X.shape[1]), 1e80))


def test_indefinite_kernel_is_its_positive_part(two):
    X, y = two
    given = {"kernel": "sigmoid", "gamma": 2.0, "coef0": -1.0}
    K = kernel_matrix(X, X, given)
    assert np.linalg.eigvalsh(K)[0] < -0.5
    model = FuzzyTwinSVC(**given).fit(X, y)
    phi = model.landmark_map_(X)
    assert_allclose(phi @ phi.T, positive_part(K)[0], atol=1e-9)
    assert np.isfinite(model.predict_membership(X)).all()


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_duplicate_landmarks(two, alpha):
    X, y = two
    once = X[:10]
    models = [
        FuzzyTwinSVC(kernel="rbf", gamma=0.3, alpha=alpha, n_landmarks=L).fit(X, y)
        for L in (once, np.repeat(once, 3, axis=0))
    ]
    assert models[1].coef_.shape == (2, 10)
    values = [model.plane_values(X)[0] for model in models]
    assert_allclose(*values, atol=1e-7)


@every_pair(
    kernel=["rbf", "laplacian", "poly", "sigmoid"],
    gamma=[1e-9, 1e9],
    machine=[FuzzyTwinSVC, *CLASSICS],
)
@pytest.mark.filterwarnings("ignore:LIBLINEAR did not converge")
def test_extreme_gammas(two, machine, kernel, gamma):
    X, y = two
    X = X / np.abs(X).max()
    model = machine(kernel=kernel, gamma=gamma)
    if machine is TwinSVC and (kernel, gamma) == ("poly", 1e9):
        # The ridge is lost beside values of 1e27.
        with pytest.raises(ValueError, match="give a larger alpha or scale the columns"):
            model.fit(X, y)
        return
    model.fit(X, y)
    scores = model.decision_function(np.vstack([X, X + 0.1]))
    assert np.isfinite(scores).all()


def test_wide_gamma_knows_its_own_rows_only(two):
    X, y = two
    model = FuzzyTwinSVC(kernel="rbf", gamma=1e9, alpha=0.1).fit(X, y)
    assert model.score(X, y) == 1.0
    assert len(set(model.predict(X + 0.1))) == 1


def test_narrow_gamma_is_the_linear_machine(two):
    """k = 1 - gamma |x - z|^2 + ...: with alpha scaled along, a plane; |w|^2 as 1 / (2 gamma)."""
    X, y = two
    gamma = 1e-7
    uses_kernel = FuzzyTwinSVC(kernel="rbf", gamma=gamma, alpha=2 * gamma).fit(X, y)
    linear = FuzzyTwinSVC(alpha=1.0).fit(X, y)
    assert_allclose(uses_kernel.plane_values(X)[0], linear.plane_values(X)[0], atol=1e-4)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_a_shift_shifts_nothing(two, kernel):
    X, y = two
    near = FuzzyTwinSVC(kernel=kernel, membership="center").fit(X, y)
    far = FuzzyTwinSVC(kernel=kernel, membership="center", gamma=near.landmark_map_.gamma)
    far.fit(X + 2.0**20, y)
    assert_allclose(far.plane_values(X + 2.0**20)[0], near.plane_values(X)[0], atol=1e-6)


BAD_VALUES = [
    ("kernel", "gauss", "use one of"),
    ("kernel", None, "use one of"),
    ("kernel", 3, "use one of"),
    ("gamma", 0.0, "above 0"),
    ("gamma", -1.0, "above 0"),
    ("gamma", np.inf, "finite number"),
    ("gamma", np.nan, "finite number"),
    ("gamma", "median", "use one of"),
    ("gamma", None, "finite number"),
    ("gamma", [0.1, 0.2], "finite number"),
    ("degree", -1, "above 0"),
    ("degree", 0, "above 0"),
    ("degree", 2.5, "whole number"),
    ("degree", "two", "finite number"),
    ("coef0", np.nan, "finite number"),
    ("coef0", np.inf, "finite number"),
    ("coef0", "one", "finite number"),
    ("n_landmarks", 0, "at least 1"),
    ("n_landmarks", -5, "at least 1"),
    ("n_landmarks", 10.5, "whole number"),
    ("n_landmarks", None, "whole number"),
    ("n_landmarks", True, "whole number"),
    ("n_landmarks", [1.0, 2.0, 3.0, 4.0], r"shape \(m, d\)"),
    ("n_landmarks", [[1.0, 2.0], [3.0]], r"shape \(m, d\)"),
    ("n_landmarks", np.zeros((0, 4)), r"shape \(m, d\)"),
    ("n_landmarks", np.zeros((2, 4, 2)), r"shape \(m, d\)"),
    ("n_landmarks", np.full((2, 4), np.nan), r"shape \(m, d\)"),
    ("n_landmarks", [["a", "b", "c", "d"]], r"shape \(m, d\)"),
    ("n_landmarks", np.zeros((2, 3)), "with the columns of X"),
    ("random_state", -1, "whole number"),
    ("random_state", "seed", "whole number"),
]
FIRST_OF_EACH = {name: (name, *rest) for name, *rest in reversed(BAD_VALUES)}.values()


@pytest.mark.parametrize(
    ("machine", "name", "value", "remedy"),
    [(FuzzyTwinSVC, *bad) for bad in BAD_VALUES]
    + [(machine, *bad) for machine in CLASSICS for bad in FIRST_OF_EACH],
)
def test_bad_values(two, machine, name, value, remedy):
    X, y = two
    model = machine(kernel="rbf").fit(X, y)
    before = model.plane_values(X)[0]
    model.set_params(**{name: value})
    with pytest.raises(ValueError, match=rf"(?s){name}.*{remedy}"):
        model.fit(X, y)
    assert_array_equal(model.plane_values(X)[0], before)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", quadratic])
def test_rows_that_are_not_finite(two, bad, kernel):
    X, y = two
    for row in (0, len(X) - 1):
        broken = X.copy()
        broken[row, 1] = bad
        for count in (300, X[1:5]):
            with pytest.raises(ValueError, match=r"X contains (NaN|infinity)"):
                FuzzyTwinSVC(kernel=kernel, n_landmarks=count).fit(broken, y)
    model = FuzzyTwinSVC(kernel="rbf").partial_fit(X, y, classes=["no", "yes"])
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        model.partial_fit(broken, y)


def test_rows_out_of_scale(two):
    """Too large for squares: refused with a remedy. Too small: one point, nothing to tell."""
    X, y = two
    with pytest.raises(ValueError, match="scale the columns of X"):
        FuzzyTwinSVC(kernel="rbf").fit(1e200 * X, y)
    u = FuzzyTwinSVC(kernel="rbf").fit(1e-200 * X, y).predict_membership(1e-200 * X)
    assert np.isfinite(u).all()
    assert np.ptp(u[:, 0]) < 1e-9


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_an_outlier_among_new_rows_changes_no_other_row(two, kernel):
    """Its kernel values are 0, as they would be without overflow."""
    X, y = two
    model = FuzzyTwinSVC(kernel=kernel, alpha="auto").fit(X, y)
    new = np.concatenate([X, X[:2]])
    new[-2, 0], new[-1, 1] = 1e200, -1.7e308
    found = model.predict_membership(new)
    assert_allclose(found[:-2], model.predict_membership(X), atol=1e-14)
    far = np.concatenate([X[:1], X[:1]])
    far[:, 0] = [1e100, 1e200]
    assert_allclose(*model.predict_membership(far), atol=1e-14)
    assert np.isfinite(found).all()


def test_a_kernel_that_overflows_names_row_and_column(two, monkeypatch):
    monkeypatch.setattr("fuzzytwin.core.blocks.BLOCK_NUMBERS", 1)
    X, y = two
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    model = FuzzyTwinSVC(kernel="poly").fit(frame, y)
    new = pd.concat(30 * [frame], ignore_index=True)
    new.iloc[len(new) - 2, 1] = -1e200
    with pytest.raises(ValueError, match=rf"row {len(new) - 2} of X, which holds -1e\+200 in .*c1"):
        model.predict(new)
