"""Bad input gets an error that names parameter, value and remedy, and changes nothing."""

import copy

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError

from fuzzytwin import (
    CenterMembership,
    EntropyMembership,
    FuzzyTwinSVC,
    HyperplaneMembership,
    IntuitionisticMembership,
    NeighborMembership,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
y = np.arange(30) % 3
NAN, INF = np.nan, np.inf


def with_value(array, value, place=4):
    array = np.array(array, dtype=float)
    array.flat[place] = value
    return array


def state(model):
    return copy.deepcopy(
        {name: vars(value) if name == "moments_" else value for name, value in vars(model).items()}
    )


def assert_unchanged(model, before):
    after = state(model)
    assert after.keys() == before.keys()
    for name, value in before.items():
        if name == "moments_":
            for part, moments in value.items():
                for array, numbers in vars(moments).items() if moments is not None else ():
                    assert_array_equal(getattr(after[name][part], array), numbers)
        elif isinstance(value, np.ndarray):
            assert_array_equal(after[name], value, err_msg=name)
        else:
            assert repr(after[name]) == repr(value)


def refuses(model, method, *args, match, error=ValueError, **kwargs):
    """The call fails with that message, and the model is exactly as before."""
    before = state(model)
    with pytest.raises(error, match=match):
        getattr(model, method)(*args, **kwargs)
    assert_unchanged(model, before)


@pytest.fixture(params=["crisp", "fuzzy"])
def model(request):
    return FuzzyTwinSVC(planes=request.param).fit(X, y)


# --- rows and labels


BAD_ROWS = {
    "NaN": (with_value(X, NAN), "NaN"),
    "inf": (with_value(X, INF), "infinity"),
    "-inf": (with_value(X, -INF), "infinity"),
    "float32 inf": (with_value(X, INF).astype(np.float32), "infinity"),
    "sparse NaN": (sparse.csr_array(with_value(X, NAN)), "NaN"),
    "sparse inf": (sparse.coo_array(with_value(X, INF)), "infinity"),
    "1-D": (X[:, 0], "Expected 2D array, got 1D"),
    "3-D": (X[:, :, None], "dim 3"),
    "words": (np.full((30, 3), "a"), "could not convert string to float|dtype='numeric'"),
    "complex": (X * 1j, "Complex data not supported"),
    "empty": (X[:0], "0 sample"),
    "no columns": (X[:, :0], r"0 feature\(s\)"),
}


@pytest.mark.parametrize("kind", BAD_ROWS)
@pytest.mark.parametrize("membership", [None, "center", "neighbor"])
def test_bad_rows(kind, membership, model):
    bad, match = BAD_ROWS[kind]
    labels = y[: bad.shape[0]]
    model.set_params(membership=membership).fit(X, y)
    refuses(model, "fit", bad, labels, match=match)
    if membership is None:
        refuses(model, "partial_fit", bad, labels, match=match)
        fresh = FuzzyTwinSVC()
        refuses(fresh, "partial_fit", bad, labels, classes=[0, 1, 2], match=match)
    for method in ("predict", "decision_function", "predict_membership", "fuzzy_distance"):
        if kind != "empty":
            refuses(model, method, bad, match=match)


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (np.zeros(30), r"one class only \(0.0\).*at least two classes"),
        (np.full(30, "a"), r"one class only \(a\).*at least two classes"),
        (X[:, 0], "continuous"),
        (with_value(y, NAN), "y has no label in row"),
        (y[:20], "inconsistent numbers of samples"),
        (X, "1d array"),
        (None, "requires y to be passed"),
        (np.array([None] * 15 + ["a"] * 15, dtype=object), "y has no label in row 0"),
    ],
)
def test_bad_labels(model, bad, match):
    refuses(model, "fit", X, bad, match=match, error=(ValueError, TypeError))


@pytest.mark.parametrize("d", [2, 4])
def test_other_width(model, d):
    other = RNG.normal(size=(30, d))
    match = f"X has {d} features, but FuzzyTwinSVC is expecting 3"
    refuses(model, "partial_fit", other, y, match=match)
    refuses(model, "predict", other, match=match)


