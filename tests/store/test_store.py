"""Model files: the same model comes back, and nothing but a model ever does."""

import copy
import hashlib
import importlib
import io
import json
import pickle
import re
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import skops.io
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from fuzzytwin import (
    GEPSVC,
    CenterMembership,
    EntropyMembership,
    FuzzyTwinSVC,
    FuzzyTwinSVCCV,
    HyperplaneMembership,
    IntuitionisticMembership,
    LeastSquaresTwinSVC,
    NeighborMembership,
    ProximalSVC,
    TwinSVC,
    store,
)
from fuzzytwin.dask import FuzzyTwinSVC as OnDask
from fuzzytwin.datasets import load_uci, uci_preprocessor
from fuzzytwin.store import ModelFileError, ModelVersionWarning, about, load, save

IRIS = load_iris(return_X_y=True)
BINARY = IRIS[0][50:], np.array(["versicolor", "virginica"])[IRIS[1][50:] - 1]


class Foreign(FunctionTransformer):
    """A step that this library knows nothing of."""


MODELS = [
    FuzzyTwinSVC(),
    FuzzyTwinSVC("fuzzy", C=3.0, membership="neighbor", rule="residual"),
    FuzzyTwinSVC(membership=CenterMembership("exponential"), class_weight="balanced"),
    FuzzyTwinSVC(membership=HyperplaneMembership(imbalance=True), membership_scope="both"),
    FuzzyTwinSVC(membership=NeighborMembership(3)),
    FuzzyTwinSVC(membership=EntropyMembership(5)),
    FuzzyTwinSVC(membership=IntuitionisticMembership()),
    FuzzyTwinSVCCV(
        [0.1, 1.0], memberships=(None, NeighborMembership(3)), planes=("crisp", "fuzzy")
    ),
    FuzzyTwinSVC(kernel="rbf", n_landmarks=20, random_state=0),
    LeastSquaresTwinSVC(0.3),
    TwinSVC(),
    ProximalSVC(),
    GEPSVC(),
    make_pipeline(StandardScaler(), FuzzyTwinSVC("fuzzy")),
    make_pipeline(FunctionTransformer(np.log1p), StandardScaler(), FuzzyTwinSVCCV()),
    CalibratedClassifierCV(FuzzyTwinSVC(), cv=3),
    CalibratedClassifierCV(FuzzyTwinSVC(), cv=3, method="isotonic"),
]


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
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert list(again.feature_names_in_) == list(X.columns)


def test_a_search_keeps_its_results(tmp_path):
    search = FuzzyTwinSVCCV([0.1, 1.0, 10.0], memberships=(None, CenterMembership())).fit(*BINARY)
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
    assert (tmp_path / "m.skops").stat().st_size < 2e6


@pytest.mark.parametrize(
    "model", [FuzzyTwinSVC(), FuzzyTwinSVC("fuzzy"), LeastSquaresTwinSVC(), ProximalSVC(), GEPSVC()]
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
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))


def test_a_random_state_goes_on(tmp_path):
    save(TwinSVC(random_state=np.random.RandomState(7)), tmp_path / "m.skops")
    assert load(tmp_path / "m.skops").random_state.rand() == np.random.RandomState(7).rand()


def test_an_unfitted_model_can_be_kept(tmp_path):
    save(FuzzyTwinSVC(C=3.0), tmp_path / "m.skops")
    assert load(tmp_path / "m.skops").C == 3.0


def test_facts_are_read_without_building(tmp_path, monkeypatch):
    save(FuzzyTwinSVC(), tmp_path / "m.skops", facts={"target": "class"})
    monkeypatch.setattr(store, "need_skops", lambda: pytest.fail("built"))
    page = about(tmp_path / "m.skops")
    assert page["facts"] == {"target": "class"}
    assert page["model"] == "FuzzyTwinSVC"
    assert {"fuzzytwin", "scikit-learn", "numpy"} <= set(page["versions"])


# Writing


