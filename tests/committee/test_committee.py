"""FuzzyTwinCommittee as users meet it: checks of scikit-learn, weights, groups, labels, errors."""

import threading
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.datasets import load_iris, make_moons
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from fuzzytwin import FuzzyTwinCommittee
from fuzzytwin._passes import in_memory
from fuzzytwin._rows import validate_chunk
from fuzzytwin._utils.threads import limited_threads
from fuzzytwin.committee._first_pass import run_first_pass
from fuzzytwin.committee._fit import fit_chunks
from tests.checks import leaves_rows_out
from tests.committee.helpers import FEW, table


@pytest.mark.filterwarnings("ignore:y has only one row")
@parametrize_with_checks([FuzzyTwinCommittee(members=FEW)], expected_failed_checks=leaves_rows_out)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:y has only one row")
@parametrize_with_checks([FuzzyTwinCommittee()], expected_failed_checks=leaves_rows_out)
def test_scikit_learn_checks_of_the_default_members(estimator, check):
    check(estimator)


@pytest.mark.parametrize("members", ["auto", FEW])
def test_a_weight_of_w_is_w_copies_in_one_group(members):
    X, y = table()
    s = np.random.default_rng(1).integers(0, 3, len(y))
    index = np.repeat(np.arange(len(y)), s)
    weighted = FuzzyTwinCommittee(members=members).fit(X, y, sample_weight=s)
    repeated = FuzzyTwinCommittee(members=members).fit(X[index], y[index], groups=index)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-7)
    assert weighted.loo_log_loss_ == pytest.approx(repeated.loo_log_loss_, abs=1e-7)


@pytest.mark.parametrize("factor", [1e-300, 1 / 60, 1e300])
def test_a_common_factor_of_weights_changes_nothing(factor):
    X, y = table()
    s = np.random.default_rng(1).uniform(0.5, 1.5, len(y))
    one, other = (FuzzyTwinCommittee(members=FEW).fit(X, y, s * f) for f in (1, factor))
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-8)


def test_class_weights_move_labels_but_not_probabilities():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] + rng.normal(size=600) > 2).astype(int)
    plain, balanced = (
        FuzzyTwinCommittee(members=FEW, class_weight=w).fit(X, y) for w in (None, "balanced")
    )
    assert balanced.predict(X).mean() > 1.5 * plain.predict(X).mean()
    assert balanced.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), rel=0.2)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"members": "planes of all kinds"}, "give 'auto', 'planes', or a list"),
        ({"members": []}, "give 'auto', 'planes', or a list"),
        ({"members": ["linear", "radial"]}, r"members\[1\]='radial' is unknown"),
        (
            {"members": [("rbf", {"gama": 1})]},
            "parameter gama=1, which kernel 'rbf'.* gamma, length_scale_factor, ard",
        ),
        ({"members": [("linear", {"gamma": 5})]}, "gamma=5, which kernel 'linear' does not have"),
        ({"members": ["rbf", ("cosine", {"gamma": 1e9})]}, r"members\[1\].*gamma=1000000000.0"),
        (
            {"members": [("linear", {"length_scale_factor": 2.0})]},
            "length_scale_factor=2.0.*it has none: leave it out",
        ),
        ({"members": [("rbf", {"degree": 2})]}, "degree=2, which kernel 'rbf'"),
        ({"members": [("laplacian", {"coef0": 1.0})]}, "coef0=1.0, which kernel 'laplacian'"),
        (
            {"members": [("rbf", {"gamma": 1.0, "length_scale_factor": 2})]},
            "gamma=1.0 and length_scale_factor=2.*one of them",
        ),
        ({"members": [("poly", {"ard": True})]}, "ard=True, which kernel 'poly'"),
        (
            {"members": [("rbf", {"ard": "yes"})]},
            r"members\[0\] ard='yes' is not allowed; give True",
        ),
        ({"members": [("rbf", {"gamma": [1, 2, 3, -1.0]})]}, r"members\[0\] gamma=-1"),
        ({"noise": "yes"}, "noise='yes' is not allowed; use None or 'auto'"),
        ({"n_landmarks": 0}, "n_landmarks=0 is not allowed"),
        ({"class_weight": "heavy"}, "class_weight"),
        ({"class_weight": {0: 0, 1: 1, 2: 1}}, "gives class 0 a weight of 0"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        FuzzyTwinCommittee(**parameters).fit(*load_iris(return_X_y=True))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sample_weight": np.full(150, 1e308)}, "sample_weight holds 1e.308.*divide the weights"),
        ({"membership": np.zeros(150)}, "membership is zero for every row"),
    ],
)
def test_weights_and_degrees_that_leave_no_sum_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        FuzzyTwinCommittee(members=FEW).fit(*load_iris(return_X_y=True), **given)


