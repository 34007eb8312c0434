"""``python -m reproduction``: the paper's experiments with one command."""

import sys

from fuzzytwin._utils.extras import one_line

if __name__ == "__main__":
    try:
        from reproduction.main import main
    except ImportError as error:
        sys.exit(one_line(error, "benchmarks"))
    main()
