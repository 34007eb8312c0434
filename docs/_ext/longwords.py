"""Mark code in running text that is too long for a line of a narrow screen (see site.css)."""

from docutils import nodes

LENGTH = 30  # characters of the longest word


def mark(app, doctree):
    for literal in doctree.findall(nodes.literal):
        if max(map(len, literal.astext().split()), default=0) >= LENGTH:
            literal["classes"].append("long")


def setup(app):
    app.connect("doctree-read", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
