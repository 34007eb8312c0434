"""Moments come back from their bytes as they were, and nothing but arrays is read."""

import io

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fuzzytwin.chunked.packing import FIELDS, pack, to_arrays, unpack
from fuzzytwin.chunked.parts import Part, Radii
from fuzzytwin.core.moments import ClassMoments, TwinMoments


def moments(seed):
    rng = np.random.default_rng(seed)
    return ClassMoments.from_rows(rng.normal(size=(20, 3)), rng.integers(0, 2, 20), n_classes=2)


A, B, C = moments(0), moments(1), moments(2)


@pytest.mark.parametrize(
    "twin",
    [TwinMoments(A, A), TwinMoments(A, B), TwinMoments(A, A, B, B), TwinMoments(A, B, C, C)],
    ids=["one", "two", "widths", "three"],
)
@pytest.mark.parametrize(
    "labels",
    [np.array([0, 7]), np.array(["no", "yes"]), np.array(["no", "yes"], dtype=object),
     np.array([False, True]), np.array([0.5, 1.5])],
    ids=["integers", "text", "objects", "truth", "numbers"],
)  # fmt: skip
@pytest.mark.parametrize("soft", [False, True])
def test_a_part_comes_back(twin, labels, soft):
    part = Part(labels, np.array([True, False]), twin, 3, soft)
    again = unpack(pack(part))
    assert_array_equal(again.labels, labels)
    assert again.labels.dtype == labels.dtype
    assert_array_equal(again.held, part.held)
    assert (again.n_features, again.soft) == (3, soft)
    before, after = twin.parts(), again.moments.parts()
    for one, other in zip(before, after, strict=True):
        assert (one is None) == (other is None)
        for name in FIELDS if one is not None else ():
            assert_array_equal(getattr(one, name), getattr(other, name))
    same = [[one is other for one in before] for other in before]
    assert [[one is other for one in after] for other in after] == same


@pytest.mark.parametrize("columns", [None, ("no", "yes"), (1, 2), (True, False)])
def test_names_of_soft_labels_come_back(columns):
    part = Part(np.arange(2), np.ones(2, bool), TwinMoments(A, A), 3, True, columns)
    again = unpack(pack(part))
    assert again.columns == columns
    assert type(again + part) is Part


def test_names_that_cannot_be_stored():
    names = (np.datetime64("2020"), "a")
    with pytest.raises(ValueError, match="whose names cannot be stored; name them by text"):
        pack(Part(np.arange(2), np.ones(2, bool), TwinMoments(A, A), 3, True, names))


def test_moments_that_are_one_object_are_written_once():
    def written(twin):
        arrays = to_arrays(Part(np.arange(2), np.ones(2, bool), twin, 3, False))
        return sum(name.startswith("covariance") for name in arrays)

    assert written(TwinMoments(A, A)) == 1
    assert written(TwinMoments(A, B)) == 2
    assert written(TwinMoments(A, A, B, B)) == 2


def test_radii_come_back():
    assert_array_equal(unpack(pack(Radii(np.array([1.0, np.inf])))).values, [1.0, np.inf])


def test_labels_that_cannot_be_stored():
    labels = np.array(["a", 1], dtype=object)
    with pytest.raises(ValueError, match="y holds the label 1, which cannot be stored; use whole"):
        pack(Part(labels, np.ones(2, bool), TwinMoments(A, A), 3, False))


def test_objects_are_not_read():
    file = io.BytesIO()
    np.savez(file, radii=np.array([{}, None], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        unpack(file.getvalue())
