"""The command line, walked as a user walks it; and tables that cannot be used."""

import gzip
import json
import re
import subprocess
import sys

import numpy as np
import onnxruntime
import pandas as pd
import pytest

import fuzzytwin
from fuzzytwin import cli, store
from fuzzytwin.datasets import list_uci, load_uci

TARGETS = {
    "australian": "class", "bupa": "selector", "cmc": "Contraceptive_method",
    "heart_cleveland": "class", "heart_statlog": "class", "hepatitis": "class", "pima": "Class",
    "sonar": "class", "votes": "party", "wpbc": "outcome",
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def run(capsys):
    def call(*words, code=0):
        capsys.readouterr()
        got = cli.run([str(word) for word in words])
        out, err = capsys.readouterr()
        assert got == code, (got, out, err)
        assert "\x1b" not in out + err  # colours are for terminals
        return err if code else out

    return call


def table(file, **columns):
    pd.DataFrame(columns).to_csv(file, index=False)
    return file


def some(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return {"a": rng.normal(y, 1.0, n), "b": rng.normal(0, 1, n), "y": np.where(y, "yes", "no")}


QUICK = ("--no-search", "--folds", "2")


# The whole road


def walk(run, name):
    """No option but --target."""
    data = load_uci(name).filename
    run("train", data, "--target", TARGETS[name])
    told = store.about(f"{name}.skops")["facts"]["score"]
    assert told["accuracy"] > min(0.55, told["baseline"] + 0.0)
    assert 0 < told["accuracy_std"] < 0.2
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


@pytest.mark.parametrize("name", ["heart_statlog", "votes"])
def test_the_whole_road(run, name):
    walk(run, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(list_uci()) - {"heart_statlog", "votes"}))
def test_the_whole_road_on_every_table(run, name):
    walk(run, name)


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
    assert re.search(r"^C\s+1\b", out, re.M)
    assert re.search(r"^alpha\s+\S+", out, re.M)
    assert "tuned inside" not in out
    for column, kind in {
        "a": "number", "town": "category", "code": "code", "gap": "number",
        "name": "left out", "same": "left out", "b": "left out",
    }.items():  # fmt: skip
        assert re.search(rf"^{column}\s+{kind}", out, re.M), (column, out)
    assert "missing: the median" in out
    assert "as asked" in out
    assert "accuracy" in out
    assert max(map(len, out.splitlines())) <= 80
    assert sorted(p.name for p in folder.iterdir()) == ["r.html", "t.csv", "t.skops"]
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "Rows to look at first" in page
    assert not re.search(r"(src|href)=.?https?:", page)  # nothing from the network


def test_report_escapes_what_tables_say(run, folder):
    columns = some()
    columns["<script>alert(1)</script>"] = columns.pop("a")
    columns["y"] = np.where(columns["y"] == "yes", "<b>x</b>", "no")
    run("train", table("t.csv", **columns), "--target", "y", "--report", "r.html", "--folds", 2)
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "<script>" not in page
    assert "<b>x</b>" not in page
    assert "What the search saw" in page


def test_json_for_machines(run):
    data = table("t.csv", **some())
    told = json.loads(run("train", data, "--target", "y", *QUICK, "--json"))
    assert told["rows"] == 60
    assert told["score"]["accuracy"] <= 1
    assert json.loads(run("evaluate", "t.skops", data, "--json"))["rows"] == 60
    assert len(json.loads(run("predict", "t.skops", data, "--json"))) == 60
    assert json.loads(run("explain", "t.skops", "--json"))["planes"][0]["class"] == "no"
    assert json.loads(run("info", "t.skops", "--json"))["facts"]["target"] == "y"
    assert "fuzzytwin" in json.loads(run("info", "--json"))["versions"]
    assert json.loads(run("export", "t.skops", "t.onnx", "--json"))["outputs"][0] == "label"


@pytest.mark.parametrize("ending", ["parquet", "feather", "csv.gz", "tsv"])
def test_kinds_of_files(run, ending):
    frame = pd.DataFrame(some())
    if ending == "parquet":
        frame.to_parquet("t.parquet")
    elif ending == "feather":
        frame.to_feather("t.feather")
    else:
        frame.to_csv(f"t.{ending}", index=False, sep="\t" if ending == "tsv" else ",")
    run("train", f"t.{ending}", "--target", "y", *QUICK)
    table("plain.csv", **some())
    assert run("predict", "t.skops", f"t.{ending}") == run("predict", "t.skops", "plain.csv")


def test_libsvm(run):
    rows = [f"{i % 2} 1:{i % 2 + i / 100:.2f} 3:{i / 50:.2f}" for i in range(50)]
    with open("t.svm", "w") as file:
        file.write("\n".join(rows))
    run("train", "t.svm", *QUICK, "--report", "r.html")
    assert "accuracy" in run("evaluate", "t.skops", "t.svm")
    assert run("predict", "t.skops", "t.svm").count("\n") == 51


def test_semicolons_and_decimal_commas(run):
    frame = pd.DataFrame(some())
    frame.to_csv("t.csv", index=False, sep=";", decimal=",")
    assert re.search(r"^a\s+number", run("train", "t.csv", "--target", "y", *QUICK), re.M)


def test_text_stays_text_where_new_rows_look_like_numbers(run):
    columns = some()
    columns["zip"] = np.array(["1", "2", "x"], dtype=object)[np.arange(60) % 3]
    run("train", table("t.csv", **columns), "--target", "y", *QUICK)
    full = run("predict", "t.skops", "t.csv").splitlines()
    part = {name: np.asarray(values)[:2] for name, values in columns.items()}
    assert run("predict", "t.skops", table("new.csv", **part)).splitlines() == full[:3]


def test_weights_and_degrees(run):
    run("generate", "xor", "xor.csv", "--rows", 80)
    assert "membership   degree" in run(
        "train", "xor.csv", "--target", "label", "--degree", "degree", "--folds", 2
    )
    columns = {**some(), "w": np.arange(60) % 3}
    told = run("train", table("w.csv", **columns), "--target", "y", "--weight", "w", *QUICK)
    assert not re.search(r"^w ", told, re.M)
    heavy = {name: np.repeat(values, np.arange(60) % 3) for name, values in columns.items()}
    run("train", table("heavy.csv", **heavy), "--target", "y", "--drop", "w", *QUICK)
    models = [store.load(f"{name}.skops")[-1] for name in ("w", "heavy")]
    assert models[0].moments_.own.weight == pytest.approx(models[1].moments_.own.weight)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_larger_than_memory(run, folder, kind, monkeypatch):
    monkeypatch.setattr("fuzzytwin.tables.files.BATCH_ROWS", 100)
    monkeypatch.setattr("fuzzytwin.cli.inputs._free_memory", lambda: 1.0)
    frame = pd.DataFrame(some(700))
    frame["town"] = np.array(["Oslo", "Rom", None], dtype=object)[np.arange(700) % 3]
    frame["w"] = 1.0
    data = f"t.{kind}"
    frame.to_csv(data, index=False) if kind == "csv" else frame.to_parquet(data)
    words = ("--target", "y", "--weight", "w", "--report", "r.html")
    assert "kept out of the fit" in " ".join(run("train", data, *words).split())
    run("predict", "t.skops", data, "--out", "stream.csv")
    run("predict", "t.skops", data, "--out", "memory.csv", "--no-stream")
    one, other = (pd.read_csv(folder / f"{name}.csv") for name in ("stream", "memory"))
    assert (one["label"] == other["label"]).all()
    np.testing.assert_allclose(one["membership_yes"], other["membership_yes"], rtol=1e-9)
    run("train", data, "--target", "y", "--membership", "neighbor", "--force", code=2)


def test_compare(run, folder):
    for seed in range(2):
        table(f"t{seed}.csv", **some(40, seed))
    words = ("--target", "y", "--folds", 2, "--diagram", "cd.png")
    out = run("compare", "t0.csv", "t1.csv", *words)
    assert "mean rank" in out
    assert "Friedman" in out
    assert (folder / "cd.png").read_bytes().startswith(b"\x89PNG")
    assert "at least two tables" in run("compare", "t0.csv", "--target", "y", "--folds", 2)
    assert "targets" in run("compare", "t0.csv", "--target", "y", "--target", "a", code=2)


def test_explain_and_info(run):
    columns = some()
    run("train", table("t.csv", **columns), "--target", "y", "--planes", "fuzzy", "--folds", 2)
    out = run("explain", "t.skops", "--top", 1)
    assert re.search(r"^a\s+\d+%", out, re.M)  # b is noise
    assert "vagueness" in out
    assert "t.csv, 60 rows" in run("info", "t.skops")
    assert "shipped tables" in run("info")


def test_signs_only_where_the_rivals_lie_on_one_side(run, folder):
    rng = np.random.default_rng(0)
    t, y = rng.uniform(-1, 1, 200), np.arange(200) % 2
    crossing = table("x.csv", a=t, b=np.where(y, t, -t) + rng.normal(0, 0.05, 200), y=y)
    words = ("--target", "y", "--folds", 2, "--membership", "none", "--report")
    assert "tuned inside each fold" in run("train", crossing, *words, "x.html")
    out = run("explain", "x.skops")
    assert "± ■" in out
    assert "+ ■" not in out
    assert "rivals lie on both sides" in out
    assert "rivals lie on both sides" in (folder / "x.html").read_text(encoding="utf-8")
    apart = table("p.csv", a=t + 4 * y, b=rng.normal(size=200), y=y)
    run("train", apart, *words, "p.html")
    planes = json.loads(run("explain", "p.skops", "--json"))["planes"]
    assert [plane["features"][0]["sign"] for plane in planes] == [-1, 1]
    assert "both sides" not in run("explain", "p.skops")
    assert "both sides" not in (folder / "p.html").read_text(encoding="utf-8")


def test_explain_keeps_the_values_of_long_names(run):
    columns = {**some(), "a-column-with-a-name-that-nobody-can-read": ["u", "v", "w"] * 20}
    run("train", table("t.csv", **columns), "--target", "y", *QUICK)
    out = run("explain", "t.skops")
    for value in "uvw":
        assert re.search(rf"^a-column\S+\.\.\.\S+-read = {value} ", out, re.M), out


def test_curved_planes(run):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, 120))
    data = table("t.csv", a=a, b=b, y=(a * b > 0).astype(int))  # no line tells these apart
    words = ("--target", "y", "--kernel", "rbf", "--membership", "none", "--folds", 2)
    told = json.loads(run("train", data, *words, "--json"))
    assert told["score"]["accuracy"] > 0.85
    assert "no column drives them" in run("explain", "t.skops", code=2)
    run("export", "t.skops", "t.onnx")
    streamed = json.loads(run("train", data, *words, "--stream", "--out", "s.skops", "--json"))
    assert streamed["score"]["accuracy"] > 0.7  # of twelve rows kept out


