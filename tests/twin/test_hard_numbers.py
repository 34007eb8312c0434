"""Numbers that break naive code: the right answer to a stated tolerance, or a clear error."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from fuzzytwin import (
    CenterMembership,
    FuzzyTwinCommittee,
    FuzzyTwinSVC,
    FuzzyTwinSVCCV,
    ProximalSVC,
    find_label_issues,
)
from tests.pairs import every_pair

PLANES = ("crisp", "fuzzy")
WAYS = (None, "center", "hyperplane", "neighbor", "entropy", "intuitionistic")


@pytest.fixture
def rows():
    """Three classes on a grid of 1/1024, so that shifts by whole numbers are exact."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = rng.normal(size=(120, 4)) + 1.5 * np.eye(3, 4)[y]
    return np.round(X * 1024) / 1024, y


def values(model, X):
    return X @ model.coef_.T + model.intercept_


# --- places and sizes of columns


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_columns_far_from_zero(rows, alpha, kind):
    X, y = rows
    shift = np.array([1e6, -1e6, 3e6, 0])
    near = FuzzyTwinSVC(alpha=alpha).fit(X, y)
    far = FuzzyTwinSVC(alpha=alpha).fit(kind(X + shift), y)
    assert_allclose(far.coef_, near.coef_, rtol=1e-10)
    assert_allclose(far.intercept_, near.intercept_ - near.coef_ @ shift, rtol=1e-9)
    assert_allclose(values(far, X + shift), values(near, X), atol=1e-8)
    assert_array_equal(far.predict(kind(X + shift)), near.predict(X))


def test_columns_far_from_zero_in_batches(rows):
    X, y = rows
    far, near = FuzzyTwinSVC(alpha=0.0), FuzzyTwinSVC(alpha=0.0).fit(X, y)
    for start in range(0, 120, 7):
        here = slice(start, start + 7)
        far.partial_fit(X[here] + 2.0**20, y[here], classes=[0, 1, 2])
    assert_allclose(far.coef_, near.coef_, rtol=1e-10)


@pytest.mark.parametrize("membership", WAYS[1:])
def test_degrees_far_from_zero(rows, membership):
    X, y = rows
    near = FuzzyTwinSVC(membership=membership).fit(X, y).membership_
    far = FuzzyTwinSVC(membership=membership).fit(X + 2.0**20, y).membership_
    assert_allclose(far, near, atol=1e-6)


def test_wide_range_of_column_scales(rows):
    X, y = rows
    scale = np.array([1e-8, 1e8, 1.0, 1e5])
    plain = FuzzyTwinSVC(alpha=0.0).fit(X, y)
    scaled = FuzzyTwinSVC(alpha=0.0).fit(X * scale, y)
    assert scaled.rank_ == 4
    assert_allclose(scaled.coef_ * scale, plain.coef_, rtol=1e-10)
    assert_allclose(values(scaled, X * scale), values(plain, X), atol=1e-10)
    residual = FuzzyTwinSVC(alpha=0.0, rule="residual").fit(X * scale, y)
    expected = FuzzyTwinSVC(alpha=0.0, rule="residual").fit(X, y)
    assert_allclose(
        residual.predict_membership(X * scale), expected.predict_membership(X), rtol=1e-7
    )


