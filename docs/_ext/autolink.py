"""Names of public objects in running text lead to their pages."""

import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

LISTED = re.findall(
    r"^   (fuzzytwin[\w.]+)$",
    (Path(__file__).parents[1] / "api" / "index.rst").read_text(encoding="utf-8"),
    re.M,
)


def addresses():
    """Map names as people write them to full names; of equal names the first one listed wins.

    A plain word, such as "load" or "explain", may mean something else: it needs its full name.
    """
    found = {name: name for name in LISTED}
    for name in LISTED:
        short = name.rpartition(".")[2]
        if short != short.lower() or "_" in short:
            found.setdefault(short, name)
    return found


def link(app, doctree):
    if app.env.docname.startswith(("api/", "gallery/")):
        return
    known = addresses()
    for literal in list(doctree.findall(nodes.literal)):
        target = known.get(literal.astext().removesuffix("()"))
        inside_link = isinstance(literal.parent, (nodes.reference, addnodes.pending_xref))
        if target is None or inside_link or isinstance(literal.parent, nodes.title):
            continue
        reference = addnodes.pending_xref(
            "", literal.deepcopy(), refdomain="py", reftype="obj", reftarget=target,
            refdoc=app.env.docname, refwarn=True,
        )  # fmt: skip
        literal.replace_self(reference)


def setup(app):
    app.connect("doctree-read", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
