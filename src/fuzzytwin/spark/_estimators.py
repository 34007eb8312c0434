"""Estimators of `pyspark.ml` that compute one row of sums per partition.

They use only DataFrames (`mapInArrow`, one pandas UDF), so they also run over Spark Connect. The
executors need this library with PySpark (the extra spark), and Spark needs Java 17.

Spark saves them: parameters as JSON, and the model as a file of `fuzzytwin.store`, in rows of 4 MiB
of a Parquet table, so that it can be stored wherever Spark can write. Nothing in it runs when it is
read.
"""

from __future__ import annotations

import copy
import json
import time
from typing import Any

from fuzzytwin._utils.extras import missing_package
from fuzzytwin._utils.types import Array
from fuzzytwin.committee import _committee
from fuzzytwin.committee._fit import fit_chunks
from fuzzytwin.committee._preprocessing import keep_preprocessor, without_preprocessor
from fuzzytwin.twin import _svc as _classifier
from fuzzytwin.twin._prediction import class_values, labels_by

try:
    import pandas as pd
    from pyspark.ml.base import Estimator, Model
    from pyspark.ml.param import Param, Params
    from pyspark.ml.param.shared import HasLabelCol, HasPredictionCol, HasWeightCol
    from pyspark.ml.util import MLReadable, MLReader, MLWritable, MLWriter
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.functions import pandas_udf

    from fuzzytwin.spark._rows import Columns, total_over
except ImportError as error:  # pragma: no cover
    raise missing_package("fuzzytwin.spark", "PySpark", "spark", error) from error

FORMAT = 1
ROW_BYTES = 1 << 22
# Fitted attributes that predictions do not need. Names of columns are checked before.
HEAVY = ("moments_", "conformity_scores_", "feature_names_in_")


def _param(name: str, doc: str) -> Any:
    parent = Params()  # a placeholder for the instance that will have the parameter
    parent.uid = "undefined"
    return Param(parent, name, doc)


class _Shared(HasLabelCol, HasWeightCol, HasPredictionCol, MLReadable[Any], MLWritable):
    """Names of columns, the parameters of the estimator in memory, and persistence."""

    in_memory: Any = None  # the class of the same estimator for rows in memory
    featuresCol = _param("featuresCol", "column of vectors or arrays, or list of numeric columns")
    degreeCol = _param(
        "degreeCol",
        "numeric column of degrees, or soft labels: an array column or a list of columns",
    )

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.in_memory is None:
            return
        columns = {"probabilityCol": "column of probabilities, in the order of classes_"}
        if hasattr(cls.in_memory, "predict_membership"):
            columns["membershipCol"] = "column of memberships, if there are no probabilities"
        for name, doc in columns.items():
            setattr(cls, name, _param(name, doc))
        for name in cls.in_memory().get_params(deep=False):
            setattr(cls, name, _param(name, f"{name} of fuzzytwin.{cls.in_memory.__name__}"))

    def __init__(self) -> None:
        super().__init__()
        names = ("probabilityCol", "membershipCol")
        columns = {name: name.removesuffix("Col") for name in names if self.hasParam(name)}
        self._setDefault(degreeCol=None, weightCol=None, featuresCol="features", **columns)
        self._setDefault(**self.in_memory().get_params(deep=False))

    def setParams(self, **params: Any) -> Any:
        """Set parameters by name. Raise a TypeError for a name that is not in ``params``."""
        for name in params:
            if not self.hasParam(name):
                valid = ", ".join(param.name for param in self.params)
                raise TypeError(f"{name}={params[name]!r} is not a parameter; use one of {valid}.")
        return self._set(**params)

    def restore(self, uid: str, params: dict[str, Any], defaults: dict[str, Any]) -> Any:
        """Set the identity and the parameters of an object that was saved."""
        self._resetUid(uid)
        self._setDefault(**defaults)
        return self._set(**params)

    def write(self) -> MLWriter:
        """Return a writer. Call its ``overwrite()`` to replace an existing model."""
        return _Writer(self)

    @classmethod
    def read(cls) -> MLReader[Any]:
        """Return a reader."""
        return _Reader(cls)


class _Estimator(_Shared, Estimator[Any]):
    """Base class of the estimators."""

    model: Any

    def __init__(self, **params: Any) -> None:
        super().__init__()
        self.setParams(**params)

    def _fit(self, dataset: DataFrame) -> Any:
        names = ("featuresCol", "labelCol", "weightCol", "degreeCol")
        mixed = self.in_memory is _committee.FuzzyTwinCommittee
        columns = Columns(dataset, *map(self.getOrDefault, names), mixed=mixed)
        total = total_over(dataset, columns)
        model = self.to_sklearn()
        if isinstance(model, _committee.FuzzyTwinCommittee):
            fit_chunks(model, total, names=columns.feature_names)
            keep_preprocessor(model, columns.preprocessor)
        else:
            has_degrees = columns.degrees is not None
            model._fit_chunks(  # noqa: SLF001
                total, has_degrees=has_degrees, names=columns.feature_names
            )
        return self._copyValues(self.model(model, columns.label_type))

    def to_sklearn(self) -> Any:
        """Return an unfitted estimator of `fuzzytwin` with the same parameters."""
        names = self.in_memory().get_params(deep=False)
        return self.in_memory(**{name: self.getOrDefault(name) for name in names})


