"""Names that users' code and users' files contain. Changing one is a decision, taken here.

Model files and pickles name the module of a class, so that files that were written before a class
moved can no longer be read.
"""

import importlib
import inspect
import pickle
import pickletools
import re
import zipfile

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import fuzzytwin
from fuzzytwin import store
from fuzzytwin.memberships import MEMBERSHIPS
from fuzzytwin.tables import TablePreprocessor

# By module: what could be imported at the first commit of this list, and must still be.
IMPORTS = {
    "fuzzytwin": "CenterMembership EntropyMembership FuzzyTwinCommittee FuzzyTwinSVC "
    "FuzzyTwinSVCCV GEPSVC HyperplaneMembership IntuitionisticMembership LeastSquaresSVC "
    "LeastSquaresTwinSVC Membership MembershipWeighted "
    "NeighborMembership ProximalSVC TablePreprocessor TwinSVC find_label_issues "
    "show_versions __version__",
    "fuzzytwin.twin": "FuzzyTwinSVC FuzzyTwinSVCCV",
    "fuzzytwin.committee": "CommitteeMember FuzzyTwinCommittee",
    "fuzzytwin.core.moments": "ClassMoments TwinMoments MAX_LOSS",
    "fuzzytwin.core.planes": "Planes crisp_grid crisp_planes fuzzy_planes widths",
    "fuzzytwin.core.distances": "effective_distances fuzzy_distances memberships_of plane_norms "
    "plane_values",
    "fuzzytwin.kernels": "KERNELS LandmarkMap",
    "fuzzytwin.memberships": "MEMBERSHIPS CenterMembership EntropyMembership HyperplaneMembership "
    "IntuitionisticMembership Membership MomentMembership NeighborMembership",
    "fuzzytwin.classics": "GEPSVC LeastSquaresSVC LeastSquaresTwinSVC ProximalSVC TwinSVC",
    "fuzzytwin.files": "find_label_issues fit predict",
    "fuzzytwin.tables": "Finding TableError TablePreprocessor TableReader TableSchema TableWarning "
    "describe read_table",
    "fuzzytwin.store": "ModelFileError ModelVersionWarning load read_metadata save to_onnx TRUSTED",
    "fuzzytwin.dask": "FuzzyTwinSVC",
    "fuzzytwin.spark": "FuzzyTwinSVC FuzzyTwinSVCModel",
    "fuzzytwin.plot": "COLORS PlanesDisplay",
    "fuzzytwin.label_issues": "Annotators LabelIssueDisplay LabelIssueReport "
    "find_label_issues soft_labels",
    "fuzzytwin.explain": "column_effects explain row_effects",
    "fuzzytwin.datasets": "list_uci load_uci make_ndc make_xor",
    "fuzzytwin.cli": "main run",
    "fuzzytwin.demo": "main",
}

# Addresses of our classes of which model files, Spark's metadata and pickles hold objects.
ADDRESSES = {
    "fuzzytwin.committee.TreeEnsemble",
    "fuzzytwin.committee.CommitteeMember",
    "fuzzytwin.committee.FuzzyTwinCommittee",
    "fuzzytwin.twin.FuzzyTwinSVC",
    "fuzzytwin.twin.FuzzyTwinSVCCV",
    "fuzzytwin.classics.GEPSVC",
    "fuzzytwin.classics.LeastSquaresSVC",
    "fuzzytwin.classics.LeastSquaresTwinSVC",
    "fuzzytwin.memberships.MembershipWeighted",
    "fuzzytwin.classics.ProximalSVC",
    "fuzzytwin.classics.TwinSVC",
    "fuzzytwin.kernels.LandmarkMap",
    "fuzzytwin.memberships.CenterMembership",
    "fuzzytwin.memberships.EntropyMembership",
    "fuzzytwin.memberships.HyperplaneMembership",
    "fuzzytwin.memberships.IntuitionisticMembership",
    "fuzzytwin.memberships.NeighborMembership",
    "fuzzytwin.core.moments.ClassMoments",
    "fuzzytwin.core.moments.TwinMoments",
    "fuzzytwin.tables.TablePreprocessor",
}


