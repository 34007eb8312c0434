"""What columns hold does not depend on the order of rows, and is the same in every sample."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.model_selection import cross_val_score

from fuzzytwin import FuzzyTwinCommittee
from fuzzytwin.tables import TablePreprocessor, TableWarning


def kinds(frame, **choices):
    columns = TablePreprocessor(**choices).fit(pd.DataFrame(frame)).columns_
    return {column.name: column.kind for column in columns}


def noise(n, seed=0):
    return np.random.default_rng(seed).normal(size=n)


@pytest.mark.parametrize("step", [1, 2])
def test_numbers_of_rows_are_ids_in_any_order_and_any_half(step):
    frame = pd.DataFrame({"case": step * np.arange(200) + 7, "x": noise(200)})
    order = np.random.default_rng(0).permutation(200)
    for rows in (frame, frame.iloc[::-1], frame.iloc[order], frame.iloc[:20]):
        assert kinds(rows)["case"] == "id"
    assert kinds(frame[:19])["case"] == "number"
    assert kinds(frame.assign(case=10 * frame["case"]))["case"] == "number"
    assert kinds(frame, numeric=["case"])["case"] == "number"


@pytest.mark.parametrize("name", ["id", "Case_No", "nr.", "visitID", "room number"])
def test_different_whole_numbers_with_the_name_of_an_id_are_ids(name):
    frame = pd.DataFrame({name: 1000 * np.arange(40), "x": noise(40)})
    assert kinds(frame.sample(frac=1, random_state=0))[name] == "id"
    assert kinds(frame.assign(**{name: frame[name] // 2000}))[name] == "number"


def test_a_row_counter_teaches_nothing_in_any_order():
    frame = pd.DataFrame({"case": range(200), "x": noise(200)})
    frame["ward"] = list("ab") * 100
    y = np.repeat([0, 1], 100)
    order = np.random.default_rng(0).permutation(200)
    for rows in (np.arange(200), order):
        with pytest.warns(TableWarning, match="not used: 'case'; X.to_numpy\\(\\) keeps them"):
            model = FuzzyTwinCommittee(members="planes").fit(frame.iloc[rows], y[rows])
        assert model.score(frame, y) < 0.7
    with pytest.warns(TableWarning, match="'case'"):
        assert cross_val_score(FuzzyTwinCommittee(members="planes"), frame, y).mean() < 0.7


@pytest.mark.parametrize("n", [15, 80, 1000])
def test_whole_numbers_are_numbers_however_few_and_codes_are_declared(n):
    frame = pd.DataFrame({"cp": np.arange(n) % 4, "x": noise(n)})
    assert kinds(frame)["cp"] == "number"
    assert kinds(frame, category=["cp"])["cp"] == "category"
    assert kinds(frame.astype({"cp": "category"}))["cp"] == "category"
    columns = TablePreprocessor().fit(frame).columns_
    noted = "4 different whole numbers; if they are codes, use TablePreprocessor(category=['cp'])"
    assert columns[0].note == (noted if n >= 40 else "")


def test_a_column_of_one_value_changes_nothing():
    frame = pd.DataFrame({"a": noise(60), "b": noise(60, 1)})
    y = (frame["a"] + frame["b"] > 0).to_numpy()
    expected = FuzzyTwinCommittee().fit(frame, y).predict_proba(frame)
    for value in (3.0, "same"):
        constant = frame.assign(c=value)
        model = FuzzyTwinCommittee().fit(constant, y)
        np.testing.assert_allclose(model.predict_proba(constant), expected, atol=1e-9)


@pytest.mark.parametrize(
    "cells",
    [
        ["<50", ">50"],
        ["<18", "18+"],
        ["<=50", ">50"],
        ["<10", "10"],
        ["<50", ">50", "30", "40", "41", "60"],
        ["<5", "<6", "7"],
    ],
)
def test_limits_that_number_alone_does_not_tell_apart_are_categories(cells):
    cells = pa.array(np.resize(cells, 60).tolist())
    column = TablePreprocessor().fit(pa.table({"age": cells, "x": noise(60)})).columns_[0]
    assert column.kind == "category"
    assert column.note.startswith("limits such as <")
    assert kinds(pd.DataFrame({"age": cells}), numeric=["age"])["age"] == "number"


def test_brackets_decide_the_label():
    y = np.arange(80) % 2
    frame = pd.DataFrame({"age": np.array(["<50", ">50"])[y], "x": noise(80), "w": noise(80, 1)})
    with pytest.warns(TableWarning, match="target leakage"):
        assert FuzzyTwinCommittee(members="planes").fit(frame, y).score(frame, y) == 1.0


@pytest.mark.parametrize("cells", [["<0.5", "1", "2", "3.5"], ["5+", "1", "2", "3", "4"]])
def test_a_few_limits_are_numbers(cells):
    assert kinds({"a": np.resize(cells, 60), "x": noise(60)})["a"] == "number"
    varied = [f"{value:.3f}" for value in np.abs(noise(60))]
    assert kinds({"a": ["<0.5", "0.5", *varied], "x": noise(62)})["a"] == "number"


@pytest.mark.parametrize(
    "later",
    [
        [1.0, 2.0, np.nan, 3.0],
        ["1", "2", None, "3"],
        pd.array([1, 2, None, 3], "Int64"),
        ["1.0", "2.00", None, "+3"],
    ],
)
def test_a_category_of_whole_numbers_is_one_in_every_type(later):
    frame = pd.DataFrame({"cp": [1, 2, 3, 4] * 10, "x": noise(40)})
    prepare = TablePreprocessor(category=["cp"]).fit(frame)
    assert prepare.columns_[0].categories == ("1", "2", "3", "4")
    expected = prepare.transform(frame[:3])[:, 1:].tolist()
    with pytest.warns(TableWarning, match="1 cell is missing"):
        read = prepare.transform(pd.DataFrame({"cp": later, "x": 0.0}))[:, 1:].tolist()
    assert [read[0], read[1], read[3]] == expected


def test_a_category_of_truth_values_is_one_in_every_type():
    frame = pd.DataFrame({"flag": [True, False] * 10, "x": noise(20)})
    prepare = TablePreprocessor(category=["flag"]).fit(frame)
    expected = prepare.transform(frame[:2])
    for cells in (["true", "FALSE"], ["True", "False"]):
        later = frame[:2].assign(flag=cells)
        np.testing.assert_array_equal(prepare.transform(later), expected)