class _Model(_Shared, Model):
    """Base class of the fitted models."""

    def __init__(self, fitted: Any = None, label_type: str = "double") -> None:
        super().__init__()
        self._fitted: Any = fitted  # None only for PySpark, which creates empty models
        self.label_type = label_type

    @property
    def classes_(self) -> Array:
        """Return the labels, in the order of the memberships or probabilities."""
        return self._fitted.classes_

    @property
    def numClasses(self) -> int:
        """Return the number of classes."""
        return len(self._fitted.classes_)

    @property
    def numFeatures(self) -> int:
        """Return the number of features."""
        return int(self._fitted.n_features_in_)

    def to_sklearn(self) -> Any:
        """Return the same fitted model as an ordinary estimator of `fuzzytwin`.

        Returns
        -------
        fuzzytwin.FuzzyTwinSVC or fuzzytwin.FuzzyTwinCommittee
            A model with all fitted attributes. If it has `partial_fit` and `merge`, they continue
            from this fit.
        """
        model = copy.copy(self._fitted)
        return model.set_params(rule=self.getOrDefault("rule")) if self.hasParam("rule") else model

    def _transform(self, dataset: DataFrame) -> DataFrame:
        model = self.to_sklearn()
        preprocessor = getattr(model, "preprocessor_", None)
        columns = Columns(dataset, self.getOrDefault("featuresCol"), preprocessor=preprocessor)
        values = "probabilityCol" if hasattr(model, "predict_proba") else "membershipCol"
        names = {name: self.getOrDefault(name) for name in ("predictionCol", values)}
        for name, column in names.items():
            if column in dataset.columns:
                raise ValueError(
                    f"the DataFrame already has the column {name}={column!r}; drop it or set "
                    f"another {name}."
                )
        model = copy.copy(without_preprocessor(model))
        for attribute in HEAVY:  # not sent to the executors
            vars(model).pop(attribute, None)

        def predicted(*features: pd.Series) -> pd.DataFrame:
            u = class_values(model, columns.from_series(features))
            return pd.DataFrame({"values": list(u), "label": labels_by(model, u)})

        make_udf: Any = pandas_udf  # its type hints do not allow a variable number of columns
        udf = make_udf(predicted, f"values array<double>, label {self.label_type}")
        struct = F.col(f"`{names[values]}`")
        frame = dataset.withColumn(names[values], udf(*columns.features.columns()))
        frame = frame.withColumn(names["predictionCol"], struct["label"])
        return frame.withColumn(names[values], struct["values"])


class FuzzyTwinSVCModel(_Model):
    """The fitted model of `fuzzytwin.spark.FuzzyTwinSVC`, which labels DataFrames.

    Parameters
    ----------
    fitted : fuzzytwin.FuzzyTwinSVC
        The same model in memory.
    label_type : str
        Type of the labels in Spark.
    """

    in_memory = _classifier.FuzzyTwinSVC