def test_wrong_feature_names():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = FuzzyTwinSVC().fit(frame, y)
    other = frame.rename(columns={"a": "z"})
    refuses(model, "predict", other, match="feature names should match")
    refuses(model, "partial_fit", other, y, match="feature names should match")


@pytest.mark.parametrize("method", ["predict", "decision_function", "fuzzy_distance"])
def test_not_fitted(method):
    refuses(FuzzyTwinSVC(), method, X, match="not fitted", error=NotFittedError)


# --- weights and degrees


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (with_value(np.ones(30), -1), r"sample_weight holds -1.*weight of 0"),
        (with_value(np.ones(30), NAN), "sample_weight holds nan.*finite"),
        (with_value(np.ones(30), INF), "sample_weight holds inf.*finite"),
        (np.zeros(30), "sample_weight is zero for every sample"),
        (0.0, "sample_weight is zero for every sample"),
        (np.ones(29), r"sample_weight has shape \(29,\).*\(30,\)"),
        (np.ones((30, 1)), r"sample_weight has shape \(30, 1\).*\(30,\)"),
        (["a"] * 30, "sample_weight=.*does not hold numbers"),
        ("balanced", "sample_weight='balanced'.*does not hold numbers"),
        (np.where(y == 1, 1.0, 0.0), r"one class only \(1\) with positive weight"),
    ],
)
def test_bad_weights(model, bad, match):
    refuses(model, "fit", X, y, bad, match=match)
    if "zero" not in match and "one class" not in match:  # in a batch, zeros are nothing to add
        refuses(model, "partial_fit", X, y, sample_weight=bad, match=match)


ONE_HOT = np.eye(3)[y]


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (with_value(np.ones(30), 1.5), r"membership holds 1.5.*\[0, 1\]"),
        (with_value(np.ones(30), -0.1), r"membership holds -0.1.*\[0, 1\]"),
        (with_value(np.ones(30), NAN), r"membership holds nan.*\[0, 1\]"),
        (np.ones(29), r"membership has shape \(29,\).*\(30,\).*\(30, 3\)"),
        (np.ones((30, 2)), r"membership has shape \(30, 2\).*\(30, 3\)"),
        (np.ones((30, 3, 1)), r"membership has shape \(30, 3, 1\)"),
        (0.5, r"membership has shape \(\)"),
        ("center", "membership='center' does not hold numbers"),
        (with_value(ONE_HOT, NAN), "membership holds nan"),
        (with_value(ONE_HOT, 2, 12), "membership holds 2"),
        (ONE_HOT * (np.arange(30) != 7)[:, None], "membership row 7 sums to zero.*leave it out"),
    ],
)
def test_bad_degrees(model, bad, match):
    refuses(model, "fit", X, y, membership=bad, match=match)
    refuses(model, "partial_fit", X, y, membership=bad, match=match)


def test_degrees_that_leave_no_rivals():
    model = FuzzyTwinSVC().fit(X, y)
    refuses(model, "fit", X, y, membership=(y == 1) * 1.0, match="membership is 0 for every")
    refuses(model, "fit", X, y, membership=np.zeros(30), match="membership is 0 for every")


