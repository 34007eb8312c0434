"""Model files that must not be opened: damaged, compressed, or naming code."""

import hashlib
import importlib
import io
import json
import pickle
import random
import re
import sys
import time
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import skops.io
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import fuzzytwin
from fuzzytwin import FuzzyTwinCommittee, FuzzyTwinSVC
from fuzzytwin._utils.extras import versions
from fuzzytwin.store import ModelFileError, ModelVersionWarning, load, read_metadata, save
from fuzzytwin.store._archive import MARK, METADATA, SCHEMA
from tests.store.helpers import IRIS

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
        archive.comment = MARK + b"0" * 64
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
    refused(tmp_path / "none.skops", "file not found")
    (tmp_path / "text.skops").write_text("hello")
    refused(tmp_path / "text.skops", "not a model file")


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
    refused(file, "cannot be loaded")


@pytest.mark.parametrize("name", ["evil.py", "../evil.py", "extra.npy", "schema.json"])
def test_entries_that_are_not_listed(file, name):
    rewrite(file, lambda entries: [*entries, (name, b"{}")])
    refused(file, "the entries of|damaged")


def test_an_entry_that_is_gone(file):
    rewrite(file, lambda entries: [e for e in entries if not e[0].endswith(".npy")])
    refused(file, "the entries of")


def test_compressed_entries(file):
    with zipfile.ZipFile(file) as archive:
        entries = [(name, archive.read(name)) for name in archive.namelist()]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
        archive.comment = MARK + b"0" * 64
    body = buffer.getvalue()[:-64]
    file.write_bytes(body + hashlib.sha256(body).hexdigest().encode())
    refused(file, "compressed")


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


def test_sparse_matrices_that_are_compressed_or_point_outside(sparse_file):
    rewrite(sparse_file, other_matrix())
    load(sparse_file)
    whole = sparse_file.read_bytes()
    rewrite(sparse_file, other_matrix(packed=True))
    refused(sparse_file, "compressed")
    for wrong in (
        {"indices": np.full(36, 10**6, np.int32)},
        {"format": np.array(b"dia"), "offsets": np.zeros(1, int)},
        {"shape": np.array([9])},
    ):
        sparse_file.write_bytes(whole)
        rewrite(sparse_file, other_matrix(**wrong))
        refused(sparse_file)


@pytest.mark.parametrize("name", ["x.bin", "x.npy", "landmarks"])
@pytest.mark.parametrize("value", [10**9, 2**31 - 1, -(10**6)])
def test_sparse_matrices_point_outside_under_any_name(sparse_file, name, value):
    """Prediction would read and write there: the entry is checked by what reads it."""

    def edit(entries):
        entries = list(other_matrix(indices=np.full(36, value, np.int32))(entries))
        (before,) = (entry for entry, _ in entries if entry.endswith(".npz"))
        for entry, content in entries:
            if entry == SCHEMA:
                content = content.decode().replace(before, name)
            yield name if entry == before else entry, content

    rewrite(sparse_file, edit)
    refused(sparse_file)


def test_a_sparse_matrix_in_the_place_of_an_array(sparse_file):
    def edit(entries):
        (matrix,) = (content for entry, content in entries if entry.endswith(".npz"))
        for entry, content in entries:
            yield entry, matrix if entry.endswith(".npy") else content

    rewrite(sparse_file, edit)
    refused(sparse_file, "is no array")


@pytest.mark.parametrize("loader", ["CachedNode", "ListNode"])
@pytest.mark.parametrize("depth", [2, 30])
def test_references_that_would_multiply_without_end(file, loader, depth):
    """Lists of ten references to the next list: 10**30 ways through a file of 100 kB."""

    def change(schema):
        inner = {**node("builtins", "list", "ListNode", content=[text("x")]), "__id__": 10**6}
        for level in range(depth):
            short = node("builtins", "list", loader, content=[], __id__=inner["__id__"])
            content = [inner, *([short] * 9)]
            inner = node("builtins", "list", "ListNode", content=content, __id__=level + 1)
        steps = schema["content"]["content"]["steps"]["content"]
        steps[1]["content"][1]["content"]["content"]["membership"] = inner

    rewrite(file, edit_json(SCHEMA, change))
    start = time.perf_counter()
    refused(file, "refers to one object|not trusted")
    assert time.perf_counter() - start < 5


def test_an_object_in_two_places_is_one_object_again(tmp_path):
    scaler = StandardScaler().fit(IRIS[0])
    pipeline = make_pipeline(scaler, scaler, FuzzyTwinSVC()).fit(*IRIS)
    save(pipeline, tmp_path / "m.skops")
    assert (
        load(tmp_path / "m.skops").predict(IRIS[0]).tolist() == pipeline.predict(IRIS[0]).tolist()
    )


