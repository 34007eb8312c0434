"""Curved planes: exact where all rows are landmarks, the linear machine on features elsewhere."""

import copy
import pickle
import tracemalloc

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_circles, make_moons
from sklearn.metrics.pairwise import (
    chi2_kernel,
    euclidean_distances,
    pairwise_kernels,
    polynomial_kernel,
)
from sklearn.model_selection import GridSearchCV, PredefinedSplit, StratifiedKFold
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from fuzzytwin import (
    GEPSVC,
    CenterMembership,
    FuzzyTwinSVC,
    FuzzyTwinSVCCV,
    HyperplaneMembership,
    LeastSquaresTwinSVC,
    NeighborMembership,
    ProximalSVC,
    TwinSVC,
    _folds,
)
from fuzzytwin.distances import plane_norms
from fuzzytwin.kernels import (
    LandmarkMap,
    MappedRows,
    choose_landmarks,
    default_gammas,
    resolve_gamma,
)

CLASSICS = (LeastSquaresTwinSVC, TwinSVC, ProximalSVC, GEPSVC)
STREAMERS = (FuzzyTwinSVC, LeastSquaresTwinSVC, ProximalSVC, GEPSVC)


def quadratic(X, Y):
    """A kernel of the user's own."""
    return polynomial_kernel(X, Y, degree=2, gamma=0.2, coef0=1.0)


KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.3},
    "poly": {"kernel": "poly", "gamma": 0.4, "degree": 3, "coef0": 1.0},
    "laplacian": {"kernel": "laplacian", "gamma": 0.2},
    "cosine": {"kernel": "cosine"},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.1, "coef0": -0.5},
    "callable": {"kernel": quadratic},
}


@pytest.fixture
def three():
    """Three classes, not too well apart."""
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X[::3] + np.random.default_rng(0).normal(scale=0.4, size=X[::3].shape), y[::3]


@pytest.fixture
def two(three):
    X, y = three
    return X[y > 0], np.array(["no", "yes"])[y[y > 0] - 1]


@pytest.fixture(params=["two", "three"])
def either(request):
    return request.getfixturevalue(request.param)


def kernel_matrix(X, Y, given):
    given = {"gamma": 1.0, "degree": 3, "coef0": 0.0, **given}
    kernel = given.pop("kernel")
    if callable(kernel):
        return kernel(X, Y)
    return pairwise_kernels(X, Y, metric=kernel, filter_params=True, **given)


def positive_part(K):
    """The matrix without its negative eigenvalues, and the projector on what is left."""
    values, vectors = np.linalg.eigh(K)
    V = vectors[:, values > 1e-11 * values[-1]]
    return V @ (V.T @ K @ V) @ V.T, V @ V.T


def representer_planes(K, own, rivals, C, alpha):
    """Weights u and constant b of the function sum_j u_j k(., x_j) + b that minimises J.

    `own` and `rivals` are the weights of all rows in either term. The gradient of J is K times
    the first rows below, and the last row, times alpha.
    """
    D = own + C * rivals
    n = len(K)
    A = np.zeros((n + 1, n + 1))
    A[:n, :n] = D[:, None] * K + alpha * np.eye(n)
    A[:n, n] = D
    A[n, :n] = D @ K
    A[n, n] = D.sum()
    z = np.linalg.solve(A, -np.append(C * rivals, C * rivals.sum()))
    return z[:n], z[n]


# --- exact where all rows are landmarks


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("weighed", [False, True])
def test_all_rows_are_the_representer_form(either, name, weighed):
    X, y = either
    given, alpha = KERNELS[name], 0.3
    classes = np.unique(y)
    C = np.linspace(0.5, 2.0, len(classes))
    rng = np.random.default_rng(1)
    s, mu = (rng.uniform(0.2, 2, len(y)), rng.uniform(0.1, 1, len(y))) if weighed else (None, None)
    model = FuzzyTwinSVC(C=C, alpha=alpha, **given).fit(X, y, sample_weight=s, membership=mu)
    s, mu = np.ones(len(y)) if s is None else s, np.ones(len(y)) if mu is None else mu
    K, onto = positive_part(kernel_matrix(X, X, given))
    new = rng.normal(size=(30, X.shape[1]))
    seen = kernel_matrix(np.vstack([X, new]), X, given)
    values, norms = [], []
    for k, label in enumerate(classes):
        own = y == label
        u, b = representer_planes(K, s * own, s * mu * ~own, C[k], alpha)
        u = onto @ u
        values.append(seen @ u + b)
        norms.append(np.sqrt(u @ K @ u))
    found = model._plane_values(np.vstack([X, new]))[1]
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
        assert_allclose(model._plane_values(X)[1][:, k], values, atol=1e-6)


