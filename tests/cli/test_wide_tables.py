"""Tables with many columns on the command line."""

import re

import numpy as np
import pandas as pd

from fuzzytwin import cli
from tests.cli.helpers import QUICK, some, table


def write_embeddings(file, n=80, d=30):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    emb = {f"emb_{j}": rng.normal(y, 1, n).round(3) for j in range(d)}
    frame = pd.DataFrame({"case": [f"c{i}" for i in range(n)], "age": rng.normal(y, 1, n), **emb})
    frame.assign(y=np.where(y, "yes", "no")).to_csv(file, index=False)
    return frame


def test_columns_that_count_up_share_notes_and_lines(run, capsys):
    frame = write_embeddings("t.csv")
    out = run("train", "t.csv", "--target", "y", "--id", "case", *QUICK)
    assert "31 columns of kind number: age, emb_0, emb_1, " in out
    new = frame.drop(columns="case").assign(patient=range(80))
    new.loc[3, new.columns.str.startswith("emb")] = None
    new.to_csv("new.csv", index=False)
    run("predict", "t.skops", "new.csv", "--out", "p.csv")
    cli.run(["predict", "t.skops", "new.csv", "--out", "p.csv", "--force"])
    (note,) = capsys.readouterr().err.splitlines()
    assert note == (
        "note: 30 columns (emb_0, emb_1, emb_2 and 27 more): 30 cells are missing (none in "
        "training), filled with the median."
    )
    assert "emb_8 and 21 more" in run("info", "t.skops")
    for words in (["t.skops"], ["t.skops", "new.csv", "--id", "patient"]):
        out = run("explain", *words, "--limit", 4)
        assert len(re.findall(r"^(?:age|emb_\d+) ", out, re.M)) == 4


def test_columns_with_missing_values_that_count_up_share_a_line(run):
    frame = write_embeddings("t.csv")
    frame.loc[3, frame.columns.str.startswith("emb")] = None
    frame.assign(y=np.arange(80) % 2).to_csv("t.csv", index=False)
    out = run("label-issues", "t.csv", "--target", "y")
    (line,) = [line for line in out.splitlines() if "emb_0" in line]
    assert re.search(r"emb_0 and 29 more +number .* 30 +missing values replaced", line)


def test_labels_that_the_model_does_not_know_are_refused(run, refused):
    table("t.csv", **some())
    run("train", "t.csv", "--target", "y", *QUICK)
    table("new.csv", **{**some(), "z": ["dead", "alive"] * 30})
    words = ("evaluate", "t.skops", "new.csv", "--target", "z")
    refused(*words, match="column 'z' of new.csv is a class.*classes are no, yes")


def test_id_of_explain(run, refused):
    write_embeddings("t.csv")
    run("train", "t.csv", "--target", "y", "--id", "case", *QUICK)
    refused("explain", "t.skops", "--id", "case", match="--id needs DATA")
    words = ("explain", "t.skops", "t.csv", "--id")
    refused(*words, "patient", match=r"no column 'patient'.*\(--id\)")
    refused(*words, "age", match="--id 'age' is a column that the model was trained")
