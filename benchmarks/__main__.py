"""``python -m benchmarks NAME``: run one of the measurements."""

import importlib
import sys

NAMES = {
    "fit": "time and memory of one fit as ratios to X.T @ X and to peers",
    "defaults": "which membership, rule and alpha do best on the ten tables",
}


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in NAMES:
        print("usage: python -m benchmarks NAME, where NAME is one of")
        for known, what in NAMES.items():
            print(f"  {known:10s} {what}")
        return 2
    importlib.import_module(f"benchmarks.{name}").run(sys.argv[2:])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