@pytest.mark.parametrize("name", ["rbf", "laplacian", "poly", "cosine"])
def test_inner_products_are_the_kernel(three, name):
    X, _ = three
    given = {"gamma": 1.0, "degree": 3, "coef0": 0.0, **KERNELS[name]}
    phi = LandmarkMap.of(X, **given)
    assert_allclose(phi(X) @ phi(X).T, kernel_matrix(X, X, given), atol=1e-9)


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
    assert_allclose(model._plane_values(X)[1][:, 0], E @ z, atol=1e-7)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_kernel_of_all_rows_interpolates_without_ridge(two, kernel):
    """And the least norm is the kernel's, so that repeated rows change nothing."""
    X, y = two
    model = LeastSquaresTwinSVC(kernel=kernel, gamma=2.0).fit(X, y)
    f = model._plane_values(X)[1]
    own = np.column_stack([y == "no", y == "yes"])
    assert_allclose(f, np.where(own, 0.0, -1.0), atol=1e-6)
    # u' K u is least, given K u + b = f, where 1' u = 0.
    K = kernel_matrix(X, X, {"kernel": kernel, "gamma": 2.0})
    A = np.block([[K, np.ones((len(X), 1))], [np.ones((1, len(X))), np.zeros((1, 1))]])
    u = np.linalg.solve(A, np.append(np.where(own[:, 0], 0.0, -1.0), 0.0))
    new = X + 0.3
    values = kernel_matrix(new, X, {"kernel": kernel, "gamma": 2.0}) @ u[:-1] + u[-1]
    assert_allclose(model._plane_values(new)[1][:, 0], values, atol=1e-6)
    assert_allclose(plane_norms(model.coef_)[0], np.sqrt(u[:-1] @ K @ u[:-1]), rtol=1e-6)
    often = LeastSquaresTwinSVC(kernel=kernel, gamma=2.0).fit(
        np.repeat(X, 3, axis=0), np.repeat(y, 3)
    )
    assert_allclose(often._plane_values(new)[1], model._plane_values(new)[1], atol=1e-6)


def test_least_squares_is_the_fuzzy_machine(either):
    X, y = either
    one = LeastSquaresTwinSVC(C=0.3, alpha=0.2, kernel="rbf").fit(X, y)
    other = FuzzyTwinSVC(C=0.3, alpha=0.2, kernel="rbf").fit(X, y)
    assert_allclose(one._plane_values(X)[1], other._plane_values(X)[1], rtol=1e-12)


@pytest.mark.parametrize("machine", CLASSICS)
def test_classics_are_linear_on_the_features(either, machine):
    X, y = either
    ridge = {"alpha": 0.1} if machine is LeastSquaresTwinSVC else {}
    curved = machine(kernel="rbf", gamma=0.4, **ridge).fit(X, y)
    plain = machine(**ridge).fit(curved.landmark_map_(X), y)
    assert_allclose(curved.coef_, plain.coef_, atol=1e-10)
    assert_array_equal(curved.predict(X), plain.predict(curved.landmark_map_(X)))


def test_linear_landmarks_are_the_linear_machine(either):
    """The linear kernel by way of landmarks, which nobody needs."""
    X, y = either

    model = FuzzyTwinSVC(kernel=lambda A, B: A @ B.T, alpha=0.7).fit(X, y)
    linear = FuzzyTwinSVC(alpha=0.7).fit(X, y)
    assert model.landmark_map_.root.shape[1] == X.shape[1]
    assert_allclose(model._plane_values(X)[1], linear._plane_values(X)[1], atol=1e-9)
    assert_allclose(plane_norms(model.coef_), plane_norms(linear.coef_), rtol=1e-9)


# --- widths and memberships


def test_widths_are_on_the_columns(either):
    X, y = either
    curved = FuzzyTwinSVC("fuzzy", kernel="rbf").fit(X, y)
    linear = FuzzyTwinSVC("fuzzy").fit(X, y)
    crisp = FuzzyTwinSVC(kernel="rbf").fit(X, y)
    assert curved.width_coef_.shape == (len(curved.classes_), X.shape[1])
    assert_allclose(curved.width_coef_, linear.width_coef_, rtol=1e-12)
    assert_allclose(curved.width_intercept_, linear.width_intercept_, rtol=1e-12)
    assert_allclose(curved.coef_, crisp.coef_, rtol=1e-12)
    _, gamma = curved.fuzzy_distance(X)
    g = np.abs(X) @ curved.width_coef_.T + curved.width_intercept_
    assert_allclose(gamma, g / plane_norms(curved.coef_), rtol=1e-9)


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
    curved = FuzzyTwinSVC(membership=way, kernel="rbf", gamma=0.4).fit(X, y)
    assert_array_equal(curved.membership_, FuzzyTwinSVC(membership=way).fit(X, y).membership_)


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