def test_widths_on_a_wide_range_of_column_scales(rows):
    """Without a price on vagueness, values of the widths do not depend on scale either."""
    X, y = rows
    scale = np.array([1e-8, 1e8, 1.0, 1e5])
    plain = FuzzyTwinSVC(planes="fuzzy", alpha=0.0, tau=0.0).fit(X, y)
    scaled = FuzzyTwinSVC(planes="fuzzy", alpha=0.0, tau=0.0).fit(X * scale, y)
    assert_allclose(scaled.width_coef_ * scale, plain.width_coef_, rtol=1e-8, atol=1e-12)
    assert_allclose(scaled.width_intercept_, plain.width_intercept_, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("factor", [1e150, 1e-140])
def test_extreme_common_scale(rows, factor):
    X, y = rows
    plain = FuzzyTwinSVC(alpha=0.0).fit(X, y)
    scaled = FuzzyTwinSVC(alpha=0.0).fit(X * factor, y)
    assert_allclose(scaled.coef_ * factor, plain.coef_, rtol=1e-8)
    assert_allclose(scaled.predict_membership(X * factor), plain.predict_membership(X), rtol=1e-7)


@pytest.mark.parametrize("membership", WAYS)
@pytest.mark.parametrize("planes", PLANES)
def test_overflow_is_refused(rows, planes, membership):
    X, y = rows
    with pytest.raises(ValueError, match=r"X or sample_weight is so large.*scale the columns"):
        FuzzyTwinSVC(planes=planes, membership=membership).fit(X * 1e200, y)


@pytest.mark.parametrize("factor", [1e-160, 1e-200])
def test_underflow_is_refused(rows, factor):
    """Squares would vanish, and with them, unsaid, the columns."""
    X, y = rows
    X = X.copy()
    X[:, 2] *= factor
    with pytest.raises(ValueError, match=r"alpha=0 and column 2 .* scale the columns"):
        FuzzyTwinSVC(alpha=0.0).fit(X, y)
    ridged = FuzzyTwinSVC(alpha=1.0).fit(X, y)  # which such a column cannot move
    without = FuzzyTwinSVC(alpha=1.0).fit(X[:, [0, 1, 3]], y)
    assert_allclose(ridged.coef_[:, [0, 1, 3]], without.coef_, rtol=1e-9)


# --- columns that say nothing new


@pytest.mark.parametrize("planes", PLANES)
def test_duplicate_columns(rows, planes):
    """Least norm: both copies share the coefficient, nothing else changes."""
    X, y = rows
    twice = X[:, [0, 1, 2, 3, 0]]
    plain = FuzzyTwinSVC(planes=planes, alpha=0.0, rule="residual").fit(X, y)
    model = FuzzyTwinSVC(planes=planes, alpha=0.0, rule="residual").fit(twice, y)
    assert model.rank_ == 4
    assert_allclose(model.coef_[:, 0], model.coef_[:, 4], rtol=1e-8)
    assert_allclose(values(model, twice), values(plain, X), atol=1e-10)


def test_duplicate_columns_under_a_ridge(rows):
    """[x, x] with alpha is sqrt(2) x with alpha."""
    X, y = rows
    model = FuzzyTwinSVC(alpha=3.0).fit(X[:, [0, 1, 2, 3, 0]], y)
    other = FuzzyTwinSVC(alpha=3.0).fit(X * [np.sqrt(2), 1, 1, 1], y)
    assert_allclose(values(model, X[:, [0, 1, 2, 3, 0]]), values(other, X * [2**0.5, 1, 1, 1]))


@every_pair(
    alpha=[0.0, 1.0], constant=[0.0, 1.0, 0.1, 1e6 / 3, -7e-9], kind=[np.asarray, sparse.csr_array]
)
def test_constant_column(rows, alpha, constant, kind):
    X, y = rows
    wide = kind(np.column_stack([X, np.full(120, constant)]))
    plain = FuzzyTwinSVC(alpha=alpha).fit(X, y)
    model = FuzzyTwinSVC(alpha=alpha).fit(wide, y)
    streamed = FuzzyTwinSVC(alpha=alpha)
    for start in range(0, 120, 7):
        streamed.partial_fit(wide[start : start + 7], y[start : start + 7], classes=[0, 1, 2])
    for found in (model, streamed):
        assert found.rank_ == (4 if alpha == 0 else 5)
        assert_allclose(found.coef_[:, :4], plain.coef_, rtol=1e-8)
        assert_allclose(found.coef_[:, 4], 0, atol=1e-9)
        assert_allclose(found.predict_membership(wide), plain.predict_membership(X), rtol=1e-6)


@pytest.mark.parametrize("planes", PLANES)
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_more_columns_than_rows(planes, alpha):
    """Checked by the gradient of the objective; without a ridge every row is met exactly."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(12, 30)), np.arange(12) % 2
    model = FuzzyTwinSVC(planes=planes, alpha=alpha).fit(X, y)
    f = values(model, X)
    target = np.where(y[:, None] == np.arange(2), 0.0, -1.0)
    gradient = (f - target).T @ X + alpha * model.coef_
    assert_allclose(gradient, 0, atol=1e-10)
    assert_allclose((f - target).sum(axis=0), 0, atol=1e-10)
    assert np.isfinite(model.predict_membership(X)).all()
    if alpha == 0:
        assert model.rank_ == 11
        assert_allclose(f, target, atol=1e-10)
        assert_array_equal(model.predict(X), y)


# --- few or equal rows


@every_pair(membership=WAYS, planes=PLANES, alpha=[0.0, 0.01])
def test_one_sample_per_class(planes, membership, alpha):
    X, y = np.array([[0.0, 1], [3, 0], [1, 5]]), ["a", "b", "c"]
    model = FuzzyTwinSVC(planes=planes, alpha=alpha, tau=0.01, membership=membership).fit(X, y)
    if planes == "crisp":
        assert_array_equal(model.predict(X), y)
    if alpha == 0:
        own, rival = model.plane_classes_.T
        found = model.plane_values(X)[0]
        assert_allclose(found[own, np.arange(6)], 0, atol=1e-12)
        assert_allclose(found[rival, np.arange(6)], -1, atol=1e-12)


@every_pair(membership=WAYS, planes=PLANES, alpha=[0.0, 1.0])
def test_all_rows_identical(planes, membership, alpha):
    """There is nothing to go by but the weights of the classes."""
    X, y = np.full((9, 2), 0.1), np.repeat([0, 1, 2], [2, 4, 3])
    model = FuzzyTwinSVC(planes=planes, alpha=alpha, membership=membership).fit(X, y)
    assert_allclose(model.coef_, 0, atol=1e-12)
    assert np.isfinite(model.predict_membership(X)).all()
    if planes == "crisp" and membership is None:
        assert_array_equal(model.predict(X), 1)
        own, rival = np.array([2, 4, 3])[model.plane_classes_].T
        assert_allclose(model.intercept_, -rival / (own + rival))


@pytest.mark.parametrize("membership", WAYS)
def test_fifty_classes(membership):
    rng = np.random.default_rng(0)
    labels = np.array([f"class {k:02}" for k in range(50)])
    y = np.repeat(labels, 6)
    centers = 10 * np.eye(50)
    X = np.repeat(centers, 6, axis=0) + 0.01 * rng.normal(size=(300, 50))
    model = FuzzyTwinSVC(alpha=0.1, membership=membership).fit(X, y)
    assert_array_equal(model.classes_, labels)
    assert_array_equal(model.predict(centers), labels)
    pair = np.isin(y, ["class 07", "class 31"])
    single = FuzzyTwinSVC(alpha=model.alpha).fit(X[pair], y[pair], None, model.membership_[pair])
    plane = model.plane_classes_.tolist().index([7, 31])
    assert_allclose(model.coef_[plane], single.coef_[0], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    "labels", [[0, 70_000], [-70_000, 5, 70_001], [0, 65_535], [0, 65_536], [3, 4, 2**40]]
)
def test_integer_labels_far_apart(rows, labels):
    X, _ = rows
    codes = np.arange(120) % len(labels)
    model = FuzzyTwinSVC().fit(X, np.array(labels)[codes])
    assert_array_equal(model.classes_, labels)
    assert_allclose(model.coef_, FuzzyTwinSVC().fit(X, codes).coef_)


def test_many_labels_over_a_wide_range():
    rng = np.random.default_rng(0)
    y = np.repeat(rng.choice(70_000, 300, replace=False), 3)
    X = rng.normal(size=(900, 2))
    model = FuzzyTwinSVC().fit(X, y)
    assert_array_equal(model.classes_, np.unique(y))
    assert_allclose(model.moments_.own.weight, 3)


# --- weights


@pytest.mark.parametrize("size", [1e-300, 1e300])
@pytest.mark.parametrize("planes", PLANES)
def test_extreme_weights_all_alike(rows, planes, size):
    """The objective is that of weights 1 where alpha and tau go along."""
    X, y = rows
    model = FuzzyTwinSVC(planes=planes, alpha=size, tau=size).fit(X, y, np.full(120, size))
    plain = FuzzyTwinSVC(planes=planes, alpha=1.0, tau=1.0).fit(X, y)
    for name in ("coef_", "intercept_", *(["width_coef_"] if planes == "fuzzy" else [])):
        assert_allclose(getattr(model, name), getattr(plain, name), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("planes", PLANES)
def test_tiny_weights_under_an_ordinary_ridge(rows, planes):
    """The ridge wins: w is 1e-300 small, but its direction and the intercept are right."""
    X, y = rows
    tiny = FuzzyTwinSVC(planes=planes, alpha=1.0).fit(X, y, np.full(120, 1e-300))
    small = FuzzyTwinSVC(planes=planes, alpha=1.0).fit(X, y, np.full(120, 1e-12))
    assert_allclose(tiny.coef_ * 1e300, small.coef_ * 1e12, rtol=1e-8)
    assert_allclose(tiny.intercept_, small.intercept_, rtol=1e-8)


@pytest.mark.parametrize("planes", PLANES)
def test_huge_weights_drown_the_ridge(rows, planes):
    X, y = rows
    model = FuzzyTwinSVC(planes=planes, alpha=1.0, tau=1.0).fit(X, y, np.full(120, 1e300))
    plain = FuzzyTwinSVC(planes=planes, alpha=0.0, tau=0.0).fit(X, y)
    assert_allclose(model.coef_, plain.coef_, rtol=1e-9)


@pytest.mark.parametrize("size", [1e-300, 1e200])
def test_mixed_extreme_weights(rows, size):
    """Rows of tiny weight are absent beside rows of huge weight."""
    X, y = rows
    heavy = np.arange(120) % 4 > 0
    s = np.where(heavy, 1e100, 1.0) * size
    model = FuzzyTwinSVC(alpha=s.max()).fit(X, y, s)
    alone = FuzzyTwinSVC(alpha=1.0).fit(X[heavy], y[heavy])
    assert_allclose(model.coef_, alone.coef_, rtol=1e-9)
    assert_allclose(model.intercept_, alone.intercept_, rtol=1e-9)


def test_a_class_of_tiny_weight_yields(rows):
    """Its plane is 1e100 away: never chosen, and the others' planes do not feel it."""
    X, y = rows
    model = FuzzyTwinSVC(alpha=1e50).fit(X, y, np.where(y == 2, 1e-50, 1e50))
    pair = FuzzyTwinSVC(alpha=1.0).fit(X[y < 2], y[y < 2])
    assert_allclose(model.coef_[:2], pair.coef_, rtol=1e-9)
    assert_allclose(model.intercept_[:2], pair.intercept_, rtol=1e-9)
    assert_array_equal(model.predict(X), pair.predict(X))


@pytest.mark.parametrize(
    ("params", "size"),
    [({}, 1e308), ({"class_weight": {0: 1e10}}, 1e300), ({"planes": "fuzzy"}, 1e308)],
)
def test_weights_whose_sum_overflows_are_refused(rows, params, size):
    with pytest.raises(ValueError, match=r"weight.*(divide the weights)"):
        FuzzyTwinSVC(**params).fit(*rows, np.full(120, size))


def test_balance_beyond_reach_is_refused(rows):
    X, y = rows
    model = FuzzyTwinSVC(class_weight="balanced").partial_fit(
        X[y < 2], y[y < 2], classes=np.arange(3), sample_weight=np.full(np.sum(y < 2), 1e300)
    )
    with pytest.raises(ValueError, match=r"class_weight='balanced'.*divide the weights"):
        model.partial_fit(X[y == 2], y[y == 2], sample_weight=np.full(np.sum(y == 2), 1e-300))


@pytest.mark.parametrize(
    "fit",
    [
        lambda X, y, s: FuzzyTwinSVC(calibration="loo").fit(X, y, sample_weight=s),
        lambda X, y, s: FuzzyTwinSVC(kernel="rbf").fit(X, y, sample_weight=s),
        lambda X, y, s: FuzzyTwinSVCCV().fit(X, y, sample_weight=s),
        lambda X, y, s: FuzzyTwinCommittee().fit(X, y, sample_weight=s),
        lambda X, y, s: find_label_issues(X, y, sample_weight=s),
        lambda X, y, s: ProximalSVC().fit(X, y, sample_weight=s),
        lambda X, y, s: CenterMembership()(X, y, s),
    ],
)
def test_weights_too_far_apart_are_refused(rows, fit):
    s = 10.0 ** np.linspace(-300, 300, 120)
    s[5] = 0.0
    match = r"sample_weight holds positive values from 1e-300 to 1e\+300, .*a weight of 0"
    with pytest.raises(ValueError, match=match):
        fit(*rows, s)


@pytest.mark.parametrize("span", [20.0, 99.0])
def test_weights_of_many_magnitudes_give_numbers(span):
    """A single row has nearly all of the weight, and many others have hardly any."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        y = np.arange(40) % (2 + seed % 2)
        X = rng.normal(size=(40, 3)) + y[:, None]
        s = 10.0 ** rng.uniform(-300, -300 + span, 40)
        for model in (
            FuzzyTwinSVC(calibration="loo", alpha="auto"),
            FuzzyTwinCommittee(members=["linear", "rbf"], noise="auto"),
        ):
            assert np.isfinite(model.fit(X, y, sample_weight=s).predict_proba(X)).all()


@pytest.mark.parametrize("C", [1e-20, 1e20])
def test_penalty_times_weight_neither_overflows_nor_vanishes(rows, C):
    """C 1e20 on weights of 1e300 is C 1e20 on weights of 1."""
    X, y = rows
    for size in (1e-300, 1e300):
        model = FuzzyTwinSVC(C=C, alpha=size).fit(X, y, np.full(120, size))
        plain = FuzzyTwinSVC(C=C, alpha=1.0).fit(X, y)
        assert_allclose(model.coef_, plain.coef_, rtol=1e-8)


@pytest.mark.parametrize("planes", PLANES)
def test_tiny_degrees(rows, planes):
    """Degrees of t on all samples are C t."""
    X, y = rows
    for t in (1e-3, 1e-200):
        model = FuzzyTwinSVC(planes=planes, alpha=0.1).fit(X, y, membership=np.full(120, t))
        assert_allclose(
            model.coef_, FuzzyTwinSVC(planes=planes, C=t, alpha=0.1).fit(X, y).coef_, 1e-9
        )
