"""Sums over the partitions of a Spark DataFrame, by Arrow, and its label issues."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.serializers import CPickleSerializer  # Spark's own, for what its tasks return
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import pandas_udf

from fuzzytwin._passes import SumOverChunks, add
from fuzzytwin._rows import Rows, validate_chunk
from fuzzytwin._utils.threads import limited_threads
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._preprocessing import fit_preprocessor
from fuzzytwin.label_issues._chunked import (
    SCORED,
    ChunkedLabelIssues,
    collect_rows,
    fit_scorer,
    join_rows,
)
from fuzzytwin.tables import TablePreprocessor, TableSchema
from fuzzytwin.tables._labels import encoded_labels
from fuzzytwin.tables._numeric import matrix
from fuzzytwin.tables._parse import is_text
from fuzzytwin.tables._preprocessor import encode_table
from fuzzytwin.tables._reader import rows_read_whole, sample_rows

LABELS = (T.StringType, T.BooleanType, T.IntegralType, T.FloatType, T.DoubleType)


class Numbers:
    """The columns of a parameter: numbers, or one column of arrays or vectors."""

    def __init__(self, schema: Any, parameter: str, value: Any) -> None:
        several = isinstance(value, (list, tuple))
        if several and not value:
            raise ValueError(f"{parameter}={value!r} is empty; name at least one column.")
        self.parameter = parameter
        self.names = tuple(value) if several else (value,)
        types = [_type(schema, parameter, name) for name in self.names]
        self.vector = not several and isinstance(types[0], VectorUDT)
        self.array = not several and isinstance(types[0], T.ArrayType)
        self.lists = self.vector or self.array
        self.single = not (several or self.lists)
        types = [types[0].elementType] if self.array else types
        for name, kind in zip(self.names, types, strict=True):
            if not self.vector and not isinstance(kind, (T.NumericType, T.BooleanType)):
                raise ValueError(
                    f"{parameter}: column {name!r} is of type {kind.simpleString()}; give numbers "
                    "(encode text with StringIndexer and OneHotEncoder first)."
                )
        # Features that are all of single precision stay so.
        narrow = parameter == "featuresCol" and all(isinstance(kind, T.FloatType) for kind in types)
        self.type = "float" if narrow else "double"

    def columns(self) -> list[Any]:
        """Select the columns, as numbers."""
        columns = [F.col(f"`{name}`") for name in self.names]
        if self.vector:
            return [vector_to_array(columns[0])]
        return [
            column.cast(f"array<{self.type}>" if self.array else self.type) for column in columns
        ]

    def read(self, columns: Iterator[pa.Array]) -> Array:
        """Take a table (n, d) from the next columns of a batch, or (n,) from a single column."""
        arrays = list(islice(columns, len(self.names)))
        for name, column in zip(self.names, arrays, strict=True):
            if column.null_count:
                raise ValueError(
                    f"{self.parameter}: column {name!r} holds a null; fill it in "
                    "(pyspark.ml.feature.Imputer, fillna) or leave the rows out (dropna)."
                )
        if not self.lists:
            X = matrix([column.to_numpy(zero_copy_only=False) for column in arrays])
            return X[:, 0] if self.single else X
        [column] = arrays
        [name] = self.names
        lengths = np.diff(column.offsets.to_numpy())
        if (lengths != lengths[0]).any():
            raise ValueError(
                f"{self.parameter}: column {name!r} holds {lengths.min()} numbers in one row and "
                f"{lengths.max()} in another; give all rows the same length."
            )
        values = column.flatten()
        if values.null_count:
            raise ValueError(
                f"{self.parameter}: column {name!r} holds a null inside an array; fill it in or "
                "leave the row out."
            )
        return np.asarray(values.to_numpy().reshape(len(lengths), lengths[0]))


class EncodedColumns:
    """Features that a preprocessor encodes: text, dates, arrays, missing values."""

    lists = True  # encoded features are not columns of the DataFrame

    def __init__(self, preprocessor: TablePreprocessor) -> None:
        self.preprocessor = preprocessor
        self.names = TableSchema.from_dict(preprocessor.schema_).reads

    def columns(self) -> list[Any]:
        """Select the columns unchanged."""
        return [F.col(f"`{name}`") for name in self.names]

    def read(self, columns: Iterator[pa.Array]) -> Array:
        """Take a table (n, d) of numbers from the next columns of a batch."""
        table = pa.table(list(islice(columns, len(self.names))), names=list(self.names))
        return encode_table(self.preprocessor, table)


class Columns:
    """The columns of features, label, weight and degrees of a DataFrame.

    If the features are a list of columns and `mixed` is set, they may hold text, dates, lists and
    missing values: a preprocessor is fitted to the first rows.
    """

    def __init__(
        self,
        dataset: Any,
        featuresCol: Any,
        labelCol: Any = None,
        weightCol: Any = None,
        degreeCol: Any = None,
        *,
        mixed: bool = False,
        preprocessor: TablePreprocessor | None = None,
    ) -> None:
        schema = dataset.schema
        if mixed:
            preprocessor = _fit_preprocessor(dataset, featuresCol)
        self.preprocessor = preprocessor
        self.features: Numbers | EncodedColumns
        if preprocessor is None:
            self.features = Numbers(schema, "featuresCol", featuresCol)
        else:
            self.features = EncodedColumns(preprocessor)
            for name in self.features.names:
                _type(schema, "featuresCol", name)
        self.label = labelCol
        self.label_type = "double"
        if labelCol is not None:
            label_type = _type(schema, "labelCol", labelCol)
            if not isinstance(label_type, LABELS):
                raise ValueError(
                    f"labelCol={labelCol!r} is of type {label_type.simpleString()}; give strings, "
                    "whole numbers, doubles or booleans (cast it to string)."
                )
            self.label_type = label_type.simpleString()
        self.weight = None if weightCol is None else Numbers(schema, "weightCol", weightCol)
        self.degrees = None if degreeCol is None else Numbers(schema, "degreeCol", degreeCol)
        if self.weight is not None and not self.weight.single:
            raise ValueError(f"weightCol={weightCol!r} is not allowed; give a numeric column.")

    @property
    def feature_names(self) -> list[str] | None:
        """Return the names of the features, None if they are not columns of the DataFrame."""
        return None if self.features.lists else list(self.features.names)

    def rows(self, batch: pa.RecordBatch) -> Rows:
        """Return the rows of one batch of the columns that `total_over` selects."""
        columns = iter(batch.columns)
        X = self.features.read(columns).reshape(batch.num_rows, -1)
        y = next(columns)
        if y.null_count:
            raise ValueError(
                f"labelCol: column {self.label!r} holds a null; leave out rows without a label "
                "(dropna)."
            )
        labels = None
        if is_text(y.type):
            labels, y = encoded_labels(y.dictionary_encode())
        else:
            y = y.to_numpy(zero_copy_only=False)
        weight = None if self.weight is None else self.weight.read(columns)
        degrees = None if self.degrees is None else self.degrees.read(columns)
        return validate_chunk(X, y, weight, degrees, labels=labels, names=self.feature_names)

    def from_series(self, series: Any) -> Array:
        """Return the features from the arguments of a pandas UDF."""
        if isinstance(self.features, EncodedColumns):
            frame = pd.DataFrame(dict(zip(self.features.names, series, strict=True)))
            return encode_table(self.features.preprocessor, frame)
        if not self.features.lists:
            return np.column_stack([part.to_numpy() for part in series])
        return np.stack(series[0].to_list()) if len(series[0]) else np.empty((0, 0))


def _fit_preprocessor(dataset: Any, names: Any) -> TablePreprocessor | None:
    """Fit a preprocessor to the first rows of a list of columns. None if they are all numbers."""
    if not isinstance(names, (list, tuple)) or not names:
        return None
    for name in names:
        _type(dataset.schema, "featuresCol", name)
    selected = dataset.select(*(F.col(f"`{name}`") for name in names))
    whole = rows_read_whole(len(names))
    first_rows = selected.limit(whole + 1).toArrow()
    if len(first_rows) > whole:
        first_rows = first_rows.slice(0, sample_rows(len(names)))
    return fit_preprocessor(first_rows.to_pandas()) if len(first_rows) else None


def total_over(dataset: Any, columns: Columns) -> SumOverChunks:
    """Return the `SumOverChunks` of a DataFrame: a row of sums per partition, then their sum."""
    inputs = [*columns.features.columns(), F.col(f"`{columns.label}`")]
    for numbers in (columns.weight, columns.degrees):
        if numbers is not None:
            inputs += numbers.columns()
    selected = dataset.select(*(column.alias(f"c{i}") for i, column in enumerate(inputs)))

    def total(function: Any, *shared: Any) -> Any:
        def on_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            sums = problem = None
            try:
                with limited_threads():  # Spark runs a task for each core
                    for batch in batches:
                        if batch.num_rows:
                            sums = add([sums, function(*shared, columns.rows(batch))])
            except (TypeError, ValueError) as error:
                problem = str(error)
                for _ in batches:  # Spark waits until all batches are read
                    pass
            packed = None if sums is None else CPickleSerializer().dumps(sums)
            yield pa.RecordBatch.from_arrays(
                [pa.array([packed], pa.binary()), pa.array([problem], pa.string())],
                ["part", "problem"],
            )

        collected = selected.mapInArrow(on_partition, "part binary, problem string").collect()
        for row in collected:
            if row["problem"] is not None:
                raise ValueError(row["problem"])
        packed = (row["part"] for row in collected)
        return add([CPickleSerializer().loads(bytes(part)) for part in packed if part is not None])

    return total


def find_label_issues(
    dataset: Any,
    *,
    featuresCol: Any = "features",
    labelCol: str = "label",
    weightCol: str | None = None,
    labels: str = "auto",
    estimator: Any = None,
) -> ChunkedLabelIssues:
    """Find label issues in a Spark DataFrame, as `fuzzytwin.find_label_issues` does in memory.

    Rows are read once or, if there are more than 200,000, twice for the committee, and again when
    `frame` is computed. The label-noise model is fitted to at most 10,000 of them: see
    `fuzzytwin.files.find_label_issues`.

    Parameters
    ----------
    dataset : DataFrame
        Rows.
    featuresCol : str or list of str, default="features"
        A column of vectors or arrays, or a list of columns. These may hold text, dates, arrays and
        missing values, which are encoded by a preprocessor that is fitted to the first rows.
    labelCol : str, default="label"
        Labels: strings, whole numbers, doubles or booleans.
    weightCol : str, default=None
        Weight of each row.
    labels : {"auto", "annotated", "observed"}, default="auto"
        How the labels arose: see `fuzzytwin.find_label_issues`.
    estimator : FuzzyTwinCommittee, default=None
        A committee of `fuzzytwin`, None for that of `fuzzytwin.find_label_issues`.

    Returns
    -------
    fuzzytwin.files.ChunkedLabelIssues
        `frame` is the DataFrame with the additional columns "suggested_label", "label_quality" and
        "is_label_issue". Sort it by "label_quality" to rank the rows.

    Raises
    ------
    ValueError
        If a column is missing or of the wrong type, or if one of the additional columns exists.
    """
    added = SCORED[1:]
    for name in added:
        if name in dataset.columns:
            raise ValueError(f"the DataFrame already has a column {name!r}; rename or drop it.")
    columns = Columns(dataset, featuresCol, labelCol, weightCol, mixed=True)
    kinds = (dataset.schema[labelCol].dataType, T.DoubleType(), T.BooleanType())
    fields = [T.StructField(name, kind) for name, kind in zip(added, kinds, strict=True)]
    rows: list[Any] = []
    arrays: list[Any] = []

    def all_rows() -> Any:  # collected only once, as Spark may return them in another order
        rows.extend(dataset.collect())
        local = dataset.sparkSession.createDataFrame(rows, dataset.schema)
        arrays.extend(join_rows(total_over(local, columns)(collect_rows)))
        return arrays

    total = total_over(dataset, columns)
    scorer = fit_scorer(total, estimator, columns.feature_names, all_rows, labels)
    if rows:
        scores = scorer.score(validate_chunk(*arrays))
        values = (scores[name].tolist() for name in added)
        scored_rows = [(*row, *row_scores) for row, *row_scores in zip(rows, *values, strict=True)]
        schema = T.StructType([*dataset.schema.fields, *fields])
        return scorer.result(dataset.sparkSession.createDataFrame(scored_rows, schema))

    def scored(label: pd.Series, weight: pd.Series, *features: pd.Series) -> pd.DataFrame:
        X = columns.from_series(features)
        scores = scorer.score(validate_chunk(X, label.to_numpy(), weight.to_numpy()))
        return pd.DataFrame({name: scores[name] for name in added})

    make_udf: Any = pandas_udf  # its type hints do not allow a variable number of columns
    udf = make_udf(scored, T.StructType(fields))
    weight = F.lit(1.0) if weightCol is None else F.col(f"`{weightCol}`").cast("double")
    struct = udf(F.col(f"`{labelCol}`"), weight, *columns.features.columns())
    frame = dataset.withColumn(added[0], struct)
    for name in (*added[1:], added[0]):
        frame = frame.withColumn(name, F.col(added[0])[name])
    return scorer.result(frame)


def _type(schema: Any, parameter: str, name: Any) -> Any:
    if not isinstance(name, str) or name not in schema.names:
        raise ValueError(
            f"{parameter}: the DataFrame has no column {name!r}; its columns are "
            f"{', '.join(schema.names)}."
        )
    return schema[name].dataType