WAYS = [None, "center", "hyperplane", NeighborMembership(3)]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("planes", ["crisp", "fuzzy"])
def test_an_integer_weight_is_a_repetition(three, way, planes):
    X, y = three
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    model = FuzzyTwinSVC(planes, membership=way, kernel="rbf")
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
    assert_allclose(one._plane_values(X)[1], other._plane_values(X)[1], atol=tolerance)


# --- rows that come in batches


@pytest.mark.parametrize("machine", STREAMERS)
def test_partial_fit_keeps_the_first_landmarks(three, machine):
    X, y = three
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    model = machine(kernel="rbf", gamma=0.3, n_landmarks=12, random_state=0)
    classes = np.unique(y)
    model.partial_fit(X[:20], y[:20], classes=classes)
    landmarks = model.landmark_map_.landmarks
    assert len(landmarks) <= 12
    model.partial_fit(X[20:35], y[20:35]).partial_fit(X[35:], y[35:])
    assert model.landmark_map_.landmarks is landmarks
    whole = machine(kernel="rbf", gamma=0.3, n_landmarks=landmarks).fit(X, y)
    assert_allclose(model._plane_values(X)[1], whole._plane_values(X)[1], atol=1e-8)


def test_partial_fit_without_weight(two):
    """A first batch that weighs nothing has no landmarks to give, unless they are given."""
    X, y = two
    nothing = np.zeros(10)
    model = FuzzyTwinSVC(kernel="rbf")
    with pytest.raises(ValueError, match=r"sample_weight is zero .* landmarks"):
        model.partial_fit(X[:10], y[:10], classes=["no", "yes"], sample_weight=nothing)
    assert not hasattr(model, "classes_")
    model.set_params(n_landmarks=X, gamma=0.5)
    model.partial_fit(X[:10], y[:10], classes=["no", "yes"], sample_weight=nothing)
    model.partial_fit(X, y)
    whole = FuzzyTwinSVC(kernel="rbf", gamma=0.5).fit(X, y)
    assert_allclose(model._plane_values(X)[1], whole._plane_values(X)[1], atol=1e-9)


@pytest.mark.parametrize("machine", STREAMERS)
def test_merge(three, machine):
    X, y = three
    model = machine(kernel="rbf", gamma=0.3, n_landmarks=X[:25])
    one, other = (clone(model).partial_fit(X[i::2], y[i::2], classes=range(3)) for i in (0, 1))
    one.merge(other)
    assert_allclose(one._plane_values(X)[1], clone(model).fit(X, y)._plane_values(X)[1], atol=1e-8)


def test_merge_needs_the_same_map(two):
    X, y = two
    model = FuzzyTwinSVC(kernel="rbf", gamma=0.3)
    one, other = clone(model).fit(X[::2], y[::2]), clone(model).fit(X[1::2], y[1::2])
    before = one.coef_.copy()
    with pytest.raises(ValueError, match=r"differ in the landmarks.*give both the same n_l"):
        one.merge(other)
    with pytest.raises(ValueError, match="differ in kernel: 'rbf' and 'linear'"):
        one.merge(FuzzyTwinSVC(gamma=0.3).fit(X, y))
    # The landmarks are the same, but "scale" is not.
    model = FuzzyTwinSVC(kernel="rbf", n_landmarks=X[:10])
    two_scales = clone(model).fit(X[::2], y[::2]), clone(model).fit(3 * X[1::2], y[1::2])
    with pytest.raises(ValueError, match="differ in gamma"):
        two_scales[0].merge(two_scales[1])
    # The same landmarks and kernel, but another machine's eigenvectors.
    model.set_params(gamma=0.3)
    here, there = clone(model).fit(X[::2], y[::2]), clone(model).fit(X[1::2], y[1::2])
    phi = there.landmark_map_
    there.landmark_map_ = LandmarkMap(
        phi.landmarks, phi.root[:, ::-1], phi.kernel, phi.gamma, phi.degree, phi.coef0
    )
    with pytest.raises(ValueError, match="turned the axes"):
        here.merge(there)
    assert_array_equal(one.coef_, before)