def test_bad_rows_are_named_and_change_nothing():
    X, y = load_iris(return_X_y=True)
    model = FuzzyTwinCommittee(members=FEW).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match=r"groups has shape \(3,\); give one group per row"):
        model.fit(X, y, groups=[1, 2, 3])
    with pytest.raises(ValueError, match="groups has one group only"):
        model.fit(X, y, groups=np.zeros(150))
    with pytest.raises(ValueError, match="groups holds missing values"):
        model.fit(X, y, groups=np.where(y > 0, y, np.nan))
    with pytest.raises(ValueError, match=r"so large that its squares overflow.*divide"):
        model.fit(X * 1e200, y)
    with pytest.raises(ValueError, match=r"so small that its squares underflow.*multiply"):
        model.fit(X * 1e-200, y)
    with pytest.raises(ValueError, match=r"gamma of a member has shape \(2,\)"):
        FuzzyTwinCommittee(members=[("rbf", {"gamma": [1.0, 2.0]})]).fit(X, y)
    X = X.copy()
    X[3, 2] = np.inf
    with pytest.raises(ValueError, match="infinity in column 2"):
        model.fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(load_iris().data), before)


def test_threads_change_no_bit():
    X, y = table(100)
    one, two = (FuzzyTwinCommittee(n_jobs=n, random_state=0).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_columns_are_known_by_name():
    X, y = load_iris(return_X_y=True)
    model = FuzzyTwinCommittee(members=FEW).fit(pd.DataFrame(X, columns=list("abcd")), y > 1)
    assert model.predict(pd.DataFrame(X, columns=list("abcd"))).dtype == bool
    assert model.decision_function(pd.DataFrame(X, columns=list("abcd"))).shape == (150,)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pd.DataFrame(X, columns=list("abdc")))


def test_groups_are_routed_to_the_fit():
    X, y = load_iris(return_X_y=True)
    groups = np.arange(150) // 3
    with config_context(enable_metadata_routing=True):
        model = (
            FuzzyTwinCommittee(members=["linear"])
            .set_fit_request(groups=True, sample_weight=True, membership=True)
            .set_score_request(sample_weight=False)
        )
        params = {"groups": groups, "sample_weight": np.ones(150), "membership": np.ones(150)}
        scores = cross_val_score(model, X, y, cv=GroupKFold(3), params=params)
    assert len(scores) == 3


def test_classes_that_follow_groups_are_named():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(UserWarning, match="all rows of class 0 are in one group"):
        FuzzyTwinCommittee(members=["linear"]).fit(X, y, groups=y)


def test_weights_equal_repetitions_where_groups_are_left_out():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    weight, groups = rng.integers(0, 4, len(y)), np.arange(len(y)) // 3
    rows = np.repeat(np.arange(len(y)), weight)
    one = FuzzyTwinCommittee().fit(X, y, sample_weight=weight, groups=groups)
    other = FuzzyTwinCommittee().fit(X[rows], y[rows], groups=groups[rows])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-8)


def test_a_class_whose_rows_all_have_degree_zero_is_left_out():
    X, y = load_iris(return_X_y=True)
    degrees = np.where(y == 1, 0.0, 1.0)
    model = FuzzyTwinCommittee(members=FEW, noise="auto").fit(X, y, membership=degrees)
    by_weight = FuzzyTwinCommittee(members=FEW, noise="auto").fit(X, y, sample_weight=degrees)
    assert model.classes_.tolist() == [0, 2]
    assert (model.membership_[y == 1] == 0).all()
    assert (model.membership_[y != 1] > 0.9).all()
    np.testing.assert_array_equal(model.membership_, by_weight.membership_)
    assert model.loo_proba_.shape == (150, 2)
    with pytest.raises(ValueError, match="one class only"):
        FuzzyTwinCommittee(members=FEW).fit(X, y, membership=y == 1)


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_dates_in_a_frame_are_left_out_and_said_so(zone):
    X, y = load_iris(return_X_y=True)
    days = pd.date_range("2026-01-01", periods=150, tz=zone)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(seen=days)
    model = FuzzyTwinCommittee(members=FEW).fit(frame, y)
    assert model.preprocessor_.columns_[4].kind == "date"
    assert len(model.mean_) == 4


