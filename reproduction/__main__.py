"""``python -m reproduction``: the paper's experiments with one command."""

from reproduction import main

if __name__ == "__main__":
    main()
