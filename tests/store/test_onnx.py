"""ONNX graphs give Python's labels and memberships."""

import json
import subprocess
import sys
import warnings

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

from fuzzytwin import (
    GEPSVC,
    FuzzyTwinCommittee,
    FuzzyTwinSVC,
    FuzzyTwinSVCCV,
    LeastSquaresSVC,
    LeastSquaresTwinSVC,
    MembershipWeighted,
    ProximalSVC,
    TwinSVC,
    files,
)
from fuzzytwin._params import choice
from fuzzytwin.datasets import list_uci, load_uci
from fuzzytwin.kernels._landmark_map import DISTANCES, PROPERTIES, Properties
from fuzzytwin.store import to_onnx
from fuzzytwin.tables import TablePreprocessor, TableWarning
from fuzzytwin.twin._prediction import class_values, last_step
from fuzzytwin.twin._settings import CONSTRAINTS
from reproduction.preprocessing import uci_preprocessor
from tests.pairs import every_pair

IRIS = load_iris(return_X_y=True)
CANCER = load_breast_cancer(return_X_y=True)


def run(model, X):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    graph = to_onnx(model)
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options)
    inputs = session.get_inputs()
    if [entry.name for entry in inputs] == ["X"]:
        feed = {"X": np.asarray(X, dtype=np.float64)}
    else:
        feed, table = {}, np.asarray(X, dtype=object)
        for j, entry in enumerate(inputs):
            column = table[:, [j]]
            if entry.type == "tensor(string)":
                feed[entry.name] = np.where(column == column, column, "")
            else:
                feed[entry.name] = column.astype(np.float64)
    return session.run(None, feed)


def assert_same(model, X):
    label, values = run(model, X)
    np.testing.assert_array_equal(label, model.predict(X))
    last, rows = last_step(model, X)
    if hasattr(last, "predict_proba") or hasattr(last, "predict_membership"):
        expected = class_values(last, rows)
    else:
        expected = model.decision_function(X)
        expected = expected[:, None] if expected.ndim == 1 else expected
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6)


@every_pair(data=[IRIS, CANCER], rule=["distance", "residual"], planes=["crisp", "fuzzy"])
def test_fuzzy_machine(planes, rule, data):
    X, y = data
    model = FuzzyTwinSVC(planes=planes, rule=rule, C=0.3, membership="center").fit(X, y)
    assert_same(model, X)
    assert_same(make_pipeline(StandardScaler(), model).fit(X, y), X)


@pytest.mark.parametrize("data", [IRIS, CANCER], ids=["3-class", "binary"])
@pytest.mark.parametrize(
    "model",
    [
        LeastSquaresTwinSVC(C=0.3),
        TwinSVC(),
        ProximalSVC(),
        LeastSquaresSVC(),
        LeastSquaresSVC(kernel="rbf", n_landmarks=40, random_state=0),
        GEPSVC(),
        FuzzyTwinSVCCV(),
    ],
)
def test_every_machine(model, data):
    X, y = data
    assert_same(make_pipeline(StandardScaler(), model).fit(X, y), X)


@pytest.mark.parametrize("data", [IRIS, CANCER], ids=["3-class", "binary"])
@pytest.mark.parametrize(
    "model",
    [FuzzyTwinSVC(), ProximalSVC(), LeastSquaresSVC(),
     FuzzyTwinCommittee(members=["linear"])],
    ids=["twin", "proximal", "least squares", "committee"],
)  # fmt: skip
def test_of_equal_classes_the_first_is_the_label_everywhere(model, data, tmp_path):
    X, y = data
    model, first = clone(model).fit(X, np.array(["b", "a", "c"])[y]), ["a"] * 9
    nothing = (
        ("stack_coef_", "stack_intercept_")
        if hasattr(model, "members_")
        else ("coef_", "intercept_")
    )
    for name in nothing:
        setattr(model, name, 0 * getattr(model, name))
    assert model.predict(X[:9]).tolist() == run(model, X[:9])[0].tolist() == first
    files.predict(model, [X[:9]], tmp_path / "p.csv")
    assert pd.read_csv(tmp_path / "p.csv")["label"].tolist() == first


