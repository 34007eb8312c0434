"""What all views share: the class `View`, and templates that escape whatever they are given."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import jinja2
from nicegui import ui

from fuzzytwin._utils.text import cut

if TYPE_CHECKING:
    from fuzzytwin.apps.studio.page import Page

COLOURS = 7  # style.css has as many; class k has colour k % COLOURS, in every picture and bar


class View:
    """One view of the page: a subclass in a file of its own, listed in `page.VIEWS`."""

    name: ClassVar[str]  # in the bar, and as a class of style.css
    keys: ClassVar[str] = ""  # regular expression of the keys that it takes
    needs_table: ClassVar[bool] = True
    map: Any = None  # the map of the rows, in views that have one

    def __init__(self, page: Page) -> None:
        self.page = page
        self.session: Any = page.session  # None without a table
        self.box = ui.element("section").classes(f"view {self.name}")
        with self.box:
            self.build()

    @cached_property
    def parts(self) -> Any:
        """Return the macros that draw the view, of ``templates/NAME.html``."""
        return templates(self.name)

    def build(self) -> None:
        """Lay out the view, empty."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Draw all that has changed."""
        raise NotImplementedError

    def follow(self) -> None:
        """Draw what another page has changed."""
        self.refresh()

    def press(self, key: str, row: int, value: Any = None) -> None:
        """Carry out a key or button; `row` is the row that the page showed."""

    def point(self, given: dict[str, Any]) -> None:
        """Carry out what the mouse did on a map, at x and y as shares of its width and height.

        On a map of rows: look at the row that was pressed.
        """
        if self.map is not None:
            self.page.look_at(self.map.row_at(given))


def block(kind: str = "", tag: str = "div", content: str = "") -> Any:
    """Place a part of the page, which `put` fills."""
    return ui.html(content, sanitize=False, tag=tag).classes(kind)


def put(element: Any, content: str) -> None:
    """Give a part of the page other content, unless it has it already."""
    if element.content != content:
        element.set_content(content)


def select(name: str, text: str, options: dict[Any, str], value: Any, choose: Any) -> Any:
    """Place a choice among values; `choose` is called with the one that is taken."""
    chosen = ui.select(options, label=text, value=value, on_change=lambda e: choose(e.value))
    return chosen.props("dense outlined options-dense").classes(f"choice-{name}")


def hint(element: Any, text: str) -> Any:
    """Say what an element does where the mouse rests on it; return the element.

    At once: while a hint fades, Quasar holds every `focus()` back, and a choice that was opened
    meanwhile would take the focus, and the next key, from what a person has gone on to.
    """
    with element:
        ui.tooltip(text).props("transition-duration=0")
    return element


def templates(name: str) -> Any:
    """Return the macros of a template, as functions."""
    return _environment.get_template(f"{name}.html").module


def signed(value: float, digits: int = 2) -> str:
    """Write a number with its sign."""
    return f"{value:+.{digits}f}".replace("-", "−")


def marker(code: int, x: float, y: float, r: float) -> str:
    """Give the outline of a class's marker as the data of an SVG path."""
    kind = code % 5
    if kind == 0:
        return f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z"
    s = round(r * (1.2, 0.88, 1.25, 1.2)[kind - 1], 2)
    if kind == 2:
        return f"M{x - s:.1f} {y - s:.1f}h{2 * s}v{2 * s}h{-2 * s}z"
    if kind == 3:
        return f"M{x:.1f} {y - s:.1f}l{s} {s}l{-s} {s}l{-s} {-s}z"
    up = 1 if kind == 1 else -1
    return f"M{x:.1f} {y - up * s:.1f}l{s} {1.8 * up * s:.1f}h{-2 * s:.1f}z"


_environment = jinja2.Environment(
    loader=jinja2.PackageLoader("fuzzytwin.apps.studio"), autoescape=True,
    undefined=jinja2.StrictUndefined,
)  # fmt: skip
_environment.globals |= {"colours": COLOURS, "marker": marker}
_environment.filters |= {
    "short": partial(cut, end="…"),
    "signed": signed,
    "share": lambda value: "?" if value != value else f"{100 * value:.1f} %",
    "whole": lambda value: "?" if value != value else f"{value:,.0f}",
    "range": lambda ends: f"{ends[0]:,.0f} to {ends[1]:,.0f}",
}
