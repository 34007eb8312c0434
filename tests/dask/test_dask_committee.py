"""A committee of Dask collections is that of the same rows in memory."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fuzzytwin import FuzzyTwinCommittee as InMemory
from fuzzytwin import files
from fuzzytwin.dask import FuzzyTwinCommittee, find_label_issues

N, D = 11_000, 3  # more rows than a look holds
MEMBERS = ["linear", ("rbf", {"length_scale_factor": 0.5})]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    codes = np.sort(rng.integers(0, 3, N))  # chunks lack classes
    X = rng.normal(size=(N, D)) + 2 * np.eye(3)[codes]
    return X, np.array(["ant", "bee", "cicada"])[codes], rng.integers(0, 4, N) / 2


def cut(array):
    return da.from_array(array, chunks=(4000, *array.shape[1:]))


def test_a_committee_by_processes_is_one_fit(rows, client):
    X, y, weight = rows
    options = {"members": MEMBERS, "n_landmarks": 40, "class_weight": "balanced", "random_state": 0}
    wanted = InMemory(**options).fit(X, y, weight)
    found = FuzzyTwinCommittee(**options).fit(cut(X), cut(y), cut(weight))
    assert_array_equal(found.classes_, wanted.classes_)
    P, some = wanted.predict_proba(X), slice(0, None, 50)
    assert_allclose(found.to_sklearn().predict_proba(X[some]), P[some], atol=1e-9)
    assert_allclose(found.predict_proba(cut(X)).compute(), P, atol=1e-9)
    assert_array_equal(found.predict(cut(X)).compute(), wanted.predict(X))
    assert found.score(cut(X), cut(y)) == wanted.score(X, y)
    sets = found.predict_set(cut(X), 0.8).compute()
    assert (sets == wanted.predict_set(X, 0.8)).mean() > 0.999


def test_few_rows_of_a_frame_with_soft_labels_are_read_once(rows):
    X, y, _ = rows[0][::50], rows[1][::50], None
    soft = np.random.default_rng(1).dirichlet(np.ones(3), len(y))
    names = ["p", "q", "r"]
    frame = pd.DataFrame(X, columns=names).assign(y=y, **dict(zip("abc", soft.T, strict=True)))
    wanted = InMemory(members=MEMBERS).fit(frame[names], y, membership=soft)
    table = dd.from_pandas(frame, npartitions=3)
    found = FuzzyTwinCommittee(members=MEMBERS).fit(table, "y", membership=["a", "b", "c"])
    assert_allclose(found.predict_proba(table).compute(), wanted.predict_proba(frame[names]))
    sets = found.predict_set(table, 0.8).compute()
    assert_array_equal(sets, wanted.predict_set(frame[names], 0.8))
    assert list(sets.columns) == ["ant", "bee", "cicada"]


def test_groups_of_dask_rows_are_refused(rows):
    X, y, _ = rows
    with pytest.raises(ValueError, match="they need all rows at once"):
        FuzzyTwinCommittee().fit(cut(X), cut(y), groups=y)


@pytest.mark.parametrize("step", [1, 40])  # 40: few rows, which are read whole
def test_label_issues_are_those_of_a_file(rows, client, tmp_path, step):
    X, y = rows[0][::step], rows[1][::step].copy()
    y[::15] = "bee"
    committee = FuzzyTwinCommittee(members=MEMBERS, n_landmarks=X[:: 500 // step], noise="auto")
    frame = pd.DataFrame(X, columns=["p", "q", "r"]).assign(y=y)
    found = find_label_issues(dd.from_pandas(frame, npartitions=3), "y", estimator=committee)
    wanted = files.find_label_issues(
        [frame], tmp_path / "issues.parquet", target="y", estimator=committee
    )
    written, done = pd.read_parquet(tmp_path / "issues.parquet"), found.frame.compute()
    assert_allclose(done["label_quality"], written["label_quality"], atol=1e-6)
    assert_array_equal(done["given_label"], y)
    assert_array_equal(done["rank"], done["label_quality"].rank(method="first"))
    assert (
        done["is_label_issue"].to_numpy() == written["is_label_issue"].to_numpy()
    ).mean() > 0.999
    assert_array_equal(done.index, frame.index)
    assert (found.n_rows, found.n_sampled) == (len(y), min(len(y), 10_000))
    assert found.n_errors == pytest.approx(wanted.n_errors, rel=0.1)
    arrays = find_label_issues(cut(X), cut(y), estimator=committee).frame.compute()
    assert_allclose(arrays["label_quality"], written["label_quality"], atol=1e-6)
