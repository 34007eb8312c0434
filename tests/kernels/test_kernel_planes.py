"""Curved planes: exact where all rows are landmarks, linear planes on features elsewhere."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from fuzzytwin import (
    FuzzyTwinSVC,
    HyperplaneMembership,
    LeastSquaresTwinSVC,
    NeighborMembership,
    TwinSVC,
)
from fuzzytwin.core.distances import plane_norms
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.kernels._landmark_map import DISTANCES, PROPERTIES, Properties
from tests.kernels.helpers import (
    CLASSICS,
    KERNELS,
    kernel_matrix,
    positive_part,
    representer_planes,
)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("weighed", [False, True])
def test_all_rows_are_the_representer_form(either, name, weighed):
    X, y = either
    given, alpha = KERNELS[name], 0.3
    classes = np.unique(y)
    C = np.linspace(0.5, 2.0, len(classes))
    rng = np.random.default_rng(1)
    s, mu = (rng.uniform(0.2, 2, len(y)), rng.uniform(0.1, 1, len(y))) if weighed else (None, None)
    model = FuzzyTwinSVC(C=C, alpha=alpha, **given)
    model.fit(X, y, sample_weight=s, membership=mu)
    s, mu = np.ones(len(y)) if s is None else s, np.ones(len(y)) if mu is None else mu
    K, onto = positive_part(kernel_matrix(X, X, given))
    new = rng.normal(size=(30, X.shape[1]))
    seen = kernel_matrix(np.vstack([X, new]), X, given)
    values, norms = [], []
    for k, j in model.plane_classes_:
        own, rival = y == classes[k], y == classes[j]
        u, b = representer_planes(K, s * own, s * mu * rival, C[k], alpha)
        u = onto @ u
        values.append(seen @ u + b)
        norms.append(np.sqrt(u @ K @ u))
    found = model.plane_values(np.vstack([X, new]))[0]
    assert_allclose(found, np.transpose(values), atol=1e-6)
    assert_allclose(plane_norms(model.coef_), norms, rtol=1e-6)
    delta, _ = model.fuzzy_distance(new)
    assert_allclose(delta, np.abs(np.transpose(values)[len(X) :]) / norms, atol=1e-6)


@pytest.mark.parametrize("name", KERNELS)
def test_soft_labels(two, name):
    """Everyone is a member of both classes, to some degree."""
    X, y = two
    given, M = KERNELS[name], np.random.default_rng(0).uniform(size=(len(y), 2))
    model = FuzzyTwinSVC(C=0.5, alpha=0.3, **given).fit(X, y, membership=M)
    K, onto = positive_part(kernel_matrix(X, X, given))
    for k in range(2):
        u, b = representer_planes(K, M[:, k], M[:, 1 - k], 0.5, 0.3)
        values = kernel_matrix(X, X, given) @ (onto @ u) + b
        assert_allclose(model.plane_values(X)[0][:, k], values, atol=1e-6)


@pytest.mark.parametrize("name", ["rbf", "laplacian", "poly", "cosine"])
def test_inner_products_are_the_kernel(three, name):
    X, _ = three
    given = {"gamma": 1.0, "degree": 3, "coef0": 0.0, **KERNELS[name]}
    phi = LandmarkMap.of(X, **given)
    assert_allclose(phi(X) @ phi(X).T, kernel_matrix(X, X, given), atol=1e-9)


def cauchy(t, out=None):
    """1 / (1 + gamma times a distance); t is minus that product."""
    return np.divide(1.0, 1.0 - t, out=out)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("distance", DISTANCES)
def test_a_kernel_of_a_distance_is_one_row_of_the_table(three, distance, form, monkeypatch):
    X, _ = three
    L, far, known = form(X[:9]), DISTANCES[distance][0](X, X[:9]), {}
    monkeypatch.setitem(PROPERTIES, "cauchy", Properties(True, -np.inf, distance, cauchy))
    for gamma in (0.3, np.full(4, 0.3)):
        phi = LandmarkMap.of(L, "cauchy", gamma, 3, 0.0)
        assert_allclose(phi.kernel_values(form(X)), 1 / (1 + 0.3 * far), atol=1e-9)
    twins = [LandmarkMap.of(L, name, 0.2, 3, 0.0) for name in ("rbf", "laplacian", "cauchy")]
    for phi in twins:
        assert_allclose(phi.kernel_values(form(X), known), phi.kernel_values(form(X)), atol=1e-12)
    assert sorted(known) == ["manhattan", "squared"]  # that of "cauchy" was known already


def test_fewer_landmarks_are_the_reduced_kernel(two):
    """The same J over functions of the span of the landmarks only."""
    X, y = two
    L, gamma, alpha = X[::4], 0.3, 0.3
    model = FuzzyTwinSVC(alpha=alpha, kernel="rbf", gamma=gamma, n_landmarks=L).fit(X, y)
    R = kernel_matrix(X, L, KERNELS["rbf"])
    E = np.column_stack([R, np.ones(len(X))])
    own, rivals = (y == "no").astype(float), (y == "yes").astype(float)
    A = E.T @ ((own + rivals)[:, None] * E)
    A[:-1, :-1] += alpha * kernel_matrix(L, L, KERNELS["rbf"])
    z = np.linalg.solve(A, -E.T @ rivals)
    assert_allclose(model.plane_values(X)[0][:, 0], E @ z, atol=1e-7)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_kernel_of_all_rows_interpolates_without_ridge(two, kernel):
    """And the least norm is the kernel's, so that repeated rows change nothing."""
    X, y = two
    model = LeastSquaresTwinSVC(kernel=kernel, gamma=2.0).fit(X, y)
    f = model.plane_values(X)[0]
    own = np.column_stack([y == "no", y == "yes"])
    assert_allclose(f, np.where(own, 0.0, -1.0), atol=1e-6)
    # u' K u is least, given K u + b = f, where 1' u = 0.
    K = kernel_matrix(X, X, {"kernel": kernel, "gamma": 2.0})
    A = np.block([[K, np.ones((len(X), 1))], [np.ones((1, len(X))), np.zeros((1, 1))]])
    u = np.linalg.solve(A, np.append(np.where(own[:, 0], 0.0, -1.0), 0.0))
    new = X + 0.3
    values = kernel_matrix(new, X, {"kernel": kernel, "gamma": 2.0}) @ u[:-1] + u[-1]
    assert_allclose(model.plane_values(new)[0][:, 0], values, atol=1e-6)
    assert_allclose(plane_norms(model.coef_)[0], np.sqrt(u[:-1] @ K @ u[:-1]), rtol=1e-6)
    often = LeastSquaresTwinSVC(kernel=kernel, gamma=2.0).fit(
        np.repeat(X, 3, axis=0), np.repeat(y, 3)
    )
    assert_allclose(often.plane_values(new)[0], model.plane_values(new)[0], atol=1e-6)


