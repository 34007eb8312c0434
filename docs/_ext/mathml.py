"""Formulas as MathML, which browsers draw without a script."""

from latex2mathml.converter import convert


def inline(self, node):
    self.body.append(convert(node.astext()))
    raise _skip()


def block(self, node):
    self.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise _skip()


def _skip():
    from docutils.nodes import SkipNode

    return SkipNode()


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
