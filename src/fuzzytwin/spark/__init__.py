"""`FuzzyTwinSVC` on Spark: an Estimator of `pyspark.ml` that fits by one row per partition.

Nothing but DataFrames is used (`mapInArrow`, one pandas UDF), so it runs over Spark Connect
as well. The executors need ``fuzzytwin[spark]`` too.
"""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import numpy as np

from fuzzytwin._utils.extras import missing
from fuzzytwin.chunked.fit import fixed_landmarks, learn
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.estimators import fuzzy_twin as _classifier
from fuzzytwin.memberships import MEMBERSHIPS, Membership

try:
    import pandas as pd
    from pyspark.ml.base import Estimator, Model
    from pyspark.ml.param import Param, Params
    from pyspark.ml.param.shared import HasLabelCol, HasPredictionCol, HasWeightCol
    from pyspark.ml.util import MLReadable, MLReader, MLWritable, MLWriter
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.functions import pandas_udf

    from fuzzytwin.spark.rows import Columns, total_over
except ImportError as error:  # pragma: no cover
    raise missing("fuzzytwin.spark", "PySpark", "spark", error) from error

__all__ = ["FuzzyTwinSVC", "FuzzyTwinSVCModel"]

OWN = tuple(_classifier.FuzzyTwinSVC().get_params(deep=False))
MOMENTS = (
    "part string, class int, weight double, origin array<double>, offset array<double>, "
    "covariance array<double>"
)


def _own(name: str) -> Any:
    return Param(Params._dummy(), name, f"{name} of fuzzytwin.FuzzyTwinSVC")


class _TwinParams(HasLabelCol, HasWeightCol, HasPredictionCol):
    """Columns, and the parameters of `fuzzytwin.FuzzyTwinSVC` by their own names."""

    featuresCol: Any = Param(
        Params._dummy(), "featuresCol", "column of vectors or arrays, or list of numeric columns"
    )
    membershipCol: Any = Param(
        Params._dummy(), "membershipCol", "column to write memberships to, in the order of classes_"
    )
    degreeCol: Any = Param(
        Params._dummy(), "degreeCol",
        "numeric column of given degrees, or soft labels: an array column or a list of columns",
    )  # fmt: skip
    planes = _own("planes")
    C = _own("C")
    alpha = _own("alpha")
    membership = _own("membership")
    membership_scope = _own("membership_scope")
    rule = _own("rule")
    tau = _own("tau")
    margin_width = _own("margin_width")
    formulation = _own("formulation")
    class_weight = _own("class_weight")
    kernel = _own("kernel")
    gamma = _own("gamma")
    degree = _own("degree")
    coef0 = _own("coef0")
    n_landmarks = _own("n_landmarks")
    random_state = _own("random_state")

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(featuresCol="features", membershipCol="membership", degreeCol=None)
        self._setDefault(weightCol=None, **_classifier.FuzzyTwinSVC().get_params(deep=False))

    def setParams(self, **params: Any) -> Any:
        """Set parameters by name; the list of `params` tells which there are."""
        for name in params:
            if not self.hasParam(name):
                known = ", ".join(param.name for param in self.params)
                raise TypeError(f"{name}={params[name]!r} is no parameter; use one of {known}.")
        return self._set(**params)

    def _value(self, name: str) -> Any:
        return self.getOrDefault(name)

    def _columns(self, dataset: Any, *, training: bool) -> Columns:
        names = ("featuresCol", "labelCol", "weightCol", "degreeCol")
        given = {name: self._value(name) for name in (names if training else names[:1])}
        return Columns.of(dataset, **given)


class _ReadWrite(MLReadable[Any], MLWritable):
    """Persistence as JSON and Parquet, written and read by Spark."""

    def write(self) -> MLWriter:
        """A writer; ``overwrite()`` replaces what is there."""
        return _Writer(self)

    @classmethod
    def read(cls) -> MLReader[Any]:
        """A reader."""
        return _Reader(cls)


