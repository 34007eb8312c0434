"""Messages about findings and effects: columns that count up are named together."""

from fuzzytwin.experiment._families import families, name_ranges, strongest
from fuzzytwin.experiment._words import notes
from fuzzytwin.tables import Finding


def missing(name, count=1, filled="filled with the median"):
    return Finding("new_missing", name, {"count": count, "example": "", "filled": filled})


def test_findings_of_one_kind_share_a_note():
    findings = [missing(f"emb_{j}", count=2) for j in range(256)]
    others = [missing("ward", filled="a category"), Finding("unlabelled", values={"rows": 3})]
    assert notes([*findings, *others]) == [
        "256 columns (emb_0 to emb_255): 512 cells are missing (none in training), filled with "
        "the median",
        "column 'ward': 1 cell is missing (none in training), a category",
        "3 rows without a label, not used",
    ]


def test_few_columns_have_a_note_each():
    assert len(notes([missing("a"), missing("b"), missing("c")])) == 3


def test_a_note_that_names_an_option_describes_the_first_column():
    sentinel = {"word": "-999", "value": "-999", "count": 7}
    (text,) = notes([Finding("sentinel", name, sentinel) for name in "abcdefghij"])
    assert text.startswith("column 'a' holds -999 in 7 cells")
    assert text.endswith("--missing -999. Also 9 more columns: b, c, d, e, f, g, ...")


def test_names_that_count_up():
    assert name_ranges(["x_8", "x_9", "x_10", "x_11", "y"]) == ["x_8 to x_11", "y"]
    assert name_ranges(["x08", "x09", "x10", "x11"]) == ["x08 to x11"]
    assert name_ranges(["x1", "x2", "x3"]) == ["x1", "x2", "x3"]
    assert families(["x1", "x2", "x3", "x4"]) == {}


def test_strongest_effects_of_a_family_leave_room_for_other_columns():
    names = [f"e{j}" for j in range(20)]
    effects = [{"column": name} for name in [*names, "age", "dose"]]
    shown, more = strongest(effects, 5, families([*names, "age", "dose"]))
    assert [effect["column"] for effect in shown] == ["e0", "e1", "e2", "age", "dose"]
    assert more == ["17 more of e0 to e19"]


def test_a_table_of_one_family_fills_the_list():
    names = [f"e{j}" for j in range(20)]
    shown, more = strongest([{"column": name} for name in names], 8, families(names))
    assert [effect["column"] for effect in shown] == names[:8]
    assert more == ["12 more of e0 to e19"]
