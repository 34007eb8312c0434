"""The command line: the public address of `fuzzytwin.apps.cli`."""

from fuzzytwin.apps.cli import main, run

__all__ = ["main", "run"]
