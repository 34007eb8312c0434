"""The command ``fuzzytwin``. Needs the extra cli.

Exit codes: 0 done; 1 something failed (a package is missing, a disk is full); 2 what was given
cannot be used (options, tables, model files, a file that is there already).
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from fuzzytwin._utils.extras import missing


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code."""
    # What packages plan to change is for their developers.
    warnings.simplefilter("ignore", FutureWarning)
    warnings.showwarning = _warn
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that knows no frames gets marks
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run a command; give its exit code. Errors are one line, unless ``--debug`` is given."""
    debug = "--debug" in arguments
    words = [word for word in arguments if word != "--debug"] or ["--help"]
    try:
        from fuzzytwin.cli.app import app
    except ImportError as error:
        if debug:
            raise
        return _say(str(missing("fuzzytwin", str(error.name), "cli", error)), 1)
    try:
        code = app(words, prog_name="fuzzytwin", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return _say("stopped; nothing was written", 130)
    except BrokenPipeError:
        # Whoever read our output has heard enough: head, less.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError as error:
        if debug:
            raise
        return _say(f"not enough memory ({error}); try --stream, or fewer columns", 1)
    except Exception as error:
        if debug:
            raise
        if hasattr(error, "format_message"):  # a mistake in the options
            said = error.format_message().replace("Value error, ", "").rstrip(" .;")
            where = getattr(getattr(error, "ctx", None), "command_path", "fuzzytwin")
            return _say(f"{said}{' See' if said.endswith('?') else '; see'} {where} --help", 2)
        if type(error).__name__ == "Abort":
            return _say("stopped; nothing was written", 130)
        unusable = (ValueError, FileExistsError, FileNotFoundError, IsADirectoryError)
        if isinstance(error, unusable):
            return _say(str(error), 2)
        if isinstance(error, (ImportError, OSError)):
            return _say(str(error), 1)
        return _say(
            f"{type(error).__name__}: {error} (a mistake of ours: run again with --debug and "
            "report it)",
            1,
        )


def _warn(message: Any, *_: Any, **__: Any) -> None:
    print(f"warning: {' '.join(str(message).split())}", file=sys.stderr)


def _say(text: str, code: int) -> int:
    # A file's words must not move the cursor of whoever reads about them.
    line = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    color = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    print(f"\x1b[31merror:\x1b[0m {line}" if color else f"error: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
