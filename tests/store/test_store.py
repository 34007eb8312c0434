"""Model files: the same model comes back."""

import copy
import json
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from fuzzytwin import (
    GEPSVC,
    CenterMembership,
    EntropyMembership,
    FuzzyTwinCommittee,
    FuzzyTwinSVC,
    FuzzyTwinSVCCV,
    HyperplaneMembership,
    IntuitionisticMembership,
    LeastSquaresSVC,
    LeastSquaresTwinSVC,
    MembershipWeighted,
    NeighborMembership,
    ProximalSVC,
    TwinSVC,
)
from fuzzytwin.datasets import load_uci
from fuzzytwin.experiment._experiment import Experiment
from fuzzytwin.experiment._rows import Settings
from fuzzytwin.memberships import MEMBERSHIPS
from fuzzytwin.store import ModelFileError, load, read_metadata, save
from fuzzytwin.store._archive import nodes, public_classes
from fuzzytwin.tables import TablePreprocessor
from reproduction.preprocessing import uci_preprocessor
from tests.store.helpers import BINARY, IRIS


class Foreign(FunctionTransformer):
    """A step that this library knows nothing of."""


MODELS = [
    FuzzyTwinSVC(),
    FuzzyTwinSVC(planes="fuzzy", C=3.0, membership="neighbor", rule="residual"),
    FuzzyTwinSVC(membership=CenterMembership(decay="exponential"), class_weight="balanced"),
    FuzzyTwinSVC(membership=HyperplaneMembership(imbalance=True)),
    FuzzyTwinSVC(membership=NeighborMembership(k=3)),
    FuzzyTwinSVC(membership=EntropyMembership(k=5)),
    FuzzyTwinSVC(membership=IntuitionisticMembership()),
    FuzzyTwinSVCCV(Cs=[0.1, 1.0], memberships=(None, NeighborMembership(k=3))),
    FuzzyTwinSVC(kernel="rbf", n_landmarks=20, random_state=0),
    LeastSquaresTwinSVC(C=0.3),
    TwinSVC(),
    ProximalSVC(),
    LeastSquaresSVC(),
    GEPSVC(),
    make_pipeline(StandardScaler(), FuzzyTwinSVC(planes="fuzzy")),
    make_pipeline(FunctionTransformer(np.log1p), StandardScaler(), FuzzyTwinSVCCV()),
    CalibratedClassifierCV(FuzzyTwinSVC(), cv=3),
    CalibratedClassifierCV(FuzzyTwinSVC(), cv=3, method="isotonic"),
    MembershipWeighted(estimator=SVC(), membership=NeighborMembership(k=5)),
]


@pytest.mark.parametrize("name", MEMBERSHIPS)
def test_every_registered_membership_is_saved_as_an_object(name, tmp_path):
    save(FuzzyTwinSVC(membership=MEMBERSHIPS[name]()).fit(*BINARY), tmp_path / "m.skops")
    found = load(tmp_path / "m.skops").membership
    assert (type(found), vars(found)) == (type(MEMBERSHIPS[name]()), vars(MEMBERSHIPS[name]()))


def test_a_membership_is_trusted_by_being_registered(monkeypatch):
    class New(CenterMembership):
        """One that `fuzzytwin` itself does not offer."""

    assert New not in public_classes()
    monkeypatch.setitem(MEMBERSHIPS, "new", New)
    assert New in public_classes()


@pytest.mark.parametrize("data", [BINARY, IRIS], ids=["binary", "3-class"])
@pytest.mark.parametrize("model", MODELS, ids=lambda m: re.sub(r"\s+", "", repr(m))[:60])
def test_a_model_comes_back(tmp_path, model, data):
    X, y = data
    model = copy.deepcopy(model).fit(X, y)
    save(model, tmp_path / "m.skops")
    again = load(tmp_path / "m.skops")
    assert type(again) is type(model)
    assert repr(again.get_params()) == repr(model.get_params())
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    method = "predict_proba" if hasattr(model, "predict_proba") else "decision_function"
    np.testing.assert_array_equal(getattr(again, method)(X), getattr(model, method)(X))