def test_forget(two):
    X, y = two
    gone = np.arange(len(y)) % 5 == 0
    model = FuzzyTwinSVC(kernel="rbf", gamma=0.3, n_landmarks=X[:15], alpha=0.5)
    one = clone(model).fit(X, y).forget(X[gone], y[gone])
    assert_allclose(
        one._plane_values(X)[1],
        clone(model).fit(X[~gone], y[~gone])._plane_values(X)[1],
        atol=1e-8,
    )


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"kernel": "rbf"}, {"kernel": "linear"}),
        ({"kernel": "linear"}, {"kernel": "rbf"}),
        ({"kernel": "rbf"}, {"kernel": "laplacian"}),
        ({"kernel": "rbf", "gamma": 0.1}, {"gamma": 0.2}),
        ({"kernel": "poly"}, {"degree": 2}),
    ],
)
def test_another_kernel_in_mid_stream(two, first, then):
    X, y = two
    model = FuzzyTwinSVC(**first).partial_fit(X, y, classes=["no", "yes"])
    before = model.coef_.copy()
    model.set_params(**then)
    with pytest.raises(ValueError, match=r"kernel=.*start a new model"):
        model.partial_fit(X, y)
    assert_array_equal(model.coef_, before)
    model.fit(X, y)  # which is a new start


def test_fit_takes_new_landmarks(two):
    X, y = two
    model = FuzzyTwinSVC(kernel="rbf").fit(X, y).fit(X + 5, y)
    assert_array_equal(model.landmark_map_.landmarks, X + 5)
    linear = model.set_params(kernel="linear").fit(X, y)
    assert not hasattr(linear, "landmark_map_")
    assert linear.coef_.shape == (2, X.shape[1])


def test_pickle_and_copy(two):
    X, y = two
    model = FuzzyTwinSVC("fuzzy", kernel="poly", n_landmarks=X[:7], membership="center").fit(X, y)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_array_equal(twin.predict_membership(X), model.predict_membership(X))


# --- the sample of landmarks, and gamma


def test_landmarks_are_shared_among_classes():
    X = np.arange(1000.0)[:, None]
    codes = np.repeat([0, 1, 2], [900, 97, 3])
    chosen = choose_landmarks(X, codes, None, 100, 0)[:, 0].astype(int)
    assert_array_equal(np.bincount(codes[chosen]), [90, 9, 1])
    assert len(set(chosen)) == 100
    assert_array_equal(chosen, choose_landmarks(X, codes, None, 100, 0)[:, 0])
    assert set(chosen) != set(choose_landmarks(X, codes, None, 100, 1)[:, 0])
    assert_array_equal(choose_landmarks(X, codes, None, 1000, 0), X)
    weight = (np.arange(1000) % 10 == 0).astype(float)
    some = choose_landmarks(X, codes, weight, 30, 0)[:, 0]
    assert (some % 10 == 0).all()


def test_one_landmark(two):
    """From each class one; or truly one, where it is given."""
    X, y = two
    model = FuzzyTwinSVC(kernel="rbf", n_landmarks=1, random_state=0).fit(X, y)
    assert len(model.landmark_map_.landmarks) == 2
    model = FuzzyTwinSVC(kernel="rbf", n_landmarks=X[:1], gamma=0.3).fit(X, y)
    assert model.coef_.shape == (2, 1)
    feature = np.exp(-0.3 * euclidean_distances(X, X[:1], squared=True))
    linear = FuzzyTwinSVC().fit(feature, y)
    assert_allclose(model._plane_values(X)[1], linear._plane_values(feature)[1], atol=1e-10)


def test_more_landmarks_than_rows(two):
    X, y = two
    more = np.vstack([X, X + 0.1, X - 0.1])
    for count in (10**9, more):
        model = FuzzyTwinSVC(kernel="rbf", gamma=0.3, n_landmarks=count).fit(X, y)
        exact = FuzzyTwinSVC(kernel="rbf", gamma=0.3).fit(X, y)
        # The best function lies in the span of the training rows.
        assert_allclose(model._plane_values(X)[1], exact._plane_values(X)[1], atol=1e-8)


@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e5])
def test_gamma_is_that_of_svc(two, scale):
    X, y = two
    X = scale * (X + np.arange(4))
    for gamma in ("scale", "auto"):
        mine = FuzzyTwinSVC(kernel="rbf", gamma=gamma).fit(X, y).landmark_map_.gamma
        assert mine == pytest.approx(SVC(gamma=gamma).fit(X, y)._gamma)
        rows = sparse.csr_array(np.where(np.median(X) < X, X, 0.0))
        dense = resolve_gamma(gamma, rows.toarray(), None)
        assert resolve_gamma(gamma, rows, None) == pytest.approx(dense)
    weight = np.arange(len(y)) % 3
    assert resolve_gamma("scale", X, weight * 1.0) == pytest.approx(
        resolve_gamma("scale", np.repeat(X, weight, axis=0), None)
    )
    assert resolve_gamma("scale", np.ones((3, 4)), None) == 0.25


