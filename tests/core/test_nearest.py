"""The class of greatest membership, found without all memberships."""

import numpy as np
from numpy.testing import assert_array_equal
from scipy import sparse

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.core import distances
from fuzzytwin.core.distances import row_labels
from fuzzytwin.core.planes import Planes, plane_classes
from tests.pairs import every_pair

K = 15


def rows_of(spread, n=1500, d=6, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(K, size=n)
    return rng.standard_normal((n, d)) + spread * rng.standard_normal((K, d))[y], y


@every_pair(
    form=[np.asarray, sparse.csr_array, np.float32],
    rule=["distance", "residual"],
    planes=["crisp", "fuzzy"],
    spread=[0.0, 1.0, 4.0],
)
def test_the_label_is_the_greatest_membership(spread, planes, rule, form):
    X, y = rows_of(spread)
    model = FuzzyTwinSVC(planes=planes, rule=rule, C=np.linspace(0.5, 2, K)).fit(X, y)
    X = form(X)
    assert_array_equal(model.predict(X), model.predict_membership(X).argmax(axis=1))


def test_few_rows_have_all_memberships_computed(monkeypatch):
    X, y = rows_of(4.0)
    model = FuzzyTwinSVC().fit(X, y)
    wanted = model.predict_membership(X).argmax(axis=1)
    counted = []
    all_of_them = distances.row_memberships

    def count(X, Z, *others):
        counted.append(Z.shape[0])
        return all_of_them(X, Z, *others)

    monkeypatch.setattr(distances, "row_memberships", count)
    assert_array_equal(model.predict(X), wanted)
    assert sum(counted) < len(X) / 20


def test_ties_go_to_the_same_class_as_memberships():
    """Every second class repeats the planes of the one before."""
    rng = np.random.default_rng(0)
    classes = plane_classes(K)
    w = rng.standard_normal((K // 2 + 1, K // 2 + 1, 4))[classes[:, 0] // 2, classes[:, 1] // 2]
    planes = Planes(w, rng.standard_normal(w.shape[0]) * 0.0 + 0.5, classes)
    X = rng.standard_normal((400, 4))
    planes = distances.unit_normals(planes, "distance")
    u = distances.row_memberships(X, X, planes, K)
    assert_array_equal(row_labels(X, X, planes, K), u.argmax(axis=1))


def test_rows_on_planes_and_planes_without_direction():
    rng = np.random.default_rng(0)
    classes = plane_classes(K)
    coef = rng.integers(-1, 2, (len(classes), 2)).astype(float)
    coef[::7] = 0.0
    planes = Planes(coef, rng.integers(-1, 2, len(classes)).astype(float), classes)
    X = rng.integers(-2, 3, (300, 2)).astype(float)
    for rule in ("distance", "residual"):
        scaled = distances.unit_normals(planes, rule)
        u = distances.row_memberships(X, X, scaled, K)
        assert_array_equal(row_labels(X, X, scaled, K), u.argmax(axis=1))
        assert np.isfinite(u).all()
