"""Numbers for the columns of a table are those of scikit-learn's transformers."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fuzzytwin.tables._columns import Column
from fuzzytwin.tables._numeric import encode, encoded_names, learn_encoding
from fuzzytwin.tables._preprocessor import TablePreprocessor
from fuzzytwin.tables._schema import TableSchema


class SortedScaler(StandardScaler):
    """Learns from sorted columns, so that the order of rows does not change the last digits."""

    def fit(self, X, y=None):
        return super().fit(np.sort(X, axis=0))


def by_scikit_learn(columns):
    """Do the same by transformers of scikit-learn, as files once held them."""

    def encoder():
        return OneHotEncoder(
            handle_unknown="infrequent_if_exist", max_categories=30, sparse_output=False
        )

    median = SimpleImputer(strategy="median", keep_empty_features=True)
    usual = SimpleImputer(strategy="most_frequent", keep_empty_features=True)
    empty = SimpleImputer(strategy="constant", fill_value="", keep_empty_features=True)
    steps = {
        "number": make_pipeline(median, SortedScaler()),
        "boolean": make_pipeline(usual, SortedScaler()),
        "category": make_pipeline(empty, encoder()),
    }
    names = {kind: [c.name for c in columns if c.kind == kind] for kind in steps}
    return ColumnTransformer([(kind, steps[kind], names[kind]) for kind in steps if names[kind]])


def random_table(rng):
    """Make columns of every kind, in any order, with missing values, and rows that come later."""
    n, later = int(rng.integers(2, 200)), 30
    rows = n + later
    found = {}
    for j in range(int(rng.integers(1, 9))):
        kind = str(rng.choice(["number", "boolean", "category"]))
        if kind == "number":
            size = float(rng.choice([1e-3, 1.0, 1e8]))
            values = rng.normal(rng.choice([0.0, 1e6]), size, rows).round(int(rng.integers(0, 4)))
        elif kind == "boolean":
            values = rng.integers(0, 2, rows).astype(float)
        else:
            most = int(rng.choice([2, 20, 80]))
            values = np.array([f"{k % 7}v {k}" for k in rng.integers(0, most, rows)], dtype=object)
        lost = rng.random(rows) < rng.choice([0.0, 0.1, 0.6])
        if rng.random() < 0.1:
            lost[:n] = True
        values[lost] = np.nan
        found[f"c{j}"] = (Column(f"c{j}", kind), values)
    frame = pd.DataFrame({name: values for name, (_, values) in found.items()})
    return [column for column, _ in found.values()], frame[:n].copy(), frame[n:].copy()


@pytest.mark.parametrize(
    "seed", [*range(20), *(pytest.param(k, marks=pytest.mark.slow) for k in range(20, 60))]
)
def test_the_numbers_and_names_are_those_of_scikit_learn(seed):
    columns, train, later = random_table(np.random.default_rng(seed))
    mine = learn_encoding(train, columns)
    numbers = [column.name for column in columns if column.kind == "number"]
    for rows in (train, later):  # numbers far off all others are taken as the nearest of these
        low, high = mine["scaled"]["low"], mine["scaled"]["high"]
        for name, least, greatest in zip(numbers, low, high, strict=False):
            rows[name] = rows[name].clip(least, greatest)
    theirs = by_scikit_learn(columns).fit(train)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Found unknown categories")
        for rows in (train, later):
            assert_allclose(encode(rows, columns, mine), theirs.transform(rows), rtol=0, atol=1e-12)
    fitted = TablePreprocessor()
    fitted.encoding_, fitted.schema_ = mine, TableSchema(tuple(columns)).to_dict()
    assert list(fitted.get_feature_names_out()) == list(theirs.get_feature_names_out())


def test_rare_values_share_the_last_column_with_unknown_ones():
    words = [f"w{k:02d}" for k in range(40) for _ in range(1 + k % 3)]
    frame, columns = pd.DataFrame({"c": words}), [Column("c", "category")]
    mine = learn_encoding(frame, columns)
    later = pd.DataFrame({"c": ["w02", "w00", "never seen", np.nan]})
    Z = encode(later, columns, mine)
    names = encoded_names(columns, mine, lambda column, value: str(value))
    assert len(names) == Z.shape[1] == 30
    assert [names[place] for place in Z.argmax(axis=1)] == ["w02", *["infrequent_sklearn"] * 3]
