"""The data of the paper: ten UCI tables that ship with the package, and two generators."""

from fuzzytwin.datasets._synthetic import make_ndc, make_xor
from fuzzytwin.datasets._uci import list_uci, load_uci

__all__ = ["list_uci", "load_uci", "make_ndc", "make_xor"]
