"""Parts of an ONNX graph in double precision: values to compute with, steps before estimators."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from types import ModuleType
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from fuzzytwin._utils.extras import import_optional
from fuzzytwin._utils.types import Array
from fuzzytwin.tables._columns import Column
from fuzzytwin.tables._numeric import MISSING_TEXT, SCALED, SPREAD, of_kinds
from fuzzytwin.tables._parse import marked_numbers
from fuzzytwin.tables._preprocessor import TablePreprocessor
from fuzzytwin.tables._schema import TableSchema

# Operators of ONNX by the functions of numpy that do the same.
OPERATORS: dict[Any, str] = {
    np.add: "Add", np.subtract: "Sub", np.multiply: "Mul", np.divide: "Div", np.matmul: "MatMul",
    np.power: "Pow", np.maximum: "Max", np.minimum: "Min", np.absolute: "Abs", np.exp: "Exp",
    np.log: "Log", np.sqrt: "Sqrt", np.tanh: "Tanh", np.isnan: "IsNaN", np.equal: "Equal",
    np.greater: "Greater", np.less: "Less", np.logical_and: "And", np.logical_or: "Or",
}  # fmt: skip


class UnsupportedError(ValueError):
    """Something that has no form in ONNX."""


class Value(NDArrayOperatorsMixin):
    """What a node of a graph gives: operators and functions of numpy add further nodes."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph, self.name = graph, name

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any) -> Value:
        return self.graph.op(OPERATORS[function], *inputs)

    def double(self) -> Value:
        """Convert to double precision."""
        return self.graph.op("Cast", self, to=self.graph.types.DOUBLE)

    def sum(self, axis: int = 1, keepdims: int = 1) -> Value:
        """Add up along an axis."""
        return self.graph.op("ReduceSum", self, axis, keepdims=keepdims)

    def columns(self, places: list[int]) -> Value:
        """Take some columns."""
        return self.graph.op("Gather", self, np.array(places), axis=1)

    def codes(self, texts: list[str]) -> Value:
        """Find the place of each text among some; -1 for any other."""
        places = list(range(len(texts)))
        return self.graph.op(
            "LabelEncoder", self, keys_strings=texts, values_int64s=places, default_int64=-1,
            op_domain="ai.onnx.ml", op_version=2,
        )  # fmt: skip

    def is_any(self, texts: Sequence[str]) -> Value:
        """Tell whether texts, without the spaces around them, are any of some."""
        words = "|".join(map(_quoted, texts))
        return self.graph.op("RegexFullMatch", self, pattern=f"{_SPACES}(?:{words}){_SPACES}")


def _quoted(text: str) -> str:
    """Write a text as a regular expression of RE2, which onnxruntime uses."""
    plain = (c if c.isascii() and c.isalnum() else f"\\x{{{ord(c):x}}}" for c in text)
    return "".join(plain)


# What `cells.text` trims, which is what Python calls space.
_SPACES = "[" + _quoted("".join(c for c in map(chr, range(0x3001)) if c.isspace())) + "]*"


