"""Labels, weights and groups are read alike by every estimator and by `find_label_issues`."""

import datetime
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from fuzzytwin import (
    GEPSVC,
    CenterMembership,
    FuzzyTwinCommittee,
    FuzzyTwinSVC,
    FuzzyTwinSVCCV,
    LeastSquaresSVC,
    LeastSquaresTwinSVC,
    MembershipWeighted,
    ProximalSVC,
    TablePreprocessor,
    TwinSVC,
    find_label_issues,
)
from fuzzytwin.tables import TableWarning

RNG = np.random.default_rng(0)
Y = np.arange(40) % 2
X = RNG.normal(size=(40, 2)) + Y[:, None]
SEARCH = {"Cs": [1.0], "alphas": [1.0], "memberships": None, "cv": 2}
GROUP_SEARCH = FuzzyTwinSVCCV(**SEARCH | {"cv": GroupKFold(2)})
COMMITTEE = FuzzyTwinCommittee(members=["linear"])
ESTIMATORS = [
    FuzzyTwinSVC(), FuzzyTwinSVC(calibration="loo"), FuzzyTwinSVCCV(**SEARCH), COMMITTEE,
    LeastSquaresTwinSVC(), TwinSVC(), LeastSquaresSVC(), ProximalSVC(), GEPSVC(),
    MembershipWeighted(estimator=LogisticRegression()),
]  # fmt: skip
FITS = {type(model).__name__: model.fit for model in ESTIMATORS} | {
    "partial_fit": lambda X, y: FuzzyTwinSVC().partial_fit(X, y, classes=[0, 1]),
    "membership": CenterMembership(),
    "find_label_issues": lambda X, y: find_label_issues(X, y, estimator=COMMITTEE),
    "label issues of a classifier": lambda X, y: find_label_issues(
        X, y, estimator=LogisticRegression()
    ),
}
every_fit = pytest.mark.parametrize("fit", FITS.values(), ids=FITS)


def with_gap(labels, gap):
    return [gap if i == 7 else label for i, label in enumerate(labels)]


TEXTS = np.where(Y, "yes", "no").tolist()
GAPS = {
    "NaN in a list of text": with_gap(TEXTS, np.nan),
    "None in a list of text": with_gap(TEXTS, None),
    "NA in a list of text": with_gap(TEXTS, pd.NA),
    "NA in a list of numbers": with_gap(Y.tolist(), pd.NA),
    "NaN in a list of numbers": with_gap(Y.tolist(), np.nan),
    "None in a tuple": tuple(with_gap(Y.tolist(), None)),
    "NaN in numbers": np.where(np.arange(40) == 7, np.nan, Y),
    "a masked number": np.ma.masked_array(Y, np.arange(40) == 7),
    "a masked text": np.ma.masked_array(TEXTS, np.arange(40) == 7),
    "a Series": pd.Series(with_gap(TEXTS, None)),
}


@every_fit
@pytest.mark.parametrize("labels", GAPS.values(), ids=GAPS)
def test_a_missing_label_is_named_by_its_row(fit, labels):
    with pytest.raises(ValueError, match="y has no label in row 7; leave out rows without a label"):
        fit(X, labels)


@every_fit
def test_numbers_and_text_are_labels_of_several_kinds(fit):
    with pytest.raises(ValueError, match=r"y holds labels of several kinds \(int, str\)"):
        fit(X, [str(label) if i < 20 else label for i, label in enumerate(Y.tolist())])


@every_fit
@pytest.mark.parametrize(
    "label", [Decimal, lambda k: datetime.date(2024, 1, 1 + k), lambda k: (k,)]
)
def test_labels_of_other_types_name_the_type_and_the_remedy(fit, label):
    labels = np.empty(40, dtype=object)
    labels[:] = [label(int(k)) for k in Y]
    with pytest.raises(ValueError, match=r"Unknown label type: .*convert labels to text or whole"):
        fit(X, labels)


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("kind", [int, bool, float])
def test_numbers_in_a_column_of_objects_are_numbers(model, kind):
    labels = Y.astype(kind)
    expected = model.fit(X, labels)
    classes, predicted = expected.classes_, expected.predict(X)
    found = model.fit(X, labels.astype(object))
    assert found.classes_.dtype == classes.dtype == labels.dtype
    np.testing.assert_array_equal(found.predict(X), predicted)


def test_issues_of_numbers_in_a_column_of_objects():
    found = find_label_issues(X, Y.astype(object), estimator=COMMITTEE)
    expected = find_label_issues(X, Y, estimator=COMMITTEE)
    np.testing.assert_array_equal(found.label_quality, expected.label_quality)
    assert found.classes.dtype == expected.classes.dtype


GROUPS = {
    "NaN in a list of text": (with_gap(TEXTS, np.nan), r"missing values \(row 7\)"),
    "a masked number": (np.ma.masked_array(np.arange(40), np.arange(40) == 7), r"\(row 7\)"),
    "numbers and text": ([1, "1"] * 20, r"several kinds \(int, str\)"),
}


