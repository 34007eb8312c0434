"""The Estimator and the Model of `pyspark.ml`; users find them in `fuzzytwin.spark`."""

from __future__ import annotations

import copy
from typing import Any

import pandas as pd
from pyspark.ml.base import Estimator, Model
from pyspark.ml.param import Param, Params
from pyspark.ml.param.shared import HasLabelCol, HasPredictionCol, HasWeightCol
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

from fuzzytwin._utils.public import public_in
from fuzzytwin._utils.types import Array
from fuzzytwin.chunked.fit import fixed_landmarks, learn
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC as InMemory
from fuzzytwin.spark.persistence import ReadWrite
from fuzzytwin.spark.rows import Columns, total_over


def _param(name: str, doc: str) -> Any:
    parent = Params()  # takes the place of the instance that will have the parameter
    parent.uid = "undefined"
    return Param(parent, name, doc)


class _TwinParams(HasLabelCol, HasWeightCol, HasPredictionCol):
    """Columns, and the parameters of `fuzzytwin.FuzzyTwinSVC` by their own names."""

    featuresCol = _param("featuresCol", "column of vectors or arrays, or list of numeric columns")
    membershipCol = _param("membershipCol", "column of memberships, in the order of classes_")
    degreeCol = _param(
        "degreeCol",
        "numeric column of given degrees, or soft labels: an array column or a list of columns",
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(featuresCol="features", membershipCol="membership", degreeCol=None)
        self._setDefault(weightCol=None, **InMemory().get_params(deep=False))

    def setParams(self, **params: Any) -> Any:
        """Set parameters by name; ``params`` lists them."""
        for name in params:
            if not self.hasParam(name):
                known = ", ".join(param.name for param in self.params)
                raise TypeError(f"{name}={params[name]!r} is not a parameter; use one of {known}.")
        return self._set(**params)

    def restore(self, uid: str, given: dict[str, Any], defaults: dict[str, Any]) -> Any:
        """Take over the identity and the parameters of an object that was saved."""
        self._resetUid(uid)
        self._setDefault(**defaults)
        return self._set(**given)

    def _columns(self, dataset: DataFrame, *, training: bool) -> Columns:
        names = ("featuresCol", "labelCol", "weightCol", "degreeCol")
        given = {name: self.getOrDefault(name) for name in (names if training else names[:1])}
        return Columns.of(dataset, **given)


OWN = tuple(InMemory().get_params(deep=False))
for _name in OWN:
    setattr(_TwinParams, _name, _param(_name, f"{_name} of fuzzytwin.FuzzyTwinSVC"))


@public_in("fuzzytwin.spark")
class FuzzyTwinSVC(Estimator[Any], _TwinParams, ReadWrite):
    """`fuzzytwin.FuzzyTwinSVC` as an Estimator of `pyspark.ml`, with the same planes.

    Every partition becomes one row of moments, and the driver adds them up. Rows are read
    once, with the memberships "center" and "hyperplane" three times: ``cache()`` the
    DataFrame if it is costly to make. Memberships that look at neighbours are refused.

    Parameters
    ----------
    featuresCol : str or list of str, default="features"
        A column of vectors or arrays, or numeric columns.
    labelCol : str, default="label"
        Labels: strings, whole numbers, doubles or booleans.
    weightCol : str, default=None
        Weight of each row.
    degreeCol : str or list of str, default=None
        Given degrees: a numeric column; or soft labels: an array or vector column, or one numeric
        column per class, in the order of the sorted labels.
    predictionCol : str, default="prediction"
        Where `transform` writes labels, of the type of `labelCol`.
    membershipCol : str, default="membership"
        Where `transform` writes memberships: an array, in the order of ``classes_``.
    **params
        Every parameter of `fuzzytwin.FuzzyTwinSVC`, by its name. A kernel other than the linear
        one needs the landmarks themselves as `n_landmarks` and a `gamma` other than "scale".

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

    def to_sklearn(self) -> InMemory:
        """Return an ordinary `fuzzytwin.FuzzyTwinSVC` with the same parameters, not fitted."""
        return InMemory(**{name: self.getOrDefault(name) for name in OWN})

    def _fit(self, dataset: DataFrame) -> FuzzyTwinSVCModel:
        fitted = self.to_sklearn()
        settings = fitted.fit_settings()  # before any work
        phi = fixed_landmarks(settings)
        columns = self._columns(dataset, training=True)
        total, names = total_over(columns.select(dataset), columns), columns.feature_names
        learned = learn(settings, total, given=columns.degrees is not None, phi=phi, names=names)
        fitted.fit_moments(learned.moments, learned.classes, landmark_map=phi, feature_names=names)
        return self._copyValues(FuzzyTwinSVCModel(fitted, columns.label_type))


@public_in("fuzzytwin.spark")
class FuzzyTwinSVCModel(Model, _TwinParams, ReadWrite):
    """The fitted model of `fuzzytwin.spark.FuzzyTwinSVC`: planes that label DataFrames.

    Parameters
    ----------
    fitted : fuzzytwin.FuzzyTwinSVC
        The same model in memory.
    label_type : str
        Type of the labels in Spark.
    """

    def __init__(self, fitted: InMemory | None = None, label_type: str = "double") -> None:
        super().__init__()
        self._fitted: Any = fitted  # None only for PySpark, which makes empty ones
        self.label_type = label_type

    @property
    def classes_(self) -> Array:
        """Labels, in the order of the memberships."""
        return self._fitted.classes_

    @property
    def numClasses(self) -> int:
        """Number of classes."""
        return len(self._fitted.classes_)

    @property
    def numFeatures(self) -> int:
        """Number of features."""
        return int(self._fitted.n_features_in_)

    def to_sklearn(self) -> InMemory:
        """Return the same fitted model as an ordinary `fuzzytwin.FuzzyTwinSVC`.

        Returns
        -------
        fuzzytwin.FuzzyTwinSVC
            With its moments: `partial_fit` and `merge` continue from it.
        """
        model: Any = copy.copy(self._fitted)
        return model.set_params(rule=self.getOrDefault("rule"))

    def _transform(self, dataset: DataFrame) -> DataFrame:
        columns = self._columns(dataset, training=False)
        names = {name: self.getOrDefault(name) for name in ("predictionCol", "membershipCol")}
        for name, column in names.items():
            if column in dataset.columns:
                raise ValueError(
                    f"{name}={column!r} is a column of the DataFrame already; drop it or set "
                    f"another {name}."
                )
        model = self.to_sklearn()
        # Moments of training rows need not travel, and names are checked by now.
        for attribute in ("moments_", "feature_names_in_"):
            model.__dict__.pop(attribute, None)

        def degrees(*features: pd.Series) -> pd.Series:
            u = model.predict_proba(columns.from_series(features))
            return pd.Series(list(u))

        make: Any = pandas_udf  # its types know no variable number of columns
        memberships = make(degrees, "array<double>")
        # argmax and label in Spark, so that labels have their type.
        labels = F.array(*(F.lit(label) for label in self.classes_.tolist()))
        u = F.col(f"`{names['membershipCol']}`")
        place = F.array_position(u, F.array_max(u)).cast("int")
        label = F.element_at(labels.cast(f"array<{self.label_type}>"), place)
        with_degrees = dataset.withColumn(names["membershipCol"], memberships(*columns.features()))
        return with_degrees.withColumn(names["predictionCol"], label)