@pytest.mark.parametrize("name", ["heart_cleveland", "votes", "cmc"])
def test_a_pipeline_on_a_table_comes_back(tmp_path, name):
    X, y = load_uci(name, return_X_y=True, as_frame=True)
    model = make_pipeline(uci_preprocessor(name), FuzzyTwinSVC(planes="fuzzy")).fit(X, y)
    save(model, tmp_path / "m.skops")
    again = load(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert list(again.feature_names_in_) == list(X.columns)


def test_a_search_keeps_its_results(tmp_path):
    search = FuzzyTwinSVCCV(Cs=[0.1, 1.0, 10.0], memberships=(None, CenterMembership())).fit(
        *BINARY
    )
    save(search, tmp_path / "m.skops")
    again = load(tmp_path / "m.skops")
    assert list(again.cv_results_) == list(search.cv_results_)
    assert repr(again.cv_results_["params"]) == repr(search.cv_results_["params"])
    assert repr(again.best_params_) == repr(search.best_params_)
    np.testing.assert_array_equal(
        again.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"]
    )


def test_the_file_of_a_search_is_small_and_quick(tmp_path):
    search = FuzzyTwinSVCCV().fit(*BINARY)
    assert len(search.cv_results_["params"]) > 4000
    save(search, tmp_path / "m.skops")
    # Distinct values are written once; without that it is 2 MB.
    assert (tmp_path / "m.skops").stat().st_size < 1e6


@pytest.mark.parametrize(
    "model",
    [FuzzyTwinSVC(), FuzzyTwinSVC(planes="fuzzy"), LeastSquaresTwinSVC(), ProximalSVC(), GEPSVC()],
)
def test_learning_goes_on(tmp_path, model):
    X, y = IRIS
    first = model.fit(X[::2], y[::2])
    save(first, tmp_path / "m.skops")
    again = load(tmp_path / "m.skops").partial_fit(X[1::2], y[1::2])
    merged = load(tmp_path / "m.skops").merge(
        type(model)(**model.get_params()).fit(X[1::2], y[1::2])
    )
    straight = first.partial_fit(X[1::2], y[1::2])
    np.testing.assert_array_equal(again.coef_, straight.coef_)
    np.testing.assert_allclose(merged.coef_, straight.coef_, rtol=1e-9)


def test_sparse_rows_and_soft_labels(tmp_path):
    X, y = IRIS
    table = np.random.default_rng(0).dirichlet(np.ones(3), size=len(y))
    model = FuzzyTwinSVC().fit(sparse.csr_array(X), y, membership=table)
    save(model, tmp_path / "m.skops")
    np.testing.assert_array_equal(load(tmp_path / "m.skops").membership_, model.membership_)


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array])
@pytest.mark.parametrize("given", [False, True])
def test_curved_planes_of_sparse_rows_come_back(tmp_path, form, given):
    X, y = IRIS
    rows = form(np.where(X > 2, X, 0.0))
    landmarks = form(X[::10]) if given else 20
    model = FuzzyTwinSVC(kernel="rbf", n_landmarks=landmarks, random_state=0).fit(rows, y)
    assert sparse.issparse(model.landmark_map_.landmarks)
    save(model, tmp_path / "m.skops")
    again = load(tmp_path / "m.skops")
    assert type(again.landmark_map_.landmarks) is type(model.landmark_map_.landmarks)
    np.testing.assert_array_equal(again.predict_membership(rows), model.predict_membership(rows))


def test_a_random_state_goes_on(tmp_path):
    save(TwinSVC(random_state=np.random.RandomState(7)), tmp_path / "m.skops")
    assert load(tmp_path / "m.skops").random_state.rand() == np.random.RandomState(7).rand()


def test_an_unfitted_model_can_be_kept(tmp_path):
    save(FuzzyTwinSVC(C=3.0), tmp_path / "m.skops")
    assert load(tmp_path / "m.skops").C == 3.0


def test_facts_are_read_without_building(tmp_path, monkeypatch):
    save(FuzzyTwinSVC(), tmp_path / "m.skops", metadata={"target": "class"})
    monkeypatch.setitem(sys.modules, "skops.io", None)
    page = read_metadata(tmp_path / "m.skops")
    assert page["metadata"] == {"target": "class"}
    assert page["model"] == "FuzzyTwinSVC"
    assert {"fuzzytwin", "scikit-learn", "numpy"} <= set(page["versions"])


def names_in(path):
    """List the types that a file names."""
    with zipfile.ZipFile(path) as archive:
        schema = json.loads(archive.read("schema.json"))
    return {f"{n['__module__']}.{n['__class__']}" for n in nodes(schema) if "__class__" in n}


def test_of_a_table_a_file_holds_no_object_of_scikit_learn_but_the_pipeline(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=90), "b": rng.choice(["x", "y", None], 90)})
    frame["code"], frame["flag"] = rng.integers(0, 4, 90), rng.random(90) < 0.5
    y = np.where(frame["a"] + rng.normal(size=90) > 0, "yes", "no")
    frame.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    trained = Experiment(str(tmp_path / "t.csv"), Settings("y")).model
    mine = make_pipeline(TablePreprocessor(), FuzzyTwinSVC(calibration="loo")).fit(frame, y)
    for model in (trained, mine):
        save(model, tmp_path / "m.skops", overwrite=True)
        foreign = {name for name in names_in(tmp_path / "m.skops") if name.startswith("sklearn.")}
        assert foreign == {"sklearn.pipeline.Pipeline"}


