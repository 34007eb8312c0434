"""The command ``fuzzytwin``. Needs the extra cli.

Exit codes: 0 for success, 2 for invalid options, tables or model files and for an output that
exists, and 1 for any other failure, such as a missing package or a full disk.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from fuzzytwin._utils.extras import missing_package
from fuzzytwin._utils.text import wrapped

INTERRUPTED = "Interrupted. No partial output was written."


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code."""
    # Future warnings concern the developers of packages, not the users of a command.
    warnings.simplefilter("ignore", FutureWarning)
    warnings.showwarning = _print_warning
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # for terminals that cannot draw frames
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code. Errors are one line, except with ``--debug``."""
    debug = "--debug" in arguments
    argv = [argument for argument in arguments if argument != "--debug"] or ["--help"]
    try:
        from fuzzytwin.cli._app import app
    except ImportError as error:
        if debug:
            raise
        return _print_error(str(missing_package("fuzzytwin", str(error.name), "cli", error)), 1)
    try:
        code = app(argv, prog_name="fuzzytwin", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return _print_error(INTERRUPTED, 130)
    except BrokenPipeError:
        # The reader of our output, such as head or less, has closed it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            raise
        if hasattr(error, "format_message"):  # a mistake in the options
            text = error.format_message().replace("Value error, ", "").rstrip(" .;")
            command = getattr(getattr(error, "ctx", None), "command_path", "fuzzytwin")
            see = " See" if text.endswith("?") else "; see"
            return _print_error(f"{text}{see} {command} --help", 2)
        if type(error).__name__ == "Abort":
            return _print_error(INTERRUPTED, 130)
        if isinstance(error, MemoryError):
            return _print_error(_memory_error(error, argv[0]), 1)
        text = " ".join([_message(error), *getattr(error, "__notes__", ())])
        if not isinstance(error, (ValueError, ImportError, OSError)):
            hint = "a bug in fuzzytwin: please run again with --debug and report it"
            text = f"{type(error).__name__}: {text} ({hint})"
        invalid_input = (ValueError, FileExistsError, FileNotFoundError, IsADirectoryError)
        return _print_error(text, 2 if isinstance(error, invalid_input) else 1)


def _message(error: Exception) -> str:
    """Return the message of an error. Errors of tables name options of the command line."""
    finding = getattr(error, "finding", None)
    if finding is None:
        return str(error)
    from fuzzytwin.experiment._words import command_option
    from fuzzytwin.tables import describe

    text = describe(finding, command_option)
    return text if text.endswith("?") else f"{text}."


def _memory_error(error: MemoryError, command: str) -> str:
    """Return the message if memory does not suffice, with a remedy."""
    if isinstance(error, ValueError):  # an error of this library, which names a remedy
        return _message(error)
    remedy = "--sample ROWS" if command == "studio" else "--stream"
    return f"not enough memory ({error or 'allocation failed'}); try {remedy}, or --drop columns"


def _print_warning(message: Any, *_: Any, **__: Any) -> None:
    print(wrapped(f"warning: {' '.join(str(message).split())}", sys.stderr), file=sys.stderr)


def _print_error(text: str, code: int) -> int:
    lines = wrapped(f"error: {' '.join(text.split())}", sys.stderr)
    if sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        lines = lines.replace("error:", "\x1b[31merror:\x1b[0m", 1)
    print(lines, file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
