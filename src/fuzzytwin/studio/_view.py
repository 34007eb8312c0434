"""What all views share. Cells, names and labels are only ever shown as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from nicegui import ui

from fuzzytwin._utils.text import cut
from fuzzytwin.studio._session import Session

if TYPE_CHECKING:
    from fuzzytwin.studio._page import Page

# Colours of the classes, in every bar and picture; those that many people cannot tell apart are
# far from each other (Okabe and Ito).
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a7f00")
# Shapes of the marks, as icons and on the map: another one when the colours begin again.
SHAPES = (("circle", "circle"), ("square", "rect"), ("change_history", "triangle"))


class View:
    """One view of the page: a subclass in a file of its own, listed in `_page.VIEWS`."""

    name: ClassVar[str]

    def __init__(self, page: Page) -> None:
        self.page = page
        self.session: Session = page.session
        self.build()

    def build(self) -> None:
        """Lay out the view."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Show all that has changed."""
        raise NotImplementedError

    def follow(self) -> None:
        """Show what another page has changed."""
        self.refresh()


def colour(code: int) -> str:
    """Return the colour of a class."""
    return COLOURS[code % len(COLOURS)]


def shape(code: int) -> tuple[str, str]:
    """Return the shape of the mark of a class: the name of its icon, and that on the map."""
    return SHAPES[code // len(COLOURS) % len(SHAPES)]


def card(classes: str = "") -> Any:
    """Place a card that may shrink."""
    return ui.card().props("flat bordered").classes(f"min-w-0 w-full gap-2 p-3 {classes}")


def heading(text: str) -> Any:
    """Place the heading of a card."""
    return ui.label(text).classes("text-base font-medium").props("role=heading aria-level=2")


def hint(text: str) -> Any:
    """Place a sentence of explanation."""
    return ui.label(text).classes("text-xs opacity-70")


def label_chip(code: int, name: str) -> Any:
    """Place a label with the mark of its class."""
    with ui.row().classes("items-center gap-1 flex-nowrap min-w-0") as row:
        ui.icon(shape(code)[0], size="10px").style(f"color: {colour(code)}")
        ui.label(short(name)).classes("font-medium break-words min-w-0")
    return row


def key_button(text: str, key: str, press: Callable[[], None], enabled: bool = True) -> Any:
    """Place a button that does what a key does."""
    button = ui.button(on_click=press).props("outline no-caps dense").classes("px-2")
    button.set_enabled(enabled)
    with button:
        ui.label(text)
        if key:
            ui.badge(key).props("outline").classes("ml-1 max-sm:!hidden")
    return button


def figure(value: str, name: str) -> Any:
    """Place a large figure above its name."""
    with ui.column().classes("gap-0 min-w-0 figure") as column:
        ui.label(value).classes("text-xl font-medium leading-tight")
        ui.label(name).classes("text-xs opacity-70")
    return column


def draw_figures(session: Session) -> None:
    """Place how many rows are to be reviewed, and what the reviews tell so far."""
    figure(f"{len(session.rows_to_review):,}", "rows to review")
    figure(f"{len(session.decisions):,}", f"of {len(session.table):,} rows reviewed")
    ends = interval(session.n_errors_left_interval)
    figure(ends, f"label errors left (95%), about {session.n_errors_left:,.0f}")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], narrow: Sequence[int] = ()) -> Any:
    """Place a table of text; the columns `narrow` are hidden on narrow screens."""
    heads = [
        {
            "name": str(j),
            "field": str(j),
            "label": name,
            "align": "left",
            "classes": "max-sm:hidden" if j in narrow else "",
            "headerClasses": "max-sm:hidden" if j in narrow else "",
        }
        for j, name in enumerate(columns)
    ]
    lines = [
        {"id": i, **{str(j): cell for j, cell in enumerate(row)}} for i, row in enumerate(rows)
    ]
    placed = ui.table(columns=heads, rows=lines)
    return placed.props("flat dense wrap-cells hide-pagination").classes("w-full")


def short(text: str, most: int = 40) -> str:
    """Cut a text off."""
    return cut(text, most, end="…")


def interval(ends: tuple[float, float]) -> str:
    """Write an interval of counts."""
    return f"{ends[0]:,.0f} to {ends[1]:,.0f}"


def signed(value: float) -> str:
    """Write a number with its sign."""
    return f"{value:+.2f}".replace("-", "−")
