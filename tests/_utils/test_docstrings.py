"""Docstrings that share paragraphs are complete where they are read."""

import inspect
import re

import pytest

from fuzzytwin import classics


@pytest.mark.parametrize("name", classics.__all__)
def test_every_parameter_is_described(name):
    kind = getattr(classics, name)
    doc = inspect.cleandoc(kind.__doc__)  # as Python 3.13 and later store it
    assert not re.search(r"^ *\{\w+\}$", doc, re.MULTILINE)
    described = doc[doc.index("Parameters") : doc.index("Attributes")]
    names = re.findall(r"^(\w[\w, ]*?)(?: :.*)?$", described, re.MULTILINE)
    listed = {part.strip() for entry in names for part in entry.split(",")}
    assert set(kind().get_params()) <= listed
