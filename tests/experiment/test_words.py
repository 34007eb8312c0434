"""Messages about findings: those of one kind about many columns share a note."""

from fuzzytwin.experiment._words import notes
from fuzzytwin.tables import Finding


def missing(name, count=1, filled="filled with the median"):
    return Finding("new_missing", name, {"count": count, "example": "", "filled": filled})


def test_findings_of_one_kind_share_a_note():
    findings = [missing(f"emb_{j}", count=2) for j in range(256)]
    others = [missing("ward", filled="a category"), Finding("unlabelled", values={"rows": 3})]
    assert notes([*findings, *others]) == [
        "256 columns (emb_0, emb_1, emb_2 and 253 more): 512 cells are missing (none in "
        "training), filled with the median",
        "column 'ward': 1 cell is missing (none in training), a category",
        "3 rows without a label, not used",
    ]


def test_few_columns_have_a_note_each():
    assert len(notes([missing("a"), missing("b"), missing("c")])) == 3


def test_a_note_that_names_an_option_describes_the_first_column():
    sentinel = {"word": "-999", "value": "-999", "count": 7}
    (text,) = notes([Finding("sentinel", name, sentinel) for name in "abcdefghij"])
    assert text.startswith("column 'a' holds -999 in 7 cells")
    assert text.endswith("--missing -999. Also 9 more columns: b, c, d and 6 more")