def crossed(n=400):
    """Rows that no line tells apart, of uneven classes, ordered by a."""
    rng = np.random.default_rng(1)
    a, b = np.sort(rng.uniform(-1, 1, n)), rng.uniform(-1, 1, n)
    return {"a": a, "b": b, "y": (a * b > 0.1).astype(int)}


CURVED = ("--target", "y", "--kernel", "rbf", "--membership", "none")


@pytest.mark.parametrize("search", ["--search", "--no-search"])
def test_told_parameters_make_a_curved_model_again(run, folder, search):
    data = table("t.csv", **crossed())
    words = (*CURVED, search, "--folds", 2, "--seed", 3, "--report", "r.html")
    told = json.loads(run("train", data, *words, "--json"))
    model = store.load("t.skops")
    frame = pd.read_csv(data)
    again = fuzzytwin.FuzzyTwinSVC(**told["parameters"])
    again.fit(model[:-1].transform(frame[["a", "b"]]), frame["y"])
    np.testing.assert_allclose(again.predict_proba(model[:-1].transform(frame[["a", "b"]])),
                               model.predict_proba(frame[["a", "b"]]), atol=1e-6)  # fmt: skip
    phi = model[-1].landmark_map_
    assert told["landmarks"] == len(phi.landmarks) < told["parameters"]["n_landmarks"] == 300
    said = f"rbf, gamma {phi.gamma:.4g}, {len(phi.landmarks)} landmarks"
    assert re.search(rf"^kernel +{said}", run("info", "t.skops"), re.M)
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert f"kernel = rbf, gamma = {phi.gamma:.4g}, n_landmarks = 300, random_state = 3" in page
    assert f"{len(phi.landmarks)} landmarks" in page


