"""``python -m fuzzytwin.paper``: the paper's experiments with one command."""

from fuzzytwin.paper import main

if __name__ == "__main__":
    main()
