"""Every table comes through one reader and one schema, whatever model learns from it."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fuzzytwin import FuzzyTwinCommittee, FuzzyTwinSVC, files
from tests.files.helpers import FEATURES, batches_of, fails, make_table, write


@pytest.fixture
def mixed():
    frame = make_table(400, K=2)[[*FEATURES, "y"]]
    ward = np.where(frame["y"] == "a", "north", "south")
    ward[::7] = "east"
    frame.loc[5, "x2"] = np.nan
    return frame.assign(ward=ward)


@pytest.mark.parametrize("form", ["csv", "function"])
def test_a_committee_takes_some_of_the_columns(mixed, form, tmp_path):
    names = ["x0", "x2", "ward"]
    expected = FuzzyTwinCommittee(members="planes").fit(mixed[names], mixed["y"].to_numpy(str))
    source = write(mixed, form, tmp_path)
    model = files.fit(FuzzyTwinCommittee(members="planes"), source, target="y", features=names)
    used = [c["name"] for c in model.preprocessor_.schema_["columns"] if c["kind"] != "dropped"]
    assert used == names
    X = mixed.drop(columns="y")
    assert_allclose(model.predict_proba(X), expected.predict_proba(mixed[names]), atol=1e-9)


def test_embeddings_are_columns_of_numbers(tmp_path):
    frame = make_table(300, K=2)
    table = pd.DataFrame({"v": list(frame[FEATURES].to_numpy()), "y": frame["y"], "w": frame["w"]})
    table.to_parquet(tmp_path / "t.parquet")
    names = [f"v_{j}" for j in range(len(FEATURES))]
    expected = FuzzyTwinSVC().fit(frame[FEATURES].to_numpy(), frame["y"].to_numpy(str))
    for features in (["v"], names):
        model = files.fit(
            FuzzyTwinSVC(), tmp_path / "t.parquet", target="y", features=features, batch_rows=90
        )
        assert_array_equal(model.feature_names_in_, names)
        assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    files.predict(model, tmp_path / "t.parquet", tmp_path / "p.parquet", batch_rows=90)
    found = pd.read_parquet(tmp_path / "p.parquet")["label"]
    assert_array_equal(found, expected.predict(frame[FEATURES].to_numpy()))


def test_rows_without_embeddings_are_named(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"v": list(rng.normal(size=(60, 2))), "y": np.arange(60) % 2})
    table["v"] = table["v"].where(table.index < 40, None)
    for batch_rows in (20, 50):
        text = r"row 41: column 'v_0' has no value; fill in"
        fails(text, [table], features=None, batch_rows=batch_rows)


def test_planes_name_the_column_and_who_takes_it(mixed, tmp_path):
    for form in ("csv", "parquet"):
        source = write(mixed, form, tmp_path)
        row = 7 if form == "csv" else 6
        text = rf"row {row}: column 'x2' has no value; fill in .*FuzzyTwinCommittee and TablePre"
        fails(text, source, features=FEATURES)
        fails(
            r"column 'ward' holds text, not numbers; .*FuzzyTwinCommittee.*TablePre",
            source,
            features=["x0", "ward"],
        )


def test_frames_that_are_given_once_lose_no_rows(tmp_path):
    frame = make_table()
    model = FuzzyTwinSVC().fit(frame[FEATURES], frame["y"].to_numpy(str))
    once = iter(batches_of(frame))
    assert files.predict(model, once, tmp_path / "out.parquet") == len(frame)
    found = pd.read_parquet(tmp_path / "out.parquet")["label"]
    assert_array_equal(found, model.predict(frame[FEATURES]))
