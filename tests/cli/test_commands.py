"""The commands in the order in which users run them."""

import io
import json
import re

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from sklearn.base import clone

from fuzzytwin import demo, store
from fuzzytwin.datasets import list_uci, load_uci
from tests.cli.helpers import QUICK, TARGETS, some, table

# From training to prediction


def walk(run, name, *words):
    """From training to ONNX."""
    data = load_uci(name).filename
    run("train", data, "--target", TARGETS[name], *words)
    told = store.read_metadata(f"{name}.skops")["metadata"]["score"]
    assert told["accuracy"] > min(0.55, told["baseline"] + 0.0)
    low, high = told["balanced_accuracy_interval"]
    assert low < told["balanced_accuracy"] < high < low + 0.3
    assert "accuracy" in run("evaluate", f"{name}.skops", data)
    lines = run("predict", f"{name}.skops", data).splitlines()
    frame = pd.read_csv(data)
    assert len(lines) == len(frame) + 1
    run("export", f"{name}.skops", f"{name}.onnx")
    session = onnxruntime.InferenceSession(f"{name}.onnx")
    names = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    feed = {
        entry.name: frame[[column]].fillna("").to_numpy(object)
        if entry.type == "tensor(string)"
        else frame[[column]].to_numpy(np.float64)
        for entry, column in zip(session.get_inputs(), names, strict=True)
    }
    label, memberships = session.run(None, feed)
    rows = [line.split(",") for line in lines[1:]]
    assert [str(value) for value in label] == [row[0] for row in rows]
    np.testing.assert_allclose(memberships, [list(map(float, row[1:])) for row in rows], atol=1e-6)


def test_from_training_to_onnx(run):
    walk(run, "heart_statlog")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(list_uci()) - {"heart_statlog"}))
def test_every_table_from_training_to_onnx(run, name):
    walk(run, name, "--folds", 3)


def test_train_says_what_it_did(run, folder):
    rng = np.random.default_rng(0)
    data = table(
        "t.csv",
        **some(),
        town=rng.choice(["Oslo", "Rom"], 60),
        code=rng.choice([1, 2, 3], 60),
        name=[f"person {i}" for i in range(60)],
        same=np.ones(60),
        gap=np.where(np.arange(60) % 3, 1.5 * np.arange(60), np.nan),
    )
    out = run("train", data, "--target", "y", *QUICK, "--drop", "b", "--report", "r.html")
    assert re.search(r"^model\s+committee of \d+, 60 landmarks", out, re.M)
    for column, kind in {
        "a": "number", "town": "category", "code": "number", "gap": "number",
        "name": "id", "same": "number", "b": "dropped",
    }.items():  # fmt: skip
        assert re.search(rf"^{column}\s+{kind}", out, re.M), (column, out)
    assert "missing values replaced by the median" in out
    assert "not used as a feature" in out
    assert "accuracy" in out
    assert max(map(len, out.splitlines())) <= 80
    assert sorted(p.name for p in folder.iterdir()) == ["r.html", "t.csv", "t.skops"]
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "Labels to review" in page
    assert not re.search(r"(src|href)=.?https?:", page)  # nothing from the network


