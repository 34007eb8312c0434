"""Any table, in any kind of file: the same rows, the same model, its own labels back."""

import gzip
import json

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from sklearn.pipeline import Pipeline

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.experiment._experiment import Experiment
from fuzzytwin.experiment._rows import Settings, labelled_rows
from fuzzytwin.tables._preprocessor import fitted_to_schema
from fuzzytwin.tables._schema import TableSchema

LETTERS = "abcXYZäöüé 0159.,;|\t\"'+-=<>%#/_\n?"
WORDS = st.text(st.sampled_from(LETTERS), min_size=1, max_size=6)
# What an apostrophe before these says is that they are no formulas: it is taken away in CSV files.
SAFE = WORDS.filter(lambda word: not word.strip().startswith("'"))
FLOATS = st.floats(-1e6, 1e6) | st.floats(-1e99, 1e99)
INTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)


@st.composite
def columns(draw, n, gaps=True):
    """A column of n cells of some kind, as pandas has it."""
    kind = draw(st.sampled_from(["floats", "ints", "codes", "words", "names", "flags", "dates",
                                 "same", "numbers", "cells"]))  # fmt: skip
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    gap = rng.random(n) < draw(st.sampled_from([0.0, 0.0, 0.1, 0.6])) * gaps
    if kind == "floats":
        few = draw(st.lists(FLOATS, min_size=1, max_size=n))
        values = np.where(rng.random(n) < 0.5, rng.normal(size=n), rng.choice(few, n))
    elif kind in ("ints", "codes"):
        few = draw(st.lists(INTS, min_size=1, max_size=n if kind == "ints" else 6))
        values = rng.choice(np.array(few, dtype=np.int64), n)
        if gap.any():  # pandas would make floats of them
            return pd.Series(values).astype("Int64").mask(gap)
        return pd.Series(values)
    elif kind == "numbers":
        return pd.Series(np.arange(n) + draw(st.integers(0, 3)))
    elif kind == "flags":
        values = (rng.random(n) < 0.5).astype(object)
        return pd.Series(values).mask(gap, None).astype("boolean")
    elif kind == "dates":
        days = rng.integers(0, 10_000, n) * 86_400
        return pd.Series(pd.to_datetime(days, unit="s")).mask(gap)
    elif kind == "same":
        values = np.full(n, draw(SAFE | FLOATS))
    else:
        few = draw(st.lists(SAFE, min_size=1, max_size=4))
        if kind == "names":
            few = [f"{few[0]}{i}" for i in range(n)]
        elif kind == "cells":  # numbers as laboratories write them
            few = [f"{value:.3g}" for value in rng.normal(size=9 * n)] + [
                "<0.5",
                "12 %",
                "-",
                "n.a.",
            ]
        values = rng.choice(np.array(few, dtype=object), n)
    values = pd.Series(values)
    return values.mask(gap, np.nan if values.dtype.kind == "f" else None)


@st.composite
def tables(draw):
    """A table with a target y."""
    n = draw(st.integers(6, 40))
    names = draw(st.lists(SAFE.map(str.strip).filter(lambda w: w not in ("", "y")),
                          min_size=1, max_size=4, unique=True))  # fmt: skip
    frame = pd.DataFrame({name: draw(columns(n)) for name in names})
    labels = draw(st.one_of(
        st.lists(SAFE, min_size=2, max_size=3, unique=True),
        st.lists(INTS, min_size=2, max_size=3, unique=True),
        st.lists(FLOATS, min_size=2, max_size=3, unique=True),
        st.just([False, True]),
    ))  # fmt: skip
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    y = pd.Series([labels[k] for k in rng.integers(0, len(labels), n)])
    if isinstance(labels[0], str) and rng.random() < 0.3:
        y = y.mask(rng.random(n) < 0.1, None)
    frame.insert(draw(st.integers(0, len(names))), "y", y)
    return frame.assign(anchor=rng.normal(size=n))  # some column to learn from


