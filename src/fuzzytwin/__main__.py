"""``python -m fuzzytwin``: the command line."""

from fuzzytwin.cli import main

main()
