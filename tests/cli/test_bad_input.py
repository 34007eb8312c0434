"""What cannot be used: one line, exit code 2, nothing left behind."""

import gzip
import json
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pandas as pd
import pytest

import fuzzytwin
from fuzzytwin import cli, store
from tests.cli.helpers import QUICK, some, table


def bad_tables():
    good = some()
    yes = good["y"]

    def csv(**changes):
        return lambda: table("t.csv", **{**good, **changes})

    def raw(content, name="t.csv"):
        def write():
            with open(name, "wb") as file:
                file.write(content() if callable(content) else content)

        return write

    def parquet(**changes):
        return lambda: pd.DataFrame({**good, **changes}).to_parquet("t.parquet")

    lines = "a,b,y\n" + "\n".join(f"{i},{i % 7},{'no' if i % 2 else 'yes'}" for i in range(40))

    def many():
        head = "y," + ",".join(f"t{j}" for j in range(10_000)) + "\n"
        words = [["u", "v", "w"][j % 3] for j in range(10_003)]
        rows = (f"{i % 2}," + ",".join(words[i % 3 : i % 3 + 10_000]) + "\n" for i in range(30))
        return (head + "".join(rows)).encode()

    def million():
        return ("y,k\n" + "\n".join(f"{i % 2},k{i}" for i in range(1_000_000))).encode()

    return {
        "missing target": (csv(), ("--target", "z"), "no column 'z'.*columns are a, b, y"),
        "no target": (csv(), (), "--target"),
        "one class": (csv(y="yes"), ("--target", "y"), "one class only"),
        "class of one": (csv(y=["x", *yes[1:]]), ("--target", "y"), "class 'x' of .* one row only"),
        "target misspelt": (csv(Party=yes, **{f"c{i}": i for i in range(12)}),
                            ("--target", "parti"), r"mean 'Party'\? Its columns are Party, "),
        "whole degree": (csv(d=50), ("--target", "y", "--degree", "d"), "holds 50 in row 2"),
        "target empty": (csv(y=np.nan), ("--target", "y"), "missing in every row"),
        "target measured": (csv(), ("--target", "a"), "holds measurements"),
        "target unique": (csv(y=[f"n{i}" for i in range(60)]), ("--target", "y"), "one row only"),
        "10,000 columns of text": (raw(many), ("--target", "y"), "10,000 columns"),
        "a million names": (raw(million), ("--target", "y"), "no column is left.*k: id"),
        "duplicate names": (raw(b"a,a,y\n1,2,x\n3,4,z\n"), ("--target", "y"), "2 columns"),
        "duplicate target": (raw(b"a,y,y\n1,2,x\n3,4,z\n"), ("--target", "y"), "2 columns"),
        "empty file": (raw(b""), ("--target", "y"), "is empty"),
        "blank file": (raw(b"\n\n  \n"), ("--target", "y"), "is empty"),
        "header only": (raw(b"a,b,y\n"), ("--target", "y"), "no rows"),
        "no header": (raw(b"1,2,3\n4,5,6\n7,8,9\n"), ("--target", "y"), "write the column names"),
        "no text": (raw(b"a,b\0\0" + lines.encode()), ("--target", "y"), "is not a text file"),
        "ragged": (raw(lines.encode() + b"\n1,2,3,4,5\n"), ("--target", "y"), "Row #42"),
        "quote left open": (raw(lines.encode() + b'\n1,"2,no\n'), ("--target", "y"), "cannot be"),
        "not gzip": (raw(b"abc", "t.csv.gz"), ("--target", "y"), "cannot be read"),
        "cut gzip": (raw(gzip.compress(lines.encode())[:60], "t.csv.gz"), ("--target", "y"),
                     "cannot be read"),
        "not Parquet": (raw(b"PAR1 no", "t.parquet"), ("--target", "y"), "cannot be read"),
        "not Feather": (raw(b"hello", "t.feather"), ("--target", "y"), "cannot be read"),
        "unknown ending": (raw(b"a", "t.xls"), ("--target", "y"), "unknown ending"),
        "infinite": (csv(b=[np.inf] * 60), ("--target", "y"), "infinite"),
        "too large": (csv(b=[1e308, -1e308] * 30), ("--target", "y"), "'b' .*overflow.*--drop b"),
        "too large, in chunks": (csv(b=[1e308, -1e308] * 30), ("--target", "y", "--stream"),
                                 "'b' .*overflow.*--drop b"),
        "too small": (csv(b=np.arange(60) ** 2 * 1e-300), ("--target", "y"), "'b' .*underflow"),
        "only a counter": (lambda: table("t.csv", n=range(60), y=yes), ("--target", "y"),
                           "--numeric n keeps it"),
        "target of lists": (parquet(y=[[1, 2]] * 60), ("--target", "y"), "cannot be table cells"),
        "nothing to learn from": (lambda: table("t.csv", y=yes), ("--target", "y"), "no column"),
        "negative weight": (csv(), ("--target", "y", "--weight", "b"), "weights must be"),
        "degree beyond 1": (csv(d=3.0), ("--target", "y", "--degree", "d"), "memberships must be"),
        "no such weight": (csv(), ("--target", "y", "--weight", "q"), "no column 'q'"),
        "no such drop": (csv(), ("--target", "y", "--drop", "q"), "no column 'q'"),
    }  # fmt: skip