@pytest.mark.parametrize("module", IMPORTS)
def test_public_imports_work(module):
    if module == "fuzzytwin.spark":
        pytest.importorskip("pyspark")
    found = importlib.import_module(module)
    for name in IMPORTS[module].split():
        assert hasattr(found, name), f"{module}.{name} is gone"


def constructors():
    """All public classes with parameters: estimators, memberships, and their parts."""
    found = {}
    for module in IMPORTS:
        if module != "fuzzytwin.spark":  # needs Java, and takes **params
            home = importlib.import_module(module)
            found |= {
                f"{module}.{name}": getattr(home, name) for name in getattr(home, "__all__", ())
            }
    return {
        name: kind
        for name, kind in found.items()
        if hasattr(kind, "get_params") and inspect.signature(kind).parameters
    }


@pytest.mark.parametrize("name", constructors())
def test_every_constructor_takes_keywords_only_and_is_reproducible_by_default(name):
    kind = constructors()[name]
    parameters = inspect.signature(kind).parameters
    assert {parameter.kind for parameter in parameters.values()} <= {inspect.Parameter.KEYWORD_ONLY}
    if "random_state" in parameters:
        assert parameters["random_state"].default == 0
    with pytest.raises(TypeError, match="positional argument"):
        kind(10)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_a_random_state_of_none_is_random(kernel):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = X[:, 0] > 0
    settings = {"kernel": kernel, "n_landmarks": 10}
    first, again = (fuzzytwin.FuzzyTwinSVC(**settings).fit(X, y).landmark_map_ for _ in range(2))
    np.testing.assert_array_equal(first.landmarks, again.landmarks)
    first, again = (
        fuzzytwin.FuzzyTwinSVC(**settings, random_state=None).fit(X, y).landmark_map_
        for _ in range(2)
    )
    assert not np.array_equal(first.landmarks, again.landmarks)


def test_a_search_with_a_random_state_of_none_compares_points_with_the_same_landmarks():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = X[:, 0] * X[:, 1] > 0
    search = fuzzytwin.FuzzyTwinSVCCV(
        Cs=[1.0], alphas=[1.0, 1.0], rules="distance", memberships=None, kernels="rbf",
        gammas=[1.0], n_landmarks=10, random_state=None,
    )  # fmt: skip
    scores = search.fit(X, y).cv_results_["mean_test_score"]
    np.testing.assert_array_equal(scores, scores[0])


@pytest.mark.parametrize("address", sorted(ADDRESSES))
def test_a_class_is_where_its_address_says(address):
    module, _, name = address.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    assert address_of(found) == address


def address_of(kind):
    """Name a class by the module of its file, without private parts."""
    return f"{kind.__module__.partition('._')[0]}.{kind.__qualname__}"


def addresses(names):
    """Where users find classes that are named by their files."""
    places = (name.rpartition(".") for name in names)
    return {address_of(getattr(importlib.import_module(home), name)) for home, _, name in places}


@pytest.mark.parametrize("module", IMPORTS)
def test_inspect_finds_the_source_of_every_public_class(module):
    if module == "fuzzytwin.spark":
        pytest.importorskip("pyspark")
    for name in IMPORTS[module].split():
        found = getattr(importlib.import_module(module), name)
        if inspect.isclass(found):
            source = inspect.getsource(found)
            assert re.search(rf"^class {name}\b", source, re.MULTILINE)


CLASSIFIERS = [
    "FuzzyTwinCommittee",
    "FuzzyTwinSVC",
    "FuzzyTwinSVCCV",
    "LeastSquaresTwinSVC",
    "TwinSVC",
    "LeastSquaresSVC",
    "ProximalSVC",
    "GEPSVC",
    "MembershipWeighted",
]
ROW_ARGUMENTS = ["X", "y", "classes", "sample_weight", "membership", "groups"]


