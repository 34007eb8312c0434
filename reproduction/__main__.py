"""``python -m reproduction``: the paper's experiments with one command."""

from reproduction.main import main

if __name__ == "__main__":
    main()
