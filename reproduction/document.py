"""A document of headings, words, tables and figures; `reproduction.page` writes it as a page.

Words know two marks: `` `code` `` and ``**strong**``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

NO_BREAK = "\N{NO-BREAK SPACE}"  # keeps a figure and its deviation on one line


@dataclass(frozen=True)
class Value:
    """A cell of a table: a number, a small note beside it and a tone.

    Tones: "best", "short" (of the paper's figure), "over" (it), "partly", "plain", "faint", and
    "words" for text that wraps.
    """

    text: str
    small: str = ""
    tone: str = "plain"


@dataclass(frozen=True)
class Heading:
    """A heading; level 2 opens a section."""

    text: str
    level: int = 2
    short: str = ""  # in the list of sections


@dataclass(frozen=True)
class Words:
    """A paragraph, or with `bullets` a list; `kind` may be "note" or "warning"."""

    text: str = ""
    bullets: tuple[str, ...] = ()
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """A table with a caption; the first column names the rows."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str | Value]]
    foot: int = 0  # how many of the last rows sum up the others


@dataclass(frozen=True)
class Figure:
    """A figure: the name of its files, what it shows, and a caption."""

    name: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Card:
    """A numbered finding: title and blocks of its own."""

    number: int
    title: str
    blocks: tuple[Block, ...]


Block = Heading | Words | Table | Figure | Card


@dataclass
class Document:
    """Title, lead and blocks."""

    title: str
    lead: str
    blocks: list[Block] = field(default_factory=list)

    def add(self, *blocks: Block) -> None:
        """Append blocks."""
        self.blocks.extend(blocks)


def to_markdown(document: Document) -> str:
    """Write a document as Markdown, without its figures."""
    parts = [f"# {document.title}", document.lead]
    parts += [part for block in document.blocks for part in _markdown(block)]
    return "\n\n".join(parts) + "\n"


def _markdown(block: Block) -> Iterable[str]:
    if isinstance(block, Heading):
        yield f"{'#' * block.level} {block.text}"
    elif isinstance(block, Words):
        if block.text:
            yield f"> {block.text}" if block.kind else block.text
        if block.bullets:
            yield "\n".join(f"- {line}" for line in block.bullets)
    elif isinstance(block, Table):
        yield block.caption
        rule = "".join("|---" if is_text(cell) else "|---:" for cell in block.rows[0][1:])
        lines = [_row(block.head), f"|---{rule}|"]
        yield "\n".join(lines + [_row([_flat(cell) for cell in row]) for row in block.rows])
    elif isinstance(block, Card):
        yield f"### {block.number}. {block.title}"
        for inner in block.blocks:
            yield from _markdown(inner)


def is_text(cell: str | Value) -> bool:
    """Return whether a cell holds words, not a figure. A verdict has a tone, but no digit."""
    if not isinstance(cell, Value) or cell.tone == "words":
        return isinstance(cell, Value)
    return cell.tone != "plain" and not any(map(str.isdigit, cell.text))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _flat(cell: str | Value) -> str:
    if isinstance(cell, str):
        return cell
    text = f"**{cell.text}**" if cell.tone == "best" and cell.text else cell.text
    return f"{text} ({cell.small.replace(' ', NO_BREAK)})" if cell.small else text