def test_a_file_tells_how_many_landmarks_it_holds(tmp_path):
    X, y = IRIS
    kernel = FuzzyTwinSVC(kernel="rbf", n_landmarks=30, random_state=0)
    for model, count in (
        (FuzzyTwinSVC(), 0),
        (make_pipeline(StandardScaler(), kernel), len(kernel.fit(X, y).landmark_map_.landmarks)),
        (FuzzyTwinCommittee(members=["rbf"]), len(X)),
    ):
        save(model.fit(X, y), tmp_path / "m.skops", overwrite=True)
        assert read_metadata(tmp_path / "m.skops")["landmarks"] == count
    for model in (kernel, FuzzyTwinCommittee(members=["rbf"]).fit(X, y)):
        model.n_landmarks = "centers"  # then landmarks are means of several rows each
        save(model, tmp_path / "m.skops", overwrite=True)
        assert read_metadata(tmp_path / "m.skops")["landmarks"] == 0


# Writing


def test_save_never_overwrites_unless_asked(tmp_path):
    path = tmp_path / "m.skops"
    save(FuzzyTwinSVC(C=1.0), path)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"already exists; .* pass overwrite=True"):
        save(FuzzyTwinSVC(C=2.0), path)
    assert path.read_bytes() == before
    save(FuzzyTwinSVC(C=2.0), path, overwrite=True)
    assert load(path).C == 2.0


def test_a_failing_write_leaves_nothing_and_keeps_the_old(tmp_path, monkeypatch):
    path = tmp_path / "m.skops"
    save(FuzzyTwinSVC(), path)
    before = path.read_bytes()

    def full(self, data):
        with open(self, "wb") as file:
            file.write(data[:10])
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="disk full"):
        save(FuzzyTwinSVC(), path, overwrite=True)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["m.skops"]


def test_where_nothing_can_be_written(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a directory"):
        save(FuzzyTwinSVC(), tmp_path)
    with pytest.raises(FileNotFoundError, match="no directory"):
        save(FuzzyTwinSVC(), tmp_path / "no" / "m.skops")


@pytest.mark.parametrize(
    "model",
    [
        FuzzyTwinSVC(membership=lambda X, y, s: np.ones(len(y))),
        FuzzyTwinSVCCV(memberships=(None, load_iris)),
        make_pipeline(FunctionTransformer(np.asarray), FuzzyTwinSVC()),
        make_pipeline(FunctionTransformer(copy.copy), FuzzyTwinSVC()),
        make_pipeline(FunctionTransformer("abc".upper), FuzzyTwinSVC()),
    ],
    ids=["lambda", "function", "numpy", "standard library", "method"],
)
def test_code_cannot_be_saved(tmp_path, model):
    with pytest.raises(ModelFileError, match=r"safe|cannot be saved"):
        save(model, tmp_path / "m.skops")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (FuzzyTwinSVC(kernel=np.dot), "kernel=.*; use a name such as 'rbf'"),
        (FuzzyTwinSVCCV(kernels=("linear", copy.copy)), "kernels=.*; use a name such as 'rbf'"),
        (FuzzyTwinSVC(membership=copy.copy), "membership=.*; use a name"),
        (make_pipeline(FunctionTransformer(copy.copy), FuzzyTwinSVC()),
         "functiontransformer__func=.*an estimator of scikit-learn"),
        (FuzzyTwinSVC(n_landmarks=sparse.lil_array(np.eye(3))), "n_landmarks=.*a NumPy array"),
        (make_pipeline(Foreign(), FuzzyTwinSVC()), "contains .*Foreign.*; use estimators of"),
    ],
)  # fmt: skip
def test_the_real_cause_is_named(tmp_path, model, text):
    with pytest.raises(ModelFileError, match=text) as caught:
        save(model, tmp_path / "m.skops")
    assert "\n" not in str(caught.value)
    if "membership" not in text:
        assert "membership" not in str(caught.value)


@pytest.mark.parametrize("model", [3, {"a": 1}, [FuzzyTwinSVC()], FuzzyTwinSVC])
def test_only_models_can_be_saved(tmp_path, model):
    with pytest.raises(ModelFileError, match="not a scikit-learn estimator"):
        save(model, tmp_path / "m.skops")
