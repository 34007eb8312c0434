"""Descriptions for search engines: a page's front matter, or else its first paragraph."""

from html import escape

from docutils import nodes

LENGTH = 160


def add_description(app, pagename, templatename, context, doctree):
    if doctree is None or 'name="description"' in context.get("metatags", ""):
        return
    text = first_paragraph(doctree)
    if text:
        tag = f'<meta name="description" content="{escape(text)}" />'
        context["metatags"] = f"{context.get('metatags', '')}\n{tag}"


def first_paragraph(doctree):
    """Return the first paragraph of running text, cut after a whole word."""
    for paragraph in doctree.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if len(text) > LENGTH:
            text = text[:LENGTH].rpartition(" ")[0] + " ..."
        if text:
            return text
    return ""


def setup(app):
    app.connect("html-page-context", add_description)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
