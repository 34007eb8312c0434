"""TablePreprocessor: the command line's treatment of columns, in a pipeline."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from fuzzytwin import FuzzyTwinCommittee
from fuzzytwin.experiment._experiment import Experiment
from fuzzytwin.experiment._rows import Settings
from fuzzytwin.tables import TablePreprocessor, TableSchema, TableWarning, read_table
from fuzzytwin.tables._preprocessor import fitted_to_schema
from tests.checks import scikit_learn_checks


@scikit_learn_checks(TablePreprocessor())
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


def make(n=60):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "patient": [f"p{i}" for i in range(n)],
            "dose": [f"{value:.2f}" for value in rng.normal(size=n)],
            "ward": rng.choice(["north", "south", "east"], n),
            "stage": rng.integers(1, 5, n),
            "smokes": rng.choice(["TRUE", "FALSE"], n),
            "seen": pd.date_range("2020-01-01", periods=n).strftime("%Y-%m-%d"),
            "site": "here",
        }
    )
    frame.loc[3, "dose"], frame.loc[4, "dose"], frame.loc[5, "ward"] = "<0.5", None, None
    return frame, np.where(rng.random(n) < 0.5, "ill", "well")


def test_the_same_numbers_as_on_the_command_line(tmp_path):
    frame, y = make()
    frame.assign(label=y).to_csv(tmp_path / "table.csv", index=False)
    rows = Experiment(str(tmp_path / "table.csv"), Settings(target="label")).rows
    expected = fitted_to_schema(rows.schema, rows.X, scale=True).transform(rows.X)
    mine = TablePreprocessor().fit(frame)
    np.testing.assert_array_equal(mine.transform(frame), expected)
    for column, expected_column in zip(mine.columns_, rows.schema.columns, strict=True):
        assert column == expected_column
        assert "--" not in column.note
    kinds = {column.name: column.kind for column in mine.columns_}
    assert kinds == {
        "patient": "id", "dose": "number", "ward": "category", "stage": "number",
        "smokes": "boolean", "seen": "date", "site": "category",
    }  # fmt: skip


def test_frames_of_pandas_and_polars_and_arrays_give_the_same():
    frame, _ = make()
    pandas = TablePreprocessor().fit(frame)
    polars = TablePreprocessor().fit(pl.from_pandas(frame))
    np.testing.assert_array_equal(pandas.transform(frame), polars.transform(pl.from_pandas(frame)))
    array = TablePreprocessor().fit(frame.to_numpy())
    np.testing.assert_array_equal(array.transform(frame.to_numpy()), pandas.transform(frame))
    assert not hasattr(array, "feature_names_in_")
    typed = frame.astype({"ward": "category"})
    np.testing.assert_array_equal(
        TablePreprocessor().fit(typed).transform(typed), pandas.transform(frame)
    )


def test_later_rows_are_read_by_what_was_learned():
    frame, _ = make()
    mine = TablePreprocessor().fit(frame)
    later = frame.head(3).assign(ward=["west", None, "north"], dose=["1", "?", "2"])
    with pytest.warns(TableWarning) as warned:
        Z = pd.DataFrame(mine.transform(later), columns=mine.get_feature_names_out())
    assert str(warned[0].message) == "column 'ward': 1 cell, 'west', not among the training rows."
    mine.transform(later)  # reported once
    assert not Z.isna().any(axis=None)
    wards = Z.filter(like="ward")
    assert wards.iloc[0].sum() == 0  # a ward that training did not have
    with pytest.raises(ValueError, match=r"column 'dose' of X holds text such as"):
        mine.transform(later.assign(dose="much"))
    with pytest.raises(ValueError, match=r"X has no column 'dose', which the model needs"):
        mine.transform(later.drop(columns="dose"))


def test_columns_are_taken_by_name_and_others_are_ignored():
    frame, y = make()
    mine = TablePreprocessor().fit(frame)
    expected = mine.transform(frame)
    more = frame[frame.columns[::-1]].assign(label=y, lists=[[1, 2]] * len(frame))
    np.testing.assert_array_equal(mine.transform(more), expected)
    np.testing.assert_array_equal(mine.transform(pl.from_pandas(more)), expected)
    used = [column.name for column in mine.columns_ if column.used]
    np.testing.assert_array_equal(mine.transform(frame[used]), expected)


def test_columns_that_are_missing_are_named():
    frame, _ = make()
    mine = TablePreprocessor().fit(frame)
    with pytest.raises(ValueError, match=r"^X has no column 'ward'.*; did you mean 'Ward'\?"):
        mine.transform(frame.rename(columns={"ward": "Ward"}))
    with pytest.raises(ValueError, match=r"^X lacks 2 columns .*: 'dose', 'stage'\."):
        mine.transform(frame.drop(columns=["dose", "stage"]))
    with pytest.raises(ValueError, match=r"^X has 2 columns named 'dose'"):
        mine.transform(pd.concat([frame, frame[["dose"]]], axis=1))


def test_columns_without_names_are_taken_by_their_places():
    frame, _ = make()
    numbered = frame.set_axis(range(frame.shape[1]), axis=1)
    mine = TablePreprocessor().fit(numbered)
    np.testing.assert_array_equal(mine.transform(frame.to_numpy()), mine.transform(numbered))
    with pytest.raises(ValueError, match="X has 6 features, but TablePreprocessor is expecting 7"):
        mine.transform(frame.to_numpy()[:, 1:])


def test_cells_that_were_read_before_stay_as_they_are():
    frame, _ = make()
    mine = TablePreprocessor(numeric=["seen"]).fit(frame)
    schema = TableSchema.from_dict(mine.schema_)
    read = schema.decode(read_table(frame).read()).X
    assert read["seen"].dtype == np.float64
    np.testing.assert_array_equal(mine.transform(read), mine.transform(frame))


def test_names_go_with_set_output():
    frame, _ = make()
    prepare = TablePreprocessor(category=["stage"]).set_output(transform="pandas")
    out = prepare.fit_transform(frame)
    assert {"number__dose", "category__ward_north", "category__stage_1"} <= set(out.columns)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"drop": "ward"}, "drop='ward' is a string; give a list: ['ward']."),
        ({"numeric": ["wards"]}, "numeric=['wards'] names 'wards', which is not a column of X"),
        (
            {"numeric": ["ward"]},
            "holds no finite numbers; TablePreprocessor(numeric=['ward']) cannot be used for it",
        ),
        ({"decimal": ";"}, "decimal=';' is unknown"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    frame, _ = make()
    good = TablePreprocessor().fit(frame)
    before = good.transform(frame)
    bad = clone(good).set_params(**parameters)
    with pytest.raises(ValueError, match=re.escape(message)):
        bad.fit(frame)
    good.set_params(**parameters)
    with pytest.raises(ValueError, match=re.escape(message)):
        good.fit(frame)
    np.testing.assert_array_equal(good.transform(frame), before)


def test_infinite_numbers_are_refused_by_the_name_of_the_parameter():
    frame = pd.DataFrame({"a": [0.5, 1.5, 2.5, 4.0]})
    fitted = TablePreprocessor().fit(frame)
    for call in (fitted.transform, TablePreprocessor().fit):
        remedy = r"TablePreprocessor\(drop=\['a'\]\)\."
        with pytest.raises(ValueError, match=f"column 'a' .*infinite numbers; .*: {remedy}"):
            call(frame.replace({4.0: np.inf}))


@pytest.mark.parametrize("estimator", [TablePreprocessor(), FuzzyTwinCommittee()])
def test_lazy_frames_are_refused(estimator):
    frame = pl.DataFrame({"a": [0.5, 1.5, 2.5, 4.0], "b": ["x", "y", "x", "y"]}).lazy()
    with pytest.raises(TypeError, match=r"X\.collect\(\)"):
        estimator.fit(frame, [0, 1, 0, 1])


def test_values_of_several_types_are_text():
    frame = pd.DataFrame({"mixed": [1, "a", "a", None, 1, 1, "a", 1.5, 1.5], "x": range(0, 18, 2)})
    mine = TablePreprocessor().fit(frame)
    assert mine.columns_[0].kind == "category"
    assert mine.columns_[0].categories == ("1", "1.5", "a")


def test_unknown_and_missing_values_of_two_are_neither():
    """They used to count as the first of the alphabet."""
    frame, _ = make()
    frame["sex"] = np.where(np.arange(60) % 3, "m", "f")
    mine = TablePreprocessor().fit(frame)
    later = frame.head(4).assign(sex=["f", "m", "x", None])
    with pytest.warns(TableWarning, match="'sex'"):
        out = pd.DataFrame(mine.transform(later), columns=mine.get_feature_names_out())
    assert out.filter(like="sex").to_numpy().tolist() == [[1, 0], [0, 1], [0, 0], [0, 0]]


def test_decimal_commas_with_limits_are_numbers_as_on_the_command_line(tmp_path):
    rng = np.random.default_rng(0)
    words = np.array([f"{value:.2f}".replace(".", ",") for value in rng.random(60)], object)
    words[::4] = "<0,5"
    frame = pd.DataFrame({"crp": words, "y": np.where(np.arange(60) % 2, "a", "b")})
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";")
    rows = Experiment(str(tmp_path / "t.csv"), Settings(target="y")).rows
    for decimal in ("auto", ",", "."):
        mine = TablePreprocessor(decimal=decimal).fit(frame[["crp"]])
        assert mine.columns_[0].kind == "number"
        expected = fitted_to_schema(rows.schema, rows.X, scale=True).transform(rows.X)
        np.testing.assert_allclose(mine.transform(frame[["crp"]]), expected)
    # A later table with points, whose limits show no mark of their own.
    later = pd.DataFrame({"crp": ["<0.5", "0.25"]})
    commas = pd.DataFrame({"crp": ["<0,5", "0,25"]})
    for one in (TablePreprocessor(), TablePreprocessor(decimal=",")):
        one.fit(frame[["crp"]])
        np.testing.assert_allclose(one.transform(later), one.transform(commas))


def test_fit_warns_of_numbers_that_stand_for_missing_values():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(50, 5, 400), "b": rng.normal(size=400)})
    frame.loc[::40, "a"] = -999
    expected = r"column 'a' holds -999 in 10 cells, .* or use NaN instead of -999\."
    with pytest.warns(UserWarning, match=expected):
        TablePreprocessor().fit(frame)
    marked = TablePreprocessor(missing=["-999"]).fit(frame)  # without a warning
    assert marked.columns_[0].missing == 10
    gaps = frame.replace(-999, np.nan)
    np.testing.assert_array_equal(
        marked.transform(frame), TablePreprocessor().fit(gaps).transform(gaps)
    )