BAD = bad_tables()


LARGE = ("10,000 columns of text", "a million names")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LARGE else []) for name in BAD]
)
def test_bad_tables(folder, refused, name):
    write, options, match = BAD[name]
    write()
    (path,) = (file for file in folder.iterdir())
    refused("train", path.name, *options, "--report", "r.html", match=match)


def wide(**columns):
    """A table of many columns, as those of clinics are."""
    rng = np.random.default_rng(0)
    return {**{f"lab_{j:02d}": rng.normal(size=60) for j in range(30)}, **columns, **some()}


def test_a_renamed_column_is_named_before_all_others(run, refused):
    age = np.random.default_rng(1).normal(50, 9, 60)
    table("t.csv", **wide(age=age))
    run("train", "t.csv", "--target", "y", *QUICK)
    table("next.csv", **{f"x{j}": [0] * 60 for j in range(20)}, **wide(age_years=age))
    said = (
        r"next.csv has no column 'age', which the model needs; did you mean 'age_years'\? "
        r"Its new columns are age_years, .* and \d+ more\. Rename .*--allow-missing"
    )
    refused("predict", "t.skops", "next.csv", match=said)
    table("less.csv", **{name: cells for name, cells in wide().items() if name != "lab_07"})
    said = r"lacks 2 columns that the model needs: 'lab_07', 'age'\. Rename"
    refused("predict", "t.skops", "less.csv", match=said)
    refused("evaluate", "t.skops", "next.csv", match="did you mean 'age_years'")
    refused("predict", "t.skops", "t.csv", "--keep", "agee", match="you mean 'age'")


def test_columns_that_are_not_there_may_count_as_missing(run, folder, refused, capsys):
    columns = some(90)
    told = columns["y"] == "yes"
    columns["town"] = np.where(told, "Rom", "Oslo")
    columns["ok"] = np.where(told, "true", "false")
    columns["level"] = np.arange(90) % 4
    table("t.csv", **columns)
    run("train", "t.csv", "--target", "y")
    given = {name: columns[name] for name in ("b", "y")}
    table("next.csv", **given)
    empty = dict.fromkeys(("a", "town", "ok", "level"), [""] * 90)
    table("empty.csv", **given, **empty)
    predicted = run("predict", "t.skops", "next.csv", "--allow-missing")
    assert predicted == run("predict", "t.skops", "empty.csv")
    run("predict", "t.skops", "next.csv", "--allow-missing", "--out", "p.csv", "--json")
    assert (folder / "p.csv").read_text() == predicted
    notes = json.loads(run("predict", "t.skops", "next.csv", "--allow-missing", "--out", "p.csv",
                           "--json", "--force"))["notes"]  # fmt: skip
    for name in empty:
        assert any(note.startswith(f"column '{name}': not there") for note in notes)
    table("none.csv", y=columns["y"])
    refused("predict", "t.skops", "none.csv", "--allow-missing",
        match="lacks 5 columns that the model needs",
    )  # fmt: skip


@pytest.mark.parametrize("command", ["train", "label-issues"])
def test_names_of_rows_that_repeat_point_to_groups(run, folder, command):
    table("t.csv", **some(), who=[f"p{i // 3}" for i in range(60)])
    words = (command, "t.csv", "--target", "y", "--id", "who", "--json")
    words += ("--force",) if command == "train" else ()
    notes = json.loads(run(*words))["notes"]
    told = "--id column 'who' has 20 different values in 60 rows"
    assert any(note.startswith(told) and "--groups 'who'" in note for note in notes)
    grouped = json.loads(run(*words, "--groups", "who"))["notes"]
    assert not any("--id column" in note for note in grouped)


def test_train_takes_numbers_beyond_single_precision(run, folder):
    table("t.csv", **some(), big=1e39 * np.random.default_rng(0).normal(size=60))
    assert "Model: t.skops" in run("train", "t.csv", "--target", "y")


def test_bad_words(folder, refused):
    data = table("t.csv", **some())
    refused("train", "none.csv", "--target", "y", match="file not found: none.csv")
    (folder / "none").mkdir()
    refused("train", "none", "--target", "y", match="holds no file that ends in")
    refused("train", data, "--target", "y", "--out", "no/m.skops", match="directory not found")
    refused("train", data, "--target", "y", "--noise", "x", match="'--noise': 'x' is")
    refused("train", data, "--target", "y", "--folds", "1", match="train --help$")
    # Newer typers suggest a command: "Did you mean 'train'?"
    refused("trian", match=r"No such command 'trian'.*[Ss]ee fuzzytwin --help$")
    refused("train", match="(?i)missing argument")
    refused("predict", "m.skops", data, match="file not found: m.skops")