BAD_PARAMETERS = [
    *(("C", value, "above 0") for value in (0, -1.0, NAN, INF, True, [1, -1, 1], [1, NAN, 1])),
    *(("C", value, "one per class") for value in ([1.0, 2.0], [[1, 2, 3]], "1", ["1", "2", "3"])),
    *(("C", value, "one per class") for value in (None, {}, object)),
    *(("alpha", value, "at least 0") for value in (-1, NAN, INF, "1", None, [1.0], True)),
    *(("tau", value, "at least 0") for value in (-1e-9, NAN, "a", None)),
    *(("margin_width", value, "at least 0") for value in (-1, INF, "a", None)),
    *(("planes", value, "'crisp', 'fuzzy'") for value in ("flat", None, 1, ["crisp"])),
    *(("rule", value, "'distance', 'residual'") for value in ("nearest", None)),
    *(("class_weight", value, "'balanced'") for value in ("equal", [1, 2, 3], 2.0)),
    *(("class_weight", {0: value}, "of at least 0") for value in (-1.0, NAN, INF)),
    ("class_weight", {0: "heavy"}, "number"),
    ("class_weight", {"a": 1.0}, "not in class_weight"),
    *(("membership", value, "'center', 'hyperplane'") for value in ("centre", 3, True)),
    ("membership", [0.5], r"fit\(X, y, membership=degrees\)"),
    ("membership", CenterMembership, r"an instance such as CenterMembership\(\)"),
]


@pytest.mark.parametrize(("name", "value", "remedy"), BAD_PARAMETERS)
def test_bad_parameters(model, name, value, remedy):
    """Name, value and remedy are in the message; a fitted model survives the attempt."""
    model.set_params(**{name: value})
    before = state(model)
    with pytest.raises(ValueError, match=remedy) as caught:
        model.fit(X, y)
    assert f"{name}={value!r}" in str(caught.value)
    assert_unchanged(model, before)


@pytest.mark.parametrize(
    ("membership", "match"),
    [
        (CenterMembership(decay="cubic"), "CenterMembership: decay='cubic'.*'linear'"),
        (CenterMembership(beta=0), "beta=0.*above 0"),
        (CenterMembership(eps=0), "eps=0.*above 0"),
        (CenterMembership(imbalance="yes"), "imbalance='yes'.*True or False"),
        (HyperplaneMembership(kind="near"), "kind='near'.*'relative'"),
        (HyperplaneMembership(C=-1), "C=-1.*above 0"),
        (HyperplaneMembership(alpha=-1), "alpha=-1.*at least 0"),
        (NeighborMembership(k=0), "k=0.*at least 1"),
        (NeighborMembership(k=2.5), "k=2.5.*whole number"),
        (EntropyMembership(bins=0), "bins=0.*at least 1"),
        (EntropyMembership(beta=0.5), "beta=0.5.*below"),
        (IntuitionisticMembership(radius=0), "radius=0.*above 0"),
        (IntuitionisticMembership(eps=2), "eps=2.*between 0 and 1"),
    ],
)
def test_bad_parameters_of_memberships(model, membership, match):
    model.set_params(membership=membership)
    refuses(model, "fit", X, y, match=match)


@pytest.mark.parametrize(
    ("degrees", "match"),
    [
        (lambda X, y, s: None, "returned None"),
        (lambda X, y, s: np.ones(len(X) + 1), r"membership has shape \(31,\)"),
        (lambda X, y, s: np.ones((len(X), 3)), r"membership has shape \(30, 3\)"),
        (lambda X, y, s: 0.5, r"membership has shape \(\)"),
        (lambda X, y, s: np.full(len(X), 1.5), "membership holds 1.5"),
        (lambda X, y, s: np.full(len(X), NAN), "membership holds nan"),
        (lambda X, y, s: ["a"] * len(X), "does not hold numbers"),
    ],
)
def test_callables_that_return_no_degrees(model, degrees, match):
    model.set_params(membership=degrees)
    refuses(model, "fit", X, y, match=match)


# --- adding rows and models


def test_partial_fit_wants_all_labels():
    refuses(FuzzyTwinSVC(), "partial_fit", X, y, match="classes=None.*give all labels")
    refuses(FuzzyTwinSVC(), "partial_fit", X, y, classes=[0, 1], match="y holds .*2.*classes=")
    only = np.zeros(30, dtype=int)
    refuses(FuzzyTwinSVC(), "partial_fit", X, only, classes=[0], match="one class only.*two labels")


@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2, 3], ["0", "1", "2"], [0, 1, 5]])
def test_partial_fit_with_classes_that_change(model, classes):
    refuses(model, "partial_fit", X, y, classes=classes, match=r"classes=.* differ .*omit classes")


