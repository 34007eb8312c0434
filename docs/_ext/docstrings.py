"""Docstrings as reStructuredText: formulas set as they stand, bars that are no markup.

Docstrings hold formulas as indented lines, and norms as ``|w|``, so that they read well in a
terminal. To Sphinx the first is a quotation and the second a substitution.
"""

import re

SECTION = re.compile(r"^-{3,}\s*$")


def adapt(app, what, name, obj, options, lines):
    lines[:] = _escaped(_formulas(list(lines)))


def _formulas(lines):
    """Turn indented paragraphs outside of numpydoc's lists into literal blocks."""
    out, free, i = [], True, 0
    while i < len(lines):
        line = lines[i]
        if i + 1 < len(lines) and SECTION.match(lines[i + 1]):
            free = line.strip() in ("Notes", "References", "See Also", "Warnings")
        begins = (
            free and line.startswith("    ") and (not out or not out[-1].strip())
            and not line.lstrip().startswith((">>>", "- ", "* "))
        )  # fmt: skip
        if begins and not _inside_list(out):
            out += [".. code-block:: text", ""]
            while i < len(lines) and (lines[i].startswith("    ") or not lines[i].strip()):
                out.append(lines[i])
                i += 1
            out.append("")
            continue
        out.append(line)
        i += 1
    return out


def _inside_list(out):
    before = [line for line in out if line.strip()]
    return bool(before) and before[-1].startswith(("- ", "  "))


def _escaped(lines):
    """Escape bars outside of literals, code blocks and examples."""
    out, literal = [], None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if literal is not None and line.strip() and indent <= literal:
            literal = None
        begins = line.lstrip().startswith((".. code-block", ".. math::")) or line.endswith("::")
        if literal is None and begins:
            literal = indent
        elif literal is None and not line.lstrip().startswith((">>>", "...", ">")):
            parts = re.split(r"(``.*?``|:math:`.*?`)", line)
            parts = [p if p.startswith(("``", ":math:")) else p.replace("|", r"\|") for p in parts]
            line = "".join(parts)
        out.append(line)
    return out


def skip(app, what, name, obj, skipped, options):
    """Leave out what scikit-learn's base classes bring: its own pages describe it."""
    home = getattr(obj, "__module__", None) or ""
    if isinstance(obj, property):
        home = getattr(obj.fget, "__module__", "") or ""
    if re.fullmatch(r"set_\w+_request", name) or not home.startswith(("fuzzytwin", "builtins", "")):
        return True
    if home.startswith(("sklearn", "pyspark", "dask", "abc")):
        return True
    return None


def setup(app):
    app.connect("autodoc-process-docstring", adapt, priority=100)  # before numpydoc
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