@st.composite
def forms(draw):
    """Ways to write a table: the ending of a file, and options of `write`."""
    kind = draw(st.sampled_from(["csv"] * 5 + ["tsv", "csv.gz", "parquet", "feather"]))
    if kind in ("parquet", "feather"):
        return kind, {}
    options = {
        "sep": "\t" if kind == "tsv" else draw(st.sampled_from(",;\t|")),
        "lineterminator": draw(st.sampled_from(["\n", "\r\n", "\r"])),
        "quoting": draw(st.sampled_from([0, 1, 2])),
        "encoding": draw(st.sampled_from(["utf-8", "utf-8-sig", "cp1252", "utf-16"])),
        "decimal": draw(st.sampled_from([".", ","])),
    }
    if options["lineterminator"] == "\r" and options["quoting"] == 0:
        options["quoting"] = 2  # or Python 3.11 leaves cells with \n in them bare
    return kind, options


def write(frame, path, kind, options):
    path = f"{path}.{kind}"
    if options.get("decimal") == "," and any(map(marked, frame.columns.map(frame.get))):
        options = {**options, "decimal": "."}  # or the file would have two marks
    if kind == "parquet":
        frame.to_parquet(path)
    elif kind == "feather":
        frame.to_feather(path)
    else:
        text = frame.to_csv(index=False, **{k: v for k, v in options.items() if k != "encoding"})
        data = text.encode(options["encoding"])
        with open(path, "wb") as file:
            file.write(gzip.compress(data) if kind.endswith("gz") else data)
    return path


def marked(column):
    """Whether texts hold decimals."""
    texts = column.dtype == object or pd.api.types.is_string_dtype(column)
    return texts and column.astype(str).str.contains(r"\d?[.,]\d").any()


PLAIN = ("csv", {"encoding": "utf-8"})
ASKED = Settings("y", folds=2)


def outcome(path):
    """Rows of a file, or what is wrong with it."""
    try:
        return Experiment(path, ASKED).rows
    except ValueError as error:
        return str(error).replace(path, "FILE")


def fitted(rows):
    prepare = fitted_to_schema(rows.schema, rows.X, scale=True)
    model = FuzzyTwinSVC().fit(prepare.transform(rows.X), rows.y)
    return Pipeline([("prepare", prepare), ("model", model)])


def check(frame, form, folder):
    plain, other = write(frame, folder / "plain", *PLAIN), write(frame, folder / "other", *form)
    one, two = outcome(plain), outcome(other)
    if isinstance(one, str) or isinstance(two, str):
        errors = [result for result in (one, two) if isinstance(result, str)]
        assert len(errors) == 2, errors
        return
    kinds = [[(c.name, c.kind) for c in rows.schema.columns] for rows in (one, two)]
    assert kinds[0] == kinds[1]
    pd.testing.assert_frame_equal(one.X, two.X, check_exact=True)
    if frame["y"].dtype.kind != "f":  # or their decimal mark is part of the spelling
        np.testing.assert_array_equal(one.y, two.y)
    model = fitted(one)
    np.testing.assert_array_equal(fitted(two)[-1].coef_, model[-1].coef_)
    schema = TableSchema.from_dict(json.loads(json.dumps(one.schema.to_dict())))
    for path, mark in ((plain, "."), (other, form[1].get("decimal"))):
        rows = labelled_rows(path, schema, decimal=mark)
        assert not any(finding.code == "unknown_category" for finding in rows.findings)
        pd.testing.assert_frame_equal(rows.X, one.X, check_exact=True)
        np.testing.assert_array_equal(rows.y.astype(str), one.y.astype(str))
        assert set(rows.y.astype(str)) == set(model.classes_.astype(str))


LOOSE = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large,
         HealthCheck.filter_too_much]  # fmt: skip


@settings(max_examples=15, deadline=None, suppress_health_check=LOOSE, derandomize=True)
@given(frame=tables(), form=forms())
def test_any_file_of_a_table_is_the_same_table(tmp_path, frame, form):
    check(frame, form, tmp_path)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=LOOSE)
@given(frame=tables(), form=forms())
def test_hundreds_of_tables(tmp_path, frame, form):
    check(frame, form, tmp_path)