def test_the_progress_line_is_erased_after_the_report(run, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stderr", stderr := Terminal())
    run("train", table("t.csv", **some()), "--target", "y", *QUICK, "--report", "r.html")
    assert "leave-one-out predictions" in stderr.getvalue()
    assert stderr.getvalue().rpartition("\r")[0].endswith("  ")  # blanks, and back to the start
    assert stderr.getvalue().endswith("\r")


def test_json_for_machines(run):
    data = table("t.csv", **some())
    told = json.loads(run("train", data, "--target", "y", *QUICK, "--json"))
    assert told["rows"] == 60
    assert told["score"]["accuracy"] <= 1
    assert json.loads(run("evaluate", "t.skops", data, "--json"))["rows"] == 60
    assert len(json.loads(run("predict", "t.skops", data, "--json"))) == 60
    assert json.loads(run("explain", "t.skops", "--json"))["classes"][0]["class"] == "no"
    assert json.loads(run("info", "t.skops", "--json"))["metadata"]["target"] == "y"
    assert "fuzzytwin" in json.loads(run("info", "--json"))["versions"]
    assert json.loads(run("export", "t.skops", "t.onnx", "--json"))["outputs"][0] == "label"


def test_text_stays_text_where_new_rows_look_like_numbers(run):
    columns = some()
    columns["zip"] = np.array(["1", "2", "x"], dtype=object)[np.arange(60) % 3]
    run("train", table("t.csv", **columns), "--target", "y", *QUICK)
    full = run("predict", "t.skops", "t.csv").splitlines()
    part = {name: np.asarray(values)[:2] for name, values in columns.items()}
    assert run("predict", "t.skops", table("new.csv", **part)).splitlines() == full[:3]


def test_weights_and_degrees(run):
    data = table("d.csv", **some(), degree=np.linspace(0.5, 1, 60))
    assert "membership   degree" in run(
        "train", data, "--target", "y", "--degree", "degree", *QUICK
    )
    columns = {**some(), "w": np.arange(60) % 3}
    told = run("train", table("w.csv", **columns), "--target", "y", "--weight", "w", *QUICK)
    assert not re.search(r"^w ", told, re.M)
    model = store.load("w.skops")
    X = model[:-1].transform(pd.read_csv("w.csv")[["a", "b"]])
    expected = clone(model[-1]).fit(X, columns["y"], sample_weight=columns["w"])
    assert model[-1].loo_log_loss_ == pytest.approx(expected.loo_log_loss_)


def test_explain_and_info(run):
    columns = some()
    run("train", table("t.csv", **columns), "--target", "y", *QUICK)
    out = run("explain", "t.skops", "--limit", 1)
    assert re.search(r"^a \(\+[\d.]+\)\s+[+-]0\.\d+", out, re.M)  # b is noise
    assert "t.csv, 60 rows" in run("info", "t.skops")
    assert "bundled datasets" in run("info")


def test_explain_shows_digits_of_small_effects(run):
    rng = np.random.default_rng(0)
    y = [f"c{k}" for k in np.arange(200) % 20]
    data = table(
        "t.csv", y=y, **{f"x{j}": rng.normal(np.arange(200) % 20 / 4).tolist() for j in range(4)}
    )
    run("train", data, "--target", "y", *QUICK)
    effects = re.findall(r"^x\d \(\S+\)\s+([+-]0\.\d+)", run("explain", "t.skops"), re.M)
    assert len(effects) == 80
    assert np.mean([float(effect) == 0 for effect in effects]) <= 0.05


def test_explain_without_and_with_rows(run):
    data = table("t.csv", **some())
    run("train", data, "--target", "y", *QUICK)
    held_out, at_rows = (
        json.loads(run("explain", "t.skops", *words, "--json"))["classes"] for words in ([], [data])
    )
    for before, after in zip(held_out, at_rows, strict=True):
        effects = [{c["name"]: c["effect"] for c in e["columns"]} for e in (before, after)]
        assert effects[0]["a"] == pytest.approx(effects[1]["a"], rel=0.3)
    model = store.load("t.skops")
    store.save(model, "bare.skops")
    assert "explain bare.skops DATA" in run("explain", "bare.skops", code=2)


def test_explain_keeps_the_values_of_long_names(run):
    columns = {**some(), "a-column-with-a-name-that-is-long-to-read": ["u", "v", "w"] * 20}
    run("train", table("t.csv", **columns), "--target", "y", *QUICK)
    out = run("explain", "t.skops")
    for value in "uvw":
        assert re.search(rf"^a-co\S+\.\.\.\S+read: {value} \(vs others\) ", out, re.M), out


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_generate(run, folder, ending):
    assert "--target disease --id patient" in run("generate", "patients", f"t.{ending}")
    reader = {"csv": pd.read_csv, "parquet": pd.read_parquet, "feather": pd.read_feather}[ending]
    frame = reader(folder / f"t.{ending}")
    assert len(frame) == 303
    assert set(frame["disease"]) == {"no", "yes"}


@pytest.fixture(scope="module")
def found_by_demo():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "FOLDS", 2)
        patch.setattr(demo, "TABLES", {"sonar": "sonar"})
        return demo.run(lambda what: None)


def leads(losses):
    ours, *others = losses.values()
    assert len(others) == 3
    return ours < min(others)


@pytest.mark.slow
def test_demo_as_it_is_shown():
    found, _ = demo.run(lambda what: None)
    assert all(leads(losses) for losses in found["log_loss"].values())


@pytest.fixture
def quick_demo(monkeypatch, found_by_demo):
    monkeypatch.setattr(demo, "run", lambda step: found_by_demo)


def test_demo_shows_its_best_and_says_what_is_next(run, folder, quick_demo):
    found = json.loads(run("demo", "--json"))
    assert leads(found["log_loss"]["clean"])
    issues = found["label_issues"]
    assert issues["flipped"] == 57
    assert issues["hits"] >= 45
    assert issues["flagged"] <= 60
    assert found["row"]["set"] == "malignant or benign"
    assert (folder / "fuzzytwin-demo.png").read_bytes().startswith(b"\x89PNG")
    before = (folder / "fuzzytwin-demo.png").stat().st_mtime_ns
    run("demo")  # replaces its own picture, and no other
    assert (folder / "fuzzytwin-demo.png").stat().st_mtime_ns > before
    assert "already exists" in run("demo", "--out", "fuzzytwin-demo.png", code=2)


def test_demo_in_words(run, capsys, monkeypatch, quick_demo):
    monkeypatch.setattr("sys.argv", ["fuzzytwin.demo"])
    out = run("demo", "--out", "p.png")
    capsys.readouterr()
    demo.main()  # writes fuzzytwin-demo.png
    for text in (out, capsys.readouterr().out):
        assert max(map(len, text.splitlines())) <= 80
        assert re.search(r"57 labels flipped: \d+ label issues", " ".join(text.split()))
        assert "Try next" in text
        assert "fuzzytwin train DATA.csv --target COLUMN --report report.html" in text