def test_default_gammas(two):
    X, _ = two
    squares = euclidean_distances(X, squared=True)[np.triu_indices(len(X), 1)]
    found = default_gammas(X, None)
    assert found[2] == pytest.approx(1 / np.median(squares), rel=0.05)
    assert_allclose(found / found[2], [1 / 16, 1 / 4, 1, 4, 16])
    assert_allclose(default_gammas(sparse.csr_array(X), None), found)
    assert_allclose(default_gammas(X + 1e6, None), found, rtol=1e-6)
    weight = np.arange(len(X)) % 4
    assert_allclose(
        default_gammas(X, weight * 0.7), default_gammas(np.repeat(X, weight, axis=0), None)
    )
    assert_allclose(default_gammas(np.ones((5, 2)), None)[2], 1.0)
    assert np.isfinite(default_gammas(np.random.default_rng(0).normal(size=(2000, 3)), None)).all()


# --- hard cases: right, or a clear error


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
    with pytest.raises(ValueError, match="is not finite on some rows of X"):
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
    values = [model._plane_values(X)[1] for model in models]
    assert_allclose(*values, atol=1e-7)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly", "sigmoid"])
@pytest.mark.parametrize("gamma", [1e-9, 1e9])
@pytest.mark.parametrize("machine", [FuzzyTwinSVC, *CLASSICS])
@pytest.mark.filterwarnings("ignore:LIBLINEAR did not converge")
def test_extreme_gammas(two, machine, kernel, gamma):
    X, y = two
    X = X / np.abs(X).max()
    model = machine(kernel=kernel, gamma=gamma)
    if machine in (TwinSVC, GEPSVC) and (kernel, gamma) == ("poly", 1e9):
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
    curved = FuzzyTwinSVC(kernel="rbf", gamma=gamma, alpha=2 * gamma).fit(X, y)
    linear = FuzzyTwinSVC(alpha=1.0).fit(X, y)
    assert_allclose(curved._plane_values(X)[1], linear._plane_values(X)[1], atol=1e-4)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_a_shift_shifts_nothing(two, kernel):
    X, y = two
    near = FuzzyTwinSVC(kernel=kernel, membership="center").fit(X, y)
    far = FuzzyTwinSVC(kernel=kernel, membership="center", gamma=near.landmark_map_.gamma)
    far.fit(X + 2.0**20, y)
    assert_allclose(far._plane_values(X + 2.0**20)[1], near._plane_values(X)[1], atol=1e-6)


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
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
        ("n_landmarks", "all", "whole number"),
        ("n_landmarks", [1.0, 2.0, 3.0, 4.0], r"shape \(m, d\)"),
        ("n_landmarks", [[1.0, 2.0], [3.0]], r"shape \(m, d\)"),
        ("n_landmarks", np.zeros((0, 4)), r"shape \(m, d\)"),
        ("n_landmarks", np.zeros((2, 4, 2)), r"shape \(m, d\)"),
        ("n_landmarks", np.full((2, 4), np.nan), r"shape \(m, d\)"),
        ("n_landmarks", [["a", "b", "c", "d"]], r"shape \(m, d\)"),
        ("n_landmarks", np.zeros((2, 3)), "with the columns of X"),
        ("random_state", -1, "whole number"),
        ("random_state", "seed", "whole number"),
    ],
)
@pytest.mark.parametrize("machine", [FuzzyTwinSVC, *CLASSICS])
def test_bad_values(two, machine, name, value, remedy):
    X, y = two
    model = machine(kernel="rbf").fit(X, y)
    before = model._plane_values(X)[1]
    model.set_params(**{name: value})
    with pytest.raises(ValueError, match=rf"(?s){name}.*{remedy}"):
        model.fit(X, y)
    assert_array_equal(model._plane_values(X)[1], before)


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


def test_linear_formulations_refuse_kernels(two):
    X, y = two
    with pytest.raises(ValueError, match="use formulation='endpoints'"):
        FuzzyTwinSVC("fuzzy", kernel="rbf", formulation="stationary").fit(X, y)


# --- kinds of X


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "callable"])
@pytest.mark.parametrize("planes", ["crisp", "fuzzy"])
def test_sparse_rows(three, name, planes):
    X, y = three
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    X[3] = 0.0
    model = FuzzyTwinSVC(
        planes, n_landmarks=30, random_state=0, membership="center", **KERNELS[name]
    )
    dense = clone(model).fit(X, y)
    for kind in (sparse.csr_matrix, sparse.csr_array, sparse.csc_array):
        rows = clone(model).fit(kind(X), y)
        assert sparse.issparse(rows.landmark_map_.landmarks)
        assert_allclose(rows.predict_membership(X), dense.predict_membership(X), atol=1e-7)
        assert_allclose(rows.predict_membership(kind(X)), dense.predict_membership(X), atol=1e-7)
        assert_allclose(dense.predict_membership(kind(X)), dense.predict_membership(X), atol=1e-7)
    wide = sparse.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    rows = clone(model).fit(wide, y)
    assert_allclose(rows.predict_membership(wide), dense.predict_membership(X), atol=1e-7)
    given = clone(model).set_params(n_landmarks=sparse.csr_array(X[:9])).fit(X, y)
    same = clone(model).set_params(n_landmarks=X[:9]).fit(X, y)
    assert_allclose(given.predict_membership(X), same.predict_membership(X), atol=1e-7)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly"])