@pytest.mark.filterwarnings("error")
def test_heavy_weights_give_no_warning_of_other_packages():
    X, y = load_iris(return_X_y=True)
    model = FuzzyTwinCommittee(members=FEW).fit(X, y, np.full(150, 1e9))
    assert model.score(X, y) > 0.95


class Blas:
    """Threads of a BLAS that belong to the process, as those of most builds do."""

    threads = 8

    @contextmanager
    def limit(self, limits):
        before, self.threads = self.threads, limits
        yield
        self.threads = before


def test_concurrent_fits_leave_the_threads_of_blas_as_they_were(monkeypatch):
    """One fit begins while another runs, and ends after it."""
    blas = Blas()
    runs = {"first": threading.Event(), "second": threading.Event()}
    first_is_done, seen = threading.Event(), []

    def first_pass(*given, **named):
        name = threading.current_thread().name
        runs[name].set()
        assert (first_is_done if name == "second" else runs["second"]).wait(30)
        seen.append(blas.threads)
        return run_first_pass(*given, **named)

    def libraries(user_api):
        return blas if user_api == "blas" else Blas()

    monkeypatch.setattr("fuzzytwin._utils.threads._libraries", libraries)
    monkeypatch.setattr("fuzzytwin.committee._fit.run_first_pass", first_pass)
    X, y = make_moons(60, noise=0.3, random_state=0)
    first, second = (
        threading.Thread(target=FuzzyTwinCommittee(members=FEW).fit, args=(X, y), name=name)
        for name in runs
    )
    first.start()
    assert runs["first"].wait(30)
    second.start()
    first.join()
    first_is_done.set()
    second.join()
    assert seen[0] == 1
    assert blas.threads == 8


def test_a_fit_that_fails_at_the_end_changes_nothing(monkeypatch):
    X, y = make_moons(80, noise=0.3, random_state=0)
    model = FuzzyTwinCommittee(members=FEW, noise="auto").fit(X, y)
    before = dict(vars(model))

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr("fuzzytwin.committee._fit._label_degrees", fail)
    with pytest.raises(MemoryError):
        model.fit(-X, 1 - y)
    assert vars(model) == before


@pytest.mark.slow
def test_sets_of_two_overlapping_classes_cover():
    """Scores of rows that stacking has seen were too good: 0.791 of 0.8, 200 splits of pima."""
    covered = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 2, 1100)
        X = rng.normal(size=(1100, 4)) + 0.7 * y[:, None]
        model = FuzzyTwinCommittee(random_state=0).fit(X[:100], y[:100])
        covered.append(model.predict_set(X[100:], 0.8)[np.arange(1000), y[100:]].mean())
    error = np.std(covered, ddof=1) / np.sqrt(len(covered))
    assert 0.8 - 2 * error < np.mean(covered) < 0.81 + 2 * error


@pytest.mark.slow
@pytest.mark.parametrize("K", [2, 3])
def test_sets_cover_as_promised(K):
    covered = []
    for seed in range(60):
        X, y = table(400, 6, K, seed)
        model = FuzzyTwinCommittee(random_state=0).fit(X[:100], y[:100])
        sets = model.predict_set(X[100:], 0.9)
        covered.append(sets[np.arange(300), y[100:]].mean())
    assert np.mean(covered) == pytest.approx(0.9, abs=3 * np.std(covered) / np.sqrt(60) + 0.01)


@pytest.mark.filterwarnings(
    "ignore:class .* prediction sets of this class contain it"
)  # not the point
def test_sets_of_few_overlapping_rows_cover_where_noise_is_modelled():
    covered = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        y = np.where(rng.random(700) < 0.3, 0, rng.integers(0, 4, 700))
        X = rng.normal(size=(700, 4)) + np.outer(y, [1, 0, 0, 0])
        model = FuzzyTwinCommittee(members=FEW, noise="auto").fit(X[:100], y[:100])
        covered.append(model.predict_set(X[100:], 0.8)[np.arange(600), y[100:]].mean())
    assert np.mean(covered) > 0.78