def test_save_never_overwrites_unless_told(tmp_path):
    path = tmp_path / "m.skops"
    save(FuzzyTwinSVC(C=1.0), path)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="exists already"):
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
        (FuzzyTwinSVC(kernel=np.dot), "kernel=.*; use a kernel with a name"),
        (FuzzyTwinSVCCV(kernels=("linear", copy.copy)), "kernels=.*; use a kernel with a name"),
        (FuzzyTwinSVC(membership=copy.copy), "membership=.*; give the membership by name"),
        (OnDask(), r"dask.FuzzyTwinSVC.*; save what its to_sklearn\(\) returns"),
        (make_pipeline(StandardScaler(), OnDask()), r"fuzzytwinsvc is a .*to_sklearn\(\)"),
        (make_pipeline(FunctionTransformer(copy.copy), FuzzyTwinSVC()),
         "functiontransformer__func=.*; use a step of scikit-learn's own"),
        (FuzzyTwinSVC(n_landmarks=sparse.lil_array(np.eye(3))), "n_landmarks=.*; give it as a"),
        (make_pipeline(Foreign(), FuzzyTwinSVC()), "holds .*Foreign.*; use steps of scikit-learn"),
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
    with pytest.raises(ModelFileError, match="no estimator"):
        save(model, tmp_path / "m.skops")


# Files that must not be opened. The payload makes a marker: it must not be there in the end.