def test_narrow_floats_are_mapped_in_wide_ones(two, kind, kernel):
    """Landmarks and features are of double precision: noise would pass for eigenvalues."""
    X, y = two
    X = X.astype(np.float32)
    narrow = FuzzyTwinSVC(kernel=kernel, gamma=0.01).fit(kind(X), y)
    wide = FuzzyTwinSVC(kernel=kernel, gamma=0.01).fit(kind(X.astype(float)), y)
    assert narrow.landmark_map_.root.shape == wide.landmark_map_.root.shape
    assert_allclose(narrow._plane_values(kind(X))[1], wide._plane_values(kind(X))[1], atol=1e-9)


def test_twin_svc_still_refuses_sparse_rows(two):
    X, y = two
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        TwinSVC(kernel="rbf").fit(sparse.csr_array(X), y)


def test_mapped_rows(three):
    X, _ = three
    phi = LandmarkMap.of(X[:5], "rbf", 0.5, 3, 0.0)
    for rows in (X, X.astype(np.float32), sparse.csr_array(X)):
        seen = MappedRows(rows, phi)
        assert seen.shape == (len(X), 5)
        assert_allclose(seen[3:7], phi(X[3:7]), atol=1e-6)
        assert_allclose(seen.take(np.array([5, 1, 5])), phi(X[[5, 1, 5]]), atol=1e-6)
        assert seen[0:0].shape == (0, 5)


def test_rows_are_mapped_once_for_all_classes(three):
    X, y = three
    calls = []

    def counted(A, B):
        calls.append(len(A))
        return A @ B.T

    FuzzyTwinSVC(kernel=counted, n_landmarks=X[:4]).fit(X, y)
    assert calls == [4, len(X)]


@pytest.mark.parametrize("machine", [FuzzyTwinSVC, LeastSquaresTwinSVC, GEPSVC])
def test_memory_is_that_of_blocks(machine):
    rng = np.random.default_rng(0)
    n, m = 60_000, 100
    X = rng.normal(size=(n, 16))
    y = (np.abs(X[:, 0]) + 0.3 * rng.normal(size=n) > 0.7).astype(int)
    model = machine(kernel="rbf", n_landmarks=m, random_state=0)
    tracemalloc.start()
    try:
        model.fit(X, y)
        _, fitting = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        model.predict(X)
        _, predicting = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    whole = n * m * 8
    assert fitting < 0.35 * whole
    assert predicting < 0.35 * whole


# --- the search


def points(Cs, K):
    return [(a, b) for a in Cs for b in Cs] if K == 2 else list(Cs)


def split_scores(results, n_splits):
    names = ("kernel", "gamma", "membership", "planes", "alpha", "rule", "C")
    scores = np.column_stack([results[f"split{i}_test_score"] for i in range(n_splits)])
    keys = [
        tuple(repr(point.get(name)) for name in names if (name, point["kernel"]) != LINEAR_GAMMA)
        for point in results["params"]
    ]
    return dict(zip(keys, scores, strict=True))


LINEAR_GAMMA = ("gamma", "linear")


@pytest.mark.parametrize(("n_landmarks", "planes"), [(15, "crisp"), (300, ("crisp", "fuzzy"))])
def test_search_gives_the_scores_of_grid_search(either, n_landmarks, planes):
    """With 15 landmarks out of some 22 or 33 training rows, the sample matters."""
    X, y = either
    Cs, alphas, gammas = (0.25, 4.0), (0.0, 0.5), (0.05, 0.8)
    if n_landmarks > 15:
        alphas = (0.5,)
    memberships, rules = (None, "center", "neighbor"), ("distance", "residual")
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    search = FuzzyTwinSVCCV(
        Cs, alphas=alphas, memberships=memberships, rules=rules, planes=planes, cv=folds,
        kernels=("linear", "rbf"), gammas=gammas, n_landmarks=n_landmarks, random_state=0,
    ).fit(X, y)  # fmt: skip
    rest = {
        "membership": memberships, "alpha": alphas, "rule": rules,
        "planes": (planes,) if isinstance(planes, str) else planes,
        "C": points(Cs, len(np.unique(y))),
    }  # fmt: skip
    grid = [{"kernel": ["linear"], **rest}, {"kernel": ["rbf"], "gamma": gammas, **rest}]
    peer = GridSearchCV(
        FuzzyTwinSVC(n_landmarks=n_landmarks, random_state=0), grid, cv=folds, refit=False
    ).fit(X, y)
    mine, theirs = split_scores(search.cv_results_, 3), split_scores(peer.cv_results_, 3)
    assert mine.keys() == theirs.keys()
    for point, scores in theirs.items():
        assert_allclose(mine[point], scores, atol=1e-12, err_msg=str(point))
    assert np.ptp(list(theirs.values())) > 0.1
    best = FuzzyTwinSVC(n_landmarks=n_landmarks, random_state=0, **search.best_params_).fit(X, y)
    assert_allclose(search.predict_membership(X), best.predict_membership(X), atol=1e-9)


