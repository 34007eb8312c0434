"""Effects of columns on the probabilities of a committee, and the picture of its members."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.pipeline import make_pipeline

from fuzzytwin import FuzzyTwinCommittee
from fuzzytwin.explain import (
    column_effects,
    explain,
    row_effects,
)
from fuzzytwin.tables import TablePreprocessor

X, Y = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def model():
    return FuzzyTwinCommittee(
        members=["linear", ("rbf", {"length_scale_factor": 1.0}), "laplacian"]
    ).fit(X, Y)


@pytest.fixture
def pyplot():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    yield plt
    plt.close("all")


def test_effects_are_changes_of_probabilities(model):
    found, (effects, strengths) = row_effects(model, X), column_effects(model, X)
    assert found.shape == (len(X), 3, 4)
    for j in range(4):
        step = np.zeros(4)
        step[j] = X[:, j].std() / 2
        change = model.predict_proba(X + step) - model.predict_proba(X - step)
        np.testing.assert_allclose(found[:, :, j], change, atol=1e-12)
    np.testing.assert_allclose(found.mean(axis=0), effects, atol=1e-12)
    np.testing.assert_allclose(abs(found).mean(axis=0), strengths, atol=1e-12)
    np.testing.assert_allclose(effects.sum(axis=0), 0, atol=1e-12)


def test_a_pipeline_with_gaps_and_categories_is_explained_by_its_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(50, 9, 120), "town": rng.choice(["Rom", "Bonn"], 120)})
    y = np.where((frame["age"] > 55) ^ (rng.random(120) < 0.1), "ill", "well")
    frame.loc[::10, "age"] = np.nan
    model = make_pipeline(TablePreprocessor(), FuzzyTwinCommittee(members=["linear", "rbf"])).fit(
        frame, y
    )
    (entry,) = explain(model, frame, y, label="ill")
    assert entry["class"] == "ill"
    assert entry["vagueness"] == 0
    names = [column["name"] for column in entry["columns"]]
    assert names[0] == "age"
    assert {"town = Rom", "town = Bonn"} <= set(names)
    assert entry["columns"][0]["effect"] > 0.1


def test_effects_of_many_rows_and_columns_are_quick():
    """The cost is bounded by a sample of the rows, however many landmarks there are."""
    A, b = make_classification(400, 60, n_informative=8, random_state=0)
    model = FuzzyTwinCommittee(members=["rbf"]).fit(A, b)
    calls = []
    predict = model.predict_proba
    model.predict_proba = lambda rows: calls.append(len(rows)) or predict(rows)
    column_effects(model, A)
    assert len(calls) <= 2 * 60 + 1
    assert max(calls) <= 1e10 / (4 * 60 * 400 * (60 + 100))