class FuzzyTwinSVC(_Estimator):
    """`fuzzytwin.FuzzyTwinSVC` as an Estimator of `pyspark.ml`, with the same planes.

    Each partition returns one row of moments, and the driver adds them up. Rows are read once, or
    three times with the memberships "center" and "hyperplane". ``cache()`` the DataFrame if it is
    expensive to compute. Memberships that search for neighbours are an error.

    Parameters
    ----------
    featuresCol : str or list of str, default="features"
        A column of vectors or arrays, or numeric columns.
    labelCol : str, default="label"
        Labels: strings, whole numbers, doubles or booleans.
    weightCol : str, default=None
        Weight of each row.
    degreeCol : str or list of str, default=None
        Membership degrees: a numeric column. Or soft labels: an array or vector column, or one
        numeric column per class, in the order of the sorted labels.
    predictionCol : str, default="prediction"
        Column to which `transform` writes labels, of the type of `labelCol`.
    membershipCol : str, default="membership"
        Column to which `transform` writes memberships: an array, in the order of ``classes_``.
    probabilityCol : str, default="probability"
        The column that a model with a `calibration`, which only a fit in memory can have, writes
        instead, with probabilities.
    **params
        Parameters of `fuzzytwin.FuzzyTwinSVC`, by their names. A nonlinear kernel needs an array of
        landmarks as `n_landmarks`, and a `gamma` other than "scale".

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

    in_memory = _classifier.FuzzyTwinSVC
    model = FuzzyTwinSVCModel


class FuzzyTwinCommitteeModel(_Model):
    """The fitted model of `fuzzytwin.spark.FuzzyTwinCommittee`, which labels DataFrames.

    Parameters
    ----------
    fitted : fuzzytwin.FuzzyTwinCommittee
        The same model in memory.
    label_type : str
        Type of the labels in Spark.
    """

    in_memory = _committee.FuzzyTwinCommittee


class FuzzyTwinCommittee(_Estimator):
    """`fuzzytwin.FuzzyTwinCommittee` as an Estimator of `pyspark.ml`.

    The first pass collects statistics and up to 200,000 rows, from which trees learn and landmarks
    and bandwidths are chosen. If there are more, a second sums the features of all members, and
    the driver adds them up. ``cache()`` the DataFrame if it is expensive to compute.
    The model is that of `fuzzytwin.FuzzyTwinCommittee`. With more than 10,000 rows, the sample may
    hold other copies of duplicates.

    Parameters
    ----------
    featuresCol : str or list of str, default="features"
        A column of vectors or arrays, or a list of columns. These may hold text, dates, arrays and
        missing values, which are encoded by a preprocessor that is fitted to the first rows.
    labelCol : str, default="label"
        Labels: strings, whole numbers, doubles or booleans.
    weightCol : str, default=None
        Weight of each row.
    degreeCol : str or list of str, default=None
        Membership degrees: a numeric column. Or soft labels: an array or vector column, or one
        numeric column per class, in the order of the sorted labels.
    predictionCol : str, default="prediction"
        Column to which `transform` writes labels, of the type of `labelCol`.
    probabilityCol : str, default="probability"
        Column to which `transform` writes probabilities: an array, in the order of ``classes_``.
    **params
        Parameters of `fuzzytwin.FuzzyTwinCommittee`, by their names.

    Examples
    --------
    >>> from fuzzytwin.spark import FuzzyTwinCommittee
    >>> rows = [(0.0, 1.0, "no"), (1.0, 0.0, "no"), (4.0, 5.0, "yes"), (5.0, 4.0, "yes")]
    >>> table = spark.createDataFrame(rows, "a double, b double, label string")  # doctest: +SKIP
    >>> model = FuzzyTwinCommittee(featuresCol=["a", "b"], members=["linear"])  # doctest: +SKIP
    >>> model = model.fit(table)  # doctest: +SKIP
    >>> model.transform(table).select("label", "prediction").distinct().count()  # doctest: +SKIP
    2
    """

    in_memory = _committee.FuzzyTwinCommittee
    model = FuzzyTwinCommitteeModel


class _Writer(MLWriter):
    """Writes ``metadata`` and ``model`` under a path."""

    def __init__(self, instance: Any) -> None:
        super().__init__()
        self.instance = instance

    def save(self, path: str) -> None:
        """Write parameters and model. Without `overwrite`, an existing path is an error."""
        from fuzzytwin.store._files import to_bytes

        spark = self.sparkSession
        saved = self.instance
        model = saved.to_sklearn()
        content = to_bytes(model)
        model_params = model.get_params(deep=False)
        params = {param.name: param for param in saved.params if saved.isDefined(param)}
        metadata = {
            "class": _address(type(saved)),
            "format": FORMAT,
            "timestamp": int(time.time() * 1000),
            "sparkVersion": spark.version,
            "uid": saved.uid,
            # Parameters of the model in memory are stored with it.
            "set": [name for name, param in params.items() if saved.isSet(param)],
            "columns": {
                name: saved.getOrDefault(param)
                for name, param in params.items()
                if name not in model_params
            },
            "label_type": getattr(saved, "label_type", None),
        }
        mode = "overwrite" if self.shouldOverwrite else "error"
        rows = [
            (start // ROW_BYTES, bytearray(content[start : start + ROW_BYTES]))
            for start in range(0, len(content), ROW_BYTES)
        ]
        table = spark.createDataFrame(rows, "place int, content binary").coalesce(1)
        table.write.mode(mode).parquet(f"{path}/model")
        text = spark.createDataFrame([(json.dumps(metadata),)], "value string").coalesce(1)
        text.write.mode(mode).text(f"{path}/metadata")


class _Reader(MLReader[Any]):
    def __init__(self, cls: type) -> None:
        super().__init__()
        self.cls = cls

    def load(self, path: str) -> Any:
        """Read an object of the class of this reader."""
        from fuzzytwin.store._files import from_bytes

        spark = self.sparkSession
        metadata = json.loads(spark.read.text(f"{path}/metadata").collect()[0][0])
        if metadata["class"] != _address(self.cls):
            raise ValueError(
                f"{path} holds a {metadata['class']}, not a {_address(self.cls)}; load it by "
                f"{metadata['class']}.load."
            )
        if metadata.get("format") != FORMAT:
            raise ValueError(
                f"{path} has format {metadata.get('format')}, but this version of fuzzytwin reads "
                f"format {FORMAT}; save the model again."
            )
        rows = spark.read.parquet(f"{path}/model").orderBy("place").collect()
        model = from_bytes(b"".join(bytes(row["content"]) for row in rows), path)
        label_type = metadata["label_type"]
        instance = self.cls() if label_type is None else self.cls(model, label_type)
        values = metadata["columns"] | model.get_params(deep=False)
        params = {name: values.pop(name) for name in metadata["set"]}
        return instance.restore(metadata["uid"], params, values)


def _address(cls: type) -> str:
    return f"fuzzytwin.spark.{cls.__name__}"
