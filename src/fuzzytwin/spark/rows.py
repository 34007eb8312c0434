"""Sums of moments over the partitions of a Spark DataFrame, by Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F
from pyspark.sql import types as T

from fuzzytwin._utils.threads import single_threaded_blas
from fuzzytwin.chunked.fit import Total
from fuzzytwin.chunked.packing import pack, unpack
from fuzzytwin.chunked.parts import Labels, add

Array = NDArray[Any]

LABELS = (T.StringType, T.BooleanType, T.IntegralType, T.FloatType, T.DoubleType)


@dataclass(frozen=True)
class Columns:
    """The columns of features, label, weight and degrees, and of what kind they are.

    A kind is "number", "array" or "vector"; features and degrees may be several numbers.
    """

    names: tuple[str, ...]
    kind: str
    narrow: bool  # single precision throughout: kept so
    label: str | None = None
    label_type: str = "double"
    weight: str | None = None
    degrees: tuple[str, ...] | None = None
    degree_kind: str = "number"
    soft: bool = False

    @classmethod
    def of(
        cls,
        dataset: Any,
        featuresCol: Any,
        labelCol: Any = None,
        weightCol: Any = None,
        degreeCol: Any = None,
    ) -> Columns:
        """Find the columns in the schema of a DataFrame."""
        schema = dataset.schema
        names, kind, narrow = _find(schema, "featuresCol", featuresCol)
        found: dict[str, Any] = {}
        if labelCol is not None:
            label_type = _type(schema, "labelCol", labelCol)
            if not isinstance(label_type, LABELS):
                raise ValueError(
                    f"labelCol={labelCol!r} is of type {label_type.simpleString()}; give strings, "
                    "whole numbers, doubles or booleans (cast it to string)."
                )
            found.update(label=labelCol, label_type=label_type.simpleString())
        if weightCol is not None:
            _, weight_kind, _ = _find(schema, "weightCol", weightCol)
            if weight_kind != "number" or not isinstance(weightCol, str):
                raise ValueError(f"weightCol={weightCol!r} is not allowed; give a numeric column.")
            found["weight"] = weightCol
        if degreeCol is not None:
            found["degrees"], found["degree_kind"], _ = _find(schema, "degreeCol", degreeCol)
            found["soft"] = found["degree_kind"] != "number" or not isinstance(degreeCol, str)
        return cls(names, kind, narrow, **found)

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features, where each has a column of its own."""
        return list(self.names) if self.kind == "number" else None

    def features(self) -> list[Any]:
        """Select the features, as doubles (or floats, if all are)."""
        number = "float" if self.narrow else "double"
        return [_as_numbers(name, self.kind, number) for name in self.names]

    def select(self, dataset: Any) -> Any:
        """Select features, then label, weight and degrees, and nothing else."""
        chosen = [*self.features(), F.col(f"`{self.label}`")]
        if self.weight is not None:
            chosen.append(_as_numbers(self.weight, "number", "double"))
        for name in self.degrees or ():
            chosen.append(_as_numbers(name, self.degree_kind, "double"))
        return dataset.select(*(column.alias(f"c{i}") for i, column in enumerate(chosen)))

    def rows(self, batch: pa.RecordBatch) -> tuple[Any, ...]:
        """Take X, y, s and mu from one batch of a selected DataFrame."""
        rest = len(self.names)
        X = self._table(batch.columns[:rest], self.names, "featuresCol")
        y = _labels(batch.column(rest), str(self.label))
        s = mu = None
        if self.weight is not None:
            rest += 1
            s = self._table([batch.column(rest)], (self.weight,), "weightCol")[:, 0]
        if self.degrees is not None:
            mu = self._table(batch.columns[rest + 1 :], self.degrees, "degreeCol")
            mu = mu if self.soft else mu[:, 0]
        return X, y, s, mu

    def from_series(self, series: Any) -> Array:
        """Take rows of features from what a pandas UDF is given."""
        if self.kind == "number":
            return np.column_stack([part.to_numpy() for part in series])
        return np.stack(series[0].to_list()) if len(series[0]) else np.empty((0, 0))

    def _table(self, columns: list[pa.Array], names: tuple[str, ...], parameter: str) -> Array:
        for name, column in zip(names, columns, strict=True):
            if column.null_count:
                raise ValueError(
                    f"{parameter}: column {name!r} holds a null; fill it in "
                    "(pyspark.ml.feature.Imputer, fillna) or leave the rows out (dropna)."
                )
        if pa.types.is_list(columns[0].type):
            return _from_lists(columns[0], names[0], parameter)
        first = columns[0].to_numpy(zero_copy_only=False)
        if len(columns) == 1:
            return first[:, None]
        out = np.empty((len(first), len(columns)), dtype=first.dtype)
        for place, column in enumerate(columns):
            out[:, place] = column.to_numpy(zero_copy_only=False)
        return out


