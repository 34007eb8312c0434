"""What files say of themselves beside their rows: the index of a pandas frame, partitions."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from pyarrow import dataset

from fuzzytwin import FuzzyTwinSVC, cli, files
from fuzzytwin.tables import read_table
from tests.cli.helpers import QUICK

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
pq = pytest.importorskip("pyarrow.parquet")


def noise(n=400, seed=0):
    """Columns that say nothing of the labels, which are sorted; some rows are taken out."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    return frame.assign(y=np.repeat(["no", "yes"], n // 2))[rng.random(n) < 0.7]


def write(frame, path):
    table = pa.Table.from_pandas(frame)
    if path.suffix == ".arrow":  # the stream format
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table)
    else:
        (pq.write_table if path.suffix == ".parquet" else feather.write_feather)(table, str(path))
    return path


@pytest.mark.parametrize("ending", ["parquet", "feather", "arrow"])
@pytest.mark.parametrize("name", [None, "visit"])
def test_the_index_of_a_pandas_frame_is_not_learned_from(tmp_path, ending, name):
    frame = noise().rename_axis(name)
    path = write(frame, tmp_path / f"t.{ending}")
    model = files.fit(FuzzyTwinSVC(), path, target="y")
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    without = frame.reset_index(drop=True)
    files.find_label_issues(path, tmp_path / "d.csv", target="y")
    files.find_label_issues([without], tmp_path / "e.csv", target="y")
    found, other = (pd.read_csv(tmp_path / f"{which}.csv") for which in "de")
    assert_array_equal(found["label_quality"], other["label_quality"])
    unnamed = FuzzyTwinSVC().fit(frame[["a", "b", "c"]].to_numpy(), frame["y"])
    write(frame.drop(columns="y"), path)
    files.predict(unnamed, path, tmp_path / "p.csv")
    assert_array_equal(
        pd.read_csv(tmp_path / "p.csv")["label"], model.predict(without[list("abc")])
    )


def test_the_index_of_a_pandas_frame_is_not_learned_from_in_batches():
    table = pa.Table.from_pandas(noise())
    model = files.fit(FuzzyTwinSVC(), [table[:150], table[150:]], target="y")
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    bare = table.replace_schema_metadata(None)  # as other tools write it again
    model = files.fit(FuzzyTwinSVC(), [bare], target="y")
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]


def test_an_index_is_read_where_it_is_named(tmp_path):
    frame = noise().rename_axis("visit")
    path = write(frame, tmp_path / "t.parquet")
    model = files.fit(FuzzyTwinSVC(), path, target="y", features=["a", "visit"])
    assert model.feature_names_in_.tolist() == ["a", "visit"]
    files.find_label_issues(path, tmp_path / "d.parquet", target="y", id="visit")
    assert_array_equal(pd.read_parquet(tmp_path / "d.parquet")["id"], frame.index)


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_train_leaves_out_the_index_of_a_pandas_frame(tmp_path, capsys, stream):
    frame = noise().set_index(np.repeat(np.arange(500), 2)[: len(noise())])
    for number, indexed in enumerate([noise(), frame]):
        path = write(indexed, tmp_path / f"t{number}.parquet")
        out = tmp_path / f"{number}.skops"
        assert not cli.run(
            ["train", str(path), "--target", "y", "--out", str(out), "--json", stream, *QUICK]
        )
        columns = json.loads(capsys.readouterr().out)["schema"]["columns"]
        assert [(c["name"], c["kind"]) for c in columns] == [
            ("a", "number"), ("b", "number"), ("c", "number"),
            ("__index_level_0__", ["id", "dropped"][number]),
        ]  # fmt: skip
        assert columns[3]["findings"][0]["code"] == "index"


def partitioned(folder, ending="parquet"):
    """Write a frame with columns of folders, whose values tell the labels."""
    rng = np.random.default_rng(0)
    year, site = rng.integers(2019, 2022, 300), rng.choice(["a b", "ü/1"], 300)
    frame = pd.DataFrame({"a": rng.normal(size=300), "year": year, "site": site})
    frame["y"] = np.where(year > 2019, "new", "old")
    if ending == "parquet":
        frame.to_parquet(folder, partition_cols=["year", "site"])
    else:
        for (when, where), part in frame.groupby(["year", "site"]):
            below = folder / f"year={when}" / f"site={where.replace('/', '%2F')}"
            below.mkdir(parents=True)
            part[["a", "y"]].to_csv(below / "part.csv", index=False)
    return frame


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_columns_of_hive_partitions_are_kept(tmp_path, ending):
    partitioned(tmp_path / "t", ending)
    stored = dataset.dataset(tmp_path / "t", format=ending, partitioning="hive")
    frame = stored.to_table().to_pandas()
    with pytest.warns(UserWarning, match="not numeric are not used: 'site'"):
        model = files.fit(FuzzyTwinSVC(), tmp_path / "t", target="y")
    assert model.feature_names_in_.tolist() == ["a", "year"]
    other = FuzzyTwinSVC().fit(frame[["a", "year"]], frame["y"])
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-9)
    files.predict(model, tmp_path / "t", tmp_path / "p.parquet", keep=["year", "site"])
    written = pq.read_table(tmp_path / "p.parquet")
    for name in ("year", "site"):  # int32 and text, as Arrow infers them
        assert written.schema.field(name).type == stored.schema.field(name).type
        assert written.column(name).to_pylist() == frame[name].tolist()
    one = sorted((tmp_path / "t").glob("year=2020/*/*"))[0]
    assert files.predict(model, one, tmp_path / "one.csv", keep="year") > 0
    assert set(pd.read_csv(tmp_path / "one.csv")["year"]) == {2020}


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_column_of_the_file_comes_before_one_of_the_folder(tmp_path, ending):
    for year in (2020, 2021):
        below = tmp_path / f"year={year}"
        below.mkdir()
        frame = pd.DataFrame({"a": [1.0, 2.0], "year": [year, year]})
        frame.to_csv(below / "t.csv", index=False) if ending == "csv" else write(
            frame, below / "t.parquet"
        )
    cells = read_table(tmp_path).read().cells
    years = [int(year) for year in cells.column("year").to_pylist()]
    assert (cells.schema.names, years) == (["a", "year"], [2020, 2020, 2021, 2021])


def test_a_folder_that_is_the_same_for_all_files_is_no_column(tmp_path):
    below = tmp_path / "run=5"
    below.mkdir()
    write(noise(), below / "t.parquet")
    model = files.fit(FuzzyTwinSVC(), below / "t.parquet", target="y")
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]


def test_a_partition_without_a_value_is_missing(tmp_path):
    for word, label in (("1", "x"), ("__HIVE_DEFAULT_PARTITION__", "z")):
        below = tmp_path / "t" / f"k={word}"
        below.mkdir(parents=True)
        pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": label}).to_csv(below / "p.csv", index=False)
    with pytest.raises(ValueError, match="row 2: column 'k' has no value"):
        files.fit(FuzzyTwinSVC(), tmp_path / "t", target="y")