def test_nothing_is_overwritten_unless_forced(run, folder, refused):
    data = table("t.csv", **some())
    run("train", data, "--target", "y", *QUICK)
    before = (folder / "t.skops").read_bytes()
    refused("train", data, "--target", "y", match="already exists.*--force")
    refused("train", data, match="missing --target")
    assert (folder / "t.skops").read_bytes() == before
    run("train", data, "--target", "y", *QUICK, "--force")
    run("predict", "t.skops", data, "--out", "p.csv")
    run("export", "t.skops", "t.onnx")
    refused("predict", "t.skops", data, "--out", "p.csv", match="already exists")
    refused("export", "t.skops", "t.onnx", match="already exists")
    refused("generate", "patients", "p.csv", match="already exists")
    refused("export", "t.skops", "t.txt", match=r"\.onnx")


def test_other_tables_than_the_model_knows(run, refused):
    run("train", table("t.csv", **some()), "--target", "y", *QUICK)
    columns = some()
    table("text.csv", a=["x"] * 60, b=columns["b"], y=columns["y"])
    table("new.csv", a=columns["a"], b=columns["b"], y=["maybe"] * 60)
    refused("predict", "t.skops", "text.csv", match="column 'a' of text.csv holds text such as")
    refused("evaluate", "t.skops", "new.csv", "--target", "z", match="no column 'z'")
    refused("evaluate", "t.skops", "new.csv", match="no label .* is a class of the")
    table("mixed.csv", **{**columns, "y": ["maybe", *columns["y"][1:]]})
    assert "Labels that were not in training: maybe" in run("evaluate", "t.skops", "mixed.csv")


def test_odd_names_are_shown_as_they_are(run, folder):
    columns = some()
    columns["[red]a[/x]"] = columns.pop("a")
    columns["y"] = np.where(columns["y"] == "yes", "[/]yes", "no")
    out = run("train", table("[b]t.v2.csv", **columns), "--target", "y", *QUICK)
    assert "[red]a[/x]" in out
    assert "[b]t.v2.skops" in out
    assert "[/]yes" in run("info", "[b]t.v2.skops")
    assert "[red]a[/x]" in run("explain", "[b]t.v2.skops")


def test_bad_models(folder, refused):
    data = table("t.csv", **some())
    (folder / "m.skops").write_bytes(b"\x80\x04K\x01.")
    more = {"predict": [data], "evaluate": [data], "export": ["m.onnx"]}
    for command in ("predict", "evaluate", "explain", "export", "info"):
        words = (command, "m.skops", *more.get(command, []))
        refused(*words, match="not a model file")


def test_a_failure_at_the_end_leaves_nothing(run, folder, monkeypatch):
    data = table("t.csv", **some())

    def full(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(store, "save", full)
    said = run("train", data, "--target", "y", *QUICK, "--report", "r.html", code=1)
    assert said == "error: disk full\n"
    assert [path.name for path in folder.iterdir()] == ["t.csv"]


def test_debug_gives_the_traceback():
    with pytest.raises(FileNotFoundError, match="file not found"):
        cli.run(["train", "none.csv", "--target", "y", "--debug"])


def test_bugs_are_not_blamed_on_the_user(run, monkeypatch):
    monkeypatch.setattr("fuzzytwin.cli._shared.check_output", lambda *_: 1 / 0)
    said = run("generate", "patients", "t.csv", code=1)
    assert "ZeroDivisionError" in said
    assert "--debug" in said


def alone(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


# Older typers import rich wherever it is installed.
TYPER = tuple(map(int, version("typer").split(".")[:2]))
OF_TYPER = {"rich"} if TYPER < (0, 22) else set()


def test_help_is_light():
    code = (
        "import sys; from fuzzytwin.cli import run; run(['--help']); run(['train', '--help'])\n"
        "heavy = {'numpy', 'sklearn', 'pandas', 'matplotlib', 'rich', 'skops'} & set(sys.modules)\n"
        f"heavy -= {OF_TYPER!r}\n"
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
    assert done.stderr.startswith("error: fuzzytwin needs typer ")
    assert done.stderr.endswith('[cli]"\n')


HOSTILE = "\x1b]0;title\x07\x9b2J\u202e"


def test_text_of_a_table_does_not_control_the_terminal(capsys):
    columns = {f"{name}{HOSTILE}": list(values) for name, values in some().items()}
    columns[f"y{HOSTILE}"] = [f"{label}{HOSTILE}" for label in columns[f"y{HOSTILE}"]]
    columns[f"n{HOSTILE}"] = [f"{i}{HOSTILE}" for i in range(60)]
    data = table("t.csv", **columns)
    words = ["--target", f"y{HOSTILE}", "--id", f"n{HOSTILE}"]
    for command in (
        ["label-issues", data, *words], ["train", data, *words, *QUICK],
        ["evaluate", "t.skops", data], ["explain", "t.skops"], ["info", "t.skops"],
    ):  # fmt: skip
        assert cli.run(command) == 0
        shown = "".join(capsys.readouterr())
        assert "?" in shown
        assert all(c.isprintable() or c == "\n" for c in shown), command
