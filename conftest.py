"""Pin BLAS to one thread before numpy is first imported: each xdist worker has its own core."""

import os
from pathlib import Path

import pytest

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("MPLBACKEND", "Agg")

_helpers = Path(__file__).with_name("tests").glob("*/helpers.py")
pytest.register_assert_rewrite(*(f"tests.{path.parent.name}.helpers" for path in _helpers))
