"""The rows of a table as people read them."""

import numpy as np
import pandas as pd
import pytest

from fuzzytwin import find_label_issues
from fuzzytwin.studio._data import few_digits
from fuzzytwin.studio._journal import journal_path
from fuzzytwin.tables import TableError
from tests.studio.helpers import open_session, write_table, written


def test_what_is_usual_depends_on_the_kind_of_column(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"{i % 5},{i % 3 > 0},{'ab'[i % 4 > 0]},{i / 7:.3f},{'no' if i < 60 else 'yes'}"
            for i in range(120)]  # fmt: skip
    path.write_text("\n".join(["code,flag,word,number,sick", *rows, "0,True,a,0,no"]), "utf-8")
    session = open_session(path, id=None, category=["code"])
    usual = {name: session.typical(name, 0) for name in session.table.columns}
    median = np.median([*(round(i / 7, 3) for i in range(60)), 0])
    assert usual == {"code": "0", "flag": "True", "word": "b", "number": f"{median:.4g}"}


def test_cells_have_a_decimal_point_and_rows_are_found(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"x{i};{i % 7},25;1.00{i % 9},5;a,b;{'no' if i % 7 < 3 else 'yes'}" for i in range(40)]
    path.write_text("\n".join(["key;age;large;word;sick", *rows]), encoding="utf-8")
    session = open_session(path, id="key")
    table = session.table
    assert [table.cell(3, name) for name in ("age", "large", "word")] == ["3.25", "1004", "a,b"]
    assert table.find("X3").tolist() == [3, *range(30, 40)]
    assert table.find("row 41").tolist() == [39]
    assert table.find("nothing").tolist() == []


def test_cells_of_a_decimal_comma_are_shown_as_they_are_read(tmp_path):
    frame = pd.read_csv(written(tmp_path / "t.csv"))
    pay = [f"{28 + i}.{642 - i}" for i in range(len(frame))]  # thousands
    frame.assign(pay=pay).to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    session = open_session(tmp_path / "t.csv")
    assert session.table.cell(0, "pay") == "28642"


def test_numbers_of_an_embedding_are_cells(tmp_path):
    rng = np.random.default_rng(0)
    sick = rng.integers(2, size=60)
    rows = (rng.normal(size=(60, 4)) + 3 * sick[:, None]).round(2)
    names = [f"p{i}" for i in range(60)]
    pd.DataFrame({"name": names, "emb": list(rows), "sick": sick}).to_parquet(
        tmp_path / "t.parquet"
    )
    session = open_session(tmp_path / "t.parquet")
    assert session.table.columns == ["emb_0", "emb_1", "emb_2", "emb_3"]
    assert float(session.table.cell(7, "emb_2")) == rows[7, 2]


def test_tied_votes_are_the_label_that_label_issues_takes(tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=80)
    frame = pd.DataFrame((rng.normal(size=(80, 3)) + 3 * truth[:, None]), columns=list("xyz"))
    labels = np.array(["no", "yes"])
    other = np.where(rng.random(80) < 0.3, 1 - truth, truth)
    frame["ann_a"] = labels[truth]
    frame["ann_b"] = labels[other]
    frame.to_csv(tmp_path / "t.csv", index=False)
    votes = frame[["ann_a", "ann_b"]]
    report = find_label_issues(frame[list("xyz")], votes=votes)
    session = open_session(tmp_path / "t.csv", target=None, id=None, votes=["ann_*"])
    assert session.table.codes.tolist() == report.codes.tolist()
    assert session.table.label_issues.n_errors == pytest.approx(report.n_errors)
    assert np.mean(session.table.codes == truth) > 0.95


def test_tables_that_cannot_be_looked_at_are_refused(tmp_path):
    write_table(tmp_path / "t.csv")
    with pytest.raises(TableError, match="--target"):
        open_session(tmp_path / "t.csv", target=None)
    with pytest.raises(TableError, match="nothing"):
        open_session(tmp_path / "t.csv", target="nothing")
    assert not journal_path(tmp_path / "t.csv").exists()


@pytest.mark.parametrize(
    ("value", "text"),
    [(-0.13380955, "-0.1338"), (12345.678, "12346"), (3.0, "3"), (0.00001234, "1.234e-05")],
)
def test_numbers_have_four_significant_digits(value, text):
    assert few_digits(value) == text


def test_text_that_is_no_feature_is_shown_whole(tmp_path):
    path = written(tmp_path / "t.csv")
    frame = pd.read_csv(path)
    comment = [f"patient {i} came back twice, and was sent home" for i in range(len(frame))]
    frame.assign(comment=comment).to_csv(path, index=False)
    session = open_session(path)
    assert session.table.shown == ["comment"]
    assert "comment" not in session.table.columns
    assert session.table.raw(3, "comment") == comment[3]


def test_columns_to_show_can_be_named(tmp_path):
    path = written(tmp_path / "t.csv")
    session = open_session(path, show=["town", "age"])
    assert session.table.shown == ["town", "age"]
    session.history.journal.close()
    with pytest.raises(TableError, match="--show"):
        open_session(path, show=["twon"])
