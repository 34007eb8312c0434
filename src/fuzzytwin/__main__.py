"""``python -m fuzzytwin``: the command line."""

from fuzzytwin.apps.cli import main

main()
