"""Docstrings that share paragraphs are complete where they are read."""

import inspect
import re

import pytest

from fuzzytwin import classics
from fuzzytwin._utils.docstrings import substitute


def test_paragraphs_are_indented_as_the_line_that_they_replace():
    @substitute(alpha="\nalpha : float\n    A ridge.\n")
    class Model:
        """A model.

        Parameters
        ----------
        {alpha}
        kind : {"a", "b"}
            Of two.
        """

    lines = [line.strip(" ") for line in Model.__doc__.splitlines()]
    assert lines[4:8] == ["alpha : float", "A ridge.", 'kind : {"a", "b"}', "Of two."]
    indents = [len(line) - len(line.lstrip()) for line in Model.__doc__.splitlines()[4:8]]
    assert indents == [indents[0], indents[0] + 4] * 2


def test_an_unknown_paragraph_is_an_error():
    with pytest.raises(KeyError, match="beta"):

        @substitute(alpha="a")
        class Model:
            """{beta}"""


@pytest.mark.parametrize("name", classics.__all__)
def test_every_parameter_is_described(name):
    kind = getattr(classics, name)
    doc = inspect.cleandoc(kind.__doc__)  # as Python 3.13 and later store it
    assert not re.search(r"^ *\{\w+\}$", doc, re.MULTILINE)
    described = doc[doc.index("Parameters") : doc.index("Attributes")]
    names = re.findall(r"^(\w[\w, ]*?)(?: :.*)?$", described, re.MULTILINE)
    listed = {part.strip() for entry in names for part in entry.split(",")}
    assert set(kind().get_params()) <= listed
