"""A committee that was saved and loaded gives the same probabilities."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline

from fuzzytwin import FuzzyTwinCommittee, MembershipWeighted
from fuzzytwin.store import ModelFileError, load, read_metadata, save
from fuzzytwin.tables import TablePreprocessor

pytest.importorskip("skops")

X, Y = load_iris(return_X_y=True)
LEARNED = ("rbf", {"ard": True})
CASES = {
    "learned columns": (FuzzyTwinCommittee(members=["linear", LEARNED, "laplacian"]), X),
    "noise": (
        FuzzyTwinCommittee(members=["linear", "rbf"], noise="auto", class_weight="balanced"),
        X,
    ),
    "sparse": (FuzzyTwinCommittee(members=["linear", "rbf"]), sparse.csr_matrix(X)),
}


def again(model, tmp_path):
    save(model, tmp_path / "committee.skops")
    return load(tmp_path / "committee.skops")


@pytest.mark.parametrize("name", CASES)
def test_a_stored_committee_is_equal(name, tmp_path):
    model, rows = CASES[name]
    model.fit(rows, Y)
    loaded = again(model, tmp_path)
    for method in ("predict", "predict_proba", "decision_function", "predict_set"):
        assert_array_equal(getattr(loaded, method)(rows), getattr(model, method)(rows))
    assert [str(member) for member in loaded.members_] == [str(m) for m in model.members_]
    assert loaded.loo_log_loss_ == model.loo_log_loss_
    assert_array_equal(loaded.loo_proba_, model.loo_proba_)


def test_a_stored_pipeline_takes_frames_with_gaps_and_categories(tmp_path):
    frame = pd.DataFrame(X.copy(), columns=list("abcd"))
    frame["town"] = np.where(X[:, 0] > 6, "Rom", "Bonn")
    frame.loc[::7, "a"] = np.nan
    model = make_pipeline(TablePreprocessor(), FuzzyTwinCommittee(members=["linear", "rbf"]))
    model.fit(frame, np.array(["x", "y", "z"])[Y])
    loaded = again(model, tmp_path)
    assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    assert_array_equal(loaded.predict(frame.iloc[:5]), model.predict(frame.iloc[:5]))
    assert read_metadata(tmp_path / "committee.skops")["model"] == "Pipeline"
    named = FuzzyTwinCommittee(members=["linear"]).fit(frame[list("bcd")], Y)
    save(named, tmp_path / "named.skops")
    assert list(load(tmp_path / "named.skops").feature_names_in_) == list("bcd")


def test_forests_are_refused_with_the_reason(tmp_path):
    forest = RandomForestClassifier(5, random_state=0)
    model = MembershipWeighted(estimator=forest, membership="center").fit(X, Y)
    with pytest.raises(ModelFileError, match=r"Tree.*no trees"):
        save(model, tmp_path / "forest.skops")
