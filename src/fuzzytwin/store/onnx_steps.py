"""Parts of an ONNX graph in double precision: values to compute with, steps before estimators."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import copy
from types import ModuleType
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from fuzzytwin._utils.extras import need
from fuzzytwin._utils.types import Array
from fuzzytwin.data.scaling import ColumnScaler

# Operators of ONNX by the functions of numpy that do the same.
OPERATORS: dict[Any, str] = {
    np.add: "Add", np.subtract: "Sub", np.multiply: "Mul", np.divide: "Div", np.matmul: "MatMul",
    np.power: "Pow", np.maximum: "Max", np.minimum: "Min", np.absolute: "Abs", np.exp: "Exp",
    np.log: "Log", np.sqrt: "Sqrt", np.tanh: "Tanh", np.isnan: "IsNaN", np.equal: "Equal",
    np.greater: "Greater", np.less: "Less", np.logical_and: "And",
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


class Graph:
    """A graph under construction: one call adds a node or a constant."""

    def __init__(self, scope: Any, container: Any) -> None:
        self.scope, self.container = scope, container
        self.known: dict[Any, str] = {}  # names of constants
        self.types = need_onnx("onnx").TensorProto

    def op(self, kind: str, *inputs: Any, into: str | None = None, **attributes: Any) -> Value:
        """Add a node, and give its output; inputs are values, arrays or numbers."""
        name = into or self.scope.get_unique_variable_name(kind.lower())
        names = [x.name if isinstance(x, Value) else self._constant(x) for x in inputs]
        self.container.add_node(
            kind, names, [name], name=self.scope.get_unique_operator_name(kind), **attributes
        )
        return Value(self, name)

    def _constant(self, value: Any) -> str:
        """Add a constant, once, and give its name."""
        array = np.atleast_1d(value)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.known:
            self.known[key] = self.scope.get_unique_variable_name("constant")
            known = {"f": self.types.DOUBLE, "b": self.types.BOOL, "U": self.types.STRING}
            kind, content = known.get(array.dtype.kind, self.types.INT64), array.ravel().tolist()
            if kind == self.types.STRING:
                content = [text.encode() for text in content]
            self.container.add_initializer(self.known[key], kind, list(array.shape), content)
        return self.known[key]


def converter(compute: Any) -> Any:
    """Make a converter of skl2onnx of a function from fitted step and rows to outputs."""

    def convert(scope: Any, operator: Any, container: Any) -> None:
        graph = Graph(scope, container)
        inputs = [Value(graph, entry.full_name) for entry in operator.inputs]
        rows = inputs[0] if len(inputs) == 1 else graph.op("Concat", *inputs, axis=1)
        outputs = compute(operator.raw_operator, rows)
        for value, output in zip(outputs, operator.outputs, strict=True):
            graph.op("Identity", value, into=output.full_name)

    return convert


def impute(imputer: Any, X: Any) -> list[Value]:
    """Convert a `SimpleImputer`; in text columns, the empty text is missing."""
    if imputer.add_indicator:
        raise UnsupportedError(
            "SimpleImputer(add_indicator=True) has no form in ONNX here; leave it out."
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
                "a missing value as a category of its own has no form in ONNX here; impute it."
            )
        else:
            column, values = column.double(), values.astype(float)
        hit = (column == values[None, :]).double()
        known = X.graph.op("Greater", hit.sum(), 0.0)
        parts.append(X.graph.op("Where", known, hit @ codes[:-1], codes[-1:]))
    return [X.graph.op("Concat", *parts, axis=1)]


def scale(scaler: Any, X: Any) -> list[Value]:
    """Convert a `ColumnScaler`: clip the columns, then scale them."""
    low, high = scaler.limits_
    near = np.minimum(np.maximum(X.double(), low), high)
    return [(near - scaler.mean_) / scaler.scale_]


# Steps with converters of their own.
STEPS: dict[type, Any] = {
    SimpleImputer: impute,
    OneHotEncoder: encode,
    OrdinalEncoder: encode,
    ColumnScaler: scale,
}


def _codes(encoder: Any) -> Iterator[Array]:
    """Yield the codes of the categories of each column, and last that of an unknown one.

    The encoder itself computes them: it transforms each category beside unknown ones.
    """
    encoder = copy(encoder)
    vars(encoder).pop("feature_names_in_", None)
    forgiving: dict[str, Any] = {"handle_unknown": "use_encoded_value", "unknown_value": 0}
    if not isinstance(encoder, OrdinalEncoder):
        forgiving = {"handle_unknown": "ignore"}
        encoder.set_params(feature_name_combiner=lambda name, category: name)
    if encoder.handle_unknown == "error":
        encoder.set_params(**forgiving)
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
    """Set type and shape of what `impute`, `encode` or `scale` gives."""
    types, step = need_onnx("skl2onnx.common.data_types"), operator.raw_operator
    text = isinstance(step, SimpleImputer) and _takes_text(step)
    kind = types.StringTensorType if text else types.DoubleTensorType
    rows, width = operator.inputs[0].get_first_dimension(), len(step.get_feature_names_out())
    operator.outputs[0].type = kind([rows, width])


def inputs_of(model: Any) -> list[tuple[str, Any]]:
    """Declare the inputs: one table, or its columns where they hold text or are picked by name."""
    types = need_onnx("skl2onnx.common.data_types")
    places, text, by_name = np.arange(model.n_features_in_), set(), False
    names = list(getattr(model, "feature_names_in_", [f"column {j}" for j in places]))
    first = _first_step(model)
    several = isinstance(first, ColumnTransformer)
    for _, step, columns in first.transformers_ if several else [("", first, slice(None))]:
        picked: Any = [columns] if isinstance(columns, (str, int)) else columns
        if not isinstance(picked, slice) and any(isinstance(column, str) for column in picked):
            by_name, picked = True, [names.index(column) for column in picked]
        if _takes_text(step):
            text.update(places[picked].tolist())
    if not text and not by_name:
        return [("X", types.DoubleTensorType([None, len(places)]))]
    kinds = types.DoubleTensorType, types.StringTensorType
    return [(str(name), kinds[j in text]([None, 1])) for j, name in enumerate(names)]


def _first_step(model: Any) -> Any:
    return _first_step(model.steps[0][1]) if isinstance(model, Pipeline) else model


def _takes_text(step: Any) -> bool:
    step = _first_step(step)
    held = [step.statistics_] if isinstance(step, SimpleImputer) else []
    held = getattr(step, "categories_", held)
    return any(plain(values).dtype.kind == "U" for values in held)


def plain(values: Array) -> Array:
    """Turn an object array into one of text or of numbers; leave any other as it is."""
    if values.dtype.kind != "O":
        return values
    if all(isinstance(value, str) for value in values):
        return values.astype(str)
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise UnsupportedError(
            f"{values[0]!r} is neither text nor a number; ONNX has no other types."
        ) from None


def need_onnx(module: str) -> ModuleType:
    """Import a module of the extra onnx, or say how to install it."""
    return need(module, "onnx", "ONNX")
