"""The layers of the package, drawn from the import contract in pyproject.toml."""

import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

from docutils import nodes
from docutils.parsers.rst import Directive

ROOT = Path(__file__).parents[2]
WIDTH, HEIGHT, GAP = 760, 34, 12


def drawing():
    with open(ROOT / "pyproject.toml", "rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["type"] == "layers")
    parts = []
    for i, layer in enumerate(layers):
        names = [name.strip() for name in layer.replace("|", ":").split(":")]
        width = (WIDTH - GAP * (len(names) - 1)) / len(names)
        for j, name in enumerate(names):
            x, y = j * (width + GAP), i * (HEIGHT + GAP)
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT}" rx="6"/>'
                f'<text x="{x + width / 2:.1f}" y="{y + 22}">{escape(name)}</text>'
            )
    height = len(layers) * (HEIGHT + GAP)
    title = "Layers of the package: a part imports parts below it, never above"
    return (
        f'<svg class="layers" role="img" viewBox="-1 -1 {WIDTH + 2} {height}"'
        f' xmlns="http://www.w3.org/2000/svg"><title>{title}</title>{"".join(parts)}</svg>'
    )


class Layers(Directive):
    def run(self):
        return [nodes.raw("", drawing(), format="html")]


def setup(app):
    app.add_directive("layers", Layers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