def test_kernels_are_told_of_curved_models_alone(run):
    data = table("t.csv", **some())
    assert "kernel" not in run("train", data, "--target", "y", *QUICK)
    assert "kernel" not in run("info", "t.skops")
    out = run("train", data, *CURVED, *QUICK, "--force")
    assert re.search(r"^kernel +rbf, gamma 0\.\d+, 60 landmarks", out, re.M)
    cosine = run("train", data, "--target", "y", "--kernel", "cosine", *QUICK, "--force")
    assert re.search(r"^kernel +cosine, 60 landmarks", cosine, re.M)  # which has no gamma


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_what_to_try_next_works(run, kernel):
    data = table("t.csv", **some())
    out = run("train", data, "--target", "y", "--kernel", kernel, *QUICK)
    lines = re.findall(r"^  fuzzytwin (.+)$", out, re.M)
    assert len(lines) == 3
    for line in lines:
        run(*line.replace("NEW-DATA", data).split())


def test_batches_leave_the_given_parameters_alone(run):
    data = table("t.csv", **some(700))
    words = ("train", data, "--target", "y", "--stream", "--json", "--force")
    told = json.loads(run(*words, "--no-search"))
    assert told["parameters"]["alpha"] == fuzzytwin.FuzzyTwinSVC().alpha
    assert told["notes"] == ["columns judged by the first 700 rows"]
    tuned = json.loads(run(*words, "--membership", "none", "--folds", 2))
    assert tuned["notes"] == ["columns judged and parameters chosen by the first 700 rows"]