@pytest.fixture
def marker(tmp_path, monkeypatch):
    """A file that bad code would make, and a module that makes it as soon as it is imported."""
    path = tmp_path / "marker"
    (tmp_path / "evil.py").write_text(
        f"open({str(path)!r}, 'w').close()\n"
        "class Evil:\n"
        f"    def __setstate__(self, state): open({str(path)!r}, 'w').close()\n"
        f"def run(*_, **__): open({str(path)!r}, 'w').close()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield path
    assert not path.exists(), "the payload ran"


class Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def rewrite(path, edit, honest=True):
    """Change the entries of a model file; an `honest` forger brings the checksum along."""
    with zipfile.ZipFile(path) as archive:
        entries = [(name, archive.read(name)) for name in archive.namelist()]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name that is there twice
        for name, content in edit(entries):
            archive.writestr(name, content)
        archive.comment = store.MARK + b"0" * 64
    body = buffer.getvalue()[:-64]
    path.write_bytes(body + (hashlib.sha256(body).hexdigest().encode() if honest else b"0" * 64))


def edit_json(name, change):
    def edit(entries):
        for entry, content in entries:
            if entry == name:
                page = json.loads(content)
                change(page)
                content = json.dumps(page)
            yield entry, content

    return edit


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "m.skops"
    save(make_pipeline(StandardScaler(), FuzzyTwinSVC()).fit(*IRIS), path)
    return path


def refused(path, match=None):
    with pytest.raises(ModelFileError, match=match) as caught:
        load(path)
    text = str(caught.value)
    assert "\n" not in text
    assert 10 < len(text) < 400
    return text


def test_an_honest_rewrite_is_still_opened(file):
    rewrite(file, lambda entries: entries)
    load(file)


def test_every_flipped_byte_is_seen(file):
    content = file.read_bytes()
    for place in np.linspace(0, len(content) - 1, 300).astype(int):
        broken = bytearray(content)
        broken[place] ^= 0x10
        file.write_bytes(broken)
        refused(file)


def test_every_cut_is_seen(file):
    content = file.read_bytes()
    for length in [0, 1, 2, 10, *np.linspace(100, len(content) - 1, 50).astype(int)]:
        file.write_bytes(content[:length])
        refused(file)


def test_other_things_than_files(tmp_path):
    refused(tmp_path, "is a directory")
    refused(tmp_path / "none.skops", "no file")
    (tmp_path / "text.skops").write_text("hello")
    refused(tmp_path / "text.skops", "no model file")


def test_a_pickle_in_disguise(tmp_path, marker):
    path = tmp_path / "m.skops"
    content = pickle.dumps(Payload(marker))
    pickle.loads(content).close()  # the payload does work
    marker.unlink()
    path.write_bytes(content)
    refused(path, "pickles")


def test_a_pickle_in_an_array(file, marker):
    buffer = io.BytesIO()
    np.save(buffer, np.array([Payload(marker)], dtype=object), allow_pickle=True)

    def edit(entries):
        for name, content in entries:
            yield name, buffer.getvalue() if name.endswith(".npy") else content

    rewrite(file, edit)
    refused(file, "cannot be opened")


@pytest.mark.parametrize("name", ["evil.py", "../evil.py", "extra.npy", "schema.json"])
def test_entries_that_are_not_announced(file, name):
    rewrite(file, lambda entries: [*entries, (name, b"{}")])
    refused(file, "other entries|damaged")


def test_an_entry_that_is_gone(file):
    rewrite(file, lambda entries: [e for e in entries if not e[0].endswith(".npy")])
    refused(file, "other entries")


def test_packed_entries(file):
    with zipfile.ZipFile(file) as archive:
        entries = [(name, archive.read(name)) for name in archive.namelist()]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
        archive.comment = store.MARK + b"0" * 64
    body = buffer.getvalue()[:-64]
    file.write_bytes(body + hashlib.sha256(body).hexdigest().encode())
    refused(file, "packed")


@pytest.fixture
def sparse_file(tmp_path):
    path = tmp_path / "m.skops"
    X, y = IRIS
    save(
        FuzzyTwinSVC(kernel="rbf", n_landmarks=9, random_state=0).fit(sparse.csr_array(X), y), path
    )
    return path


def other_matrix(**arrays):
    """Another content for the entries of sparse matrices."""

    def edit(entries):
        for name, content in entries:
            if name.endswith(".npz"):
                with np.load(io.BytesIO(content)) as file:
                    before = dict(file)
                packed, buffer = arrays.get("packed"), io.BytesIO()
                before.update({k: v for k, v in arrays.items() if k != "packed"})
                (np.savez_compressed if packed else np.savez)(buffer, **before)
                content = buffer.getvalue()
            yield name, content

    return edit


def test_sparse_matrices_that_are_packed_or_point_outside(sparse_file):
    rewrite(sparse_file, other_matrix())
    load(sparse_file)
    whole = sparse_file.read_bytes()
    rewrite(sparse_file, other_matrix(packed=True))
    refused(sparse_file, "packed")
    for wrong in (
        {"indices": np.full(36, 10**6, np.int32)},
        {"format": np.array(b"dia"), "offsets": np.zeros(1, int)},
        {"shape": np.array([9])},
    ):
        sparse_file.write_bytes(whole)
        rewrite(sparse_file, other_matrix(**wrong))
        refused(sparse_file)


@pytest.mark.parametrize("loader", ["ObjectNode", "TypeNode", "DictNode"])
def test_sparse_matrices_by_another_loader(sparse_file, loader):
    def change(schema):
        phi = schema["content"]["content"]["landmark_map_"]["content"]["content"]
        assert phi["landmarks"]["__loader__"] == "SparseMatrixNode"
        phi["landmarks"]["__loader__"] = loader

    rewrite(sparse_file, edit_json(store.SCHEMA, change))
    refused(sparse_file, rf"csr_array \(as {loader}\)")


def node(module, name, loader, **more):
    return {"__module__": module, "__class__": name, "__loader__": loader, **more}


def text(value):
    return node("builtins", "str", "JsonNode", content=json.dumps(value), is_json=True)


def several(*nodes):
    return node("builtins", "tuple", "TupleNode", content=list(nodes))


def table():
    kinds = node("builtins", "list", "ListNode", content=[])
    return node("builtins", "dict", "DictNode", content={}, key_types=kinds)


ATTACKS = {
    "function": lambda m: node("os", "system", "FunctionNode"),
    "function of ours": lambda m: node("fuzzytwin.demo", "main", "FunctionNode"),
    "function of numpy": lambda m: node("numpy", "load", "FunctionNode"),
    "function of sklearn": lambda m: node("sklearn.datasets", "fetch_openml", "FunctionNode"),
    "function in numpy": lambda m: node("numpy.testing", "rundocs", "FunctionNode"),
    "eval": lambda m: node("builtins", "eval", "TypeNode"),
    "exec as a type": lambda m: node("builtins", "exec", "ObjectNode", content=table()),
    "type": lambda m: node("subprocess", "Popen", "TypeNode"),
    "constructor": lambda m: node(
        "subprocess", "Popen", "ConstructorFromReduceNode",
        content=several(text(["touch", str(m)])),
    ),
    "constructor of sklearn": lambda m: node(
        "sklearn.utils", "Bunch", "ConstructorFromReduceNode", content=several()
    ),
    "constructor by a list": lambda m: node("evil", "run", "ListNode", content=[text("x")]),
    "constructor by a dict": lambda m: {**table(), "__module__": "evil", "__class__": "run"},
    "constructor by a tuple": lambda m: node("evil", "Evil", "TupleNode", content=[]),
    "key of a dict": lambda m: {
        **table(),
        "content": {str(m): text("x")},
        "key_types": several(node("os", "mkdir", "TypeNode")),
    },
    "object": lambda m: node("evil", "Evil", "ObjectNode", content=table()),
    "object of ours": lambda m: node("fuzzytwin.evil", "Evil", "ObjectNode", content=table()),
    "scalar": lambda m: node(
        "evil", "run", "NdArrayNode", type="json", content=[], shape=text([0])
    ),
    "partial": lambda m: node(
        "functools", "partial", "PartialNode",
        content={"func": node("os", "system", "FunctionNode"), "args": several(text(f"touch {m}")),
                 "kwds": table(), "namespace": text(None)},
    ),
    "operator": lambda m: node(
        "operator", "methodcaller", "OperatorFuncNode", attrs=several(text("predict"))
    ),
    "method": lambda m: node(
        "sklearn.preprocessing._data", "StandardScaler", "MethodNode",
        content={"func": "__class__",
                 "obj": node("sklearn.preprocessing._data", "StandardScaler", "ObjectNode")},
    ),
    "module only": lambda m: node("evil", "absent", "FunctionNode"),
    "no loader": lambda m: node("os", "system", "NoSuchNode"),
    "no class": lambda m: {"__loader__": "ObjectNode"},
    "cached": lambda m: node("os", "system", "CachedNode", __id__=1),
    "odd values": lambda m: node(["os"], {"a": 1}, ["x"]),
}  # fmt: skip


@pytest.mark.parametrize("protocol", [None, 0, 1])
@pytest.mark.parametrize("attack", ATTACKS)
def test_named_code_is_refused(file, marker, attack, protocol):
    def change(schema):
        steps = schema["content"]["content"]["steps"]["content"]
        model = steps[1]["content"][1]["content"]["content"]
        assert "membership" in model
        model["membership"] = ATTACKS[attack](marker)
        if protocol is not None:
            schema["protocol"] = protocol

    rewrite(file, edit_json(store.SCHEMA, change))
    refused(file)
    assert "evil" not in sys.modules


@pytest.mark.parametrize("attack", ATTACKS)
def test_named_code_is_refused_even_where_nobody_would_build_it(file, marker, attack):
    rewrite(file, edit_json(store.SCHEMA, lambda s: s.update(spare=[ATTACKS[attack](marker)])))
    if attack not in ("function of numpy", "function of sklearn", "function in numpy"):
        refused(file)


def test_a_file_of_another_library(tmp_path, marker):
    """As skops itself would write it, with and without the looks of ours."""
    evil = importlib.import_module("evil")
    skops.io.dump(evil.Evil(), tmp_path / "m.skops")
    marker.unlink()
    del sys.modules["evil"]
    path = tmp_path / "m.skops"
    refused(path, "not written by fuzzytwin")
    page = {"format": 1, "versions": store.versions()}
    rewrite(path, lambda entries: [*entries, (store.FACTS, json.dumps(page))])
    refused(path, "evil.Evil")


def test_a_thing_that_is_no_model(tmp_path):
    path = tmp_path / "m.skops"
    skops.io.dump({"a": np.ones(3)}, path)
    page = {"format": 1, "versions": store.versions()}
    rewrite(path, lambda entries: [*entries, (store.FACTS, json.dumps(page))])
    refused(path, "no model")


@pytest.mark.parametrize("page", [[], {}, {"format": "1"}, {"format": None}, 3])
def test_bad_facts(file, page):
    edit = json.dumps(page)
    rewrite(file, lambda es: [(n, edit if n == store.FACTS else c) for n, c in es])
    refused(file, "format")


def test_a_deep_schema(file):
    deep = "[" * 100_000 + "]" * 100_000
    rewrite(file, lambda es: [(n, deep if n == store.SCHEMA else c) for n, c in es])
    refused(file)


def test_a_newer_format_asks_for_a_newer_version(file):
    def change(page):
        page["format"] = 2
        page["versions"]["fuzzytwin"] = "9.1"

    rewrite(file, edit_json(store.FACTS, change))
    assert "9.1" in refused(file, "install the newer one")


def test_other_versions_are_told_once(file):
    def change(page):
        page["versions"]["scikit-learn"] = "0.1.0"

    def change_schema(schema):
        old = text("0.1.0")
        steps = schema["content"]["content"]["steps"]["content"]
        steps[0]["content"][1]["content"]["content"]["_sklearn_version"] = old

    rewrite(file, edit_json(store.FACTS, change))
    rewrite(file, edit_json(store.SCHEMA, change_schema))
    with pytest.warns(ModelVersionWarning, match=r"scikit-learn 0\.1\.0") as told:
        load(file)
    assert len(told) == 1


def test_nothing_in_the_package_unpickles():
    loaders = r"^\s*(import|from) (pickle|cloudpickle|dill|shelve|marshal)\b"
    for path in Path(store.__file__).parent.rglob("*.py"):
        words = path.read_text(encoding="utf-8")
        assert not re.search(loaders, words, re.M), path
        assert not re.search(r"allow_pickle=True|joblib\.load|read_pickle", words), path
