"""Formulas as MathML, which browsers draw without a script, in a font that the site ships.

The font is STIX Two Math, from the package ziamath, cut down to the characters of formulas. Without
the package, browsers take a font of the reader's computer.
"""

import importlib.util
from pathlib import Path

from docutils import nodes
from fontTools import subset
from latex2mathml.converter import convert
from sphinx.util import logging

FONT = "stix-two-math.woff"
# Latin, Greek, punctuation, arrows, operators, and the italic letters of formulas.
CHARACTERS = [(0x20, 0x17F), (0x300, 0x3FF), (0x2000, 0x2AFF), (0x1D400, 0x1D7FF)]


def inline(self, node):
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def block(self, node):
    self.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def write_font(app, error):
    """Write the characters that formulas need, with the font's rules for formulas."""
    package = importlib.util.find_spec("ziamath")
    if error or app.builder.format != "html":
        return
    if package is None:
        logging.getLogger(__name__).info("ziamath is not installed: no font for formulas")
        return
    source = Path(package.origin).parent / "fonts" / "STIXTwoMath-Regular.ttf"
    options = subset.Options(flavor="woff", layout_features=["*"], notdef_outline=True)
    font = subset.load_font(str(source), options)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=[code for low, high in CHARACTERS for code in range(low, high + 1)])
    cutter.subset(font)
    subset.save_font(font, str(Path(app.outdir) / "_static" / FONT), options)


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.connect("build-finished", write_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
