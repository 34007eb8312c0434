"""Notices about tables that read well but may not mean what they seem to."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from fuzzytwin.datasets import list_uci, load_uci
from fuzzytwin.tables import TableSchema, describe, read_table
from fuzzytwin.tables._checks import check_table, sentinels

pa = pytest.importorskip("pyarrow")


def noticed(frame, y):
    batch = read_table(frame).read()
    schema = TableSchema.infer(batch)
    found = check_table(schema.decode(batch).X, np.asarray(y), schema, grouped=False)
    return [describe(finding, full=True) for finding in found]


def described(name, values):
    return [describe(finding, full=True) for finding in sentinels(name, values)]


def plain(n=200, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, "yes", "no")
    shift = (y == "yes") * 1.0
    return pd.DataFrame({"a": rng.normal(shift), "b": rng.normal(50, 10, n).round()}), y


def test_an_ordinary_table_has_none():
    assert noticed(*plain()) == []
    for load in (load_iris, load_breast_cancer):
        X, y = load(return_X_y=True, as_frame=True)
        assert noticed(X, y) == []


@pytest.mark.slow
def test_known_tables_have_hardly_any():
    for name in list_uci():
        X, y = load_uci(name, return_X_y=True, as_frame=True)
        assert len(noticed(pd.DataFrame(X), y)) <= 1, name


def test_a_sentinel_in_many_cells_is_named():
    frame, y = plain()
    frame.loc[::7, "a"] = -999
    frame.loc[5, "b"] = 999  # one cell is no habit
    (notice,) = noticed(frame, y)
    assert notice.startswith("column 'a' holds -999 in 29 cells")
    frame, y = plain()
    frame["b"] += 50
    frame.loc[::7, "b"] = 99  # among the others
    assert noticed(frame, y) == []


@pytest.mark.parametrize(("mark", "cells"), [(-999, 25), (9999, 25), (-9, 5), (-99.9, 4)])
def test_a_sentinel_in_few_of_many_cells_is_named(mark, cells):
    """25 of 4,190 cells are 0.6 %."""
    rng = np.random.default_rng(0)
    others = {
        "normal": rng.normal(50, 10, 4190).round(1),
        "tailed": rng.lognormal(3, 1, 4190).round(1),
        "counts": rng.poisson(30, 4190) + 1.0,
        "zeros": np.where(rng.random(4190) < 0.8, 0, rng.lognormal(3, 1, 4190).round()),
    }
    for name, values in others.items():
        assert list(sentinels(name, values)) == []
        values[rng.choice(4190, cells, replace=False)] = mark
        (notice,) = described(name, values)
        assert notice.startswith(f"column {name!r} holds {mark} in {cells} cells, far from all")
        assert notice.endswith(f"or use NaN instead of {mark}")


def test_neighbouring_and_several_sentinels_are_named():
    values = np.random.default_rng(0).normal(50, 10, 2000).round(1)
    values[:20], values[20:30], values[30:33], values[33] = 999, 998, -99, 997
    named = [re.search("holds (.*?) cells", notice)[1] for notice in described("a", values)]
    assert named == ["-99 in 3", "999 in 20", "998 in 10"]
    values[:33] = np.repeat(1e30, 33)
    assert "holds 1e+30 in 33 cells" in described("a", values)[0]


def test_heavy_tails_and_zeros_are_no_sentinels():
    rng = np.random.default_rng(0)
    for _ in range(100):
        n = int(rng.choice([50, 200, 1000, 4000]))
        columns = (
            rng.poisson(rng.lognormal(1, 2), n),
            rng.lognormal(3, 2, n).round(),
            rng.lognormal(8, 2, n).round(-2),
            (10 * rng.pareto(1, n)).round(),
            rng.standard_cauchy(n).round(),
            rng.negative_binomial(1, 0.05, n),
            rng.integers(0, 100, n),
            np.where(rng.random(n) < 0.8, 0, rng.normal(100, 5, n)),
            np.where(rng.random(n) < 0.8, 0, rng.lognormal(4, 1, n).round()),
        )
        for values in columns:
            assert list(sentinels("a", values.astype(float))) == []


def test_numbers_beyond_single_precision_are_looked_at():
    frame, y = plain()
    frame["big"] = 1e300 * np.random.default_rng(0).normal(size=200)
    assert noticed(frame, y) == []
    frame["told"] = np.where(y == "yes", 1e39, -1e39) * (1 + np.arange(200) / 1000)
    (notice,) = noticed(frame, y)
    assert notice.startswith("column 'told' by itself gives a balanced accuracy of 1.00")


def test_record_numbers_are_named():
    frame, y = plain()
    rng = np.random.default_rng(1)
    frame["chart"] = rng.choice(np.arange(100_000, 900_000), 200, replace=False)
    (notice,) = noticed(frame, y)
    assert "column 'chart' is a unique integer in every row" in notice
    assert "drop=['chart']" in notice
    frame["chart"] = np.sort(rng.choice(5000, 200, replace=False))
    assert len(noticed(frame, y)) == 1


@pytest.mark.parametrize("kind", ["number", "text"])
def test_a_column_that_gives_the_label_away_is_named(kind):
    frame, y = plain()
    leak = (y == "yes") * 1.0
    leak[[3, 77]] = 1 - leak[[3, 77]]
    if kind == "number":
        leak = leak + np.random.default_rng(0).random(200) / 2
    frame["discharged"] = leak if kind == "number" else np.where(leak > 0, "home", "ward")
    (notice,) = noticed(frame, y)
    assert notice.startswith("column 'discharged' by itself gives a balanced accuracy of 0.9")


def test_spellings_of_one_label_are_named():
    frame, y = plain()
    y = y.astype(object)
    y[:20:2], y[1:20:2] = "YES", "Yes "
    (notice,) = noticed(frame, y)
    assert "'YES', 'Yes ' and 'yes' differ only in case or spaces" in notice
    assert "3 classes" in notice


def test_spellings_of_a_label_do_not_hide_a_leak():
    frame, y = plain()
    frame["discharged"] = np.where(y == "yes", 1.0, 0.0) + np.random.default_rng(0).random(200) / 2
    y = y.astype(object)
    y[::3] = [label.upper() for label in y[::3]]
    assert any("column 'discharged' by itself gives" in notice for notice in noticed(frame, y))


@pytest.mark.parametrize("names", ["p{:03d}", "{}"])
def test_a_column_that_rows_belong_together_by_is_named(names):
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(60), 4)
    label = rng.integers(0, 2, 60)[patient]
    frame = pd.DataFrame({"a": rng.normal(size=240), "who": [names.format(i) for i in patient]})
    (text,) = noticed(frame, label)
    assert text.startswith("column 'who' has 60 values, most of them in several rows")
    assert text.endswith("set groups=X['who']")
    label[5] = 1 - label[5]
    assert noticed(frame, label) == []


def test_values_of_a_date_are_counted_without_gaps():
    days = pd.date_range("2020-01-01", periods=40).strftime("%Y-%m-%d").tolist()
    table = pa.table({"day": [*days[:7], None, *days[8:]], "code": [1, 2, 4, 5] * 10})
    day, code = TableSchema.infer(read_table(table).read()).columns
    assert (day.kind, day.distinct, day.missing) == ("date", 39, 1)
    assert (code.kind, code.note) == (
        "number",
        "4 different whole numbers; if they are codes, use TablePreprocessor(category=['code'])",
    )
