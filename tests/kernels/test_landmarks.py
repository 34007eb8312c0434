"""Landmarks and gamma: how they are chosen, kept by partial_fit, merged and copied."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale
from sklearn.svm import SVC

from fuzzytwin import FuzzyTwinCommittee, FuzzyTwinSVC, FuzzyTwinSVCCV, files
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.kernels._bandwidths import default_gammas, learn_feature_gammas, resolve_gamma
from fuzzytwin.kernels._landmarks import (
    MIN_ROWS_PER_CENTER,
    center_landmarks,
    kmeans_landmarks,
    sample_rows,
)
from fuzzytwin.store import load, save
from tests.kernels.helpers import CLASSICS, STREAMERS


def choose_landmarks(X, codes, s, n_landmarks, seed):
    """Landmarks that are rows: a sample of each class."""
    return X[sample_rows(X, codes, s, n_landmarks, np.random.RandomState(seed))]


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
    assert_allclose(model.plane_values(X)[0], whole.plane_values(X)[0], atol=1e-8)


@pytest.mark.parametrize("machine", [*CLASSICS, FuzzyTwinSVC])
def test_all_takes_every_training_row_also_of_a_fold(two, machine):
    X, y = two
    model = machine(kernel="rbf", gamma=0.3, n_landmarks="all").fit(X, y)
    same = machine(kernel="rbf", gamma=0.3, n_landmarks=len(X)).fit(X, y)
    assert_array_equal(model.landmark_map_.landmarks, X)
    assert_array_equal(model.predict(X), same.predict(X))
    assert_array_equal(model.coef_, same.coef_)
    search = GridSearchCV(model, {"C": [0.5, 2.0]}, cv=3).fit(X, y)
    expected = GridSearchCV(same, {"C": [0.5, 2.0]}, cv=3).fit(X, y)
    name = "mean_test_score"
    assert_array_equal(search.cv_results_[name], expected.cv_results_[name])


def test_all_in_searches_and_committees(two):
    X, y = two
    search = {"Cs": [0.5], "alphas": [1.0], "memberships": (None,), "kernels": ("rbf",), "cv": 3}
    found, same = (
        FuzzyTwinSVCCV(**search, n_landmarks=m, random_state=0).fit(X, y) for m in ("all", len(X))
    )
    assert_array_equal(found.cv_results_["mean_test_brier"], same.cv_results_["mean_test_brier"])
    assert_array_equal(found.best_estimator_.landmark_map_.landmarks, X)
    found, same = (
        FuzzyTwinCommittee(members=["rbf"], n_landmarks=m).fit(X, y) for m in ("all", len(X))
    )
    assert len(found.landmarks_) == len(X)
    assert_array_equal(found.predict_proba(X), same.predict_proba(X))


def test_all_needs_all_rows_at_once(two, monkeypatch):
    X, y = two
    model = FuzzyTwinSVC(kernel="rbf", gamma=0.3, n_landmarks="all")
    with pytest.raises(ValueError, match="partial_fit is not available with n_landmarks='all'"):
        model.partial_fit(X, y, classes=["no", "yes"])
    table = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    with pytest.raises(ValueError, match="n_landmarks='all' needs all rows at once"):
        files.fit(model, lambda: iter([table]), target="y")
    monkeypatch.setattr("fuzzytwin.committee._first_pass.SAMPLE_ROWS", 20)
    with pytest.raises(ValueError, match=r"n_landmarks='all' takes at most \d+ rows.*'auto'"):
        FuzzyTwinCommittee(members=["rbf"], n_landmarks="all").fit(X, y)


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
    assert_allclose(model.plane_values(X)[0], whole.plane_values(X)[0], atol=1e-9)


@pytest.mark.parametrize("machine", STREAMERS)
def test_merge(three, machine):
    X, y = three
    model = machine(kernel="rbf", gamma=0.3, n_landmarks=X[:25])
    one, other = (clone(model).partial_fit(X[i::2], y[i::2], classes=range(3)) for i in (0, 1))
    one.merge(other)
    assert_allclose(one.plane_values(X)[0], clone(model).fit(X, y).plane_values(X)[0], atol=1e-8)


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
    with pytest.raises(ValueError, match="are rotated"):
        here.merge(there)
    assert_array_equal(one.coef_, before)


def test_forget(two):
    X, y = two
    gone = np.arange(len(y)) % 5 == 0
    model = FuzzyTwinSVC(kernel="rbf", gamma=0.3, n_landmarks=X[:15], alpha=0.5)
    one = clone(model).fit(X, y).forget(X[gone], y[gone])
    assert_allclose(
        one.plane_values(X)[0],
        clone(model).fit(X[~gone], y[~gone]).plane_values(X)[0],
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
    with pytest.raises(ValueError, match=r"was .* start a new model"):
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
    model = FuzzyTwinSVC(planes="fuzzy", kernel="poly", n_landmarks=X[:7], membership="center").fit(
        X, y
    )
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


def clusters(n=600):
    """Six tight clusters, each of one class."""
    rng = np.random.default_rng(0)
    of = np.arange(n) % 6
    return rng.normal(size=(6, 3))[of] * 10 + 0.01 * rng.normal(size=(n, 3)), of % 2, of


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_landmarks_settle_in_the_middle_of_rows(kind, shift):
    X, codes, _ = clusters()
    X = X + shift
    found = kmeans_landmarks(kind(X), codes, None, 40, 0)
    assert sparse.issparse(found) == (kind is not np.asarray)
    found = np.asarray(found.todense()) if sparse.issparse(found) else found
    assert len(found) == 40
    before = choose_landmarks(X, codes, None, 40, 0)
    off, off_before = (
        euclidean_distances(X - shift, L - shift, squared=True).min(axis=1).mean()
        for L in (found, before)
    )
    assert off < 0.8 * off_before
    assert_allclose(found, kmeans_landmarks(X, codes, None, 40, 0), atol=1e-9 * (1 + shift))


def test_landmarks_settle_among_rows_that_weigh_something():
    X, codes, of = clusters()
    s = np.where(of == 5, 0.0, 2.0)
    found = kmeans_landmarks(X, codes, s, 30, 0)
    lost = X[of == 5].mean(axis=0)
    assert euclidean_distances(found, lost[None]).min() > 1
    assert_allclose(found, kmeans_landmarks(X, codes, 1e200 * s, 30, 0))


def test_landmarks_that_do_not_settle(two):
    """Few rows for each, or very many columns: landmarks are rows."""
    X, y = two
    codes = np.unique(y, return_inverse=True)[1]
    assert_array_equal(
        kmeans_landmarks(X, codes, None, len(X) // 2, 0),
        choose_landmarks(X, codes, None, len(X) // 2, 0),
    )
    wide = np.random.default_rng(0).normal(size=(60, 1001))
    codes = np.arange(60) % 2
    chosen = choose_landmarks(wide, codes, None, 6, 0)
    assert_array_equal(kmeans_landmarks(wide, codes, None, 6, 0), chosen)


def test_equal_rows_are_landmarks_too():
    X, y = np.ones((100, 3)), np.arange(100) % 2
    model = FuzzyTwinSVC(kernel="rbf", n_landmarks=10, random_state=0).fit(X, y)
    assert model.coef_.shape == (2, 1)


def test_one_landmark(two):
    """From each class one; or truly one, where it is given."""
    X, y = two
    model = FuzzyTwinSVC(kernel="rbf", n_landmarks=1, random_state=0).fit(X, y)
    assert len(model.landmark_map_.landmarks) == 2
    model = FuzzyTwinSVC(kernel="rbf", n_landmarks=X[:1], gamma=0.3).fit(X, y)
    assert model.coef_.shape == (2, 1)
    feature = np.exp(-0.3 * euclidean_distances(X, X[:1], squared=True))
    linear = FuzzyTwinSVC().fit(feature, y)
    assert_allclose(model.plane_values(X)[0], linear.plane_values(feature)[0], atol=1e-10)


def test_more_landmarks_than_rows(two):
    X, y = two
    more = np.vstack([X, X + 0.1, X - 0.1])
    for count in (10**9, more):
        model = FuzzyTwinSVC(kernel="rbf", gamma=0.3, n_landmarks=count).fit(X, y)
        exact = FuzzyTwinSVC(kernel="rbf", gamma=0.3).fit(X, y)
        # The best function lies in the span of the training rows.
        assert_allclose(model.plane_values(X)[0], exact.plane_values(X)[0], atol=1e-8)


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


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n_landmarks", [20, 200])  # moved by k-means, and as drawn
def test_two_fits_of_one_table_give_one_model_in_any_order_of_rows(form, n_landmarks):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    s, order = rng.uniform(0.5, 2.0, size=600), rng.permutation(600)
    model = FuzzyTwinSVC(kernel="rbf", n_landmarks=n_landmarks)
    found = [
        clone(model).fit(form(X[i]), y[i], s[i]).predict_membership(form(X)) for i in 2 * [order]
    ]
    assert_array_equal(*found)
    plain, heavy = (clone(model).fit(form(X), y, f * s).landmark_map_ for f in (1.0, 3.0))
    assert_allclose(sparse.csr_array(heavy.landmarks).toarray(), dense(plain.landmarks), atol=1e-9)
    # Another order of rows rounds sums differently, and small pivots of the kernel magnify that.
    assert_allclose(
        found[0], clone(model).fit(form(X), y, s).predict_membership(form(X)), atol=1e-6
    )


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def test_default_gammas_and_learned_columns_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    codes, order = (X[:, 1] > 0).astype(int), rng.permutation(3000)
    assert_allclose(default_gammas(X[order], None), default_gammas(X, None))
    learned = [
        learn_feature_gammas(X[:50], 0.3, X[i], codes[i], None) for i in (slice(None), order)
    ]
    assert_allclose(*learned, rtol=1e-7)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_centers_are_means_of_several_different_rows_and_no_rows(form, shift):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(300, 3)), 30 + rng.normal(size=(3, 3))]) + shift
    centers = dense(center_landmarks(form(X), None, 1000, 0))
    assert 15 <= len(centers) <= len(X) // MIN_ROWS_PER_CENTER
    assert np.abs(centers - shift).max() < 5  # three rows far off are too few for a center
    assert (euclidean_distances(centers, X).min(axis=1) > 1e-3).all()
    order = rng.permutation(len(X))
    assert_allclose(dense(center_landmarks(form(X[order]), None, 1000, 0)), centers)
    weight = np.append(np.arange(1.0, 304.0), 0.0)
    more = np.append(X, [[9.0, 9.0, 9.0]], axis=0)
    assert_allclose(dense(center_landmarks(form(more), weight, 1000, 0)), centers)


def test_centers_count_copies_and_rows_of_one_group_once():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    copies = np.concatenate([X, np.full((50, 2), 20.0)])
    centers = center_landmarks(copies, None, 1000, 0)
    assert euclidean_distances(centers, [[20.0, 20.0]]).min() > 1.0
    patient = np.concatenate([np.arange(40), np.full(50, 40)])
    visits = np.concatenate([X, 20 + 0.1 * rng.normal(size=(50, 2))])
    centers = center_landmarks(visits, None, 1000, 0, groups=patient)
    assert euclidean_distances(centers, [[20.0, 20.0]]).min() > 0.5
    with pytest.raises(ValueError, match=r"needs 5 different rows .* X has 4"):
        center_landmarks(np.repeat(X[:4], 9, axis=0), None, 1000, 0)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_model_with_centers_holds_no_training_row(form, tmp_path):
    X, y = make_moons(300, noise=0.25, random_state=0)
    scaled = scale(X)
    committee = FuzzyTwinCommittee(n_landmarks="centers").fit(form(X), y)
    rows = (X - committee.mean_) / committee.scale_
    assert euclidean_distances(dense(committee.landmarks_), rows).min() > 1e-6
    planes = FuzzyTwinSVC(kernel="rbf", alpha="auto", n_landmarks="centers").fit(form(scaled), y)
    assert euclidean_distances(dense(planes.landmark_map_.landmarks), scaled).min() > 1e-6
    search = FuzzyTwinSVCCV(
        Cs=[1.0],
        alphas=[1.0],
        kernels=("rbf",),
        gammas=[1.0],
        memberships=(None,),
        n_landmarks="centers",
    ).fit(form(scaled), y)
    for model, rows in ((committee, X), (planes, scaled), (search, scaled)):
        assert model.score(form(rows), y) > 0.88
    assert_allclose(
        -np.log(committee.loo_proba_[np.arange(300), y]).mean(), committee.loo_log_loss_
    )
    save(committee, tmp_path / "model.skops")
    again = load(tmp_path / "model.skops").predict_proba(form(X))
    assert_array_equal(again, committee.predict_proba(form(X)))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n_landmarks", [30, 150])  # refined by k-means, and rows as they are
def test_the_order_of_columns_and_the_names_of_labels_do_not_matter(form, n_landmarks):
    rng = np.random.default_rng(0)
    y = rng.choice(3, size=300, p=[0.5, 0.3, 0.2])
    X = (rng.normal(size=(300, 6)) + y[:, None]) * (rng.random((300, 6)) < 0.7)
    s = rng.uniform(0.5, 2.0, 300)
    order, columns = rng.permutation(300), rng.permutation(6)
    settings = {"kernel": "rbf", "n_landmarks": n_landmarks, "random_state": 0}
    u = FuzzyTwinSVC(**settings).fit(form(X), y, s).predict_membership(X)
    moved = FuzzyTwinSVC(**settings).fit(form(X[order][:, columns]), y[order], s[order])
    assert_allclose(moved.predict_membership(X[:, columns]), u, atol=1e-9)
    renamed = FuzzyTwinSVC(**settings).fit(form(X), np.array(["c", "a", "b"])[y], s)
    assert_allclose(renamed.predict_membership(X)[:, [2, 0, 1]], u, atol=1e-9)
    other = FuzzyTwinSVC(**settings | {"random_state": 1}).fit(form(X), y, s)
    assert np.abs(other.predict_membership(X) - u).max() > 1e-4


def test_samples_for_gammas_do_not_depend_on_the_order_of_columns():
    X = np.random.default_rng(0).normal(size=(700, 5))
    order = [3, 0, 4, 2, 1]
    assert_allclose(default_gammas(X[:, order], None), default_gammas(X, None), rtol=1e-12)
