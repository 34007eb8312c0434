"""files.fit and files.predict read tables as the command line does: the same options."""

import numpy as np
import pandas as pd
import pytest

from fuzzytwin import FuzzyTwinCommittee, FuzzyTwinSVC, cli, files

pytestmark = pytest.mark.filterwarnings("ignore::fuzzytwin.tables.TableWarning")
WORDS = {"sep": "|", "decimal": ",", "encoding": "utf-16-le", "missing": ["-9"]}


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    n = 90
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "cp": np.arange(n) % 4})
    frame["name"] = [f"p{i}" for i in range(n)]
    frame["useless"] = "x"
    frame["when"] = pd.date_range("2024-01-01", periods=n, freq="3D").strftime("%d.%m.%Y")
    frame["y"] = np.where(frame["a"] + frame["b"] + (frame["cp"] == 2) > 0, "yes", "no")
    frame.loc[::7, "b"] = -9
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False, sep="|", decimal=",", encoding="utf-16-le")
    return path


CHOICES = {"drop": ["useless"], "numeric": ["when"], "category": ["cp"]}


def fitted(data):
    model = FuzzyTwinCommittee(members="planes")
    return files.fit(model, data, target="y", id="name", **CHOICES, **WORDS)


def test_fit_reads_as_asked(data):
    model = fitted(data)
    kinds = {column.name: column.kind for column in model.preprocessor_.columns_}
    assert kinds == {
        "a": "number", "b": "number", "cp": "category", "name": "dropped", "useless": "dropped",
        "when": "number",
    }  # fmt: skip
    assert model.preprocessor_.columns_[1].missing == 13


def test_predictions_are_those_of_the_command_line(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["--sep", "|", "--decimal", ",", "--encoding", "utf-16-le", "--missing=-9"]
    choices = ["--drop", "useless", "--numeric", "when", "--category", "cp", "--id", "name"]
    assert cli.run(["train", "t.csv", "--target", "y", *words, *choices]) == 0
    model = FuzzyTwinCommittee()
    files.fit(model, data, target="y", id="name", **CHOICES, **WORDS)
    short = pd.read_csv(data, **{"sep": "|", "encoding": "utf-16-le"}, dtype=str)
    short.drop(columns="a").to_csv("new.csv", sep="|", index=False, encoding="utf-16-le")
    same = {"sep": "|", "encoding": "utf-16-le", "coverage": 0.8, "keep": "name"}
    rows = files.predict(model, "new.csv", "python.parquet", allow_missing=True, **same)
    command = ["predict", "t.skops", "new.csv", "--out", "command.parquet", "--coverage", "0.8"]
    assert (
        cli.run([*command, "--allow-missing", "--no-class-conditional", *words[:2], *words[4:6]])
        == 0
    )
    assert rows == 90
    pd.testing.assert_frame_equal(
        pd.read_parquet("python.parquet"), pd.read_parquet("command.parquet"), rtol=1e-9
    )


def test_what_is_missing_in_later_files_adds_to_that_of_training(data, tmp_path):
    model = fitted(data)
    new = pd.DataFrame({"a": [1.0, 1.0, 1.0], "b": [-9, "none yet", None], "cp": 1, "when": None})
    new.to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "out.parquet"
    files.predict(model, tmp_path / "new.csv", out, missing=["none yet"], decimal=".")
    assert pd.read_parquet(out)["probability_yes"].nunique() == 1


def test_absent_columns_and_options_that_do_not_apply_are_named(data, tmp_path):
    model = fitted(data)
    out = tmp_path / "out.csv"
    with pytest.raises(ValueError, match="no column 'a', which the model needs"):
        files.predict(model, pd.DataFrame({"b": [1.0], "cp": [1], "when": ["1.2.2024"]}), out)
    with pytest.raises(TypeError, match=r"drop='useless' is a string; give a list: \['useless'\]"):
        files.fit(FuzzyTwinCommittee(), data, target="y", drop="useless", **WORDS)
    with pytest.raises(ValueError, match="no column 'q'"):
        files.fit(FuzzyTwinCommittee(), data, target="y", category=["q"], **WORDS)
    with pytest.raises(ValueError, match=r"category=\['cp'\] is for FuzzyTwinCommittee"):
        files.fit(FuzzyTwinSVC(), data, target="y", category=["cp"], **WORDS)
    X, y = np.eye(4), [0, 1, 0, 1]
    with pytest.raises(ValueError, match="sep=';' is for tables; these batches are arrays"):
        files.fit(FuzzyTwinSVC(), [(X, y)], sep=";")
    planes = FuzzyTwinSVC().fit(X, y)
    with pytest.raises(ValueError, match=r"coverage=0\.9 needs a model with prediction sets"):
        files.predict(planes, [X], out, coverage=0.9)
    with pytest.raises(ValueError, match="allow_missing=True needs a model that was fitted to a"):
        files.predict(planes, [X], out, allow_missing=True)
    assert not out.exists()


def test_sets_of_arrays_are_those_of_the_model(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = X[:, 0] > 0
    model = FuzzyTwinCommittee(members="planes").fit(X, y)
    files.predict(model, [X[:40], X[40:]], tmp_path / "p.parquet", coverage=0.9)
    sets = pd.read_parquet(tmp_path / "p.parquet")["set"]
    expected = ["|".join(map(str, model.classes_[row])) for row in model.predict_set(X, 0.9)]
    assert sets.tolist() == expected


def test_numeric_columns_of_planes(tmp_path):
    frame = pd.DataFrame({"zip": [f"{i:05}" for i in range(60)], "a": np.arange(60) % 7.0})
    frame["y"] = np.arange(60) % 2
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(UserWarning, match="not numeric are not used: 'zip'"):
        model = files.fit(FuzzyTwinSVC(), tmp_path / "t.csv", target="y")
    assert model.n_features_in_ == 1
    for choice, features in (
        ({"numeric": ["zip"]}, ["zip", "a"]),
        ({"features": ["a", "zip"]}, ["a", "zip"]),
        ({"drop": ["zip"]}, ["a"]),
    ):
        model = files.fit(FuzzyTwinSVC(), tmp_path / "t.csv", target="y", **choice)
        assert model.feature_names_in_.tolist() == features