class Graph:
    """A graph under construction: one call adds a node or a constant."""

    def __init__(self, scope: Any, container: Any) -> None:
        self.scope, self.container = scope, container
        self.constants: dict[Any, str] = {}
        self.types = import_onnx("onnx").TensorProto

    def op(self, kind: str, *inputs: Any, into: str | None = None, **attributes: Any) -> Value:
        """Add a node and return its output. Inputs are values, arrays or numbers."""
        name = into or self.scope.get_unique_variable_name(kind.lower())
        names = [x.name if isinstance(x, Value) else self._constant(x) for x in inputs]
        self.container.add_node(
            kind, names, [name], name=self.scope.get_unique_operator_name(kind), **attributes
        )
        return Value(self, name)

    def over_rows(self, X: Value, compute: Callable[[Value], Value], width: int) -> Value:
        """Compute a vector for each row in a loop, so that only one row is in memory at a time."""
        helper = import_onnx("onnx.helper")
        index, go_on, row, result = (
            self.scope.get_unique_variable_name(name) for name in ("row", "go_on", "x", "result")
        )
        body = _Body(self.container)
        inner = Graph(self.scope, body)
        inner.op("Gather", X, Value(inner, index), axis=0, into=row)
        inner.op("Identity", compute(Value(inner, row)), into=result)
        inner.op("Identity", Value(inner, go_on), into=f"{go_on}_out")
        types = self.types
        loop = helper.make_graph(
            body.nodes,
            self.scope.get_unique_operator_name("rows"),
            [
                helper.make_tensor_value_info(index, types.INT64, []),
                helper.make_tensor_value_info(go_on, types.BOOL, []),
            ],
            [
                helper.make_tensor_value_info(f"{go_on}_out", types.BOOL, []),
                helper.make_tensor_value_info(result, types.DOUBLE, [width]),
            ],
        )
        n_rows = self.op("Squeeze", self.op("Shape", X, end=1))
        always = self.op("Equal", n_rows, n_rows)  # skl2onnx cannot sort nodes without an input
        return self.op("Loop", n_rows, always, body=loop)

    def _constant(self, value: Any) -> str:
        """Return the name of a constant, which is added only once."""
        array = np.atleast_1d(value)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = self.scope.get_unique_variable_name("constant")
            types = {"f": self.types.DOUBLE, "b": self.types.BOOL, "U": self.types.STRING}
            kind = types.get(array.dtype.kind, self.types.INT64)
            content = array.ravel().tolist()
            if kind == self.types.STRING:
                content = [text.encode() for text in content]
            self.container.add_initializer(self.constants[key], kind, list(array.shape), content)
        return self.constants[key]


class _Body:
    """The nodes of a loop, instead of a container of skl2onnx. Constants stay outside."""

    def __init__(self, outside: Any) -> None:
        self.add_initializer = outside.add_initializer
        self.nodes: list[Any] = []

    def add_node(self, kind: str, inputs: Any, outputs: Any, **attributes: Any) -> None:
        """Add a node to the loop."""
        self.nodes.append(import_onnx("onnx.helper").make_node(kind, inputs, outputs, **attributes))


def converter(compute: Any) -> Any:
    """Turn a function from a fitted step and rows to outputs into a converter of skl2onnx."""

    def convert(scope: Any, operator: Any, container: Any) -> None:
        graph = Graph(scope, container)
        inputs = [Value(graph, entry.full_name) for entry in operator.inputs]
        if isinstance(operator.raw_operator, TablePreprocessor):
            outputs = compute(operator.raw_operator, inputs)
        else:
            rows = inputs[0] if len(inputs) == 1 else graph.op("Concat", *inputs, axis=1)
            outputs = compute(operator.raw_operator, rows)
        for value, output in zip(outputs, operator.outputs, strict=True):
            graph.op("Identity", value, into=output.full_name)

    return convert


def impute(imputer: Any, X: Any) -> list[Value]:
    """Convert a `SimpleImputer`; in text columns, the empty text is missing."""
    if imputer.add_indicator:
        raise UnsupportedError(
            "SimpleImputer(add_indicator=True) cannot be converted to ONNX; set it to False."
        )
    kept = [j for j, value in enumerate(imputer.statistics_) if value == value]
    if len(kept) < imputer.n_features_in_:
        X = X.columns(kept)
    statistics = plain(imputer.statistics_[kept])
    if statistics.dtype.kind == "U":
        missing = X.codes([""]) == np.array([0])
    else:
        X, statistics, mark = X.double(), statistics.astype(np.float64), imputer.missing_values
        missing = float(mark) == X if mark == mark else np.isnan(X)
    return [X.graph.op("Where", missing, statistics[None, :], X)]