@pytest.mark.parametrize("kernel", ["poly", "sigmoid"])
def test_no_parameter_of_a_kernel_is_rounded_to_float32(kernel):
    X, y = IRIS
    model = FuzzyTwinCommittee(members=[(kernel, {"gamma": 0.1})]).fit(X, y)
    np.testing.assert_allclose(run(model, X)[1], model.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("data", [IRIS, CANCER], ids=["3-class", "binary"])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "sigmoid", "laplacian", "cosine"])
def test_curved_planes(kernel, data):
    X, y = data
    model = FuzzyTwinSVC(kernel=kernel, n_landmarks=60, random_state=0)
    assert_same(make_pipeline(StandardScaler(), model).fit(X, y), X)
    if kernel != "cosine":  # one gamma for each column
        model.set_params(gamma=np.linspace(0, 0.1, X.shape[1]))
        assert_same(make_pipeline(StandardScaler(), model).fit(X, y), X)


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_new_kernel_of_a_distance_needs_no_operators_of_its_own(distance, monkeypatch):
    def cauchy(t, out=None):
        return np.divide(1.0, 1.0 - t, out=out)

    kind = Properties(True, -np.inf, distance, cauchy)
    monkeypatch.setitem(PROPERTIES, "cauchy", kind)
    monkeypatch.setitem(CONSTRAINTS, "kernel", choice("cauchy"))
    X, y = IRIS
    for gamma in ("scale", np.linspace(0, 0.1, X.shape[1])):
        model = FuzzyTwinSVC(kernel="cauchy", gamma=gamma, n_landmarks=40, random_state=0)
        assert_same(make_pipeline(StandardScaler(), model).fit(X, y), X)


@pytest.mark.parametrize(
    "names",
    [np.array(["red", "grün", "ß"]), np.array([-7, 0, 2**40]), np.array([0.5, 1.5, 2.5]),
     np.array(["a", "b", "c"], dtype=object)],
    ids=["text", "int", "float", "object"],
)  # fmt: skip
def test_labels_of_any_kind(names):
    X, y = IRIS
    if names.dtype.kind == "f":
        names = names * 2  # scikit-learn takes fractions for a continuous target
    model = FuzzyTwinSVC().fit(X, names[y])
    assert_same(model, X)
    metadata = {entry.key: entry.value for entry in to_onnx(model).metadata_props}
    assert json.loads(metadata["classes"]) == model.classes_.tolist()


def test_labels_that_are_true_or_false():
    X, y = CANCER
    assert_same(FuzzyTwinSVC().fit(X, y == 1), X)


def test_far_from_zero():
    X, y = IRIS
    X = X + 1e6
    assert_same(FuzzyTwinSVC(planes="fuzzy").fit(X, y), X)
    assert_same(make_pipeline(StandardScaler(), FuzzyTwinSVC()).fit(X, y), X)


@pytest.mark.parametrize("rule", ["distance", "residual"])
def test_on_the_planes_and_without_direction(rule):
    """Zero distances share, and a plane without direction is infinitely far."""
    model = FuzzyTwinSVC(rule=rule).fit(*IRIS)
    model.coef_ = np.eye(4)[[0, 0, 1, 1, 0, 1]] * [[1.0], [1.0], [0.0], [1.0], [0.0], [0.0]]
    model.intercept_ = np.array([0.0, 0.0, -1.0, 0.0, 0.0, 2.0])
    X = np.array([[0.0, 1, 2, 3], [1.0, 0, 0, 0], [-2.0, 5, 5, 5]])
    assert_same(model, X)
    model.intercept_ = np.array([0.0, 1.0, 0.0, 0.0, 1.0, 0.0])
    assert_same(model, X)
    model.coef_ = np.zeros((6, 4))
    assert_same(model, X)
    model.intercept_ = np.array([-1.0, -1.0, 2.0, 0.0, 0.0, 3.0])
    assert_same(model, X)
    model.width_coef_ = np.ones((6, 4))
    model.width_intercept_ = np.array([0.0, 1.0, 3.0, 0.0, 2.0, 1.0])
    model.coef_[0, 1] = 2.0
    assert_same(model, X)


