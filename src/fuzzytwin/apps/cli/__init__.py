"""The command ``fuzzytwin``. Needs the extra cli.

Exit codes: 0 done; 1 something failed (a package is missing, a disk is full); 2 what was given
cannot be used (options, tables, model files, an output that exists already).
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from fuzzytwin._utils.extras import missing

STOPPED = "stopped; no unfinished file is left"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code."""
    # What packages plan to change concerns their developers.
    warnings.simplefilter("ignore", FutureWarning)
    warnings.showwarning = _warn
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # for terminals that cannot draw frames
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code; errors are one line, unless with ``--debug``."""
    debug = "--debug" in arguments
    words = [word for word in arguments if word != "--debug"] or ["--help"]
    try:
        from fuzzytwin.apps.cli.app import app
    except ImportError as error:
        if debug:
            raise
        return _say(str(missing("fuzzytwin", str(error.name), "cli", error)), 1)
    try:
        code = app(words, prog_name="fuzzytwin", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return _say(STOPPED, 130)
    except BrokenPipeError:
        # The reader of our output, such as head or less, has closed it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            raise
        if hasattr(error, "format_message"):  # a mistake in the options
            text = error.format_message().replace("Value error, ", "").rstrip(" .;")
            where = getattr(getattr(error, "ctx", None), "command_path", "fuzzytwin")
            return _say(f"{text}{' See' if text.endswith('?') else '; see'} {where} --help", 2)
        if type(error).__name__ == "Abort":
            return _say(STOPPED, 130)
        if isinstance(error, MemoryError):
            return _say(_memory_error(error, words[0]), 1)
        text = " ".join([str(error), *getattr(error, "__notes__", ())])
        if not isinstance(error, (ValueError, ImportError, OSError)):
            hint = "a bug of fuzzytwin: run again with --debug and report it"
            text = f"{type(error).__name__}: {text} ({hint})"
        unusable = (ValueError, FileExistsError, FileNotFoundError, IsADirectoryError)
        return _say(text, 2 if isinstance(error, unusable) else 1)


def _memory_error(error: MemoryError, command: str) -> str:
    """Say what can be done where memory does not suffice."""
    if isinstance(error, ValueError):  # of this library: it says what to do
        return str(error)
    remedy = "--sample ROWS" if command == "studio" else "--stream"
    return f"not enough memory ({error or 'it ran out'}); try {remedy}, or fewer columns"


def _warn(message: Any, *_: Any, **__: Any) -> None:
    print(f"warning: {' '.join(str(message).split())}", file=sys.stderr)


def _say(text: str, code: int) -> int:
    # Text from a file must not control the terminal.
    line = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    color = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    print(f"\x1b[31merror:\x1b[0m {line}" if color else f"error: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
