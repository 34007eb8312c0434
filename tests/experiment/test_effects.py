"""Effects of columns are those at held-out rows."""

import numpy as np
import pandas as pd
import pytest

from fuzzytwin.experiment import Experiment
from fuzzytwin.experiment._effects import mean_effects
from fuzzytwin.experiment._rows import Settings
from fuzzytwin.explain import explain


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """Many columns tell a little each: a kernel fits the training rows almost exactly."""
    rng = np.random.default_rng(0)
    n = 200
    risk = rng.normal(size=n)
    columns = {f"x{j}": rng.normal(0.5 * risk, 1.0) for j in range(40)}
    y = np.array(["low", "middle", "high"])[np.digitize(risk, [-0.5, 0.5])]
    path = tmp_path_factory.mktemp("effects") / "t.csv"
    pd.DataFrame({"age": rng.normal(risk, 1.0), **columns, "y": y}).to_csv(path, index=False)
    return Experiment(str(path), Settings("y", folds=3))


def test_effects_are_those_at_held_out_rows(experiment):
    held_out = effect_of_age(experiment.effects)
    in_sample = effect_of_age(explain(experiment.model, experiment.rows.X))
    assert held_out > 0.01
    assert in_sample < held_out / 2
    assert experiment.metadata["effects"] is experiment.effects


def effect_of_age(explained):
    """Return the effect on the class "high"."""
    columns = explained[0]["columns"]
    return next(column["effect"] for column in columns if column["name"] == "age")


def test_effects_of_folds_are_averaged_by_weight():
    def fold(effect, **other):
        column = {"name": "a", "effect": effect, "strength": abs(effect), "correlation": 0.5,
                  "vagueness": 0.0, "column": "a", "value": None, "deviation": 2.0}  # fmt: skip
        return [{"class": "yes", "vagueness": 0.0, "columns": [column, {**column, **other}]}]

    (entry,) = mean_effects([(3.0, fold(0.4, name="b")), (1.0, fold(-0.4, name="c"))], 2)
    assert [column["name"] for column in entry["columns"]] == ["a", "b"]
    first, second = entry["columns"]
    assert first["effect"] == pytest.approx(0.2)
    assert first["strength"] == pytest.approx(0.4)
    assert first["deviation"] == pytest.approx(2.0)
    assert second["effect"] == pytest.approx(0.3)  # no effect in the fold that does not have it