class FuzzyTwinSVC(Estimator[Any], _TwinParams, _ReadWrite):
    """`fuzzytwin.FuzzyTwinSVC` as an Estimator of `pyspark.ml`, with the same planes.

    Every partition becomes one row of moments, and the driver adds them up. Rows are met
    once, with the memberships "center" and "hyperplane" three times: ``cache()`` the
    DataFrame if it is costly to make. Memberships that look at neighbours are refused.

    Parameters
    ----------
    featuresCol : str or list of str, default="features"
        A column of vectors or arrays, or numeric columns.
    labelCol : str, default="label"
        Labels: strings, whole numbers, doubles or booleans.
    weightCol : str, default=None
        Importance of each sample.
    degreeCol : str or list of str, default=None
        Degrees that are given: a numeric column; or soft labels: an array or vector column, or
        one numeric column per class, in the order of the sorted labels.
    predictionCol : str, default="prediction"
        Where `transform` writes labels, of the type of `labelCol`.
    membershipCol : str, default="membership"
        Where `transform` writes memberships: an array, in the order of ``classes_``.
    planes, C, alpha, membership, membership_scope, rule, tau, margin_width, formulation, \
class_weight, kernel, gamma, degree, coef0, n_landmarks, random_state
        As for `fuzzytwin.FuzzyTwinSVC`. A kernel other than the linear one needs the landmarks
        themselves as `n_landmarks` and a `gamma` other than "scale".

    Examples
    --------
    >>> from fuzzytwin.spark import FuzzyTwinSVC
    >>> rows = [(0.0, 1.0, "no"), (1.0, 0.0, "no"), (4.0, 5.0, "yes"), (5.0, 4.0, "yes")]
    >>> table = spark.createDataFrame(rows, "a double, b double, label string")  # doctest: +SKIP
    >>> model = FuzzyTwinSVC(featuresCol=["a", "b"], alpha=1.0).fit(table)  # doctest: +SKIP
    >>> model.transform(table).select("label", "prediction").distinct().count()  # doctest: +SKIP
    2
    >>> model.to_sklearn().classes_.tolist()  # doctest: +SKIP
    ['no', 'yes']
    """

    def __init__(self, **params: Any) -> None:
        super().__init__()
        self.setParams(**params)

    def _fit(self, dataset: DataFrame) -> FuzzyTwinSVCModel:
        core = _classifier.FuzzyTwinSVC(**{name: self._value(name) for name in OWN})
        settings = core.fit_settings()  # before any work
        phi = fixed_landmarks(settings)
        columns = self._columns(dataset, training=True)
        total, names = total_over(columns.select(dataset), columns), columns.feature_names
        learned = learn(settings, total, given=columns.degrees is not None, phi=phi, names=names)
        core.fit_moments(learned.moments, learned.classes, landmark_map=phi, feature_names=names)
        model = FuzzyTwinSVCModel(core, columns.label_type)
        return self._copyValues(model)


class FuzzyTwinSVCModel(Model, _TwinParams, _ReadWrite):
    """What `fuzzytwin.spark.FuzzyTwinSVC` gives back: planes that label DataFrames."""

    def __init__(self, core: Any = None, label_type: str = "double") -> None:
        super().__init__()
        self._core = core
        self._label_type = label_type

    @property
    def classes_(self) -> Any:
        """The labels, in the order of the memberships."""
        return self._core.classes_

    @property
    def numClasses(self) -> int:
        """Number of classes."""
        return len(self._core.classes_)

    @property
    def numFeatures(self) -> int:
        """Number of features."""
        return int(self._core.n_features_in_)

    def to_sklearn(self) -> _classifier.FuzzyTwinSVC:
        """The same fitted model as an ordinary `fuzzytwin.FuzzyTwinSVC`.

        Returns
        -------
        fuzzytwin.FuzzyTwinSVC
            With its moments: `partial_fit` and `merge` go on from here.
        """
        plain: Any = copy.copy(self._core)
        return plain.set_params(rule=self._value("rule"))

    def _transform(self, dataset: DataFrame) -> DataFrame:
        columns = self._columns(dataset, training=False)
        prediction, membership = self._value("predictionCol"), self._value("membershipCol")
        for name, column in (("predictionCol", prediction), ("membershipCol", membership)):
            if column in dataset.columns:
                raise ValueError(
                    f"{name}={column!r} is a column of the DataFrame already; drop it or set "
                    f"another {name}."
                )
        model = self.to_sklearn()
        # Sums of training rows need not travel, and names were checked by now.
        for attribute in ("moments_", "feature_names_in_"):
            model.__dict__.pop(attribute, None)

        def degrees(*features: pd.Series) -> pd.Series:
            u = model.predict_membership(columns.from_series(features))
            return pd.Series(list(u))

        make: Any = pandas_udf  # its types know no variable number of columns
        memberships = make(degrees, "array<double>")
        # argmax and label in Spark, so that the label's type is its own affair.
        labels = F.array(*(F.lit(label) for label in self.classes_.tolist()))
        u = F.col(f"`{membership}`")
        place = F.array_position(u, F.array_max(u)).cast("int")
        label = F.element_at(labels.cast(f"array<{self._label_type}>"), place)
        with_degrees = dataset.withColumn(membership, memberships(*columns.features()))
        return with_degrees.withColumn(prediction, label)


