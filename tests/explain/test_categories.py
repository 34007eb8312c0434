"""Effects of categories: a value against the other values."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from fuzzytwin import FuzzyTwinCommittee, FuzzyTwinSVC
from fuzzytwin.explain import column_effects, explain, row_effects
from fuzzytwin.explain._names import open_model
from fuzzytwin.tables import TablePreprocessor


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "age": rng.normal(50, 9, 240),
        "pain": rng.choice(["none", "typical", "other"], 240, p=[0.6, 0.3, 0.1]),
        "smoker": rng.random(240) < 0.3,
        "operated": rng.integers(0, 2, 240).astype(float),
    })  # fmt: skip
    odds = 0.1 * (frame["age"] - 50) + 2.0 * (frame["pain"] == "none") + frame["smoker"] - 1.5
    return frame, np.where(rng.random(240) < 1 / (1 + np.exp(-odds)), "ill", "well")


CLASSIFIERS = (FuzzyTwinCommittee(members=["linear", "rbf"]), FuzzyTwinSVC(), LogisticRegression())


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda model: type(model).__name__)
def test_an_effect_is_the_change_from_the_other_values_of_the_column(table, classifier):
    frame, y = table
    model = make_pipeline(TablePreprocessor(), classifier).fit(frame, y)
    last = model[-1]
    predict = getattr(last, "predict_membership", None) or last.predict_proba
    effects, strengths = column_effects(model, frame)
    names = open_model(model, frame).names
    by_row = row_effects(model, frame)
    for column, value, name in (
        ("pain", "none", "pain = none"), ("pain", "other", "pain = other"),
        ("smoker", True, "smoker"), ("operated", 1.0, "operated"),
    ):  # fmt: skip
        shares = frame[column].value_counts(normalize=True)
        at = {v: predict(model[:-1].transform(frame.assign(**{column: v}))) for v in shares.index}
        others = [v for v in shares.index if v != value]
        rest = sum(shares[v] * at[v] for v in others) / sum(shares[v] for v in others)
        change = at[value] - rest
        j = names.index(name)
        np.testing.assert_allclose(by_row[:, :, j], change, atol=1e-12)
        np.testing.assert_allclose(effects[:, j], change.mean(axis=0), atol=1e-12)
        deviation = np.sqrt(shares[value] * (1 - shares[value]))
        expected = deviation * abs(change).mean(axis=0)
        np.testing.assert_allclose(strengths[:, j], expected, atol=1e-12)
    np.testing.assert_allclose(effects.sum(axis=0), 0, atol=1e-12)


def test_an_explanation_tells_the_column_and_what_changes_in_it(table):
    frame, y = table
    model = FuzzyTwinCommittee(members=["linear"]).fit(frame, y)
    (entry,) = explain(model, frame, y, label="ill")
    by_name = {column["name"]: column for column in entry["columns"]}
    age, none = by_name["age"], by_name["pain = none"]
    assert (age["column"], age["value"]) == ("age", None)
    assert age["deviation"] == pytest.approx(frame["age"].std(ddof=0))
    assert (none["column"], none["value"], none["deviation"]) == ("pain", "none", None)
    assert (by_name["smoker"]["column"], by_name["smoker"]["value"]) == ("smoker", "true")
    assert (by_name["operated"]["value"], by_name["operated"]["deviation"]) == ("1", None)
    assert none["effect"] > 0.2


def test_weights_are_repetitions(table):
    frame, y = table
    model = make_pipeline(TablePreprocessor(), FuzzyTwinSVC()).fit(frame, y)
    w = np.arange(len(y)) % 3
    weighted = column_effects(model, frame, w)
    repeated = column_effects(model, frame.loc[np.repeat(frame.index, w)])
    np.testing.assert_allclose(weighted, repeated, atol=1e-12)


def test_a_category_of_one_value_has_no_effect(table):
    frame, y = table
    model = make_pipeline(TablePreprocessor(), FuzzyTwinSVC()).fit(frame, y)
    effects, _ = column_effects(model, frame[frame["pain"] == "none"])
    names = open_model(model, frame).names
    assert not effects[:, names.index("pain = none")].any()
