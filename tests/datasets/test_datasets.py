"""Known counts of the UCI tables, and what the generators promise."""

import sys
import time
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from fuzzytwin.datasets import list_uci, load_uci, make_ndc, make_xor
from reproduction.preprocessing import uci_preprocessor

FACTS = {  # rows, features, rows per class, missing cells
    "australian": (690, 14, {0: 383, 1: 307}, 0),
    "bupa": (345, 6, {1: 145, 2: 200}, 0),
    "cmc": (1473, 9, {1: 629, 2: 333, 3: 511}, 0),
    "heart_cleveland": (303, 13, {0: 164, 1: 139}, 6),
    "heart_statlog": (270, 13, {1: 150, 2: 120}, 0),
    "hepatitis": (155, 19, {1: 32, 2: 123}, 167),
    "pima": (768, 8, {0: 500, 1: 268}, 0),
    "sonar": (208, 60, {"M": 111, "R": 97}, 0),
    "votes": (435, 16, {"democrat": 267, "republican": 168}, 392),
    "wpbc": (198, 33, {"N": 151, "R": 47}, 4),
}
every_table = pytest.mark.parametrize("name", sorted(FACTS))


def test_list_uci_names_the_ten_tables():
    assert list_uci() == sorted(FACTS)
    list_uci().clear()
    assert list_uci() == sorted(FACTS)


@every_table
def test_table_has_its_known_counts(name):
    rows, features, counts, missing = FACTS[name]
    table = load_uci(name)
    assert table.data.shape == (rows, features)
    assert table.data.dtype == (object if name == "votes" else np.float64)
    labels, sizes = np.unique(table.target, return_counts=True)
    assert dict(zip(labels.tolist(), sizes.tolist(), strict=True)) == counts
    assert table.target_names.tolist() == sorted(counts)
    assert int((table.data != table.data).sum()) == missing
    assert len(table.feature_names) == features
    assert table.frame is None
    assert table.filename.endswith(f"{name}.csv")
    assert table.DESCR.startswith(name)
    for size in sizes:
        assert f"{size}" in table.DESCR


def test_votes_are_yes_no_or_missing():
    cells = load_uci("votes").data.ravel()
    assert set(cells[cells == cells]) == {"y", "n"}


@every_table
def test_frame_holds_the_same_values(name):
    table = load_uci(name, as_frame=True)
    data, target = load_uci(name, return_X_y=True)
    assert list(table.data.columns) == table.feature_names
    assert table.frame.shape == (data.shape[0], data.shape[1] + 1)
    pd.testing.assert_frame_equal(
        table.data, pd.DataFrame(data, columns=table.feature_names, dtype=data.dtype)
    )
    assert table.target.tolist() == target.tolist()
    X, y = load_uci(name, return_X_y=True, as_frame=True)
    assert X.equals(table.data)
    assert y.equals(table.target)


def test_each_call_gives_fresh_arrays():
    first = load_uci("bupa")
    first.data[:] = 0
    first.target[:] = 0
    first.feature_names.clear()
    second = load_uci("bupa")
    assert second.data.all(axis=0).any()
    assert set(second.target) == {1, 2}
    assert len(second.feature_names) == 6


@pytest.mark.parametrize("function", [load_uci, uci_preprocessor])
@pytest.mark.parametrize("name", ["iris", None, ["pima"]])
def test_unknown_table_is_refused_by_name(function, name):
    with pytest.raises(ValueError, match=r"australian, .*, wpbc") as caught:
        function(name)
    assert repr(name) in str(caught.value)


def test_frame_without_pandas_names_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert load_uci("pima").data.shape == (768, 8)
    with pytest.raises(ImportError, match="pip install pandas"):
        load_uci("pima", as_frame=True)


@every_table
def test_preprocessor_gives_finite_numbers_alike_for_array_and_frame(name):
    X, _ = load_uci(name, return_X_y=True)
    frame, _ = load_uci(name, return_X_y=True, as_frame=True)
    preprocessor = uci_preprocessor(name)
    encoded = preprocessor.fit_transform(X)
    assert encoded.dtype == np.float64
    assert np.isfinite(encoded).all()
    # Columns of a frame may lie in memory in another way: sums differ by rounding.
    again = clone(preprocessor).fit_transform(frame)
    np.testing.assert_allclose(again, encoded, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["votes", "australian", "hepatitis", "heart_cleveland"])
def test_preprocessor_stands_up_in_cross_validation(name):
    X, y = load_uci(name, return_X_y=True)
    model = make_pipeline(uci_preprocessor(name), RidgeClassifier())
    assert cross_val_score(model, X, y, cv=10).mean() > 0.75