@pytest.mark.parametrize("search", ["--search", "--no-search"])
def test_landmarks_of_ordered_batches(run, monkeypatch, search):
    monkeypatch.setattr("fuzzytwin.tables.files.BATCH_ROWS", 40)
    words = (*CURVED, search, "--folds", 2, "--stream", "--json")
    told = json.loads(run("train", table("t.csv", **crossed()), *words))
    model = store.load("t.skops")[-1]
    phi = model.landmark_map_
    assert told["landmarks"] == told["parameters"]["n_landmarks"] == len(phi.landmarks) > 290
    assert told["parameters"]["gamma"] == phi.gamma == model.gamma
    assert np.ptp(phi.landmarks[:, 0]) > 3  # of rows with standard deviation 1: from end to end
    assert "landmarks taken from the first 400 rows" in told["notes"]


def test_ordered_rows_in_batches(run, folder, monkeypatch):
    monkeypatch.setattr("fuzzytwin.tables.files.BATCH_ROWS", 40)
    monkeypatch.setattr("fuzzytwin.tables.training.SAMPLE_ROWS", 100)
    columns, n = some(300), np.arange(300)
    words = ("--target", "y", "--stream", "--folds", 2)
    for match, y in {
        "one class only .0. in the first 100 rows": n >= 200,
        "class '1' .* one row only in the first 100 rows": n >= 99,
        "hardly any class but 0 in the first 100 rows": (n >= 100) | (n % 50 == 0),
        "the label 2 further down but not in the first 100 rows": n % 2 + 2 * (n == 298),
        "missing in each of the first 100 rows": np.where(n < 100, np.nan, n % 2),
    }.items():  # fmt: skip
        columns["y"] = np.asarray(y, dtype=float)
        table("t.csv", **columns)
        refused(run, folder, "train", "t.csv", *words, match=f"{match}.*shuffle.*--no-stream")
    columns["y"] = (n >= 200).astype(int)
    run("train", table("t.csv", **columns), *words[:2], "--no-stream", *QUICK, "--force")
    columns = {**some(300), "late": np.maximum(n, 100), "void": np.where(n < 100, np.nan, n)}
    refused(
        run, folder, "train", table("t.csv", **columns), *words, "--force",
        match="'void' holds nothing but missing values in the first 100 rows",
    )  # fmt: skip
    out = run("train", "t.csv", *words, "--force", "--drop", "void", "--no-search")
    assert "the same in the first rows" in out
    few = {name: values[:100] for name, values in columns.items() if name != "void"}
    few["y"] = "yes"
    said = run("train", table("few.csv", **few), *words, code=2)
    assert "one class only (yes); give rows" in said  # these are all rows
    few["y"] = columns["y"][:100]
    out = run("train", table("few.csv", **few), *words, "--no-search")
    assert "the same in every row" in out


