"""Small parts of HTML, made of text that may hold anything."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from fuzzytwin.studio.maps import marker


def safe(text: object, width: int = 200) -> str:
    """Escape a text for HTML and for attributes; cut a long one.

    Examples
    --------
    >>> from fuzzytwin.studio.markup import safe
    >>> safe("<script>")
    '&lt;script&gt;'
    """
    words = str(text)
    return html.escape(words if len(words) <= width else words[: width - 1] + "…", quote=True)


def share(value: float) -> str:
    """Write a share as a percentage with one decimal."""
    return f"{100 * value:.1f} %"


def signed(value: float, digits: int = 2) -> str:
    """Write a number with its sign."""
    return f"{value:+.{digits}f}".replace("-", "−")


def bar(value: float, kind: str = "") -> str:
    """Draw a bar of a length from 0 to 1; it is hidden from screen readers, as a number is by."""
    width = 100 * min(1.0, max(0.0, value))
    return f'<span class="bar {kind}" aria-hidden="true"><i style="width:{width:.1f}%"></i></span>'


def both_ways(value: float) -> str:
    """Draw a bar from the middle: to the right for positive, to the left for negative."""
    width = 50 * min(1.0, abs(value))
    side = "left:50%" if value >= 0 else f"left:{50 - width:.1f}%"
    kind = "for" if value >= 0 else "against"
    return (
        f'<span class="bar two" aria-hidden="true"><i class="{kind}" '
        f'style="{side};width:{width:.1f}%"></i></span>'
    )


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """Draw a table of cells that are HTML already; the first cell names its row."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    return (
        f'<table class="{kind}"><caption>{caption}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    )


def class_mark(code: int) -> str:
    """Draw the mark of a class: its shape and colour."""
    return (
        f'<svg class="mark c{code % 7}" viewBox="-8 -8 16 16" aria-hidden="true">'
        f'<path d="{marker(code, 0, 0, 6)}"/></svg>'
    )


def label(code: int, name: str) -> str:
    """Write a label with the mark of its class."""
    return f'<span class="label">{class_mark(code)}{safe(name, 40)}</span>'


def put(element: Any, content: str) -> None:
    """Give an element of the page other content, unless it has it already."""
    if element.content != content:
        element.set_content(content)


def pressed(state: bool) -> str:
    """Mark a button as pressed or not."""
    return f'aria-pressed="{"true" if state else "false"}"'


def options(name: str, text: str, choices: Iterable[tuple[str, str]], chosen: str) -> str:
    """Draw a choice among values, each with its name."""
    inner = "".join(
        f'<option value="{safe(value)}"{" selected" if value == chosen else ""}>{safe(shown, 40)}'
        "</option>"
        for value, shown in choices
    )
    return f'<label>{text} <select class="plain" data-choice="{name}">{inner}</select></label>'
