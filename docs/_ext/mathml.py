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
CHARACTERS = [
    (0x20, 0xFF),  # Latin
    (0x391, 0x3F5),  # Greek
    (0x2010, 0x2044),  # dashes, bars, primes
    (0x210E, 0x211D),  # Planck's h, which stands for an italic one, and double-struck letters
    (0x2190, 0x21D4),  # arrows
    (0x2200, 0x22FF),  # operators
    (0x27E8, 0x27E9),  # angle brackets
    (0x1D434, 0x1D467),  # italic Latin
    (0x1D6FC, 0x1D71B),  # italic Greek
]


# The converter takes these for plain bars, to which an exponent would belong, not to the norm.
BARS = {
    r"\lvert": r"\left|",
    r"\rvert": r"\right|",
    r"\lVert": r"\left\|",
    r"\rVert": r"\right\|",
}


def inline(self, node):
    self.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def block(self, node):
    self.body.append(f'<div class="math">{mathml(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def mathml(formula, display="inline"):
    for name, bar in BARS.items():
        formula = formula.replace(name, bar)
    return convert(formula, display=display)


def write_font(app, error):
    """Write the characters that formulas need, with the font's rules for formulas."""
    package = importlib.util.find_spec("ziamath")
    if error or app.builder.format != "html":
        return
    if package is None:
        logging.getLogger(__name__).info("ziamath is not installed: no font for formulas")
        return
    source = Path(package.origin).parent / "fonts" / "STIXTwoMath-Regular.ttf"
    options = subset.Options(flavor="woff", layout_features=["ssty", "kern", "mark", "mkmk"])
    font = subset.load_font(str(source), options)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=[code for low, high in CHARACTERS for code in range(low, high + 1)])
    cutter.subset(font)
    subset.save_font(font, str(Path(app.outdir) / "_static" / FONT), options)


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.connect("build-finished", write_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
