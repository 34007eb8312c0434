"""The planes of Spark DataFrames are those of the same rows in memory, whatever the partitions."""

import doctest
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import fuzzytwin
from fuzzytwin import CenterMembership
from fuzzytwin import FuzzyTwinSVC as InMemory
from fuzzytwin.label_issues._report import COLUMNS
from tests.files.helpers import mixed_table

pytest.importorskip("pyspark", reason="PySpark is not installed")
engine = pytest.importorskip("fuzzytwin.spark")
FuzzyTwinSVC, FuzzyTwinSVCModel = engine.FuzzyTwinSVC, engine.FuzzyTwinSVCModel
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="Java is missing"
    ),
    # PySpark warns of every pandas that is newer than itself; we use none of what changed.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

N, D = 300, 4
FEATURES = list("pqrs")
SOFT = [f"soft{k}" for k in range(5)]


@pytest.fixture(scope="module")
def spark():
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    yield session
    session.stop()


def table(offset=0.0):
    rng = np.random.default_rng(0)
    codes = np.sort(rng.integers(0, 5, N))
    codes[N // 2 :] = rng.permutation(codes[N // 2 :])
    X = rng.normal(size=(N, D)) + offset
    X[np.arange(N), codes % D] += 2.0
    weights = rng.integers(0, 4, N) / 2
    degrees = rng.uniform(size=N)
    soft = rng.dirichlet(np.ones(5), size=N)
    return X, codes, weights, degrees, soft


def frame_of(spark, offset=0.0):
    """Features as columns, an array and a vector; labels of three types; an empty partition."""
    from pyspark.ml.functions import array_to_vector

    X, codes, weights, degrees, soft = table(offset)
    words = np.array(["ant", "bee", "cicada", "dragonfly", "earwig"])[codes]
    rows = [
        (
            *X[i].tolist(), X[i].tolist(), int(codes[i]), float(codes[i] % 2), str(words[i]),
            float(weights[i]), float(degrees[i]), soft[i].tolist(), *soft[i].tolist(), i,
        )
        for i in range(N)
    ]  # fmt: skip
    numbers = ", ".join(f"{name} double" for name in FEATURES)
    softs = ", ".join(f"{name} double" for name in SOFT)
    frame = spark.createDataFrame(
        rows,
        f"{numbers}, array array<double>, whole int, real double, word string, weight double, "
        f"degree double, soft array<double>, {softs}, row int",
    )
    frame = frame.withColumn("features", array_to_vector("array"))
    # Partitions by row number: they lack classes, and one has no rows.
    return frame.repartitionByRange(3, "row").union(frame.where("row < 0")).cache()


@pytest.fixture(scope="module")
def near(spark):
    return frame_of(spark)


@pytest.fixture(scope="module")
def far(spark):
    return frame_of(spark, 1e6)


def words_of(codes):
    return np.array(["ant", "bee", "cicada", "dragonfly", "earwig"])[codes]


def assert_same(found, wanted, rtol=1e-9):
    found = found.to_sklearn()
    assert type(found) is InMemory
    assert_array_equal(found.classes_, wanted.classes_)
    for name in ("coef_", "intercept_", "width_coef_", "width_intercept_"):
        assert hasattr(found, name) == hasattr(wanted, name)
        if hasattr(wanted, name):
            assert_allclose(getattr(found, name), getattr(wanted, name), rtol=rtol, atol=1e-13)


@pytest.mark.parametrize(
    ("label", "given"),
    [("real", None), ("real", "degree"), ("word", "degree"), ("word", "soft"), ("word", SOFT)],
    ids=str,
)
def test_planes_are_those_in_memory(far, label, given):
    X, codes, weights, degrees, soft = table(1e6)
    y = codes % 2.0 if label == "real" else words_of(codes)
    mu = {None: None, "degree": degrees}.get(given if given != SOFT else "soft", soft)
    parameters = {"planes": "fuzzy", "class_weight": "balanced"}
    columns = {"featuresCol": FEATURES, "labelCol": label, "weightCol": "weight"}
    found = FuzzyTwinSVC(**columns, degreeCol=given, **parameters).fit(far)
    assert_same(found, InMemory(**parameters).fit(X, y, weights, mu))


@pytest.mark.parametrize("n_classes", [3, 10])
def test_pairs_of_many_classes(spark, n_classes):
    rng = np.random.default_rng(n_classes)
    y = np.arange(30 * n_classes) % n_classes
    X = rng.normal(size=(len(y), D)) + 3 * rng.normal(size=(n_classes, D))[y]
    rows = [(*x, int(k)) for x, k in zip(X.tolist(), y, strict=True)]
    columns = ", ".join(f"{name} double" for name in FEATURES)
    frame = spark.createDataFrame(rows, f"{columns}, label int").repartition(2)
    model = FuzzyTwinSVC(featuresCol=FEATURES, labelCol="label", C=0.5).fit(frame)
    wanted = InMemory(C=0.5).fit(X, y)
    assert_same(model, wanted)
    assert_array_equal(model.to_sklearn().plane_classes_, wanted.plane_classes_)
    answers = np.array(model.transform(frame).select(*FEATURES, "prediction").collect())
    assert_array_equal(answers[:, -1], wanted.predict(answers[:, :-1]))


@pytest.mark.parametrize("features", ["features", "array"])
def test_vectors_and_arrays(far, features):
    X, codes, *_ = table(1e6)
    model = FuzzyTwinSVC(featuresCol=features, labelCol="whole").fit(far)
    wanted = InMemory().fit(X, codes)
    assert_same(model, wanted)
    rows = model.transform(far).orderBy("row").select("prediction", "membership").collect()
    assert_array_equal([row[0] for row in rows], wanted.predict(X))
    assert not hasattr(model.to_sklearn(), "feature_names_in_")


@pytest.mark.parametrize(
    "membership",
    ["center", "hyperplane", CenterMembership(decay="exponential", imbalance=True)],
    ids=str,
)
def test_computed_memberships(near, membership):
    X, codes, weights, *_ = table()
    columns = {"featuresCol": FEATURES, "labelCol": "whole", "weightCol": "weight"}
    found = FuzzyTwinSVC(**columns, membership=membership).fit(near)
    assert_same(found, InMemory(membership=membership).fit(X, codes, weights))


def test_a_calibrated_model_writes_probabilities(near):
    X, codes, *_ = table()
    wanted = InMemory(calibration="loo").fit(X, codes)
    model = FuzzyTwinSVCModel(wanted, "int").setParams(featuresCol=FEATURES)
    rows = model.transform(near).orderBy("row").select("prediction", "probability").collect()
    assert_array_equal([row["prediction"] for row in rows], wanted.predict(X))
    assert_allclose([row["probability"] for row in rows], wanted.predict_proba(X), rtol=1e-7)


@pytest.mark.parametrize(("label", "kind"), [("whole", "int"), ("word", "string")])
def test_transform_keeps_the_type_of_the_label(near, label, kind):
    X, codes, *_ = table()
    y = codes if label == "whole" else words_of(codes)
    wanted = InMemory(rule="residual").fit(X, y)
    columns = {"predictionCol": "guess", "membershipCol": "u"}
    model = FuzzyTwinSVC(featuresCol=FEATURES, labelCol=label, rule="residual", **columns).fit(near)
    out = model.transform(near)
    assert out.columns == [*near.columns, "u", "guess"]
    assert dict(out.dtypes)["guess"] == kind
    assert dict(out.dtypes)["u"] == "array<double>"
    rows = out.orderBy("row").select("guess", "u").collect()
    assert_array_equal([row["guess"] for row in rows], wanted.predict(X))
    assert_allclose([row["u"] for row in rows], wanted.predict_membership(X), rtol=1e-9)
    assert (model.numClasses, model.numFeatures) == (5, D)
    assert_array_equal(model.to_sklearn().feature_names_in_, FEATURES)
    # The rule is the one parameter that can still change.
    other = model.transform(near, {model.rule: "distance"}).orderBy("row").select("u").collect()
    assert_allclose(
        [row["u"] for row in other], InMemory().fit(X, y).predict_membership(X), rtol=1e-9
    )


def test_written_and_read_again(near, tmp_path):
    membership = CenterMembership(eps=0.01)
    estimator = FuzzyTwinSVC(
        featuresCol=FEATURES, labelCol="whole", planes="fuzzy", membership=membership,
        C=np.array([1.0, 2.0, 1.0, 0.5, 1.0]), class_weight={0: 2.0, 3: 0.5},
    )  # fmt: skip
    estimator.save(f"{tmp_path}/estimator")
    again = FuzzyTwinSVC.load(f"{tmp_path}/estimator")
    assert again.uid == estimator.uid
    assert again.getOrDefault("class_weight") == {0: 2.0, 3: 0.5}
    assert repr(again.getOrDefault("membership")) == repr(membership)
    model = again.fit(near)
    model.save(f"{tmp_path}/model")
    with pytest.raises(Exception, match="already exists"):
        model.save(f"{tmp_path}/model")
    model.write().overwrite().save(f"{tmp_path}/model")
    read = FuzzyTwinSVCModel.load(f"{tmp_path}/model")
    assert_same(read, model.to_sklearn(), rtol=0)
    assert read.getOrDefault("featuresCol") == FEATURES
    assert_array_equal(read.to_sklearn().feature_names_in_, FEATURES)
    assert not list(tmp_path.rglob("*.pkl"))
    with pytest.raises(ValueError, match=r"holds a fuzzytwin\.spark\.FuzzyTwinSVCModel"):
        FuzzyTwinSVC.load(f"{tmp_path}/model")
    assert_array_equal(
        read.to_sklearn().moments_.own.weight, model.to_sklearn().moments_.own.weight
    )


@pytest.mark.parametrize(
    ("kernel", "form"),
    [("rbf", np.asarray), ("laplacian", sparse.csr_array), ("poly", np.ndarray.tolist)],
)
def test_a_kernel_model_is_written_and_read_again(near, tmp_path, kernel, form):
    X, codes, *_ = table()
    parameters = {"kernel": kernel, "gamma": 0.3, "degree": 2, "n_landmarks": form(X[::20])}
    wanted = InMemory(**parameters).fit(X, codes)
    estimator = FuzzyTwinSVC(featuresCol=FEATURES, labelCol="whole", **parameters)
    estimator.save(f"{tmp_path}/estimator")
    model = FuzzyTwinSVC.load(f"{tmp_path}/estimator").fit(near)
    assert_same(model, wanted, rtol=1e-7)
    model.save(f"{tmp_path}/model")
    read = FuzzyTwinSVCModel.load(f"{tmp_path}/model")
    # The very same features: the map is read, not computed again.
    before, after = (each.to_sklearn().landmark_map_.root for each in (model, read))
    assert_array_equal(before, after)
    assert_same(read, model.to_sklearn(), rtol=0)
    rows = read.transform(near).orderBy("row").select("prediction").collect()
    assert_array_equal([row[0] for row in rows], wanted.predict(X))


def test_what_cannot_be_written_is_named(near, tmp_path):
    estimator = FuzzyTwinSVC(featuresCol=FEATURES, membership=lambda X, y, s: np.ones(len(y)))
    with pytest.raises(ValueError, match=r"membership=.*cannot be saved.*; use a name"):
        estimator.save(f"{tmp_path}/estimator")
    assert not list(tmp_path.iterdir())


def test_a_changed_rule_and_a_large_model_are_kept(near, tmp_path, monkeypatch):
    model = FuzzyTwinSVC(featuresCol=FEATURES, labelCol="word", planes="fuzzy").fit(near)
    model.setParams(rule="residual", predictionCol="guess")
    monkeypatch.setattr("fuzzytwin.spark._estimators.ROW_BYTES", 1000)  # many rows, in their order
    model.save(f"{tmp_path}/model")
    read = FuzzyTwinSVCModel.load(f"{tmp_path}/model")
    assert read.to_sklearn().rule == "residual"
    assert {param.name for param in read.params if read.isSet(param)} == {
        "featuresCol", "labelCol", "planes", "rule", "predictionCol",
    }  # fmt: skip
    assert_same(read, model.to_sklearn(), rtol=0)
    assert read.transform(near).columns[-1] == "guess"


def test_pipeline(near, tmp_path):
    from pyspark.ml import Pipeline, PipelineModel
    from pyspark.ml.feature import VectorAssembler

    assembler = VectorAssembler(inputCols=FEATURES, outputCol="assembled")
    pipeline = Pipeline(stages=[assembler, FuzzyTwinSVC(featuresCol="assembled", labelCol="word")])
    model = pipeline.fit(near)
    model.save(f"{tmp_path}/pipeline")
    X, codes, *_ = table()
    wanted = InMemory().fit(X, words_of(codes)).predict(X)
    for each in (model, PipelineModel.load(f"{tmp_path}/pipeline")):
        rows = each.transform(near).orderBy("row").select("prediction").collect()
        assert_array_equal([row[0] for row in rows], wanted)


def test_parameters_are_those_of_the_estimator_in_memory():
    estimator = FuzzyTwinSVC(alpha=3.0)
    for name, value in InMemory().get_params(deep=False).items():
        assert estimator.hasParam(name)
        assert estimator.getOrDefault(name) == (3.0 if name == "alpha" else value)
    assert estimator.setParams(C=2.0).copy().getOrDefault("C") == 2.0
    with pytest.raises(TypeError, match=r"penalty=1 is not a parameter; use one of .*alpha"):
        FuzzyTwinSVC(penalty=1)


def test_bad_input_is_named(near):
    def with_value(column, value):
        return near.selectExpr(
            *(name for name in near.columns if name != column),
            f"if(row = 250, {value}, {column}) as {column}",
        )

    nan = "double('nan')"
    good = {"featuresCol": FEATURES, "labelCol": "word"}
    cases = [
        (with_value("r", nan), {}, "X contains NaN in column 'r'"),
        (with_value("r", "null"), {}, "featuresCol: column 'r' holds a null"),
        (with_value("word", "null"), {}, "labelCol: column 'word' holds a null.*dropna"),
        (with_value("real", nan), {"labelCol": "real"}, "y of a chunk has no label"),
        (with_value("weight", "-1D"), {"weightCol": "weight"}, r"sample_weight holds -1\.0"),
        (with_value("degree", "2D"), {"degreeCol": "degree"}, r"membership holds 2\.0"),
        (near, {"degreeCol": SOFT[:3]}, "membership has 3 columns.*5"),
        (with_value("array", "array(1D)"), {"featuresCol": "array"}, "'array' holds 1 numbers"),
        (
            near,
            {"featuresCol": ["p", "absent"]},
            "featuresCol: .* no column 'absent'; its columns are p",
        ),
        (near, {"featuresCol": "word"}, "featuresCol: column 'word' is of type string"),
        (near, {"featuresCol": []}, "is empty"),
        (near, {"labelCol": "array"}, "labelCol='array' is of type array"),
        (near, {"weightCol": "array"}, "weightCol='array' is not allowed"),
        (near, {"membership": "neighbor"}, "membership=Neighbor.* needs all rows.*'center'"),
        (near, {"membership": "unheard"}, "membership='unheard' is unknown"),
        (near, {"kernel": "rbf"}, "kernel='rbf' .*give the landmarks"),
        (near, {"alpha": -1.0}, r"alpha=-1\.0 is not allowed"),
        (near.where("row < 0"), {}, "X has no rows"),
        (near.where("word = 'ant'"), {}, "one class only"),
    ]
    for frame, parameters, message in cases:
        with pytest.raises(ValueError, match=message):
            FuzzyTwinSVC(**{**good, **parameters}).fit(frame)
    model = FuzzyTwinSVC(**good).fit(near)
    with pytest.raises(ValueError, match=r"featuresCol: .* no column 'r'"):
        model.transform(near.drop("r"))
    with pytest.raises(ValueError, match="already has the column predictionCol='prediction'"):
        model.transform(model.transform(near))


def collected(frame):
    """Rows of a DataFrame; PySpark's own way warns of what pandas deprecates."""
    return pd.DataFrame(frame.collect(), columns=frame.columns)


def test_a_committee_is_that_in_memory(spark, tmp_path):
    rng = np.random.default_rng(0)
    codes = np.sort(rng.integers(0, 3, 11_000))  # more rows than a look holds
    X = rng.normal(size=(len(codes), 3)) + 2 * np.eye(3)[codes]
    y = words_of(codes)
    members = {"members": ["linear", ("rbf", {"length_scale_factor": 0.5})], "n_landmarks": 40}
    members |= {"class_weight": "balanced", "random_state": 0}
    wanted = fuzzytwin.FuzzyTwinCommittee(**members).fit(X, y)
    columns = pd.DataFrame(X, columns=list("pqr")).assign(label=y)
    frame = spark.createDataFrame(columns).repartition(3)
    model = engine.FuzzyTwinCommittee(featuresCol=list("pqr"), **members).fit(frame)
    rows, named = X[::500], columns[list("pqr")][::500]
    assert_allclose(model.to_sklearn().predict_proba(named), wanted.predict_proba(rows), atol=1e-9)
    model.save(str(tmp_path / "model"))
    read = engine.FuzzyTwinCommitteeModel.load(str(tmp_path / "model"))
    done = collected(read.transform(frame.sample(0.02, seed=0)))
    assert_allclose(
        np.stack(done["probability"]), wanted.predict_proba(done[list("pqr")].to_numpy()), atol=1e-9
    )
    assert_array_equal(done["prediction"], wanted.predict(done[list("pqr")].to_numpy()))


@pytest.mark.parametrize("step", [1, 40])  # 40: few rows, which are collected
def test_label_issues_are_those_of_a_file(spark, tmp_path, step):
    from fuzzytwin import files

    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 11_000)[::step]
    X = rng.normal(size=(len(codes), 3)) + 2 * np.eye(3)[codes]
    codes[::15] = 1
    members = {
        "members": ["linear", ("rbf", {"length_scale_factor": 0.5})],
        "n_landmarks": X[:: 500 // step],
    }
    committee = fuzzytwin.FuzzyTwinCommittee(**members, noise="auto")
    table = pd.DataFrame(X, columns=list("pqr")).assign(label=words_of(codes), row=range(len(X)))
    files.find_label_issues(
        [table], tmp_path / "issues.parquet", target="label", features=list("pqr"),
        estimator=committee,
    )  # fmt: skip
    written = pd.read_parquet(tmp_path / "issues.parquet")
    frame = spark.createDataFrame(table).repartition(3)
    found = engine.find_label_issues(frame, featuresCol=list("pqr"), estimator=committee)
    done = collected(found.frame).sort_values("row")
    assert list(done) == [*table, *COLUMNS[1:4]]
    assert_allclose(done["label_quality"], written["label_quality"], atol=1e-6)
    assert_array_equal(done["suggested_label"], written["suggested_label"])
    assert (
        done["is_label_issue"].to_numpy() == written["is_label_issue"].to_numpy()
    ).mean() > 0.999
    assert (found.n_rows, found.n_sampled) == (len(X), min(len(X), 10_000))


def test_text_dates_and_missing_values_are_taken_as_in_memory(spark, tmp_path):
    frame = mixed_table()
    frame.to_parquet(tmp_path / "t.parquet", index=False, coerce_timestamps="us")
    dataset = spark.read.parquet(str(tmp_path / "t.parquet")).repartitionByRange(3, "key")
    X, y = frame.drop(columns="sick"), frame["sick"].to_numpy()
    wanted = fuzzytwin.FuzzyTwinCommittee().fit(X, y)
    model = engine.FuzzyTwinCommittee(featuresCol=list(X), labelCol="sick").fit(dataset)
    fitted = model.to_sklearn()
    assert fitted.preprocessor_.schema_["columns"] == wanted.preprocessor_.schema_["columns"]
    assert_allclose(fitted.predict_proba(X), wanted.predict_proba(X), atol=1e-9)
    model.write().save(str(tmp_path / "model"))
    for labels in (model, engine.FuzzyTwinCommitteeModel.load(str(tmp_path / "model"))):
        found = labels.transform(dataset).orderBy("key").collect()
        assert_allclose([row.probability for row in found], wanted.predict_proba(X), atol=1e-9)
        assert_array_equal([row.prediction for row in found], wanted.predict(X))
    issues = fuzzytwin.find_label_issues(frame, "sick").to_frame()
    found = engine.find_label_issues(dataset, featuresCol=list(X), labelCol="sick")
    scored = found.frame.orderBy("key").collect()
    for name in COLUMNS[1:4]:
        values = [row[name] for row in scored]
        if name == "label_quality":
            assert_allclose(values, issues[name], atol=1e-9)
        else:
            assert_array_equal(values, issues[name])


def test_examples(spark):
    for estimator in (engine.FuzzyTwinSVC, engine.FuzzyTwinCommittee):
        text = estimator.__doc__.replace("# doctest: +SKIP", "")
        test = doctest.DocTestParser().get_doctest(text, {"spark": spark}, "spark", None, 0)
        result = doctest.DocTestRunner().run(test)
        assert result.attempted >= 5
        assert result.failed == 0


CONNECT = """
import sys, warnings
import numpy as np
from pyspark.sql import SparkSession
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import VectorAssembler
from fuzzytwin import FuzzyTwinSVC as InMemory
from fuzzytwin.spark import FuzzyTwinSVC, FuzzyTwinSVCModel

spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert "connect" in type(spark).__module__
X = np.random.default_rng(0).normal(size=(60, 2))
y = np.where(X[:, 0] > 0, "yes", "no")
rows = [(*X[i].tolist(), str(y[i])) for i in range(60)]
frame = spark.createDataFrame(rows, "a double, b double, label string").repartition(2)
wanted = InMemory(planes="fuzzy", membership="center").fit(X, y)
estimator = FuzzyTwinSVC(planes="fuzzy", membership="center")
model = Pipeline(stages=[VectorAssembler(inputCols=["a", "b"], outputCol="features"), estimator])
model = model.fit(frame)
model.stages[1].write().overwrite().save(sys.argv[1] + "/model")
read = FuzzyTwinSVCModel.load(sys.argv[1] + "/model")
assert np.allclose(read.to_sklearn().coef_, wanted.coef_, rtol=1e-9, atol=0)
out = model.transform(frame).collect()
assert [r["prediction"] for r in out] == list(wanted.predict([[r["a"], r["b"]] for r in out]))
spark.stop()
print("all well")
"""


def test_over_spark_connect(tmp_path):
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    done = subprocess.run(
        [sys.executable, "-c", CONNECT, str(tmp_path)],
        capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[1],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip
    assert "all well" in done.stdout, done.stderr[-3000:]