def encode(encoder: Any, X: Value) -> list[Value]:
    """Convert a `OneHotEncoder` or `OrdinalEncoder`: which category, times its code."""
    parts = []
    for j, (categories, codes) in enumerate(zip(encoder.categories_, _codes(encoder), strict=True)):
        column, values = X.columns([j]), plain(categories)
        if values.dtype.kind == "U":
            column, values = column.codes(values.tolist()), np.arange(len(values))
        elif np.isnan(values.astype(float)).any():
            raise UnsupportedError(
                "a missing value as a category cannot be converted to ONNX; impute it."
            )
        else:
            column, values = column.double(), values.astype(float)
        hit = (column == values[None, :]).double()
        is_known = X.graph.op("Greater", hit.sum(), 0.0)
        parts.append(X.graph.op("Where", is_known, hit @ codes[:-1], codes[-1:]))
    return [X.graph.op("Concat", *parts, axis=1)]


def encode_table(preprocessor: Any, inputs: list[Value]) -> list[Value]:
    """Convert a `TablePreprocessor`, like `fuzzytwin.tables._numeric.encode`."""
    schema = TableSchema.from_dict(preprocessor.schema_)
    features, missing = schema.features, schema.missing
    by_name = {column.name: value for column, value in zip(features, inputs, strict=True)}
    graph, encoding = inputs[0].graph, preprocessor.encoding_
    blocks = []
    if scaled := of_kinds(features, SCALED):
        learned = {name: np.array(values) for name, values in encoding["scaled"].items()}
        numbers: Any = graph.op("Concat", *(by_name[column.name] for column in scaled), axis=1)
        is_missing = _is_missing(numbers, missing)
        numbers = graph.op("Where", is_missing, learned["fill"][None, :], numbers)
        numbers = np.minimum(np.maximum(numbers, learned["low"]), learned["high"])
        blocks.append((numbers - learned["center"]) / learned["scale"])
    for column, values in zip(of_kinds(features, SPREAD), encoding["spread"], strict=True):
        blocks.append(_spread(by_name[column.name], column, values, missing))
    return [graph.op("Concat", *blocks, axis=1)]


def _is_missing(numbers: Value, missing: Sequence[str]) -> Any:
    """Return which numbers are missing: NaN, and marks for missing values such as -999."""
    is_missing: Any = np.isnan(numbers)
    for mark in marked_numbers(missing):
        is_missing = np.logical_or(is_missing, numbers == np.array([mark]))
    return is_missing


def _spread(
    cells: Value, column: Column, values: dict[str, Any], missing: Sequence[str]
) -> Value:  # fmt: skip
    """Convert a code or a category: `fuzzytwin.tables._numeric`."""
    graph, other = cells.graph, values["other"]
    own = zip(values["values"], values["places"], strict=True)
    shown = [value for value, place in own if place != other]  # in the order of their places
    if column.kind == "category":
        texts = (missing if value == MISSING_TEXT else [value] for value in shown)
        hit = graph.op("Concat", *map(cells.is_any, texts), axis=1).double()
    else:
        filled = graph.op("Where", _is_missing(cells, missing), values["fill"], cells)
        hit = (filled == np.array(shown, dtype=np.float64)).double()
    return hit if other < 0 else graph.op("Concat", hit, 1.0 - hit.sum(), axis=1)


def _features(preprocessor: Any) -> tuple[Column, ...]:
    return TableSchema.from_dict(preprocessor.schema_).features