def test_least_squares_is_the_fuzzy_machine(either):
    X, y = either
    one = LeastSquaresTwinSVC(C=0.3, alpha=0.2, kernel="rbf").fit(X, y)
    other = FuzzyTwinSVC(C=0.3, alpha=0.2, kernel="rbf").fit(X, y)
    assert_allclose(one.plane_values(X)[0], other.plane_values(X)[0], rtol=1e-12)


@pytest.mark.parametrize("machine", CLASSICS)
def test_classics_are_linear_on_the_features(either, machine):
    X, y = either
    ridge = {"alpha": 0.1} if machine is LeastSquaresTwinSVC else {}
    uses_kernel = machine(kernel="rbf", gamma=0.4, **ridge).fit(X, y)
    plain = machine(**ridge).fit(uses_kernel.landmark_map_(X), y)
    assert_allclose(uses_kernel.coef_, plain.coef_, atol=1e-10)
    assert_array_equal(uses_kernel.predict(X), plain.predict(uses_kernel.landmark_map_(X)))


def test_linear_landmarks_are_the_linear_machine(either):
    """The linear kernel by way of landmarks, which nobody needs."""
    X, y = either

    model = FuzzyTwinSVC(kernel=lambda A, B: A @ B.T, alpha=0.7).fit(X, y)
    linear = FuzzyTwinSVC(alpha=0.7).fit(X, y)
    assert model.landmark_map_.root.shape[1] == X.shape[1]
    assert_allclose(model.plane_values(X)[0], linear.plane_values(X)[0], atol=1e-9)
    assert_allclose(plane_norms(model.coef_), plane_norms(linear.coef_), rtol=1e-9)


# --- widths and memberships


