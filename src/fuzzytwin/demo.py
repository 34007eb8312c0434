"""A first look at the library: ``python -m fuzzytwin.demo``."""

from fuzzytwin.apps.demo import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