@pytest.mark.parametrize("scoring", [None, "neg_log_loss"])
def test_search_with_weights_and_other_kernels(two, scoring):
    X, y = two
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    folds = PredefinedSplit(np.arange(len(y)) % 3)
    Cs, alphas, gammas = (0.5, 2.0), (1.0,), (0.1, 0.5)
    search = FuzzyTwinSVCCV(
        Cs, alphas=alphas, memberships=(None,), cv=folds, scoring=scoring, gammas=gammas,
        kernels=("laplacian", "poly"), degree=2, coef0=1.0, class_weight="balanced",
    ).fit(X, y, sample_weight=weight)  # fmt: skip
    with sklearn.config_context(enable_metadata_routing=True):
        model = FuzzyTwinSVC(degree=2, coef0=1.0, class_weight="balanced")
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scorer = None
        if scoring is not None:
            scorer = sklearn.metrics.get_scorer(scoring).set_score_request(sample_weight=True)
        peer = GridSearchCV(
            model,
            {
                "kernel": ["laplacian", "poly"], "gamma": gammas, "alpha": alphas,
                "C": points(Cs, 2), "rule": ["distance", "residual"], "planes": ["crisp"],
                "membership": [None],
            },
            cv=folds, refit=False, scoring=scorer,
        ).fit(X, y, sample_weight=weight)  # fmt: skip
    mine, theirs = split_scores(search.cv_results_, 3), split_scores(peer.cv_results_, 3)
    assert mine.keys() == theirs.keys()
    for point, scores in theirs.items():
        assert_allclose(mine[point], scores, rtol=1e-7, err_msg=str(point))


def test_search_over_features_that_are_not_kept(either, monkeypatch):
    X, y = either
    given = {"Cs": (0.5, 2.0), "kernels": "rbf", "memberships": (None, "center"), "cv": 3}
    kept = FuzzyTwinSVCCV(**given).fit(X, y)
    monkeypatch.setattr(_folds, "MOST_FEATURES", 0)
    lazy = FuzzyTwinSVCCV(**given).fit(X, y)
    assert kept.best_params_ == lazy.best_params_
    for name in ("mean_test_score", "mean_test_brier"):
        assert_allclose(kept.cv_results_[name], lazy.cv_results_[name], atol=1e-9)


def test_search_of_sparse_rows(two):
    X, y = two
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    search = FuzzyTwinSVCCV(
        (0.5, 2.0), kernels=("linear", "rbf"), memberships=(None, "neighbor"), cv=3
    )
    dense, rows = clone(search).fit(X, y), clone(search).fit(sparse.csr_array(X), y)
    assert_allclose(
        dense.cv_results_["mean_test_score"], rows.cv_results_["mean_test_score"], atol=1e-12
    )
    assert_array_equal(dense.predict(X), rows.predict(sparse.csr_array(X)))


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"kernels": ()}, r"kernels=\(\) is empty"),
        ({"kernels": ("linear", "gauss")}, "kernels='gauss' is unknown"),
        ({"kernels": 3}, "kernels=3 is no sequence"),
        ({"kernels": "rbf", "gammas": ()}, "gammas=.* is empty"),
        ({"kernels": "rbf", "gammas": (0.0,)}, "gammas=0.0 is not allowed"),
        ({"kernels": "rbf", "n_landmarks": 0}, "n_landmarks=0 is not allowed"),
        ({"kernels": "poly", "degree": 0.5}, "degree=0.5 is not allowed"),
    ],
)
def test_bad_values_of_a_search(two, given, match):
    X, y = two
    search = FuzzyTwinSVCCV((1.0,), memberships=(None,)).fit(X, y)
    before = search.predict_membership(X)
    with pytest.raises(ValueError, match=match):
        search.set_params(**given).fit(X, y)
    assert_array_equal(search.predict_membership(X), before)


