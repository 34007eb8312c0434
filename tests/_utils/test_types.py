"""Sparse rows in one form."""

from scipy.sparse import csr_array

from fuzzytwin._utils.types import canonical


def test_entries_at_one_place_add_up_in_a_copy():
    twice = csr_array(([1.0, 2.0], [0, 0], [0, 2]), shape=(1, 2))
    assert canonical(twice).data.tolist() == [3.0]
    assert twice.data.tolist() == [1.0, 2.0]
