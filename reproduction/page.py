"""Documents as pages of HTML that need no network and no other file."""

from __future__ import annotations

import base64
import html
import re

from reproduction.document import Block, Card, Document, Figure, Heading, Table, Value, Words


def to_html(document: Document, pictures: dict[str, bytes]) -> str:
    """Write a document as one page; `pictures` are SVG or PNG files by the names of figures.

    Examples
    --------
    >>> from reproduction.document import Document, Words
    >>> from reproduction.page import to_html
    >>> page = to_html(Document("Title", "Lead", [Words("**a** < `b`")]), {})
    >>> "<p><strong>a</strong> &lt; <code>b</code></p>" in page
    True
    """
    body = [_html(block, pictures) for block in document.blocks]
    links = "".join(
        f'<a href="#{_anchor(block.text)}">{html.escape(block.short or block.text)}</a>'
        for block in document.blocks
        if isinstance(block, Heading) and block.level == 2
    )
    return _PAGE.format(
        title=html.escape(document.title, quote=False),
        lead=_inline(document.lead),
        style=_STYLE,
        links=links,
        body="\n".join(body),
    )


def _html(block: Block, pictures: dict[str, bytes]) -> str:
    if isinstance(block, Heading):
        anchor = f' id="{_anchor(block.text)}"' if block.level == 2 else ""
        return f"<h{block.level}{anchor}>{_inline(block.text)}</h{block.level}>"
    if isinstance(block, Words):
        inner = f"<p>{_inline(block.text)}</p>" if block.text else ""
        if block.bullets:
            inner += f"<ul>{''.join(f'<li>{_inline(line)}</li>' for line in block.bullets)}</ul>"
        return f'<div class="{block.kind}">{inner}</div>' if block.kind else inner
    if isinstance(block, Table):
        return _html_table(block)
    if isinstance(block, Figure):
        picture = pictures[block.name]
        kind = "png" if picture.startswith(b"\x89PNG") else "svg+xml"
        data = base64.b64encode(picture).decode("ascii")
        return (
            f'<figure><img alt="{html.escape(block.alt)}" '
            f'src="data:image/{kind};base64,{data}">'
            f"<figcaption>{_inline(block.caption)}</figcaption></figure>"
        )
    return _card(block, pictures)


def _card(block: Card, pictures: dict[str, bytes]) -> str:
    inner = "\n".join(_html(part, pictures) for part in block.blocks)
    return (
        f'<section class="card"><h3><span class="number">{block.number}</span>'
        f"{_inline(block.title)}</h3>{inner}</section>"
    )


