"""Steps that come before the estimator, as parts of an ONNX graph in double precision."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OrdinalEncoder

from fuzzytwin._utils.extras import need

Array = NDArray[Any]


class UnsupportedError(ValueError):
    """Something that has no form in ONNX."""


class Graph:
    """A graph under construction: one call adds a node or a constant."""

    def __init__(self, scope: Any, container: Any) -> None:
        self.scope, self.container = scope, container
        self.known: dict[Any, str] = {}  # names of constants
        self.types = need_onnx("onnx").TensorProto

    def op(self, kind: str, *inputs: Any, into: str | None = None, **attributes: Any) -> str:
        """Add a node, and give the name of its output; inputs are names, arrays or numbers."""
        name = into or self.scope.get_unique_variable_name(kind.lower())
        domain: dict[str, Any] = {}
        if kind == "LabelEncoder":
            domain = {"op_domain": "ai.onnx.ml", "op_version": 2}
        self.container.add_node(
            kind, [x if isinstance(x, str) else self._constant(x) for x in inputs], [name],
            name=self.scope.get_unique_operator_name(kind), **domain, **attributes,
        )  # fmt: skip
        return name

    def _constant(self, value: Any) -> str:
        """Add a constant, once, and give its name."""
        array = np.atleast_1d(value)
        key = (array.dtype.str, array.shape, array.tobytes())
        if array.dtype.kind != "O" and key in self.known:
            return self.known[key]
        name: str = self.scope.get_unique_variable_name("constant")
        self.known[key] = name
        known = {"f": self.types.DOUBLE, "b": self.types.BOOL}
        known.update(dict.fromkeys("iu", self.types.INT64))
        kind, content = known.get(array.dtype.kind, self.types.STRING), array.ravel().tolist()
        if kind == self.types.STRING:
            content = [str(text).encode() for text in content]
        self.container.add_initializer(name, kind, list(array.shape), content)
        return name

    def double(self, name: str, into: str | None = None) -> str:
        """Convert to double precision."""
        return self.op("Cast", name, into=into, to=self.types.DOUBLE)

    def rows(self, operator: Any) -> str:
        """Join the inputs of an operator into one table."""
        names = [entry.full_name for entry in operator.inputs]
        return names[0] if len(names) == 1 else self.op("Concat", *names, axis=1)


def impute(scope: Any, operator: Any, container: Any) -> None:
    """Convert a `SimpleImputer`; in text columns, the empty text is missing."""
    graph, imputer = Graph(scope, container), operator.raw_operator
    if imputer.add_indicator or len(imputer.statistics_) != imputer.n_features_in_:
        raise UnsupportedError(
            "SimpleImputer(add_indicator=True) has no form in ONNX here; leave it out."
        )
    X, into = graph.rows(operator), operator.outputs[0].full_name
    kept = [j for j, value in enumerate(imputer.statistics_) if value == value]
    if len(kept) < imputer.n_features_in_ and not imputer.keep_empty_features:
        X = graph.op("Gather", X, np.array(kept), axis=1)
    statistics = plain(np.asarray(imputer.statistics_)[kept])
    if statistics.dtype.kind == "U":
        # Marks the empty texts, column by column.
        mark = graph.op(
            "LabelEncoder", X, keys_strings=[""], values_int64s=[1], default_int64=0
        )  # fmt: skip
        missing = graph.op("Cast", mark, to=graph.types.BOOL)
    else:
        X, statistics = graph.double(X), statistics.astype(np.float64)
        if imputer.missing_values != imputer.missing_values:
            missing = graph.op("IsNaN", X)
        else:
            missing = graph.op("Equal", X, np.array([float(imputer.missing_values)]))
    graph.op("Where", missing, statistics[None, :], X, into=into)


def imputed_shape(operator: Any) -> None:
    """Set type and shape of what `impute` gives."""
    types = need_onnx("skl2onnx.common.data_types")
    text = plain(np.asarray(operator.raw_operator.statistics_)).dtype.kind == "U"
    kind = types.StringTensorType if text else types.DoubleTensorType
    width = len(operator.raw_operator.get_feature_names_out())
    operator.outputs[0].type = kind([operator.inputs[0].get_first_dimension(), width])


def encode(scope: Any, operator: Any, container: Any) -> None:
    """Convert a `OneHotEncoder` or `OrdinalEncoder`: which category, times its code."""
    graph, encoder = Graph(scope, container), operator.raw_operator
    X, parts = graph.rows(operator), []
    for j, categories in enumerate(encoder.categories_):
        column = graph.op("Gather", X, np.array([j]), axis=1)
        values = plain(np.asarray(categories))
        places = np.arange(len(values))
        if values.dtype.kind == "U":
            column = graph.op(
                "LabelEncoder", column, keys_strings=list(values),
                values_int64s=places.tolist(), default_int64=-1,
            )  # fmt: skip
            hit = graph.op("Equal", column, places[None, :])
        else:
            if any(value != value for value in values):
                raise UnsupportedError(
                    "a missing value as a category of its own has no form in ONNX here; impute it."
                )
            hit = graph.op(
                "Equal", graph.double(column), values.astype(float)[None, :]
            )  # fmt: skip
        hit = graph.double(hit)
        codes, other = _codes(encoder, j)
        part = graph.op("MatMul", hit, codes)
        if other.any():
            known = graph.op("ReduceSum", hit, 1, keepdims=1)
            unknown = graph.op("Sub", np.ones(1), known)
            part = graph.op("Add", part, graph.op("Mul", unknown, other[None, :]))
        parts.append(part)
    into = operator.outputs[0].full_name
    if len(parts) == 1:
        graph.op("Identity", parts[0], into=into)
    else:
        graph.op("Concat", *parts, into=into, axis=1)


def encoded_shape(operator: Any) -> None:
    """Set type and shape of what `encode` gives."""
    types = need_onnx("skl2onnx.common.data_types")
    width = len(operator.raw_operator.get_feature_names_out())
    operator.outputs[0].type = types.DoubleTensorType(
        [operator.inputs[0].get_first_dimension(), width]
    )


def _codes(encoder: Any, j: int) -> tuple[Array, Array]:
    """Find the code of each category of a column, and that of an unknown one.

    The encoder itself computes them: it transforms every category of the column, beside the first
    ones of the other columns.
    """
    table = np.empty((len(encoder.categories_[j]), len(encoder.categories_)), dtype=object)
    table[:] = [categories[0] for categories in encoder.categories_]
    table[:, j] = encoder.categories_[j]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table has no column names
        codes = encoder.transform(table)
    codes = np.asarray(codes.toarray() if hasattr(codes, "toarray") else codes, dtype=np.float64)
    if isinstance(encoder, OrdinalEncoder):
        codes = codes[:, [j]]
        other = encoder.unknown_value if encoder.handle_unknown == "use_encoded_value" else 0.0
        return codes, np.array([float(other)])
    widths = [
        len(categories) if infrequent is None else len(categories) - len(infrequent) + 1
        for categories, infrequent in zip(
            encoder.categories_,
            getattr(encoder, "infrequent_categories_", [None] * len(encoder.categories_)),
            strict=True,
        )
    ]
    if encoder.drop_idx_ is not None:
        widths = [w - (d is not None) for w, d in zip(widths, encoder.drop_idx_, strict=True)]
    start = sum(widths[:j])
    codes = codes[:, start : start + widths[j]]
    other = np.zeros(widths[j])
    rare = getattr(encoder, "infrequent_categories_", [None] * len(widths))[j]
    if encoder.handle_unknown in ("infrequent_if_exist", "warn") and rare is not None:
        other[-1] = 1.0
    return codes, other


def text_columns(model: Any) -> tuple[set[int], bool]:
    """Find the columns that hold text, by encoders and imputers; and whether names pick them."""
    first = model
    while isinstance(first, Pipeline):
        first = first.steps[0][1]
    places = np.arange(model.n_features_in_)
    if not isinstance(first, ColumnTransformer):
        return (set(places.tolist()) if _takes_text(model) else set()), False
    names = list(getattr(first, "feature_names_in_", places))
    found: set[int] = set()
    by_name = False
    for _, step, columns in first.transformers_:
        if isinstance(columns, (str, int)):
            columns = [columns]
        if not isinstance(columns, slice) and any(isinstance(c, str) for c in columns):
            by_name = True
            columns = [names.index(column) for column in columns]
        if isinstance(step, BaseEstimator) and _takes_text(step):
            found.update(places[columns].tolist())
    return found, by_name


def _takes_text(step: Any) -> bool:
    if isinstance(step, Pipeline):
        return _takes_text(step.steps[0][1])
    held = getattr(step, "categories_", None)
    if held is None and isinstance(step, SimpleImputer):
        held = [step.statistics_]
    return any(plain(np.asarray(values)).dtype.kind == "U" for values in held or [])


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