@pytest.mark.parametrize("name", list_uci())
def test_pipelines_of_the_tables(name):
    X, y = load_uci(name, return_X_y=True)
    assert_same(make_pipeline(uci_preprocessor(name), FuzzyTwinSVC(planes="fuzzy")).fit(X, y), X)
    frame, y = load_uci(name, return_X_y=True, as_frame=True)
    assert_same(make_pipeline(uci_preprocessor(name), FuzzyTwinSVC()).fit(frame, y), frame)


def mixed(n=200):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": rng.normal(1e4, 1.0, n),
            "town": rng.choice(["Oslo", "Rom", "Wien", "Ulm"], n, p=[0.5, 0.3, 0.15, 0.05]),
            "code": rng.integers(0, 4, n).astype(float),
            "flag": rng.choice(["yes", "no"], n),
        }
    ).astype({"town": object, "flag": object})
    y = (frame["size"] - 1e4 + (frame["town"] == "Rom") + rng.normal(0, 0.3, n) > 0).astype(int)
    frame.loc[::7, "size"] = np.nan
    frame.loc[::11, "town"] = np.nan
    return frame, y


@pytest.mark.parametrize(
    "encoder",
    [
        OneHotEncoder(handle_unknown="ignore"),
        OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=20),
        OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=2),
        OneHotEncoder(drop="first", handle_unknown="ignore"),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    ],
)
def test_mixed_columns(encoder):
    frame, y = mixed()
    prepare = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), RobustScaler()), ["size"]),
        (make_pipeline(SimpleImputer(strategy="most_frequent"), encoder), ["town", "flag"]),
        (encoder, ["code"]),
        sparse_threshold=0,
    )
    model = make_pipeline(prepare, FuzzyTwinSVC(planes="fuzzy")).fit(frame, y)
    assert_same(model, frame)
    new = frame.copy()
    new["town"], new["code"] = "Atlantis", 9.0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Found unknown categories")  # encoders with drop tell
        assert_same(model, new)


def test_known_categories_beside_nan_for_unknown_ones():
    frame, y = mixed()
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    assert_same(make_pipeline(encoder, FuzzyTwinSVC()).fit(frame[["flag"]], y), frame[["flag"]])


def test_columns_chosen_in_other_ways():
    frame, y = mixed()
    frame = frame.fillna({"size": 0.0, "town": ""})
    text = make_column_selector(dtype_exclude=np.number)
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    prepare = make_column_transformer((encoder, text), remainder=MinMaxScaler())
    assert_same(make_pipeline(prepare, FuzzyTwinSVC()).fit(frame, y), frame)
    prepare = make_column_transformer((encoder, [1, 3]), (StandardScaler(), slice(0, 1)))
    assert_same(make_pipeline(prepare, FuzzyTwinSVC()).fit(frame, y), frame)
    assert_same(make_pipeline(encoder, FuzzyTwinSVC()).fit(frame[["town", "flag"]], y),
                frame[["town", "flag"]])  # fmt: skip


