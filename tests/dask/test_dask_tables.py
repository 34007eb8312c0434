"""Dask DataFrames with text, dates and missing values give the model of a frame in memory."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fuzzytwin import FuzzyTwinCommittee as InMemory
from fuzzytwin import find_label_issues as find_in_memory
from fuzzytwin.dask import FuzzyTwinCommittee, find_label_issues
from tests.files.helpers import mixed_table


@pytest.fixture(scope="module")
def frame():
    return mixed_table()


@pytest.fixture(scope="module")
def table(frame, tmp_path_factory):
    """Five partitions: Dask keeps lists of numbers in Parquet files, and makes text of others."""
    folder = tmp_path_factory.mktemp("parts")
    for number in range(5):
        frame.iloc[48 * number : 48 * (number + 1)].to_parquet(folder / f"{number}.parquet")
    return dd.read_parquet(folder)


def test_a_committee_is_that_of_the_frame_in_memory(frame, table):
    X, y = frame.drop(columns="sick"), frame["sick"].to_numpy()
    wanted = InMemory().fit(X, y)
    found = FuzzyTwinCommittee().fit(table, "sick")
    assert found.preprocessor_.schema_["columns"] == wanted.preprocessor_.schema_["columns"]
    assert list(found.feature_names_in_) == list(wanted.feature_names_in_)
    P = wanted.predict_proba(X)
    assert_allclose(found.predict_proba(table).compute(), P, atol=1e-9)
    assert_allclose(found.to_sklearn().predict_proba(X), P, atol=1e-9)
    assert_array_equal(found.predict(table).compute(), wanted.predict(X))
    assert_array_equal(found.predict_set(table, 0.8).compute(), wanted.predict_set(X, 0.8))
    assert found.score(table, "sick") == wanted.score(X, y)
    assert found.score(X, y) == wanted.score(X, y)


def test_label_issues_are_those_of_the_frame_in_memory(frame, table):
    wanted = find_in_memory(frame, "sick").to_frame()
    found = find_label_issues(table, "sick").frame.compute()
    pd.testing.assert_frame_equal(
        found.reset_index(drop=True), wanted, check_dtype=False, atol=1e-9
    )
    assert found["is_label_issue"].sum() > 5


def test_missing_numbers_and_empty_partitions_are_taken(frame):
    numbers = frame[["age", "sick"]].assign(weight=np.arange(len(frame)) % 7)
    wanted = InMemory().fit(numbers.drop(columns="sick"), numbers["sick"])
    table = dd.from_pandas(numbers, npartitions=3)
    empty = table[table["weight"] < 0]
    found = FuzzyTwinCommittee().fit(dd.concat([empty, table]), "sick")
    assert_allclose(
        found.predict_proba(table).compute(),
        wanted.predict_proba(numbers.drop(columns="sick")),
        atol=1e-9,
    )
