"""The planes of Dask collections are those of the same rows in memory, whatever the chunks."""

import os
import pickle
import signal
import threading
import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from fuzzytwin import FuzzyTwinSVC as InMemory
from fuzzytwin.dask import FuzzyTwinSVC
from tests.pairs import every_pair

N, D = 400, 4
CHUNKS = (150, 0, 1, 99, 150)  # one is empty, one has a single row


def table(n_classes, offset=0.0, seed=0):
    """Rows sorted by label in part, so that chunks lack classes."""
    rng = np.random.default_rng(seed)
    codes = np.sort(rng.integers(0, n_classes, N))
    codes[N // 2 :] = rng.permutation(codes[N // 2 :])
    X = rng.normal(size=(N, D)) + offset
    X[np.arange(N), codes % D] += 2.0
    y = np.array(["ant", "bee", "cicada", "dragonfly", "earwig"])[codes]
    weights = rng.integers(0, 4, N) / 2
    degrees = rng.uniform(size=N)
    soft = rng.dirichlet(np.ones(n_classes), size=N)
    return X, y, weights, degrees, soft


def chunked(array):
    return None if array is None else da.from_array(
        array, chunks=(CHUNKS, *((k,) for k in array.shape[1:]))
    )  # fmt: skip


def assert_same(found, wanted, rtol=1e-9):
    assert_array_equal(found.classes_, wanted.classes_)
    for name in ("coef_", "intercept_", "width_coef_", "width_intercept_"):
        assert hasattr(found, name) == hasattr(wanted, name)
        if hasattr(wanted, name):
            assert_allclose(getattr(found, name), getattr(wanted, name), rtol=rtol, atol=1e-13)


PARAMETERS = {
    "plain": {},
    "fuzzy planes": {"planes": "fuzzy"},
    "balanced": {"class_weight": "balanced"},
    "no ridge": {"alpha": 0.0},
}


@every_pair(
    offset=[0.0, 1e6],
    n_classes=[2, 5],
    given=["nothing", "degrees", "soft labels"],
    weighed=[False, True],
)
def test_planes_are_those_in_memory(offset, n_classes, given, weighed):
    X, y, weights, degrees, soft = table(n_classes, offset)
    s = weights if weighed else None
    mu = {"nothing": None, "degrees": degrees, "soft labels": soft}[given]
    for parameters in PARAMETERS.values():
        wanted = InMemory(**parameters).fit(X, y, s, mu)
        with dask.config.set(scheduler="sync"):
            found = FuzzyTwinSVC(**parameters).fit(chunked(X), chunked(y), chunked(s), chunked(mu))
        assert_same(found, wanted)


@every_pair(membership=["center", "hyperplane"], parameters=PARAMETERS.values(), n_classes=[2, 5])
def test_computed_memberships(membership, parameters, n_classes):
    X, y, weights, *_ = table(n_classes)
    parameters = {"membership": membership, **parameters}
    wanted = InMemory(**parameters).fit(X, y, weights)
    found = FuzzyTwinSVC(**parameters).fit(chunked(X), chunked(y), chunked(weights))
    assert_same(found, wanted)


def test_classes_without_weight_are_absent():
    X, y, weights, degrees, soft = table(5)
    weights[y == "bee"] = 0.0
    for mu in (None, degrees, soft):
        found = FuzzyTwinSVC(membership="center").fit(
            chunked(X), chunked(y), chunked(weights), chunked(mu)
        )
        assert_same(found, InMemory(membership="center").fit(X, y, weights, mu))


def test_chunks_along_columns_and_other_cuts():
    X, y, weights, *_ = table(5)
    found = FuzzyTwinSVC().fit(da.from_array(X, chunks=(130, 3)), da.from_array(y, chunks=70))
    assert_same(found, InMemory().fit(X, y))
    # What is no Dask array is cut like X.
    assert_same(FuzzyTwinSVC().fit(chunked(X), y, weights), InMemory().fit(X, y, weights))


def test_sparse_and_narrow_chunks():
    X, y, *_ = table(2)
    X[np.abs(X) < 1] = 0
    rows = chunked(X).map_blocks(sparse.csr_matrix)
    assert_same(FuzzyTwinSVC().fit(rows, chunked(y)), InMemory().fit(sparse.csr_matrix(X), y))
    narrow = X.astype(np.float32)
    assert_same(FuzzyTwinSVC().fit(chunked(narrow), chunked(y)), InMemory().fit(narrow, y))


def test_landmarks_that_are_given():
    X, y, *_ = table(2)
    parameters = {"kernel": "rbf", "gamma": 0.1, "n_landmarks": X[::20], "membership": "center"}
    found = FuzzyTwinSVC(**parameters).fit(chunked(X), chunked(y))
    wanted = InMemory(**parameters).fit(X, y)
    assert_allclose(
        found.predict_membership(chunked(X)), wanted.predict_membership(X), rtol=1e-7, atol=1e-9
    )
    with pytest.raises(ValueError, match=r"n_landmarks=300.*give the landmarks"):
        FuzzyTwinSVC(kernel="rbf").fit(chunked(X), chunked(y))
    text = "kernel='rbf' with gamma='scale' needs all rows.*; give a number as gamma, or use"
    with pytest.raises(ValueError, match=text) as caught:
        FuzzyTwinSVC(kernel="rbf", n_landmarks=X[::20]).fit(chunked(X), chunked(y))
    assert "n_landmarks" not in str(caught.value)


def test_rows_that_the_workers_hold(client):
    X, y, weights, *_ = table(2)
    given = client.persist([chunked(X), chunked(y), chunked(weights)])
    found = FuzzyTwinSVC(membership="center").fit(*given)
    assert_same(found, InMemory(membership="center").fit(X, y, weights))


# --- DataFrames


@pytest.fixture
def frame():
    X, y, weights, degrees, soft = table(5, 1e6)
    frame = pd.DataFrame(X, columns=list("pqrs")).assign(y=y, weight=weights, degree=degrees)
    return frame.assign(**{f"soft{k}": soft[:, k] for k in range(5)})


def test_frames(frame):
    frames = dd.from_pandas(frame, npartitions=3)
    features = list("pqrs")
    X, y = frame[features], frame["y"]
    soft = [f"soft{k}" for k in range(5)]
    wanted = InMemory().fit(X, y, frame["weight"], frame["degree"])
    assert_same(
        FuzzyTwinSVC().fit(frames[features], frames["y"], frames["weight"], frames["degree"]),
        wanted,
    )
    named = frames[[*features, "y", "weight", "degree"]]
    found = FuzzyTwinSVC().fit(named, "y", "weight", "degree")
    assert_same(found, wanted)
    assert_array_equal(found.feature_names_in_, features)
    found = FuzzyTwinSVC().fit(frames[[*features, "y", *soft]], "y", membership=soft)
    assert_same(found, InMemory().fit(X, y, membership=frame[soft].to_numpy()))


def test_frames_with_empty_partitions_and_unknown_sizes(frame):
    frame = frame.assign(row=np.arange(N))
    frames = dd.from_pandas(frame, npartitions=4)
    frames = frames[(frames["row"] < 90) | (frames["row"] > 250)]
    kept = frame[(frame["row"] < 90) | (frame["row"] > 250)]
    features = list("pqrs")
    wanted = InMemory(membership="center").fit(kept[features], kept["y"])
    found = FuzzyTwinSVC(membership="center").fit(frames[[*features, "y"]], "y")
    assert_same(found, wanted)
    # An object array, or Dask would warn that it makes one.
    labels = frames["y"].astype(object).to_dask_array()
    arrays = frames[features].to_dask_array(), labels
    assert np.isnan(arrays[0].shape[0])
    nameless = FuzzyTwinSVC(membership="center").fit(*arrays)
    assert_same(nameless, wanted)
    # A frame of rows and an array of labels, and the other way round.
    assert_same(FuzzyTwinSVC(membership="center").fit(frames[features], arrays[1]), wanted)
    labels = nameless.predict(arrays[0])
    assert labels.dtype == found.classes_.dtype
    assert_array_equal(labels.compute(), wanted.predict(kept[features]))


def test_the_columns_of_the_fit_are_picked(frame):
    frames = dd.from_pandas(frame, npartitions=3)
    features = list("qps")
    model = FuzzyTwinSVC().fit(frames[features], frames["y"])
    wanted = InMemory().fit(frame[features], frame["y"])
    assert_array_equal(model.predict(frames).compute(), wanted.predict(frame[features]))
    accuracy = wanted.score(frame[features], frame["y"])
    assert model.score(frames, frames["y"]) == pytest.approx(accuracy)
    assert model.score(frames, "y") == pytest.approx(accuracy)
    weighed = wanted.score(frame[features], frame["y"], frame["weight"])
    assert model.score(frames, "y", "weight") == pytest.approx(weighed)
    assert model.score(frames, frames["y"], "weight") == pytest.approx(weighed)
    with pytest.raises(ValueError, match="X has no column 's'"):
        model.score(frames[["q", "p", "y"]], "y")


def test_a_model_without_a_fit_says_so(frame):
    X, y, *_ = table(2)
    frames = dd.from_pandas(frame, npartitions=3)
    for rows, labels in ((chunked(X), chunked(y)), (frames, "y")):
        for name in ("predict", "decision_function", "predict_membership", "fuzzy_distance"):
            with pytest.raises(NotFittedError):
                getattr(FuzzyTwinSVC(), name)(rows)
        with pytest.raises(NotFittedError):
            FuzzyTwinSVC().score(rows, labels)


# --- predicting


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("planes", ["crisp", "fuzzy"])
def test_predictions_are_lazy(n_classes, planes):
    X, y, weights, *_ = table(n_classes)
    model = FuzzyTwinSVC(planes=planes, calibration="loo").fit(X, y)
    wanted = model.to_sklearn()
    looked_at = []

    def look(block):
        looked_at.append(block.shape)
        return block

    rows = chunked(X).map_blocks(look, meta=np.empty((0, 0)))
    frames = dd.from_pandas(pd.DataFrame(X), npartitions=3)
    methods = ["predict", "decision_function", "predict_membership", "predict_proba"]
    lazy = {name: (getattr(model, name)(rows), getattr(model, name)(frames)) for name in methods}
    lazy["fuzzy_distance"] = (da.stack(model.fuzzy_distance(rows)), None)
    assert not looked_at
    for name, (array, collection) in lazy.items():
        expected = np.asarray(getattr(wanted, name)(X))
        assert array.dtype == expected.dtype
        assert array.shape == expected.shape
        if name == "predict":
            assert_array_equal(array.compute(), expected)
            assert_array_equal(collection.compute(), expected)
            assert collection.dtype == collection.compute().dtype
        else:
            assert_allclose(array.compute(), expected, rtol=1e-9, atol=1e-12)
            if collection is not None:
                assert_allclose(collection.compute(), expected, rtol=1e-9, atol=1e-12)
    assert model.score(chunked(X), chunked(y), chunked(weights)) == pytest.approx(
        wanted.score(X, y, weights)
    )


def test_rows_in_memory_are_no_different():
    X, y, *_ = table(2)
    model, wanted = FuzzyTwinSVC().fit(X, y), InMemory().fit(X, y)
    assert_same(model, wanted)
    assert_array_equal(model.predict(X), wanted.predict(X))
    assert model.score(X, y) == wanted.score(X, y)
    assert_allclose(model.fuzzy_distance(X), wanted.fuzzy_distance(X))


def test_to_sklearn_goes_on():
    X, y, *_ = table(5)
    half = da.from_array(X[:200], chunks=60), da.from_array(y[:200], chunks=60)
    model = FuzzyTwinSVC().partial_fit(*half, classes=np.unique(y))
    plain = model.to_sklearn()
    assert type(plain) is InMemory
    assert plain.get_params() == model.get_params()
    wanted = InMemory().fit(X, y)
    assert_same(plain.partial_fit(X[200:], y[200:]), wanted)
    rest = da.from_array(X[200:], chunks=60), da.from_array(y[200:], chunks=60)
    assert_same(model.partial_fit(*rest), wanted)
    assert_same(pickle.loads(pickle.dumps(model)), wanted)
    assert not hasattr(clone(model), "coef_")


# --- faults


def with_value(array, value):
    array = array.copy()
    array[300] = value
    return array


def test_bad_rows_are_named():
    X, y, weights, degrees, soft = table(5)
    model = FuzzyTwinSVC().fit(chunked(X), chunked(y))
    before = model.coef_.copy()
    bad = X.copy()
    bad[300, 2] = np.nan
    ones = np.array(["a"] * N)
    cases = [
        (bad, y, None, None, r"X contains NaN in column 2"),
        (X, with_value(np.arange(N) % 2 + 0.0, np.nan), None, None, "y of a chunk has no label"),
        (X, with_value(y.astype(object), None), None, None, "y of a chunk has no label"),
        (X, y, with_value(weights, -1.0), None, r"sample_weight holds -1\.0"),
        (X, y, None, with_value(degrees, 2.0), r"membership holds 2\.0"),
        (X, y, None, soft[:, :3], "membership has 3 columns.*5"),
        (X, ones, None, None, "one class only"),
        (X, y, np.zeros(N), None, "one class only"),
        (X, y[:10], None, None, "y has 10 rows and X has 400"),
        (X, np.linspace(0, 1, N), None, None, "continuous"),
    ]
    for rows, labels, s, mu, message in cases:
        given = [part if part is None or len(part) < N else chunked(part) for part in (s, mu)]
        labels = chunked(labels) if len(labels) == N else labels
        with pytest.raises(ValueError, match=message):
            model.fit(chunked(rows), labels, *given)
    assert_array_equal(model.coef_, before)


@pytest.mark.parametrize("membership", ["neighbor", "entropy", "intuitionistic", lambda X, y, s: s])
def test_memberships_that_need_all_rows_are_refused(membership):
    X, y, *_ = table(2)
    with pytest.raises(ValueError, match=r"membership=.*all rows at once.*'center'"):
        FuzzyTwinSVC(membership=membership).fit(chunked(X), chunked(y))
    with pytest.raises(ValueError, match="membership='unheard' is unknown"):
        FuzzyTwinSVC(membership="unheard").fit(chunked(X), chunked(y))


def test_bad_collections_are_named(frame):
    X, y, *_ = table(5)
    frames = dd.from_pandas(frame, npartitions=3)
    with pytest.raises(ValueError, match="X has no column 'label'"):
        FuzzyTwinSVC().fit(frames, "label")
    with pytest.raises(ValueError, match="y has different divisions than X"):
        FuzzyTwinSVC().fit(frames[["p"]], frames["y"].repartition(npartitions=2))
    with pytest.raises(TypeError, match="y is of type ndarray"):
        FuzzyTwinSVC().fit(frames[["p"]], y)
    with pytest.raises(ValueError, match="could not convert string to float"):
        FuzzyTwinSVC().fit(frames[["p", "y"]], frames["y"])
    with pytest.raises(ValueError, match="X has 1 dimensions"):
        FuzzyTwinSVC().fit(chunked(X)[:, 0], chunked(y))
    with pytest.raises(ValueError, match="X has no rows"):
        FuzzyTwinSVC().fit(chunked(X)[:0], chunked(y)[:0])
    model = FuzzyTwinSVC().fit(frames[["p", "q", "y"]], "y")
    with pytest.raises(ValueError, match="X has no column 'q'"):
        model.predict(frames[["p"]])
    unknown = frames[["p"]].to_dask_array()
    with pytest.raises(ValueError, match="chunk sizes of X are unknown"):
        FuzzyTwinSVC().fit(unknown, y)


# --- on a cluster; last, because the client then serves all tests that follow


def test_on_a_cluster(client):
    X, y, weights, *_ = table(5, 1e6)
    found = FuzzyTwinSVC(planes="fuzzy", membership="center").fit(
        chunked(X), chunked(y), chunked(weights)
    )
    assert_same(found, InMemory(planes="fuzzy", membership="center").fit(X, y, weights))
    assert_array_equal(found.predict(chunked(X)).compute(), found.to_sklearn().predict(X))


def test_a_worker_that_dies_changes_nothing(client, tmp_path):
    X, y, *_ = table(5, 1e6)
    started = tmp_path / "started"

    def slow(block):
        started.touch()
        time.sleep(0.3)
        return block

    rows = da.from_array(X, chunks=(40, D)).map_blocks(slow, meta=np.empty((0, 0)))
    pids = list(client.run(os.getpid).values())

    def kill():
        while not started.exists():
            time.sleep(0.01)
        time.sleep(0.4)  # some chunks are done by then, and lost
        os.kill(pids[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = FuzzyTwinSVC(membership="center").fit(rows, da.from_array(y, chunks=40))
    killer.join()
    assert pids[0] not in client.run(os.getpid).values()
    assert_same(found, InMemory(membership="center").fit(X, y))
