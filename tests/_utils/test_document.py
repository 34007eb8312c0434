"""Documents as HTML and as Markdown: names stay what they are, pages stand alone."""

import pytest

from fuzzytwin._utils.document import (
    Document,
    Figure,
    Numbers,
    Table,
    Value,
    Words,
    to_markdown,
    verbatim,
)
from fuzzytwin._utils.html import to_html


def test_documents_escape_what_they_are_given():
    made = Document("<b>", "a & b")
    made.add(Table("`x < y`", ["", "c|d"], [["r", Value("**1**", "<i>")]]))
    page = to_html(made, {})
    assert "<b>" not in page
    assert "<i>" not in page
    assert "<code>x &lt; y</code>" in page
    assert "c\\|d" in to_markdown(made)


@pytest.mark.parametrize("name", ["`a`", "**b**", "*c*", "`", "<d>", 'e"&', "$f$"])
def test_names_are_shown_as_they_are(name):
    made = Document(verbatim(name), "", [Words(f"class {verbatim(name)} is **rare**")])
    made.add(Table("", ["", "n"], [[verbatim(name), Value(verbatim(name), verbatim(name))]]))
    made.add(Numbers([(verbatim(name), Value("1", verbatim(name)))]))
    page = to_html(made, {})
    shown = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert f"<p>class {shown} is <strong>rare</strong></p>" in page
    assert page.count(f">{shown}<") == 7
    assert f"class {name} is **rare**" in to_markdown(made)


def test_pictures_are_part_of_the_page():
    made = Document("t", "", [Figure("a", "one", "png"), Figure("b", "two", "svg")])
    page = to_html(made, {"a": b"\x89PNG...", "b": b"<svg/>"})
    assert page.count("data:image/png;base64,") == 1
    assert page.count("data:image/svg+xml;base64,") == 1


def test_bars_show_size_and_sign():
    rows = [["a", Value("+1", bar=1.0)], ["b", Value("-2", bar=-0.5)], ["c", Value("0")]]
    page = to_html(Document("t", "", [Table("", ["", ""], rows)]), {})
    assert page.count('<span class="bar" style="width:100.0%">') == 1
    assert page.count('<span class="bar minus" style="width:50.0%">') == 1