def test_reproduce(run, folder):
    told = json.loads(run("reproduce", "--quick", "--only", "toy", "--jobs", 1, "--json"))
    page = (folder / told["report"]).read_text(encoding="utf-8")
    assert "Table I" in page
    assert "only=" in run("reproduce", "--only", "tea", code=2)


@pytest.mark.parametrize("kind", ["ndc", "xor"])
@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_generate(run, folder, kind, ending):
    run("generate", kind, f"t.{ending}", "--rows", 50)
    reader = {"csv": pd.read_csv, "parquet": pd.read_parquet, "feather": pd.read_feather}[ending]
    frame = reader(folder / f"t.{ending}")
    assert len(frame) == 50
    assert set(frame["label"]) == {-1, 1}


@pytest.mark.slow
def test_demo(run, folder):
    out = run("demo")
    assert re.search(r"\d+ of the 61 most doubted samples are flipped ones; .* give 12\.", out)
    assert "fuzzytwin train" in out
    assert (folder / "fuzzytwin-demo.png").read_bytes().startswith(b"\x89PNG")
    assert "exists already" in run("demo", code=2)


# What cannot be used: one line, exit code 2, nothing left behind


def refused(run, folder, *words, match):
    before = sorted(folder.rglob("*"))
    said = run(*words, code=2)
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert len(said) < 400
    assert re.search(match, said), said
    assert sorted(folder.rglob("*")) == before