def test_numbers_picked_by_name():
    frame, y = mixed()
    frame = frame[["size", "code"]].fillna(0.0)
    prepare = make_column_transformer((StandardScaler(), ["code"]), (MinMaxScaler(), ["size"]))
    model = make_pipeline(prepare, FuzzyTwinSVC()).fit(frame, y)
    assert [entry.name for entry in to_onnx(model).graph.input] == ["size", "code"]
    assert_same(model, frame)


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (LogisticRegression(max_iter=1000), "not an estimator"),
        (make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), "not an estimator"),
        (
            make_pipeline(FunctionTransformer(np.sqrt), FuzzyTwinSVC()),
            "cannot be converted to ONNX",
        ),
        (
            make_pipeline(SimpleImputer(add_indicator=True), FuzzyTwinSVC()),
            "cannot be converted to ONNX",
        ),
        # skl2onnx makes a graph of floats beside doubles, which no runtime takes.
        (
            make_pipeline(
                make_column_transformer(
                    (KBinsDiscretizer(3, encode="ordinal", strategy="uniform"), [0, 1]),
                    (StandardScaler(), [2, 3]),
                ),
                FuzzyTwinSVC(),
            ),
            "cannot be converted to ONNX.*double precision .not KBinsDiscretizer",
        ),
    ],
)
def test_what_has_no_form_is_refused(model, match):
    with pytest.raises(ValueError, match=match) as caught:
        to_onnx(model.fit(*IRIS))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model", [FuzzyTwinSVC(), FuzzyTwinCommittee(members=["linear"])])
@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 2**63 + 5], dtype=np.uint64),
        np.array(["2024-01-01", "2024-01-02"], dtype="M8[ns]"),
    ],
)
def test_labels_without_a_type_in_onnx_are_named(model, labels):
    X, y = load_iris(return_X_y=True)
    model.fit(X, labels[(y > 0).astype(int)])
    with pytest.raises(ValueError, match=r"the label .* has no type in ONNX; .* labels as text"):
        to_onnx(model)


def test_degrees_that_only_train_are_left_out_of_the_graph():
    X, y = load_iris(return_X_y=True)
    wrapped = MembershipWeighted(estimator=LeastSquaresTwinSVC(), membership="center")
    for model in (wrapped, make_pipeline(StandardScaler(), wrapped)):
        model.fit(X, y)
        session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
        np.testing.assert_array_equal(session.run(None, {"X": X})[0], model.predict(X))
    foreign = MembershipWeighted(estimator=LogisticRegression()).fit(X, y)
    with pytest.raises(ValueError, match=r"LogisticRegression.*estimator_ with skl2onnx"):
        to_onnx(foreign)


LEARNED = ("rbf", {"ard": True})
COMMITTEES = {
    "auto": FuzzyTwinCommittee(),
    "other kernels": FuzzyTwinCommittee(members=["poly", "cosine", "sigmoid", "linear"]),
    "class weights": FuzzyTwinCommittee(members=["linear", LEARNED], class_weight="balanced"),
    "landmarks": FuzzyTwinCommittee(members=["rbf", "laplacian"], n_landmarks=20, random_state=0),
}


@pytest.mark.parametrize("name", COMMITTEES)
def test_committee(name):
    X, y = IRIS[0][::2], np.array(["a", "b", "c"])[IRIS[1][::2]]
    assert_same(clone(COMMITTEES[name]).fit(X, y), IRIS[0])


def test_committee_of_two_classes():
    X, y = CANCER[0][:120], CANCER[1][:120] == 1
    model = FuzzyTwinCommittee(members=["linear", "rbf"]).fit(X, y)
    assert_same(model, CANCER[0])
    assert to_onnx(model).graph.output[1].name == "probabilities"


def test_committee_of_a_table_with_categories_and_gaps():
    X, y = load_uci("hepatitis", return_X_y=True)
    model = make_pipeline(
        uci_preprocessor("hepatitis"), FuzzyTwinCommittee(members=["linear", LEARNED])
    )
    assert_same(model.fit(X, y), X)


def test_committee_behind_a_table_preprocessor():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.integers(20, 80, 120), "dose": rng.normal(size=120)})
    X["town"] = rng.choice(["north", "south", "east"], 120)
    X.loc[::7, "dose"] = np.nan
    y = np.where((X["age"] > 50) ^ (X["town"] == "north"), "ill", "well")
    assert_same(
        make_pipeline(TablePreprocessor(), FuzzyTwinCommittee(members=["linear", "rbf"])).fit(X, y),
        X,
    )


