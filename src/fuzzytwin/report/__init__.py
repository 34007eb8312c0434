"""Self-contained HTML pages, rendered from templates.

A page is a template in ``templates/`` and a function that collects its context for `render`. Text
from tables is escaped.
"""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fuzzytwin._utils.extras import import_optional, versions
from fuzzytwin._utils.text import cut


def render(template: str, **context: Any) -> str:
    """Return a page: a head with title and lead, links to the sections, and the template's text.

    Title and lead are arguments, or set by the template.
    """
    jinja = import_optional("jinja2", "cli", "a page")
    markup = import_optional("markupsafe", "cli", "a page").Markup
    environment = jinja.Environment(
        loader=jinja.PackageLoader("fuzzytwin.report"),
        autoescape=True,
        trim_blocks=True,
        undefined=jinja.StrictUndefined,
    )
    environment.filters |= {"cut": cut, "cell": cell, "cells": cells}
    packages = ", ".join(f"{name} {version}" for name, version in versions().items())
    links: list[tuple[str, str]] = []

    def heading(text: str, name: str) -> Any:
        links.append((re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-"), name))
        return markup('<h2 id="{}">{}</h2>').format(links[-1][0], text)

    context = {"heading": heading, "packages": f"{packages}.", **context}
    module = environment.get_template(template).make_module(context)
    context |= {**vars(module), "links": links, "body": markup(str(module))}
    return str(environment.get_template("page.html").render(context))


def cell(entry: Mapping[str, Any], name: str) -> Any:
    """Format a value of an entry, with its interval if the entry has one."""
    value = entry[name]
    if value is None:
        return "-"
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else value
    if f"{name}_interval" not in entry:
        return f"{value:.3f}"
    low, high = entry[f"{name}_interval"]
    return {"text": f"{value:.3f}", "small": f"{low:.3f} to {high:.3f}"}


def cells(entries: Iterable[Mapping[str, Any]], *names: str) -> list[list[Any]]:
    """Format values of each entry as a row of a table; the first one names the row."""
    first, *others = names
    return [[entry[first], *(cell(entry, name) for name in others)] for entry in entries]


def picture(draw: Callable[[Any], object], size: tuple[float, float]) -> str:
    """Draw on a matplotlib figure of a size in inches; "" without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    canvas = Figure(figsize=size, layout="constrained")
    buffer = io.BytesIO()
    draw(canvas)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # names in other scripts
        canvas.savefig(buffer, format="png", dpi=150)
    return base64.b64encode(buffer.getvalue()).decode("ascii")