def bad_tables():
    good = some()
    yes = good["y"]

    def csv(**changes):
        return lambda: table("t.csv", **{**good, **changes})

    def raw(content, name="t.csv"):
        def write():
            with open(name, "wb") as file:
                file.write(content)

        return write

    def parquet(**changes):
        return lambda: pd.DataFrame({**good, **changes}).to_parquet("t.parquet")

    lines = "a,b,y\n" + "\n".join(f"{i},{i % 7},{'no' if i % 2 else 'yes'}" for i in range(40))
    many = "y," + ",".join(f"t{j}" for j in range(10_000)) + "\n"
    many += "".join(f"{i % 2}," + ",".join(["u", "v", "w"][(i + j) % 3] for j in range(10_000))
                    + "\n" for i in range(30))  # fmt: skip
    million = "y,k\n" + "\n".join(f"{i % 2},k{i}" for i in range(1_000_000))
    return {
        "missing target": (csv(), ("--target", "z"), "no column 'z'.*columns are a, b, y"),
        "no target": (csv(), (), "--target"),
        "one class": (csv(y="yes"), ("--target", "y"), "one class only"),
        "class of one": (csv(y=["x", *yes[1:]]), ("--target", "y"), "class 'x' of .* one row only"),
        "target misspelt": (csv(Party=yes, **{f"c{i}": i for i in range(12)}),
                            ("--target", "parti"), r"mean 'Party'\? .*, \.\.\., c9, c10, c11\."),
        "whole degree": (csv(d=50), ("--target", "y", "--degree", "d"), "holds 50 in row 1"),
        "target empty": (csv(y=np.nan), ("--target", "y"), "missing in every row"),
        "target measured": (csv(), ("--target", "a"), "measured numbers"),
        "target unique": (csv(y=[f"n{i}" for i in range(60)]), ("--target", "y"), "one row only"),
        "all-missing column": (csv(b=np.nan), ("--target", "y"), "column 'b'.*--drop 'b'"),
        "10,000 columns of text": (raw(many.encode()), ("--target", "y"), "10,000 columns"),
        "a million categories": (raw(million.encode()), ("--target", "y"), "1,000,000 different"),
        "duplicate names": (raw(b"a,a,y\n1,2,x\n3,4,z\n"), ("--target", "y"), "two columns"),
        "duplicate target": (raw(b"a,y,y\n1,2,x\n3,4,z\n"), ("--target", "y"), "two columns"),
        "empty file": (raw(b""), ("--target", "y"), "is empty"),
        "blank file": (raw(b"\n\n  \n"), ("--target", "y"), "is empty"),
        "header only": (raw(b"a,b,y\n"), ("--target", "y"), "no rows"),
        "no header": (raw(b"1,2,3\n4,5,6\n7,8,9\n"), ("--target", "y"), "names of the columns"),
        "UTF-16": (raw(lines.encode("utf-16")), ("--target", "y"), "UTF-16.*UTF-8"),
        "Latin-1": (raw(lines.replace("yes", "ä").encode("latin1")), ("--target", "y"), "UTF-8"),
        "ragged": (raw(lines.encode() + b"\n1,2,3,4,5\n"), ("--target", "y"), "line 42"),
        "quote left open": (raw(lines.encode() + b'\n1,"2,no\n'), ("--target", "y"), "cannot be"),
        "not gzip": (raw(b"abc", "t.csv.gz"), ("--target", "y"), "cannot be read"),
        "cut gzip": (raw(gzip.compress(lines.encode())[:60], "t.csv.gz"), ("--target", "y"),
                     "cannot be read"),
        "not Parquet": (raw(b"PAR1 no", "t.parquet"), ("--target", "y"), "cannot be read"),
        "not Feather": (raw(b"hello", "t.feather"), ("--target", "y"), "cannot be read"),
        "not LIBSVM": (raw(b"a b c\n", "t.svm"), (), "no LIBSVM"),
        "LIBSVM has no names": (raw(b"1 1:2\n", "t.svm"), ("--target", "y"), "leave out --target"),
        "unknown ending": (raw(b"a", "t.xls"), ("--target", "y"), "unknown ending"),
        "infinite": (csv(b=[np.inf] * 60), ("--target", "y"), "infinite"),
        "dates": (parquet(b=pd.date_range("2020", periods=60)), ("--target", "y"), "dates"),
        "lists": (parquet(b=[[1, 2]] * 60), ("--target", "y"), "lists"),
        "nothing to learn from": (lambda: table("t.csv", y=yes), ("--target", "y"), "no column"),
        "negative weight": (csv(), ("--target", "y", "--weight", "b"), "weights must be"),
        "degree beyond 1": (csv(d=3.0), ("--target", "y", "--degree", "d"), "degrees must be"),
        "no such weight": (csv(), ("--target", "y", "--weight", "q"), "no column 'q'"),
        "no such drop": (csv(), ("--target", "y", "--drop", "q"), "no column 'q'"),
    }  # fmt: skip


BAD = bad_tables()


@pytest.mark.parametrize("name", BAD)
def test_bad_tables(run, folder, name):
    write, options, match = BAD[name]
    write()
    (path,) = (file for file in folder.iterdir())
    refused(run, folder, "train", path.name, *options, "--report", "r.html", match=match)


def test_bad_words(run, folder):
    data = table("t.csv", **some())
    refused(run, folder, "train", "none.csv", "--target", "y", match="no file none.csv")
    refused(run, folder, "train", folder, "--target", "y", match="is a directory")
    refused(run, folder, "train", data, "--target", "y", "--out", "no/m.skops", match="make it")
    refused(
        run, folder, "train", data, "--target", "y", "--planes", "x", match="'--planes': 'x' is"
    )
    refused(run, folder, "train", data, "--target", "y", "--folds", "1", match="train --help$")
    refused(run, folder, "trian", match=r"No such command.*'\? See fuzzytwin --help$")
    refused(run, folder, "train", match="(?i)missing argument")
    refused(run, folder, "predict", "m.skops", data, match="no file m.skops")


