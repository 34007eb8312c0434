"""Parts of ONNX graphs in double precision: a builder, and the steps before an estimator."""

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
from fuzzytwin.tables._numeric import MISSING_TEXT, ONE_HOT, SCALED, of_kinds
from fuzzytwin.tables._parse import marker_numbers
from fuzzytwin.tables._preprocessor import TablePreprocessor
from fuzzytwin.tables._schema import TableSchema

# ONNX operators of functions of numpy.
OPERATORS: dict[Any, str] = {
    np.add: "Add", np.subtract: "Sub", np.multiply: "Mul", np.divide: "Div", np.matmul: "MatMul",
    np.power: "Pow", np.maximum: "Max", np.minimum: "Min", np.absolute: "Abs", np.exp: "Exp",
    np.log: "Log", np.sqrt: "Sqrt", np.tanh: "Tanh", np.isnan: "IsNaN", np.equal: "Equal",
    np.greater: "Greater", np.less: "Less", np.logical_and: "And", np.logical_or: "Or",
}  # fmt: skip


class UnsupportedError(ValueError):
    """Raised if a part of a model cannot be converted to ONNX."""


class Value(NDArrayOperatorsMixin):
    """The output of a node of a graph. Operators and functions of numpy add further nodes."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any) -> Value:
        return self.graph.op(OPERATORS[function], *inputs)

    def double(self) -> Value:
        """Convert to double precision."""
        return self.graph.op("Cast", self, to=self.graph.types.DOUBLE)

    def sum(self, axis: int = 1, keepdims: int = 1) -> Value:
        """Add up along an axis."""
        return self.graph.op("ReduceSum", self, axis, keepdims=keepdims)

    def columns(self, index: list[int]) -> Value:
        """Take columns by their index."""
        return self.graph.op("Gather", self, np.array(index), axis=1)

    def codes(self, texts: list[str]) -> Value:
        """Return the index of each cell among `texts`, -1 if it is not among them."""
        return self.graph.op(
            "LabelEncoder",
            self,
            keys_strings=texts,
            values_int64s=list(range(len(texts))),
            default_int64=-1,
            op_domain="ai.onnx.ml",
            op_version=2,
        )

    def is_any(self, texts: Sequence[str]) -> Value:
        """Return whether each cell, without surrounding spaces, is one of `texts`."""
        alternatives = "|".join(map(_quoted, texts))
        pattern = f"{_SPACES}(?:{alternatives}){_SPACES}"
        return self.graph.op("RegexFullMatch", self, pattern=pattern)


def _quoted(text: str) -> str:
    """Write a text as a regular expression of RE2, which onnxruntime uses."""
    plain = (c if c.isascii() and c.isalnum() else f"\\x{{{ord(c):x}}}" for c in text)
    return "".join(plain)


# What Python calls space, and `fuzzytwin.tables._parse.text` trims.
_SPACES = "[" + _quoted("".join(c for c in map(chr, range(0x3001)) if c.isspace())) + "]*"


class Graph:
    """A graph under construction. Each call of `op` adds a node."""

    def __init__(self, scope: Any, container: Any) -> None:
        self.scope = scope
        self.container = container
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
        unique_name = self.scope.get_unique_variable_name
        index = unique_name("row")
        go_on = unique_name("go_on")
        row = unique_name("x")
        result = unique_name("result")
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
    """The nodes of a loop, instead of a container of skl2onnx. Constants stay outside the loop."""

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
    """Convert a `SimpleImputer`. In text columns, the empty string is missing."""
    if imputer.add_indicator:
        raise UnsupportedError(
            "SimpleImputer(add_indicator=True) cannot be converted to ONNX; set it to False."
        )
    with_statistic = [j for j, value in enumerate(imputer.statistics_) if value == value]
    if len(with_statistic) < imputer.n_features_in_:
        X = X.columns(with_statistic)
    statistics = plain(imputer.statistics_[with_statistic])
    if statistics.dtype.kind == "U":
        missing = X.codes([""]) == np.array([0])
    else:
        X = X.double()
        statistics = statistics.astype(np.float64)
        marker = imputer.missing_values
        missing = float(marker) == X if marker == marker else np.isnan(X)
    return [X.graph.op("Where", missing, statistics[None, :], X)]


def encode(encoder: Any, X: Value) -> list[Value]:
    """Convert a `OneHotEncoder` or `OrdinalEncoder`: indicators of categories times their codes."""
    parts = []
    for j, (categories, codes) in enumerate(zip(encoder.categories_, _codes(encoder), strict=True)):
        column = X.columns([j])
        values = plain(categories)
        if values.dtype.kind == "U":
            column = column.codes(values.tolist())
            values = np.arange(len(values))
        elif np.isnan(values.astype(float)).any():
            raise UnsupportedError(
                "a missing value as a category cannot be converted to ONNX; impute it."
            )
        else:
            column = column.double()
            values = values.astype(float)
        indicators = (column == values[None, :]).double()
        is_known = X.graph.op("Greater", indicators.sum(), 0.0)
        parts.append(X.graph.op("Where", is_known, indicators @ codes[:-1], codes[-1:]))
    return [X.graph.op("Concat", *parts, axis=1)]


def encode_table(preprocessor: Any, inputs: list[Value]) -> list[Value]:
    """Convert a `TablePreprocessor`, like `fuzzytwin.tables._numeric.encode`."""
    schema = TableSchema.from_dict(preprocessor.schema_)
    features = schema.features
    missing = schema.missing
    by_name = {column.name: value for column, value in zip(features, inputs, strict=True)}
    graph = inputs[0].graph
    encoding = preprocessor.encoding_
    blocks = []
    if scaled := of_kinds(features, SCALED):
        learned = {name: np.array(values) for name, values in encoding["scaled"].items()}
        numbers: Any = graph.op("Concat", *(by_name[column.name] for column in scaled), axis=1)
        is_missing = _is_missing(numbers, missing)
        numbers = graph.op("Where", is_missing, learned["fill"][None, :], numbers)
        numbers = np.minimum(np.maximum(numbers, learned["low"]), learned["high"])
        blocks.append((numbers - learned["center"]) / learned["scale"])
    for column, values in zip(of_kinds(features, ONE_HOT), encoding["spread"], strict=True):
        blocks.append(_one_hot(by_name[column.name], values, missing))
    return [graph.op("Concat", *blocks, axis=1)]


def _is_missing(numbers: Value, missing: Sequence[str]) -> Any:
    """Return which numbers are missing: NaN, and markers of missing values such as -999."""
    is_missing: Any = np.isnan(numbers)
    for marker in marker_numbers(missing):
        is_missing = np.logical_or(is_missing, numbers == np.array([marker]))
    return is_missing


def _one_hot(cells: Value, values: dict[str, Any], missing: Sequence[str]) -> Value:
    """Convert a category, like `fuzzytwin.tables._numeric._one_hot`."""
    graph = cells.graph
    other = values["other"]
    # Values with their own column, in the order of the columns.
    frequent = [v for v, j in zip(values["values"], values["places"], strict=True) if j != other]
    texts = (missing if value == MISSING_TEXT else [value] for value in frequent)
    indicators = graph.op("Concat", *map(cells.is_any, texts), axis=1).double()
    if other < 0:
        return indicators
    return graph.op("Concat", indicators, 1.0 - indicators.sum(), axis=1)


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


# Steps that are converted here, not by skl2onnx.
STEPS: dict[type, Any] = {
    SimpleImputer: impute,
    OneHotEncoder: encode,
    OrdinalEncoder: encode,
    TablePreprocessor: encode_table,
}


def _codes(encoder: Any) -> Iterator[Array]:
    """Yield the codes of the categories of each column, and last the code of unknown categories.

    The encoder computes them: it transforms each category, and an unknown one.
    """
    encoder = copy(encoder)
    vars(encoder).pop("feature_names_in_", None)
    allow_unknown: dict[str, Any] = {"handle_unknown": "use_encoded_value", "unknown_value": 0}
    if not isinstance(encoder, OrdinalEncoder):
        allow_unknown = {"handle_unknown": "ignore"}
        encoder.set_params(feature_name_combiner=lambda name, category: name)
    if encoder.handle_unknown == "error":
        encoder.set_params(**allow_unknown)
    column_of_code = encoder.get_feature_names_out()
    for j, categories in enumerate(encoder.categories_):
        table = np.full((len(categories) + 1, len(encoder.categories_)), object(), dtype=object)
        table[:-1, j] = categories
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of unknown categories
            codes = encoder.transform(table)
        codes = codes.toarray() if hasattr(codes, "toarray") else codes
        yield np.asarray(codes, dtype=np.float64)[:, column_of_code == f"x{j}"]


def set_shape(operator: Any) -> None:
    """Set the type and shape of the output of `impute`, `encode` or `scale`."""
    types = import_onnx("skl2onnx.common.data_types")
    step = operator.raw_operator
    is_text = isinstance(step, SimpleImputer) and _takes_text(step)
    kind = types.StringTensorType if is_text else types.DoubleTensorType
    n_rows = operator.inputs[0].get_first_dimension()
    operator.outputs[0].type = kind([n_rows, len(step.get_feature_names_out())])


def inputs_of(model: Any) -> list[tuple[str, Any]]:
    """Declare the inputs: one table, or its columns if they are text or selected by name."""
    types = import_onnx("skl2onnx.common.data_types")
    kinds = types.DoubleTensorType, types.StringTensorType
    first = _first_step(model)
    if isinstance(first, TablePreprocessor):
        features = _features(first)
        return [(column.name, kinds[column.kind == "category"]([None, 1])) for column in features]
    index = np.arange(model.n_features_in_)
    names = list(getattr(model, "feature_names_in_", [f"column {j}" for j in index]))
    transformers = [("", first, slice(None))]
    if isinstance(first, ColumnTransformer):
        transformers = first.transformers_
    text_columns: set[int] = set()
    by_name = False
    for _, step, columns in transformers:
        selected: Any = [columns] if isinstance(columns, (str, int)) else columns
        if not isinstance(selected, slice) and any(isinstance(column, str) for column in selected):
            by_name = True
            selected = [names.index(column) for column in selected]
        if _takes_text(step):
            text_columns.update(index[selected].tolist())
    if not text_columns and not by_name:
        return [("X", types.DoubleTensorType([None, len(index)]))]
    return [(str(name), kinds[j in text_columns]([None, 1])) for j, name in enumerate(names)]


def _first_step(model: Any) -> Any:
    return _first_step(model.steps[0][1]) if isinstance(model, Pipeline) else model


def _takes_text(step: Any) -> bool:
    step = _first_step(step)
    learned = [step.statistics_] if isinstance(step, SimpleImputer) else []
    learned = getattr(step, "categories_", learned)
    return any(plain(values).dtype.kind == "U" for values in learned)


def plain(values: Array) -> Array:
    """Convert an object array to one of text or numbers. Other arrays are returned unchanged."""
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
    """Import a module of the extra onnx, or raise an ImportError with the command to install it."""
    return import_optional(module, "onnx", "ONNX")