@pytest.mark.parametrize("flipped", [0.0, 0.15])
def test_sets_cover_true_classes_where_noise_is_modelled(flipped):
    covered = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        middle = rng.normal(size=(4, 3))
        y = rng.integers(0, 4, 2400)
        X = middle[y] + rng.normal(size=(2400, 3))
        given = np.where(rng.random(2400) < flipped, (y + rng.integers(1, 4, 2400)) % 4, y)
        model = FuzzyTwinCommittee(members=FEW, noise="auto").fit(X[:400], given[:400])
        covered.append(model.predict_set(X[400:], 0.9)[np.arange(2000), y[400:]].mean())
    assert 0.88 < np.mean(covered) < 0.95  # where labels are wrong, a little more than asked for


def test_sets_count_groups_not_rows():
    """Twenty groups of nearly equal rows, and the same rows once, give the same sets."""
    rng = np.random.default_rng(0)
    X, y = table(20, 3, 2)
    groups = np.repeat(np.arange(20), 10)
    near = X[groups] + 1e-12 * rng.normal(size=(200, 3))
    once = FuzzyTwinCommittee(members=["linear"]).fit(X, y)
    many = FuzzyTwinCommittee(members=["linear"]).fit(
        near, y[groups], np.full(200, 0.1), groups=groups
    )
    new = rng.normal(size=(300, 3))
    for coverage in (0.8, 0.94):
        for by_class in (False, True):
            expected = once.predict_set(new, coverage, class_conditional=by_class)
            found = many.predict_set(new, coverage, class_conditional=by_class)
            np.testing.assert_array_equal(found, expected)
    assert once.conformity_scores_.shape == (20, 3)
    assert many.conformity_scores_.shape == (200, 4)


@pytest.mark.slow
def test_sets_cover_where_many_columns_are_learned():
    """Columns that are learned from half of the rows are less sure than those of all rows."""
    covered = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1800, 150))
        y = (rng.random(1800) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
        model = FuzzyTwinCommittee(random_state=0).fit(X[:300], y[:300])
        covered.append(model.predict_set(X[300:], 0.9)[np.arange(1500), y[300:]].mean())
    assert np.mean(covered) == pytest.approx(0.895, abs=0.02)


def limits():
    """Number of threads of BLAS and of OpenMP in this thread."""
    found = {"blas": set(), "openmp": set()}
    for info in threadpool_info():
        found[info["user_api"]].add(info["num_threads"])
    return found


@pytest.mark.parametrize("road", ["rows", "chunks"])
def test_trees_are_fitted_with_the_openmp_threads_that_blas_has(road, monkeypatch):
    """On a busy machine, trees with a thread for each core take several times as long."""
    seen = []

    def noted(self, X, y, sample_weight=None):
        seen.append(limits())
        return fit(self, X, y, sample_weight)

    fit = HistGradientBoostingClassifier.fit
    monkeypatch.setattr(HistGradientBoostingClassifier, "fit", noted)
    X, y = make_moons(200, noise=0.3, random_state=0)
    with threadpool_limits(2):
        before = limits()
        if road == "rows":
            FuzzyTwinCommittee().fit(X, y)
        else:
            fit_chunks(FuzzyTwinCommittee(), in_memory(validate_chunk(X, y)))
        assert limits() == before
    assert seen
    assert all(found == {"blas": {1}, "openmp": {1}} for found in seen)


def test_openmp_is_limited_in_every_thread_that_fits():
    """BLAS is limited by one of the threads, and its number belongs to all of them."""
    entered, leave, seen = threading.Event(), threading.Event(), []

    def second():
        openmp = ThreadpoolController().select(user_api="openmp")
        with openmp.limit(limits=2), limited_threads():
            seen.append(limits())
            entered.set()
            leave.wait(10)

    with threadpool_limits(2):
        before = limits()
        other = threading.Thread(target=second)
        with limited_threads():
            other.start()
            entered.wait(10)
            with limited_threads(2):
                seen.append(limits())
        leave.set()
        other.join()
        assert limits() == before
    assert seen == [{"blas": {1}, "openmp": {1}}] * 2