@pytest.mark.parametrize("loader", ["ObjectNode", "TypeNode", "DictNode"])
def test_sparse_matrices_by_another_loader(sparse_file, loader):
    def change(schema):
        phi = schema["content"]["content"]["landmark_map_"]["content"]["content"]
        assert phi["landmarks"]["__loader__"] == "SparseMatrixNode"
        phi["landmarks"]["__loader__"] = loader

    rewrite(sparse_file, edit_json(SCHEMA, change))
    refused(sparse_file, "is no array")


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

    rewrite(file, edit_json(SCHEMA, change))
    refused(file)
    assert "evil" not in sys.modules


def places(tree):
    """Every table and list of a schema, with every key or index in it."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield tree, key
        if isinstance(value, (dict, list)):
            yield from places(value)


@pytest.mark.filterwarnings("ignore::fuzzytwin.store.ModelVersionWarning")
@pytest.mark.parametrize("entry", [SCHEMA, METADATA])
def test_odd_values_anywhere_are_a_model_file_error(file, entry):
    """Whatever stands in the place of a value: a model, or the one error."""
    whole = file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        count = len(list(places(json.loads(archive.read(entry)))))
    odd = [[], ["x"], {}, {"a": 1}, None, -1, 1e308, "", "x" * 1000, True]
    cases = [(number, value) for number in range(count) for value in odd]
    random.Random(0).shuffle(cases)
    errors = []
    for number, value in cases[:150]:

        def change(tree, number=number, value=value):
            branch, key = list(places(tree))[number]
            branch[key] = value

        file.write_bytes(whole)
        rewrite(file, edit_json(entry, change))
        try:
            load(file)
        except ModelFileError as error:
            errors.append(str(error))
    assert len(errors) > 5
    assert "\n" not in "".join(errors)


@pytest.mark.parametrize(
    "name",
    [("builtins", ["eval"], "ObjectNode"), ("numpy", {"a": 1}, "ObjectNode"),
     ("builtins", None, "ObjectNode"), (["builtins"], "str", "JsonNode"),
     ("builtins", "str", ["JsonNode"])],
    ids=str,
)  # fmt: skip
def test_class_names_that_are_not_text(file, name):
    rewrite(file, edit_json(SCHEMA, lambda schema: schema.update(spare=[node(*name)])))
    refused(file, "not trusted")


@pytest.mark.parametrize("attack", ATTACKS)
def test_named_code_is_refused_even_where_it_would_not_be_built(file, marker, attack):
    rewrite(file, edit_json(SCHEMA, lambda s: s.update(spare=[ATTACKS[attack](marker)])))
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
    page = {"format": 1, "versions": versions()}
    rewrite(path, lambda entries: [*entries, (METADATA, json.dumps(page))])
    refused(path, "evil.Evil")


def test_a_thing_that_is_no_model(tmp_path):
    path = tmp_path / "m.skops"
    skops.io.dump({"a": np.ones(3)}, path)
    page = {"format": 1, "versions": versions()}
    rewrite(path, lambda entries: [*entries, (METADATA, json.dumps(page))])
    refused(path, "not a model")


@pytest.mark.parametrize("page", [[], {}, {"format": "1"}, {"format": None}, 3])
def test_bad_facts(file, page):
    edit = json.dumps(page)
    rewrite(file, lambda es: [(n, edit if n == METADATA else c) for n, c in es])
    refused(file, "format")


MODELS = {
    "linear": FuzzyTwinSVC(),
    "kernel": FuzzyTwinSVC(kernel="rbf", n_landmarks=20, random_state=0),
    "calibrated": FuzzyTwinSVC(calibration="loo"),
    "committee": FuzzyTwinCommittee(),
}


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308])
@pytest.mark.parametrize("kind", MODELS)
def test_no_number_of_a_file_makes_a_model_predict_nan(tmp_path, kind, value):
    path = tmp_path / "m.skops"
    save(clone(MODELS[kind]).fit(*IRIS), path)
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        entries = [name for name in archive.namelist() if name.endswith(".npy")]
    for altered in entries:
        path.write_bytes(whole)

        def edit(entries, altered=altered):
            for name, content in entries:
                array = np.load(io.BytesIO(content)) if name == altered else None
                if array is not None and array.dtype.kind == "f" and array.size:
                    buffer = io.BytesIO()
                    array.flat[0] = value
                    np.save(buffer, array)
                    content = buffer.getvalue()
                yield name, content

        rewrite(path, edit)
        try:
            u = load(path).predict_proba(IRIS[0])
        except ValueError:
            continue
        assert np.isfinite(u).all()
        load(path).predict(IRIS[0])


@pytest.mark.parametrize("reads", [load, read_metadata])
@pytest.mark.parametrize(
    ("key", "value"),
    [("landmarks", "x"), ("model", 3), ("metadata", []), ("saved", None), ("versions", "1.0")],
)
def test_headers_of_other_types(file, reads, key, value):
    rewrite(file, edit_json(METADATA, lambda page: page.update({key: value})))
    with pytest.raises(ModelFileError, match=key):
        reads(file)


def test_a_deep_schema(file):
    deep = "[" * 100_000 + "]" * 100_000
    rewrite(file, lambda es: [(n, deep if n == SCHEMA else c) for n, c in es])
    refused(file)


def test_a_newer_format_asks_for_a_newer_version(file):
    def change(page):
        page["format"] = 2
        page["versions"]["fuzzytwin"] = "9.1"

    rewrite(file, edit_json(METADATA, change))
    assert "9.1" in refused(file, "Install the newer version")


def test_other_versions_are_warned_of_once(file):
    def change(page):
        page["versions"]["scikit-learn"] = "0.1.0"

    def change_schema(schema):
        old = text("0.1.0")
        steps = schema["content"]["content"]["steps"]["content"]
        steps[0]["content"][1]["content"]["content"]["_sklearn_version"] = old

    rewrite(file, edit_json(METADATA, change))
    rewrite(file, edit_json(SCHEMA, change_schema))
    with pytest.warns(ModelVersionWarning, match=r"scikit-learn 0\.1\.0") as warned:
        load(file)
    assert len(warned) == 1
    assert warned[0].filename == __file__


def test_nothing_in_the_package_unpickles():
    loaders = r"^\s*(import|from) (pickle|cloudpickle|dill|shelve|marshal)\b"
    for path in Path(fuzzytwin.__file__).parent.rglob("*.py"):
        words = path.read_text(encoding="utf-8")
        assert not re.search(loaders, words, re.M), path
        assert not re.search(r"allow_pickle=True|joblib\.load|read_pickle", words), path


HOSTILE_TREES = {
    "never ends": lambda trees: {"depth": 10**9},
    "a cycle": lambda trees: {"children": np.zeros_like(trees.children), "depth": 10**7},
    "outside": lambda trees: {"feature": trees.feature + 10**6},
    "before the first": lambda trees: {"roots": trees.roots - 1},
    "cut off": lambda trees: {"value": trees.value[:-1]},
    "another width": lambda trees: {"value": np.hstack([trees.value, trees.value])},
    "another type": lambda trees: {"children": trees.children.astype(float)},
    "another kind": lambda trees: {"kind": "wood"},
    "text": lambda trees: {"depth": "3"},
}


@pytest.mark.parametrize("kind", ["boosted trees", "forest"])
@pytest.mark.parametrize("harm", HOSTILE_TREES)
def test_trees_that_lead_outside_or_never_end_are_refused(tmp_path, kind, harm):
    model = FuzzyTwinCommittee().fit(*IRIS)
    (trees,) = [m.trees for m in model.members_ if m.trees is not None and m.trees.kind == kind]
    save(model, tmp_path / "honest.skops")
    load(tmp_path / "honest.skops")
    vars(trees).update(HOSTILE_TREES[harm](trees))
    save(model, tmp_path / "m.skops")
    with pytest.raises(ModelFileError, match="FuzzyTwinCommittee whose arrays do not fit"):
        load(tmp_path / "m.skops")


@pytest.mark.parametrize("attribute", ["_dual_coef_", "support_", "_n_support"])
def test_support_vectors_that_do_not_fit_are_refused(tmp_path, attribute):
    """LIBSVM reads as many numbers as it is told, whatever the arrays hold."""
    for model in (SVC(), SVC(kernel="precomputed"), SVC(kernel="linear")):
        X = IRIS[0] @ IRIS[0].T if model.kernel == "precomputed" else IRIS[0]
        save(model.fit(X, IRIS[1]), tmp_path / "m.skops", overwrite=True)
        load(tmp_path / "m.skops")
        values = getattr(model, attribute)
        setattr(
            model, attribute, values[..., :1].copy() if attribute != "_n_support" else values * 9
        )
        save(model, tmp_path / "m.skops", overwrite=True)
        with pytest.raises(ModelFileError, match="SVC whose arrays do not fit"):
            load(tmp_path / "m.skops")