@pytest.mark.parametrize(("groups", "match"), GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize(
    "fit", [FuzzyTwinSVC(calibration="loo").fit, COMMITTEE.fit, find_label_issues]
)
def test_groups_are_read_as_labels_are(fit, groups, match):
    with pytest.raises(ValueError, match=f"groups holds .*{match}"):
        fit(X, Y, groups=groups)


@pytest.mark.parametrize("names", [["sample_weight"], ["groups"], ["y", "sample_weight", "groups"]])
@pytest.mark.parametrize(
    "fit",
    [
        FuzzyTwinSVC(calibration="loo").fit,
        GROUP_SEARCH.fit,
        COMMITTEE.fit,
        find_label_issues,
    ],
)
@pytest.mark.parametrize("text", [False, True])
def test_arguments_in_another_order_of_the_index_get_one_warning(fit, names, text):
    if text and fit not in (COMMITTEE.fit, find_label_issues):
        pytest.skip("takes numbers only")
    table = pd.DataFrame(X, index=[f"patient {i}" for i in range(40)], columns=["a", "b"])
    table = table.assign(ward=RNG.permutation(["north", "south"] * 20)) if text else table
    values = {"y": Y, "sample_weight": np.ones(40), "groups": np.arange(40) // 4}
    series = {name: pd.Series(value, index=table.index) for name, value in values.items()}
    fit(table, **series)
    moved = {name: value[::-1] if name in names else value for name, value in series.items()}
    with pytest.warns(UserWarning, match="rows are matched by position") as caught:
        fit(table, **moved)
    assert len(caught) == 1
    message = str(caught[0].message)
    assert message.startswith(" and ".join(names))
    assert f"give {names[0]}.loc[X.index]" in message


@pytest.mark.parametrize("fit", [FuzzyTwinSVC().fit, COMMITTEE.fit])
def test_degrees_in_another_order_of_the_index_get_a_warning(fit):
    table = pd.DataFrame(X, index=[f"patient {i}" for i in range(40)], columns=["a", "b"])
    degrees = pd.Series(np.linspace(0.1, 1, 40), index=table.index)
    with pytest.warns(UserWarning, match="membership has the index of X in another order"):
        fit(table, Y, membership=degrees[::-1])


def messy():
    """A table of text, dates, truth values and numbers."""
    return pd.DataFrame(X, columns=["a", "b"]).assign(
        ward=RNG.permutation(["north", "south"] * 20),
        day=pd.date_range("2024-01-01", periods=40),
        smoker=X[:, 1] > 0,
    )


PREDICTIONS = [
    "predict", "predict_proba", "predict_log_proba", "decision_function", "predict_membership",
    "fuzzy_distance", "predict_set",
]  # fmt: skip


def predictions(model, rows):
    """All arrays that the methods of a model return."""
    arrays = {}
    for name in PREDICTIONS:
        if name == "predict_set" and getattr(model, "calibration", "loo") is None:
            continue
        found = getattr(model, name)(rows) if hasattr(model, name) else None
        for i, part in enumerate(found if isinstance(found, tuple) else (found,)):
            if part is not None:
                arrays[name, i] = part
    return arrays


def assert_no_rows_get_no_predictions(model, rows, none):
    found = predictions(model, none)
    for name, expected in predictions(model, rows).items():
        assert found[name].shape == (0, *expected.shape[1:]), name
        assert found[name].dtype == expected.dtype, name


@pytest.mark.parametrize(
    "model",
    [
        *ESTIMATORS[:-1],
        FuzzyTwinSVC(planes="fuzzy", kernel="rbf"),
        FuzzyTwinCommittee(noise="auto"),
        MembershipWeighted(estimator=FuzzyTwinSVC()),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("labels", [Y, TEXTS, np.arange(40) % 3], ids=["two", "text", "three"])
def test_no_rows_get_no_predictions(model, labels):
    model = clone(model).fit(X, labels)
    assert_no_rows_get_no_predictions(model, X[:3], X[:0])
    frame = pd.DataFrame(X, columns=["a", "b"])
    assert_no_rows_get_no_predictions(model.fit(frame, labels), frame[:3], frame[:0])
    if get_tags(model).input_tags.sparse:
        rows = sparse.csr_array(X)
        assert_no_rows_get_no_predictions(model.fit(rows, labels), rows[:3], rows[:0])


@pytest.mark.parametrize(
    "model",
    [COMMITTEE, make_pipeline(TablePreprocessor(), FuzzyTwinSVC())],
    ids=["committee", "pipeline"],
)
def test_no_rows_of_a_table_get_no_predictions(model):
    table = messy()
    model.fit(table, Y)
    assert_no_rows_get_no_predictions(model, table[:3], table[:0])
    assert_no_rows_get_no_predictions(model, table[:3], pd.DataFrame(columns=table.columns))
    objects = table.to_numpy(object)
    assert_no_rows_get_no_predictions(model.fit(objects, Y), objects[:3], objects[:0])


@pytest.mark.parametrize("fit", [FuzzyTwinSVC().fit, COMMITTEE.fit, find_label_issues])
def test_complex_columns_are_named(fit):
    table = pd.DataFrame(X, columns=["a", "b"]).assign(z=X[:, 0] + 1j)
    with pytest.raises(ValueError, match="column 'z' of X holds complex numbers; give the real"):
        fit(table, Y)
    with pytest.raises(ValueError, match="column 'z' of X holds complex numbers"):
        fit(table.assign(ward="north"), Y)
    with pytest.raises(ValueError, match="each column of X holds complex numbers"):
        fit(X + 1j, Y)


@pytest.mark.parametrize("fit", [FuzzyTwinSVC().fit, COMMITTEE.fit, find_label_issues])
def test_the_numbers_under_a_mask_are_not_used(fit):
    mask = np.arange(40) == 7
    with pytest.raises(ValueError, match=r"X holds masked values; .*X\.filled\(numpy\.nan\)"):
        fit(np.ma.masked_array(X, np.column_stack([mask, ~mask])), Y)
    with pytest.raises(ValueError, match="sample_weight holds masked values; give every row a"):
        fit(X, Y, sample_weight=np.ma.masked_array(np.ones(40), mask))
    fit(np.ma.masked_array(X), np.ma.masked_array(Y), sample_weight=np.ma.ones(40))


@pytest.mark.parametrize("fit", [FuzzyTwinSVC().fit, COMMITTEE.fit, find_label_issues])
def test_a_dict_of_columns_names_the_remedy(fit):
    with pytest.raises(ValueError, match=r"^X is a dict; give .* pandas\.DataFrame\(X\)\.$"):
        fit({"a": X[:, 0].tolist(), "b": X[:, 1].tolist()}, Y)


@pytest.mark.parametrize(
    "model", [FuzzyTwinSVC(), COMMITTEE, make_pipeline(TablePreprocessor(), FuzzyTwinSVC())]
)
def test_predict_refuses_a_dict_of_columns_and_complex_numbers(model):
    frame = pd.DataFrame(X, columns=["a", "b"])
    model.fit(frame, Y)
    with pytest.raises(ValueError, match=r"^X is a dict; give .* pandas\.DataFrame\(X\)\.$"):
        model.predict(dict(frame))
    with pytest.raises(ValueError, match="column 'b' of X holds complex numbers"):
        model.predict(frame.assign(b=1j))


FITS_OF_TABLES = {
    "committee": COMMITTEE.fit,
    "find_label_issues": find_label_issues,
    "preprocessor": TablePreprocessor().fit,
}


@pytest.mark.parametrize("fit", FITS_OF_TABLES.values(), ids=FITS_OF_TABLES)
def test_the_remedy_of_a_number_that_may_be_missing_helps_every_function(fit):
    table = messy().assign(c=X[:, 0], d=X[:, 1])
    table.loc[::8, ["a", "b", "c"]] = -999
    table.loc[::8, "d"] = -99
    with pytest.warns(TableWarning, match="holds -999? in 5 cells") as caught:
        fit(table, Y)
    assert len(caught) == 2
    message = str(caught[0].message)
    assert message.startswith("column 'a' holds -999 in 5 cells, far from all other numbers")
    assert message.endswith("or use NaN instead of -999. Also 2 more columns: b, c.")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(table.replace([-999, -99], np.nan), Y)


@pytest.mark.parametrize("model", [COMMITTEE, make_pipeline(TablePreprocessor(), FuzzyTwinSVC())])
@pytest.mark.parametrize("column", ["a", "ward", "smoker"])
def test_the_remedy_of_a_missing_column_helps_a_fitted_model(model, column):
    table = messy()
    model.fit(table, Y)
    absent = table.drop(columns=column)
    with pytest.raises(ValueError, match=f"missing values: add an empty column '{column}'"):
        model.predict(absent)
    with pytest.warns(TableWarning, match=f"'{column}': 40 cells are missing"):
        found = model.predict(absent.assign(**{column: np.nan}))
    gaps = table.astype({column: object}).assign(**{column: None})
    np.testing.assert_array_equal(found, model.predict(gaps))


@pytest.mark.parametrize("fit", FITS_OF_TABLES.values(), ids=FITS_OF_TABLES)
def test_the_remedy_of_a_column_that_cannot_be_used_helps_every_function(fit):
    table = messy().assign(a=np.inf)
    with pytest.raises(ValueError, match=r"leave it out: TablePreprocessor\(drop=\['a'\]\)"):
        fit(table, Y)
    fit(TablePreprocessor(drop=["a"]).fit_transform(table), Y)
