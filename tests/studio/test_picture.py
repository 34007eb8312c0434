"""Pictures of rows whose columns are pixels."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fuzzytwin.studio._picture import Pictures, pixel_columns
from tests.studio.helpers import open_session

GRID = [f"pixel_{i}_{j}" for i in range(8) for j in range(8)]


@pytest.mark.parametrize(
    ("names", "count"),
    [
        (GRID, 64),
        (["id", *reversed(GRID), "label"], 64),
        ([f"pixel{i}" for i in range(784)], 784),
        ([f"px_{i}" for i in range(1, 26)], 25),
        ([f"{i}x{j}" for i in range(1, 6) for j in range(1, 6)], 25),
        (GRID[:-1], 0),
        ([f"e{i}" for i in range(256)], 0),
        ([f"pixel{i}" for i in range(10, 26)], 0),
        (["age", "size"], 0),
    ],
)
def test_pixels_are_known_by_their_names(names, count):
    found = pixel_columns(names)
    assert len(found) == count
    if count and names[-1] == "label":
        assert found == GRID


def test_the_picture_of_a_row_has_its_pixels(tmp_path):
    frame = load_digits(as_frame=True).frame[:300]
    frame.to_csv(tmp_path / "t.csv", index=False)
    session = open_session(tmp_path / "t.csv", target="target", id=None)
    shades = np.asarray(Pictures(session.table).of(7))
    expected = frame.iloc[7, :64].to_numpy().reshape(8, 8) / 16 * 255
    np.testing.assert_allclose(shades, np.floor(expected), atol=1)
    session.history.journal.close()
