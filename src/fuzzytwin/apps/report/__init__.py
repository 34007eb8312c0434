"""Pages of HTML that need no network and no other file, written from templates.

A page is a template in ``templates/`` and a function that collects what it shows; `render` puts
them together. Everything that a table brings along is escaped.
"""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Callable
from typing import Any

from fuzzytwin._utils.extras import need, versions
from fuzzytwin._utils.version import __version__


def render(template: str, title: str, lead: str, **context: Any) -> str:
    """Write a page: the template's body between a head with the title and a list of sections."""
    jinja = need("jinja2", "cli", "a page")
    environment = jinja.Environment(
        loader=jinja.PackageLoader("fuzzytwin.apps.report"),
        autoescape=True,
        trim_blocks=True,
        undefined=jinja.StrictUndefined,
    )
    environment.filters["short"] = short
    links: list[tuple[str, str]] = []

    def heading(text: str, name: str) -> Any:
        links.append((re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-"), name))
        markup = environment.from_string('<h2 id="{{ anchor }}">{{ text }}</h2>')
        return markup_of(markup.render(anchor=links[-1][0], text=text))

    markup_of = need("markupsafe", "cli", "a page").Markup
    body = environment.get_template(template).render(heading=heading, **context)
    body = re.sub(r"(\d) %", "\\1\u00a0%", body)  # a number and its sign stay together
    page = environment.get_template("page.html")
    return str(page.render(title=title, lead=lead, links=links, body=markup_of(body)))


def picture(draw: Callable[[Any], object], size: tuple[float, float]) -> str:
    """Draw on a matplotlib figure of a size in inches; "" where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    canvas, buffer = Figure(figsize=size, layout="constrained"), io.BytesIO()
    draw(canvas)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # names in other scripts
        canvas.savefig(buffer, format="png", dpi=150)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def packages() -> str:
    """List the versions of the packages that made a page."""
    others = ", ".join(f"{name} {v}" for name, v in versions().items() if name != "fuzzytwin")
    return f"fuzzytwin {__version__}, {others}."


def short(label: object, width: int = 24) -> str:
    """Cut a text for a narrow place."""
    text = str(label)
    return text if len(text) <= width else f"{text[: width - 3]}..."


def base(path: str) -> str:
    """Return the name of a file without its folders."""
    return path.replace("\\", "/").rsplit("/", 1)[-1]