@pytest.mark.parametrize("kind", [getattr(fuzzytwin, name) for name in CLASSIFIERS])
def test_arguments_are_the_same_in_all_classifiers(kind):
    for method in ("fit", "partial_fit", "forget", "loo_membership"):
        function = inspect.getattr_static(kind, method, None)
        if function is not None:
            function = getattr(function, "function", function)  # of a conditional method
            names = [name for name in inspect.signature(function).parameters if name != "self"]
            names = [name for name in names if name != "fit_params"]
            assert names == [name for name in ROW_ARGUMENTS if name in names]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_docstrings_list_all_fitted_attributes(name):
    X, y = load_iris(return_X_y=True, as_frame=True)
    kind = getattr(fuzzytwin, name)
    model = kind(estimator=SVC()) if name == "MembershipWeighted" else kind()
    models = [model.fit(X, y)]
    if "alpha" in model.get_params() and name.endswith("TwinSVC") and hasattr(model, "forget"):
        models.append(clone(model).set_params(alpha="auto").fit(X, y).forget(X[:3], y[:3]))
        models.append(clone(model).set_params(kernel="rbf", alpha="auto").fit(X, y))
    if "calibration" in model.get_params():
        models.append(clone(model).set_params(calibration="loo", class_weight="balanced").fit(X, y))
    _, attributes = kind.__doc__.split("Attributes\n")
    fitted = {key for model in models for key in vars(model) if re.search("[a-z]_$", key)}
    assert fitted - set(re.findall(r"\w+_\b", attributes)) == set()


def test_files_may_name_these_and_no_others_of_ours():
    assert addresses(name for name in store.TRUSTED if name.startswith("fuzzytwin")) == ADDRESSES


X, Y = load_iris(return_X_y=True)
MODELS = [
    fuzzytwin.FuzzyTwinSVC(planes="fuzzy", kernel="rbf", n_landmarks=9, random_state=0),
    fuzzytwin.FuzzyTwinSVCCV(
        Cs=[1.0], memberships=(None, *(kind() for kind in MEMBERSHIPS.values()))
    ),
    fuzzytwin.LeastSquaresTwinSVC(),
    fuzzytwin.TwinSVC(),
    fuzzytwin.ProximalSVC(),
    fuzzytwin.LeastSquaresSVC(),
    fuzzytwin.GEPSVC(),
    fuzzytwin.MembershipWeighted(estimator=fuzzytwin.ProximalSVC()),
    fuzzytwin.FuzzyTwinCommittee(),
    make_pipeline(TablePreprocessor(), fuzzytwin.GEPSVC()),
]


@pytest.fixture(scope="module")
def fitted():
    rows = np.random.default_rng(0).normal(size=(300, 3))
    by_thresholds = (rows[:, 0] > 0) ^ (rows[:, 1] > 0.5)  # of which a committee has trees
    trees = fuzzytwin.FuzzyTwinCommittee().fit(rows, by_thresholds)
    return [*(clone(model).fit(X, Y) for model in MODELS), trees]


def named_in(text):
    """Dotted names of ours in some text."""
    return set(re.findall(r"fuzzytwin(?:\.\w+)+", text)) - {store.archive.METADATA}


def test_model_files_contain_these_names(fitted, tmp_path):
    found = set()
    for number, model in enumerate(fitted):
        path = tmp_path / f"{number}.skops"
        store.save(model, path)
        with zipfile.ZipFile(path) as archive:
            schema = archive.read("schema.json").decode()
        pairs = re.findall(r'"__class__": "(\w+)",\s*"__module__": "(fuzzytwin[\w.]*)"', schema)
        found |= {f"{module}.{name}" for name, module in pairs}
        assert len(pairs) == schema.count('"__module__": "fuzzytwin')
    assert addresses(found) == ADDRESSES


def test_pickles_contain_these_names(fitted):
    found, texts = set(), []
    for model in fitted:
        for opcode, value, _ in pickletools.genops(pickle.dumps(model)):
            if isinstance(value, str):
                texts.append(value)
            elif opcode.name == "STACK_GLOBAL" and texts[-2].startswith("fuzzytwin"):
                found.add(".".join(texts[-2:]))
    assert addresses(found) <= ADDRESSES
    assert "fuzzytwin.twin.FuzzyTwinSVC" in addresses(found)