def test_picture_of_a_search_is_of_one_kernel(two):
    plot = pytest.importorskip("fuzzytwin.plot")
    plt = pytest.importorskip("matplotlib.pyplot")
    X, y = two
    search = FuzzyTwinSVCCV(
        (0.5, 2.0), alphas=(1.0,), memberships=(None,), rules=("distance",), gammas=(0.1, 1.0),
        kernels=("linear", "rbf"), cv=3,
    ).fit(X, y)  # fmt: skip
    display = plot.ValidationSurfaceDisplay.from_estimator(search)
    plt.close(display.figure_)
    chosen = search.best_params_
    for params, mean in zip(
        search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
    ):
        if params["kernel"] == chosen["kernel"] and params["gamma"] == chosen["gamma"]:
            place = tuple(np.searchsorted(display.Cs, params["C"]))
            assert display.mean[place] == pytest.approx(mean)


def test_picture_of_curved_planes(two):
    plot = pytest.importorskip("fuzzytwin.plot")
    plt = pytest.importorskip("matplotlib.pyplot")
    X, y = two
    X = X[:, :2]
    model = FuzzyTwinSVC("fuzzy", kernel="rbf").fit(X, y)
    display = plot.PlanesDisplay.from_estimator(model, X, y, grid_resolution=20)
    plt.close(display.figure_)
    rows = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    f = model._plane_values(rows)[1]
    assert_allclose(display.centers.reshape(2, -1).T, f)
    assert_array_equal(model.classes_[display.winner.ravel()], model.predict(rows))


# --- puzzles that no plane solves


def puzzle(name, n, seed):
    rng = np.random.default_rng(seed)
    if name == "moons":
        return make_moons(n, noise=0.25, random_state=seed)
    if name == "circles":
        return make_circles(n, noise=0.12, factor=0.5, random_state=seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    if name == "xor":
        return X + 0.1 * rng.normal(size=X.shape), (X[:, 0] * X[:, 1] > 0).astype(int)
    tiles = np.floor(2 * X).astype(int).sum(axis=1)
    return X + 0.02 * rng.normal(size=X.shape), tiles % 2


@pytest.mark.parametrize("name", ["xor", "moons", "circles", "checkerboard"])
def test_puzzles_as_well_as_svc(name):
    """Both tuned by cross-validation on the training rows; within 1 % of each other."""
    X, y = puzzle(name, 400, 0)
    X_test, y_test = puzzle(name, 4000, 1)
    gammas = (1.0, 4.0, 16.0)
    search = FuzzyTwinSVCCV(
        kernels="rbf", memberships=(None,), gammas=gammas, n_landmarks=100, random_state=0
    ).fit(X, y)
    peer = GridSearchCV(SVC(), {"C": np.logspace(-1, 3, 5), "gamma": gammas}, cv=5).fit(X, y)
    mine, theirs = search.score(X_test, y_test), peer.score(X_test, y_test)
    assert mine >= theirs - 0.01, (mine, theirs)
    assert mine > 0.85
    linear = FuzzyTwinSVCCV(memberships=(None,)).fit(X, y)
    assert mine > linear.score(X_test, y_test) + 0.02


def test_chi_squared_by_a_callable():
    """Histograms with the kernel that they are compared by."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.dirichlet(a, 40) for a in ([3, 1, 1], [1, 3, 1])])
    y = np.repeat([0, 1], 40)
    assert FuzzyTwinSVC(kernel=chi2_kernel, alpha=0.1).fit(X, y).score(X, y) > 0.85


# --- scikit-learn's own checks


checks = parametrize_with_checks(
    [
        FuzzyTwinSVC(kernel="rbf"),
        FuzzyTwinSVC("fuzzy", kernel="rbf", membership="center"),
        FuzzyTwinSVC(kernel="laplacian", membership="neighbor"),
        FuzzyTwinSVC(kernel="poly", membership=CenterMembership(), membership_scope="both"),
        # Without a ridge its planes go through all rows, whatever they weigh.
        LeastSquaresTwinSVC(kernel="rbf", alpha=0.01),
        *(machine(kernel="rbf") for machine in (TwinSVC, ProximalSVC, GEPSVC)),
    ]
).mark


# A list, because scikit-learn 1.6 gives a generator, of which pytest 9 disapproves.
@pytest.mark.parametrize(checks.args[0], list(checks.args[1]), **checks.kwargs)
# One check weighs classes as 10^7 to 1 and allows no more than 1000 passes.
@pytest.mark.filterwarnings("ignore:LIBLINEAR did not converge")
def test_scikit_learn_checks(estimator, check):
    check(estimator)