@pytest.mark.parametrize("label", [3, 0.5, "0"])
def test_partial_fit_with_an_unseen_label(model, label):
    refuses(model, "partial_fit", X[:2], [label] * 2, match=f"y holds .*{label}.*classes")


def test_partial_fit_of_planes_that_need_other_moments():
    model = FuzzyTwinSVC().fit(X, y).set_params(planes="fuzzy")
    refuses(model, "partial_fit", X, y, match="planes='fuzzy' needs moments.*fit a new model")


@pytest.mark.parametrize(
    "membership",
    ["center", "hyperplane", "neighbor", "entropy", "intuitionistic", CenterMembership(), abs],
)
@pytest.mark.parametrize("method", ["partial_fit", "merge"])
def test_memberships_that_cannot_stream(membership, method):
    fitting = "center" if membership is abs else membership
    model = FuzzyTwinSVC(membership=fitting).fit(X, y).set_params(membership=membership)
    before = state(model)
    assert not hasattr(model, method)
    with pytest.raises(ValueError, match=rf"{method} .*membership=.*membership=None.*files") as e:
        getattr(model, method)(X, y)
    assert isinstance(e.value, AttributeError)
    assert_unchanged(model, before)
    assert hasattr(FuzzyTwinSVC(), method)
    assert hasattr(FuzzyTwinSVC, method)


@pytest.mark.parametrize(
    ("other", "error", "match"),
    [
        (3, TypeError, "other=3 is of type int; merge takes a FuzzyTwinSVC"),
        (None, TypeError, "other=None is of type NoneType"),
        (CenterMembership(), TypeError, "of type CenterMembership"),
        (FuzzyTwinSVC(), NotFittedError, "not fitted"),
        (FuzzyTwinSVC(C=2.0).fit(X, y), ValueError, "differ in C: 1.0 and 2.0"),
        (FuzzyTwinSVC(alpha=3.0).fit(X, y), ValueError, "differ in alpha: .* and 3.0"),
        (
            FuzzyTwinSVC(planes="fuzzy").fit(X, y),
            ValueError,
            "differ in planes: 'crisp' and 'fuzzy'",
        ),
        (
            FuzzyTwinSVC(membership=CenterMembership()).fit(X, y),
            ValueError,
            "differ in membership: None and CenterMembership",
        ),
        (FuzzyTwinSVC().fit(X[:, :2], y), ValueError, "the number of columns: 3 and 2"),
        (
            FuzzyTwinSVC().fit(pd.DataFrame(X, columns=list("abc")), y),
            ValueError,
            "the names of the columns: None and .*'a'",
        ),
        (FuzzyTwinSVC().fit(X, y + 1), ValueError, r"the labels: \[0, 1, 2\] and \[1, 2, 3\]"),
        (FuzzyTwinSVC().fit(X, y % 2), ValueError, r"the labels: \[0, 1, 2\] and \[0, 1\]"),
        (FuzzyTwinSVC().fit(X, y.astype(str)), ValueError, r"the labels: .* and \['0', '1', '2'\]"),
    ],
)
def test_merge_of_unlike_models(other, error, match):
    refuses(FuzzyTwinSVC().fit(X, y), "merge", other, match=match, error=error)


def test_merge_into_an_unfitted_model():
    model = FuzzyTwinSVC()
    refuses(model, "merge", FuzzyTwinSVC().fit(X, y), match="not fitted", error=NotFittedError)


@pytest.mark.parametrize("dtype", ["string", "Int64", "boolean", "category", object])
def test_a_missing_label_is_named_by_its_row(dtype):
    labels = pd.Series([1, 0] * 15, dtype=object).mask(np.arange(30) == 7)
    labels = labels.astype(str).mask(labels.isna()) if dtype == "string" else labels
    with pytest.raises(ValueError, match="y has no label in row 7; leave out rows without a label"):
        FuzzyTwinSVC().fit(X, labels.astype(dtype))