def parse_table(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the output of a `TablePreprocessor`."""
    operator = scope.declare_local_operator("FuzzytwinTable", model)
    operator.inputs = inputs
    types = import_onnx("skl2onnx.common.data_types")
    numbers = types.DoubleTensorType([None, len(model.get_feature_names_out())])
    operator.outputs.append(scope.declare_local_variable("numbers", numbers))
    return operator.outputs


# Steps with converters of their own.
STEPS: dict[type, Any] = {
    SimpleImputer: impute, OneHotEncoder: encode, OrdinalEncoder: encode,
    TablePreprocessor: encode_table,
}  # fmt: skip


def _codes(encoder: Any) -> Iterator[Array]:
    """Yield the codes of the categories of each column; the last is that of an unknown one.

    The encoder itself computes them: it transforms each category, and unknown ones.
    """
    encoder = copy(encoder)
    vars(encoder).pop("feature_names_in_", None)
    allow_unknown: dict[str, Any] = {"handle_unknown": "use_encoded_value", "unknown_value": 0}
    if not isinstance(encoder, OrdinalEncoder):
        allow_unknown = {"handle_unknown": "ignore"}
        encoder.set_params(feature_name_combiner=lambda name, category: name)
    if encoder.handle_unknown == "error":
        encoder.set_params(**allow_unknown)
    owners = encoder.get_feature_names_out()  # which column each code is of
    for j, categories in enumerate(encoder.categories_):
        table = np.full((len(categories) + 1, len(encoder.categories_)), object(), dtype=object)
        table[:-1, j] = categories
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of unknown categories
            codes = encoder.transform(table)
        codes = codes.toarray() if hasattr(codes, "toarray") else codes
        yield np.asarray(codes, dtype=np.float64)[:, owners == f"x{j}"]


def set_shape(operator: Any) -> None:
    """Set the type and shape of the output of `impute`, `encode` or `scale`."""
    types, step = import_onnx("skl2onnx.common.data_types"), operator.raw_operator
    text = isinstance(step, SimpleImputer) and _takes_text(step)
    kind = types.StringTensorType if text else types.DoubleTensorType
    rows, width = operator.inputs[0].get_first_dimension(), len(step.get_feature_names_out())
    operator.outputs[0].type = kind([rows, width])


def inputs_of(model: Any) -> list[tuple[str, Any]]:
    """Declare the inputs: one table, or its columns if they are text or selected by name."""
    types = import_onnx("skl2onnx.common.data_types")
    kinds = types.DoubleTensorType, types.StringTensorType
    first = _first_step(model)
    if isinstance(first, TablePreprocessor):
        features = _features(first)
        return [(column.name, kinds[column.kind == "category"]([None, 1])) for column in features]
    places, text, by_name = np.arange(model.n_features_in_), set(), False
    names = list(getattr(model, "feature_names_in_", [f"column {j}" for j in places]))
    several = isinstance(first, ColumnTransformer)
    for _, step, columns in first.transformers_ if several else [("", first, slice(None))]:
        picked: Any = [columns] if isinstance(columns, (str, int)) else columns
        if not isinstance(picked, slice) and any(isinstance(column, str) for column in picked):
            by_name, picked = True, [names.index(column) for column in picked]
        if _takes_text(step):
            text.update(places[picked].tolist())
    if not text and not by_name:
        return [("X", types.DoubleTensorType([None, len(places)]))]
    return [(str(name), kinds[j in text]([None, 1])) for j, name in enumerate(names)]


def _first_step(model: Any) -> Any:
    return _first_step(model.steps[0][1]) if isinstance(model, Pipeline) else model


def _takes_text(step: Any) -> bool:
    step = _first_step(step)
    learned = [step.statistics_] if isinstance(step, SimpleImputer) else []
    learned = getattr(step, "categories_", learned)
    return any(plain(values).dtype.kind == "U" for values in learned)


def plain(values: Array) -> Array:
    """Convert an object array to one of text or numbers. Other arrays are returned as they are."""
    if values.dtype.kind != "O":
        return values
    if all(isinstance(value, str) for value in values):
        return values.astype(str)
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise UnsupportedError(
            f"{values[0]!r} is neither text nor a number, and cannot be converted to ONNX."
        ) from None


def import_onnx(module: str) -> ModuleType:
    """Import a module of the extra onnx; the error without it says how to install it."""
    return import_optional(module, "onnx", "ONNX")