def test_widths_are_on_the_columns(either):
    X, y = either
    uses_kernel = FuzzyTwinSVC(planes="fuzzy", kernel="rbf").fit(X, y)
    linear = FuzzyTwinSVC(planes="fuzzy").fit(X, y)
    crisp = FuzzyTwinSVC(kernel="rbf").fit(X, y)
    assert uses_kernel.width_coef_.shape == (len(uses_kernel.coef_), X.shape[1])
    assert_allclose(uses_kernel.width_coef_, linear.width_coef_, rtol=1e-12)
    assert_allclose(uses_kernel.width_intercept_, linear.width_intercept_, rtol=1e-12)
    assert_allclose(uses_kernel.coef_, crisp.coef_, rtol=1e-12)
    _, gamma = uses_kernel.fuzzy_distance(X)
    g = np.abs(X) @ uses_kernel.width_coef_.T + uses_kernel.width_intercept_
    assert_allclose(gamma, g / plane_norms(uses_kernel.coef_), rtol=1e-9)


@pytest.mark.parametrize("name", ["rbf", "laplacian", "poly", "callable"])
@pytest.mark.parametrize("weighed", [False, True])
def test_center_is_in_the_kernels_space(three, name, weighed):
    """|phi(x) - m|^2 = k(x, x) - 2 mean_j k(x, x_j) + mean_ij k(x_i, x_j)."""
    X, y = three
    s = np.random.default_rng(0).integers(0, 3, len(y)) + 0.5 if weighed else np.ones(len(y))
    model = FuzzyTwinSVC(membership="center", **KERNELS[name]).fit(X, y, sample_weight=s)
    expected = np.empty(len(y))
    K = kernel_matrix(X, X, KERNELS[name])
    for label in np.unique(y):
        own = y == label
        v = s[own] / s[own].sum()
        k = K[np.ix_(own, own)]
        d = np.sqrt(np.diag(k) - 2 * k @ v + v @ k @ v)
        expected[own] = 1 - d / (d.max() * (1 + 1e-6))
    assert_allclose(model.membership_, expected, atol=1e-7)


def test_hyperplane_is_in_the_kernels_space(two):
    X, y = two
    model = FuzzyTwinSVC(membership="hyperplane", kernel="rbf", gamma=0.4).fit(X, y)
    features = model.landmark_map_(X)
    assert_allclose(model.membership_, HyperplaneMembership()(features, y), atol=1e-9)


@pytest.mark.parametrize("way", ["neighbor", "entropy", "intuitionistic"])
def test_neighbors_are_those_of_the_rows(two, way):
    X, y = two
    uses_kernel = FuzzyTwinSVC(membership=way, kernel="rbf", gamma=0.4).fit(X, y)
    assert_array_equal(uses_kernel.membership_, FuzzyTwinSVC(membership=way).fit(X, y).membership_)


def test_callable_membership_sees_the_rows(two):
    X, y = two
    shapes = []

    def degrees(X, y, sample_weight):
        shapes.append(X.shape)
        return np.linspace(0.1, 1, len(y))

    model = FuzzyTwinSVC(membership=degrees, kernel="rbf").fit(X, y)
    assert shapes == [X.shape]
    assert_allclose(model.membership_, np.linspace(0.1, 1, len(y)))


# --- weights


WAYS = [None, "center", "hyperplane", NeighborMembership(k=3)]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("planes", ["crisp", "fuzzy"])
def test_an_integer_weight_is_a_repetition(three, way, planes):
    X, y = three
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    model = FuzzyTwinSVC(planes=planes, alpha=10.0, membership=way, kernel="rbf")
    one = clone(model).fit(X, y, sample_weight=weight)
    other = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert one.landmark_map_.gamma == pytest.approx(other.landmark_map_.gamma)
    for a, b in zip(one.fuzzy_distance(X), other.fuzzy_distance(X), strict=True):
        assert_allclose(a, b, atol=1e-8)


@pytest.mark.parametrize("machine", [FuzzyTwinSVC, *CLASSICS])
@pytest.mark.parametrize("count", [20, 300])
def test_weight_zero_is_absence(three, machine, count):
    """Even for the sample of landmarks: it is drawn from rows that weigh something."""
    X, y = three
    weight = np.random.default_rng(0).integers(0, 2, len(y)).astype(float)
    kept = weight > 0
    model = machine(kernel="rbf", n_landmarks=count, random_state=0)
    one = clone(model).fit(X, y, sample_weight=weight)
    other = clone(model).fit(X[kept], y[kept])
    assert_array_equal(one.landmark_map_.landmarks, other.landmark_map_.landmarks)
    assert one.landmark_map_.gamma == pytest.approx(other.landmark_map_.gamma)
    tolerance = 1e-6 if machine is TwinSVC else 1e-8
    assert_allclose(one.plane_values(X)[0], other.plane_values(X)[0], atol=tolerance)