def _html_table(table: Table) -> str:
    first = [cell.tone if isinstance(cell, Value) else "plain" for cell in table.rows[0]]
    head = "".join(
        f'<th class="{tone}">{_inline(cell)}</th>'
        for cell, tone in zip(table.head, first, strict=True)
    )
    rows = []
    for place, row in enumerate(table.rows):
        cells = [f"<th>{_inline(str(row[0]))}</th>"]
        for cell in row[1:]:
            value = cell if isinstance(cell, Value) else Value(cell)
            small = f"<small>{_inline(value.small)}</small>" if value.small else ""
            cells.append(f'<td class="{value.tone}">{_inline(value.text)}{small}</td>')
        foot = ' class="foot"' if place >= len(table.rows) - table.foot else ""
        rows.append(f"<tr{foot}>{''.join(cells)}</tr>")
    caption = f"<caption><p>{_inline(table.caption)}</p></caption>" if table.caption else ""
    return (
        f'<div class="table"><table>{caption}'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _inline(text: str) -> str:
    text = html.escape(text, quote=False)
    text = re.sub(r"(\d) %", "\\1\u00a0%", text)  # a number and its sign stay together
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><div><h1>{title}</h1><p>{lead}</p></div></header>
<nav><div>{links}</div></nav>
<main>
{body}
</main>
</body>
</html>
"""

_STYLE = """
:root { --ink: #1d2433; --soft: #5b6475; --line: #dfe3ea; --paper: #fff; --back: #f5f6f8;
  --blue: #0b5c94; --good: #e3f3ea; --bad: #fbeae4; --code: #eef1f5; }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 3.5rem; }
body { margin: 0; color: var(--ink); background: var(--back);
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
header { background: linear-gradient(120deg, #0b3c5d, #0b5c94 70%, #2a86b8); color: #fff; }
header div, nav div, main { max-width: 68rem; margin: 0 auto; padding: 0 1.25rem; }
header div { padding-top: 2.6rem; padding-bottom: 2rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .6rem; }
header p { margin: 0; max-width: 52rem; color: #dcebf5; }
nav { position: sticky; top: 0; z-index: 2; background: rgba(255,255,255,.96);
  border-bottom: 1px solid var(--line); }
nav div { display: flex; gap: 0 1.5rem; overflow-x: auto; white-space: nowrap; }
nav a { color: var(--blue); text-decoration: none; font-size: .92rem; padding: .65rem 0; }
nav a:hover { text-decoration: underline; }
main { padding-bottom: 4rem; }
h2 { font-size: 1.45rem; margin: 3rem 0 .8rem; padding-top: .3rem; }
h3 { font-size: 1.1rem; margin: 1.8rem 0 .5rem; }
p, ul { max-width: 54rem; margin: .7rem 0; }
li { margin: .35rem 0; }
code { background: var(--code); border-radius: 4px; padding: .08em .35em; font-size: .88em;
  font-family: ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
.note, .warning { border-left: 4px solid var(--blue); background: #eaf3f9; padding: .15rem 1rem;
  border-radius: 0 8px 8px 0; margin: 1rem 0; max-width: 52rem; }
.warning { border-color: #c8642b; background: #fcf1e8; }
.table { overflow-x: auto; width: fit-content; min-width: min(24rem, 100%); max-width: 100%;
  background: var(--paper); border: 1px solid var(--line);
  border-radius: 10px; margin: 1.1rem 0; padding: .3rem .8rem .6rem; }
table { border-collapse: collapse; min-width: 100%; font-size: .9rem;
  font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .6rem .3rem; color: var(--soft); line-height: 1.45; }
caption p { margin: 0; max-width: min(54rem, 100vw - 4.5rem); }
th, td { padding: .38rem .55rem; text-align: right; border-bottom: 1px solid var(--line);
  vertical-align: top; }
thead th { color: var(--soft); font-weight: 600; border-bottom: 2px solid var(--line); }
td { white-space: nowrap; }
th:first-child { text-align: left; font-weight: 600; white-space: nowrap; }
tbody tr:last-child > * { border-bottom: 0; }
tr.foot > * { background: #f7f8fa; }
td small { display: block; color: var(--soft); font-size: .78rem; white-space: nowrap;
  line-height: 1.35; font-weight: 400; }
td.best { font-weight: 700; }
td.short { background: var(--bad); }
td.over { background: var(--good); }
td.faint { color: var(--soft); }
td.partly { background: #fdf5dc; }
td.words { white-space: normal; min-width: 11rem; }
th.words, td.words { text-align: left; }
tbody th { white-space: normal !important; min-width: 6rem; }
figure { background: var(--paper); border: 1px solid var(--line); border-radius: 10px;
  margin: 1.1rem 0; padding: 1rem; }
figure img { display: block; max-width: min(100%, 50rem); height: auto; margin: 0 auto; }
figcaption { color: var(--soft); font-size: .9rem; margin-top: .6rem; max-width: 50rem; }
.card { background: var(--paper); border: 1px solid var(--line); border-radius: 10px;
  padding: .4rem 1.2rem .7rem; margin: 1rem 0; }
.card h3 { margin: .7rem 0 .3rem; }
.card .table { border: 0; padding: 0; }
.number { display: inline-block; min-width: 1.75em; height: 1.75em; line-height: 1.75em;
  text-align: center; border-radius: 50%; background: var(--blue); color: #fff; font-size: .85em;
  margin-right: .6em; }
@media (max-width: 40rem) { body { font-size: 15px; } h1 { font-size: 1.55rem; }
  header div { padding-top: 1.8rem; padding-bottom: 1.4rem; } th, td { padding: .3rem .4rem; } }
@media print { nav { display: none; } body { background: #fff; }
  .card, figure, .table { break-inside: avoid; } }
"""