def total_over(selected: Any, columns: Columns) -> Total:
    """Make the `Total` of a selected DataFrame: a row per partition, then their sum."""

    def total(function: Any, *shared: Any) -> Any:
        def on_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            found, problem = None, None
            try:
                with single_threaded_blas():  # Spark runs a task for each core
                    for batch in batches:
                        if batch.num_rows:
                            found = add([found, function(*shared, *columns.rows(batch))])
            except (TypeError, ValueError) as error:
                problem = str(error)
                for _ in batches:  # or Spark would wait for us
                    pass
            packed = None if found is None else pack(found)
            yield pa.RecordBatch.from_arrays(
                [pa.array([packed], pa.binary()), pa.array([problem], pa.string())],
                ["part", "problem"],
            )

        collected = selected.mapInArrow(on_partition, "part binary, problem string").collect()
        for row in collected:
            if row["problem"] is not None:
                raise ValueError(row["problem"])
        packed = (row["part"] for row in collected)
        return add([unpack(bytes(part)) for part in packed if part is not None])

    return total


def _type(schema: Any, parameter: str, name: Any) -> Any:
    if not isinstance(name, str) or name not in schema.names:
        raise ValueError(
            f"{parameter}: the DataFrame has no column {name!r}; it has {', '.join(schema.names)}."
        )
    return schema[name].dataType


def _find(schema: Any, parameter: str, given: Any) -> tuple[tuple[str, ...], str, bool]:
    """Find names, kind, and whether the numbers are of single precision."""
    if isinstance(given, (list, tuple)):
        if not given:
            raise ValueError(f"{parameter}={given!r} is empty; name at least one column.")
        found = [(name, _type(schema, parameter, name)) for name in given]
        for name, kind in found:
            _require_number(parameter, name, kind)
        return tuple(given), "number", all(isinstance(kind, T.FloatType) for _, kind in found)
    kind = _type(schema, parameter, given)
    if isinstance(kind, VectorUDT):
        return (given,), "vector", False
    if isinstance(kind, T.ArrayType):
        _require_number(parameter, given, kind.elementType)
        return (given,), "array", isinstance(kind.elementType, T.FloatType)
    _require_number(parameter, given, kind)
    return (given,), "number", isinstance(kind, T.FloatType)


def _require_number(parameter: str, name: str, kind: Any) -> None:
    if not isinstance(kind, (T.NumericType, T.BooleanType)):
        raise ValueError(
            f"{parameter}: column {name!r} is of type {kind.simpleString()}; give numbers (encode "
            "words with StringIndexer and OneHotEncoder first)."
        )


def _as_numbers(name: str, kind: str, number: str) -> Any:
    column = F.col(f"`{name}`")
    if kind == "vector":
        return vector_to_array(column)
    return column.cast(f"array<{number}>" if kind == "array" else number)


def _from_lists(column: Any, name: str, parameter: str) -> Array:
    """Turn a column of lists of equal length into a table."""
    ends = column.offsets.to_numpy()
    lengths = np.diff(ends)
    if (lengths != lengths[0]).any():
        raise ValueError(
            f"{parameter}: column {name!r} holds {lengths.min()} numbers in one row and "
            f"{lengths.max()} in another; give all rows the same length."
        )
    values = column.flatten()
    if values.null_count:
        raise ValueError(
            f"{parameter}: column {name!r} holds a null inside an array; fill it in or leave the "
            "row out."
        )
    return values.to_numpy().reshape(len(lengths), lengths[0])


def _labels(column: Any, name: str) -> Any:
    if column.null_count:
        raise ValueError(
            f"labelCol: column {name!r} holds a null; leave out rows without a label (dropna)."
        )
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        found = column.dictionary_encode()
        words, places = np.unique(found.dictionary.to_pylist(), return_inverse=True)
        narrow = places.astype(np.min_scalar_type(len(words)))
        return Labels(words, narrow[found.indices.to_numpy()])
    return column.to_numpy(zero_copy_only=False)