def padded_table(n=240):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({
        "dose": rng.normal(size=n), "stage": rng.integers(1, 5, n).astype(float),
        "town": rng.choice(["New York", "Uti", "a.b|c*", "(x)", "Köln", None], n),
        "doctor": [f"Dr {k}" for k in rng.gamma(9.0, 3.0, n).astype(int)],
    })  # fmt: skip
    y = np.where((X["town"] == "Uti") ^ (X["dose"] + rng.normal(0, 0.5, n) > 0), "ill", "well")
    X["town"] = X["town"].astype(object).where(X["town"].notna(), np.nan)
    return X, y


def test_texts_are_read_alike_in_graphs_and_in_python():
    """Spaces around a category do not count, and marks such as NA are missing values."""
    X, y = padded_table()
    X.loc[::9, ["dose", "stage"]] = np.nan
    model = make_pipeline(TablePreprocessor(), FuzzyTwinCommittee(members=["linear", "rbf"])).fit(
        X, y
    )
    expected = model.predict_proba(X)
    padded = X.assign(town="\t " + X["town"] + "\u00a0", doctor=X["doctor"] + " ")
    padded["town"] = padded["town"].where(X["town"].notna(), " NA ")
    for rows in (X, padded):
        np.testing.assert_allclose(model.predict_proba(rows), expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(run(model, rows)[1], expected, rtol=0, atol=1e-12)
    others = X.assign(town="uti", doctor="Dr  9", stage=7.0)  # none of the known ones
    with pytest.warns(TableWarning, match="not among the training rows"):
        expected = model.predict_proba(others)
    np.testing.assert_allclose(run(model, others)[1], expected, rtol=0, atol=1e-12)


def test_graphs_know_the_marks_for_missing_values_of_their_model():
    X, y = padded_table()
    X["town"] = X["town"].fillna("NA")  # a town of its own, as only -999 is missing
    X.loc[::9, ["dose", "stage"]] = -999.0
    X.loc[::7, "town"] = "-999"
    prepare = TablePreprocessor(missing=["-999"])
    model = make_pipeline(prepare, FuzzyTwinCommittee(members=["linear", "rbf"])).fit(X, y)
    np.testing.assert_allclose(run(model, X)[1], model.predict_proba(X), rtol=0, atol=1e-12)


def test_a_graph_takes_no_rows_too():
    X, y = IRIS
    model = FuzzyTwinSVC(kernel="laplacian", n_landmarks=20, random_state=0).fit(X, y)
    label, memberships = run(model, X[:0])
    assert label.shape == (0,)
    assert memberships.shape == (0, 3)


MEASURED = """
import resource, sys
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1])
X = np.load(sys.argv[2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
session.run(None, {"X": X})
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def test_three_thousand_rows_take_less_than_300_mib(tmp_path):
    """Distances of the Laplacian kernel used to take rows x landmarks x columns at once."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 60))
    model = FuzzyTwinSVC(kernel="laplacian", n_landmarks=600, random_state=0)
    model.fit(X[:1000], X[:1000, 0] > 0)
    (tmp_path / "m.onnx").write_bytes(to_onnx(model).SerializeToString())
    np.save(tmp_path / "X.npy", X)
    paths = [str(tmp_path / name) for name in ("m.onnx", "X.npy")]
    told = subprocess.run(
        [sys.executable, "-c", MEASURED, *paths], capture_output=True, text=True, check=True
    )
    assert float(told.stdout) < 300


@pytest.mark.parametrize("mark", [-999.0, 1e200])
def test_values_far_off_are_clipped_in_the_graph_too(mark):
    X, y = IRIS
    marked, new = X.copy(), X[::3].copy()
    marked[[3, 80], 1] = mark
    new[1, 2], new[2, 1], new[5, 0] = 1e200, mark, -1e6
    assert_same(FuzzyTwinCommittee(members=["linear", "rbf", "laplacian"]).fit(marked, y), new)
    frame = pd.DataFrame(marked, columns=list("abcd"))
    model = make_pipeline(TablePreprocessor(numeric=list("abcd")), FuzzyTwinSVC()).fit(frame, y)
    assert_same(model, pd.DataFrame(new, columns=list("abcd")))