class _Writer(MLWriter):
    """Parameters as JSON in ``metadata``; of a model also the moments, as Parquet."""

    def __init__(self, instance: Any) -> None:
        super().__init__()
        self.instance = instance

    def save(self, path: str) -> None:
        spark, it = self.sparkSession, self.instance
        mode = "overwrite" if self.shouldOverwrite else "error"
        told = {
            "class": f"{type(it).__module__}.{type(it).__name__}",
            "timestamp": int(time.time() * 1000),
            "sparkVersion": spark.version,
            "uid": it.uid,
            "paramMap": {p.name: _to_json(p.name, v) for p, v in it._paramMap.items()},
            "defaultParamMap": {
                p.name: _to_json(p.name, v) for p, v in it._defaultParamMap.items()
            },
        }
        core = getattr(it, "_core", None)
        if core is not None:
            names = getattr(core, "feature_names_in_", None)
            told["fitted"] = {
                "params": {k: _to_json(k, v) for k, v in core.get_params(deep=False).items()},
                "classes": core.classes_.tolist(),
                "dtype": core.classes_.dtype.str,
                "label_type": it._label_type,
                "n_features": int(core.n_features_in_),
                "feature_names": None if names is None else list(names),
            }
            rows = spark.createDataFrame(_moment_rows(core.moments_), MOMENTS)
            rows.coalesce(1).write.mode(mode).parquet(f"{path}/moments")
        text = spark.createDataFrame([(json.dumps(told),)], "value string").coalesce(1)
        text.write.mode(mode).text(f"{path}/metadata")


class _Reader(MLReader[Any]):
    def __init__(self, cls: type) -> None:
        super().__init__()
        self.cls = cls

    def load(self, path: str) -> Any:
        spark = self.sparkSession
        told = json.loads(spark.read.text(f"{path}/metadata").collect()[0][0])
        name = f"{self.cls.__module__}.{self.cls.__name__}"
        if told["class"] != name:
            raise ValueError(f"{path} holds a {told['class']}, not a {name}; load it by that.")
        it = self.cls()
        if "fitted" in told:
            fitted = told["fitted"]
            core = _classifier.FuzzyTwinSVC(
                **{k: _from_json(v) for k, v in fitted["params"].items()}
            )
            core.fit_moments(
                _moments_of(spark.read.parquet(f"{path}/moments").collect()),
                np.array(fitted["classes"], dtype=fitted["dtype"]),
                landmark_map=fixed_landmarks(core.fit_settings()),
                feature_names=fitted["feature_names"],
            )
            it._core, it._label_type = core, fitted["label_type"]
        it._resetUid(told["uid"])
        it._setDefault(**{k: _from_json(v) for k, v in told["defaultParamMap"].items()})
        for key, value in told["paramMap"].items():
            it.set(it.getParam(key), _from_json(value))
        return it


def _moment_rows(moments: TwinMoments) -> list[tuple[Any, ...]]:
    """A row per class and kind of moments; equal ones are written once."""
    names = ("own", "slack", "absolute_own", "absolute_slack")
    seen: list[Any] = []
    rows = []
    for name, part in zip(names, moments.parts(), strict=True):
        if part is None or any(part is other for other in seen):
            continue
        seen.append(part)
        for k, weight in enumerate(part.weight.tolist()):
            arrays = (part.origin[k], part.offset[k], part.covariance[k].ravel())
            rows.append((name, k, weight, *(array.tolist() for array in arrays)))
    return rows


def _moments_of(rows: list[Any]) -> TwinMoments:
    parts = {}
    for name in {row["part"] for row in rows}:
        mine = sorted((row for row in rows if row["part"] == name), key=lambda row: row["class"])
        weight, origin, offset = (
            np.array([row[key] for row in mine]) for key in ("weight", "origin", "offset")
        )
        square = (*origin.shape, origin.shape[1])
        covariance = np.array([row["covariance"] for row in mine]).reshape(square)
        parts[name] = ClassMoments(weight, origin, offset, covariance)
    own, absolute = parts["own"], parts.get("absolute_own")
    return TwinMoments(
        own, parts.get("slack", own), absolute, parts.get("absolute_slack", absolute)
    )


def _to_json(name: str, value: Any) -> Any:
    """A parameter's value as JSON."""
    if isinstance(value, Membership) and type(value) in MEMBERSHIPS.values():
        return {"membership": type(value).__name__, "params": value.get_params(deep=False)}
    if isinstance(value, dict):  # JSON would turn its keys into strings
        return {"items": [[_to_json(name, part) for part in pair] for pair in value.items()]}
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    try:
        json.dumps(value)
    except TypeError as error:
        raise ValueError(f"{name}={value!r} cannot be written as JSON; {error}.") from error
    return value


def _from_json(value: Any) -> Any:
    if isinstance(value, dict) and "membership" in value:
        by_name = {cls.__name__: cls for cls in MEMBERSHIPS.values() if isinstance(cls, type)}
        return by_name[value["membership"]](**value["params"])
    if isinstance(value, dict):
        return {_from_json(key): _from_json(part) for key, part in value["items"]}
    return value