def test_votes_become_minus_and_plus_one():
    X, _ = load_uci("votes", return_X_y=True)
    encoded = uci_preprocessor("votes").fit_transform(X)
    assert (encoded[X == "y"] == 1).all()
    assert (encoded[X == "n"] == -1).all()


def test_nominal_codes_become_indicators():
    X, _ = load_uci("heart_statlog", return_X_y=True)
    encoded = uci_preprocessor("heart_statlog").fit_transform(X)
    assert encoded.shape[1] == 13 - 3 + (4 + 3 + 3)  # cp, restecg, thal


def test_zeros_of_pima_are_imputed():
    X, _ = load_uci("pima", return_X_y=True)
    glucose = 1
    assert (X[:, glucose] == 0).any()
    preprocessor = uci_preprocessor("pima").fit(X)
    at_zero, at_median = np.ones((2, 8))
    at_zero[glucose] = 0
    at_median[glucose] = np.median(X[X[:, glucose] > 0, glucose])
    zero, median = preprocessor.transform([at_zero, at_median])
    np.testing.assert_array_equal(zero, median)


def test_ndc_shape_types_and_determinism():
    X, y = make_ndc(500, 7, random_state=3)
    assert X.shape == (500, 7)
    assert X.dtype == np.float64
    assert set(y) == {-1, 1}
    again = make_ndc(500, 7, random_state=3)
    np.testing.assert_array_equal(X, again[0])
    np.testing.assert_array_equal(y, again[1])
    assert not np.array_equal(X, make_ndc(500, 7, random_state=4)[0])


@pytest.mark.parametrize("seed", range(40))
def test_ndc_always_has_both_classes(seed):
    _, y = make_ndc(2, 3, n_centers=2, random_state=seed)
    assert set(y) == {-1, 1}


def test_ndc_separates_better_with_less_spread():
    scores = []
    for spread in (0.0, 0.3, 1.0, 3.0):
        X, y = make_ndc(4000, 10, spread=spread, random_state=0)
        scores.append(LogisticRegression(C=1e4, max_iter=2000).fit(X, y).score(X, y))
    assert scores[0] == 1.0
    assert all(np.diff(scores) < -0.02)


@pytest.mark.slow
def test_ndc_million_is_fast_and_lean():
    tracemalloc.start()
    start = time.perf_counter()
    X, y = make_ndc(1_000_000, random_state=0)
    seconds = time.perf_counter() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 30
    assert peak < 1.2 * (X.nbytes + y.nbytes)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: make_ndc(1), ValueError),
        (lambda: make_ndc(10.0), TypeError),
        (lambda: make_ndc(10, 0), ValueError),
        (lambda: make_ndc(10, n_centers=1), ValueError),
        (lambda: make_ndc(10, spread=-1.0), ValueError),
        (lambda: make_ndc(10, spread=float("nan")), ValueError),
        (lambda: make_ndc(10, spread="wide"), TypeError),
        (lambda: make_xor(3), ValueError),
        (lambda: make_xor(10.5), TypeError),
        (lambda: make_xor(noise=-0.1), ValueError),
        (lambda: make_xor(noise=float("inf")), ValueError),
        (lambda: make_xor(crossing=1.5), ValueError),
    ],
)
def test_generators_refuse_bad_numbers(call, error):
    with pytest.raises(error, match=r"n_samples|n_features|n_centers|spread|noise|crossing"):
        call()


def test_xor_is_the_papers_size_and_repeats():
    X, y, membership = make_xor(random_state=0)
    assert X.shape == (121, 2)
    assert membership.shape == y.shape == (121,)
    assert (y == 1).sum() == 61
    for one, other in zip(make_xor(random_state=0), (X, y, membership), strict=True):
        np.testing.assert_array_equal(one, other)


def test_xor_degree_is_the_share_of_the_rival_distance():
    X, y, membership = make_xor(400, noise=0.2, random_state=1)
    to_rising = np.abs(X[:, 0] - X[:, 1]) / np.sqrt(2)
    to_falling = np.abs(X[:, 0] + X[:, 1]) / np.sqrt(2)
    own, rival = np.where(y == 1, (to_rising, to_falling), (to_falling, to_rising))
    np.testing.assert_allclose(membership, np.maximum(rival / (own + rival), 0.01))
    middle = np.hypot(*X.T) < 0.3
    assert membership[middle].mean() < membership[~middle].mean()


def test_xor_without_noise_lies_on_its_lines():
    X, y, membership = make_xor(noise=0.0, crossing=0.5, random_state=0)
    np.testing.assert_allclose(X[:, 1], y * X[:, 0], atol=1e-15)
    assert np.sort(membership)[0] == 0.5  # the one point at the crossing
    assert (np.sort(membership)[1:] == 1).all()