def test_nothing_is_overwritten_unless_forced(run, folder):
    data = table("t.csv", **some())
    run("train", data, "--target", "y", *QUICK)
    before = (folder / "t.skops").read_bytes()
    refused(run, folder, "train", data, "--target", "y", match="exists already.*--force")
    refused(run, folder, "train", data, match="which column")
    assert (folder / "t.skops").read_bytes() == before
    run("train", data, "--target", "y", *QUICK, "--force")
    run("predict", "t.skops", data, "--out", "p.csv")
    run("export", "t.skops", "t.onnx")
    refused(run, folder, "predict", "t.skops", data, "--out", "p.csv", match="exists already")
    refused(run, folder, "export", "t.skops", "t.onnx", match="exists already")
    refused(run, folder, "generate", "xor", "p.csv", match="exists already")
    refused(run, folder, "export", "t.skops", "t.txt", match=r"\.onnx")


def test_other_tables_than_the_model_knows(run, folder):
    run("train", table("t.csv", **some()), "--target", "y", *QUICK)
    columns = some()
    table("less.csv", b=columns["b"], y=columns["y"])
    table("text.csv", a=["x"] * 60, b=columns["b"], y=columns["y"])
    table("new.csv", a=columns["a"], b=columns["b"], y=["maybe"] * 60)
    refused(run, folder, "predict", "t.skops", "less.csv", match="no column 'a'")
    table("none.csv", y=columns["y"])
    refused(run, folder, "predict", "t.skops", "none.csv", match="lacks 2 columns.*: 'a', 'b'")
    refused(run, folder, "predict", "t.skops", "text.csv", match="numbers alone")
    refused(run, folder, "evaluate", "t.skops", "new.csv", "--target", "z", match="no column 'z'")
    assert "does not know" in run("evaluate", "t.skops", "new.csv")


def test_odd_names_are_shown_as_they_are(run, folder):
    columns = some()
    columns["[red]a[/x]"] = columns.pop("a")
    columns["y"] = np.where(columns["y"] == "yes", "[/]yes", "no")
    out = run("train", table("[b]t.csv", **columns), "--target", "y", *QUICK)
    assert "[red]a[/x]" in out
    assert "[b]t.skops" in out
    assert "[/]yes" in run("info", "[b]t.skops")
    assert "[red]a[/x]" in run("explain", "[b]t.skops")


def test_bad_models(run, folder):
    data = table("t.csv", **some())
    (folder / "m.skops").write_bytes(b"\x80\x04K\x01.")
    more = {"predict": [data], "evaluate": [data], "export": ["m.onnx"]}
    for command in ("predict", "evaluate", "explain", "export", "info"):
        words = (command, "m.skops", *more.get(command, []))
        refused(run, folder, *words, match="no model file")


def test_a_failure_at_the_end_leaves_nothing(run, folder, monkeypatch):
    data = table("t.csv", **some())

    def full(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(store, "save", full)
    said = run("train", data, "--target", "y", *QUICK, "--report", "r.html", code=1)
    assert said == "error: disk full\n"
    assert [path.name for path in folder.iterdir()] == ["t.csv"]


def test_debug_gives_the_traceback():
    with pytest.raises(ValueError, match="no file"):
        cli.run(["train", "none.csv", "--target", "y", "--debug"])


def test_our_own_mistakes_are_told_apart(run, monkeypatch):
    monkeypatch.setattr("fuzzytwin.cli.inputs.check_output", lambda *_: 1 / 0)
    said = run("generate", "xor", "t.csv", code=1)
    assert "ZeroDivisionError" in said
    assert "--debug" in said


def alone(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


def test_help_is_light():
    code = (
        "import sys; from fuzzytwin.cli import run; run(['--help']); run(['train', '--help'])\n"
        "heavy = {'numpy', 'sklearn', 'pandas', 'matplotlib', 'rich', 'skops'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = alone(code)
    assert done.returncode == 0, done.stderr
    assert "Usage: fuzzytwin" in done.stdout


def test_version_and_module():
    done = subprocess.run(
        [sys.executable, "-m", "fuzzytwin", "--version"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, f"fuzzytwin {fuzzytwin.__version__}\n")


def test_without_typer():
    code = "import sys; sys.modules['typer'] = None\nfrom fuzzytwin.cli import main; main(['info'])"
    done = alone(code)
    assert done.returncode == 1
    assert done.stderr == (
        'error: typer is missing; install it with: pip install "fuzzytwin[cli]"\n'
    )
