"""Models as ONNX graphs, in double precision, made of plain operators.

skl2onnx walks the pipeline. Its own converters for imputing and encoding work in single precision,
which would move samples over a boundary; those steps have converters of their own here.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.version import __version__
from fuzzytwin.classics import (
    GEPSVC,
    LeastSquaresSVC,
    LeastSquaresTwinSVC,
    ProximalSVC,
    TwinSVC,
)
from fuzzytwin.classics.separating import SeparatingPlanes
from fuzzytwin.core import distances
from fuzzytwin.core.calibration import MOST_LOG_ODDS, MOST_LOG_RATIO, pair_planes
from fuzzytwin.core.planes import plane_classes
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.estimators.nearest_plane import NearestPlane
from fuzzytwin.search.estimator import FuzzyTwinSVCCV
from fuzzytwin.store.onnx_steps import (
    Graph,
    UnsupportedError,
    encode,
    encoded_shape,
    impute,
    imputed_shape,
    need_onnx,
    plain,
    text_columns,
)

Array = NDArray[Any]

ESTIMATORS = (
    FuzzyTwinSVC, FuzzyTwinSVCCV, GEPSVC, LeastSquaresSVC, LeastSquaresTwinSVC, ProximalSVC,
    TwinSVC,
)  # fmt: skip
OPSETS = {"": 17, "ai.onnx.ml": 3}


def to_onnx(model: Any) -> Any:
    """Turn a fitted model or pipeline into an ONNX graph with the same answers.

    Numbers are computed in double precision, so labels and memberships are those of Python to
    rounding. A table of numbers goes in as one tensor ``X``; where columns hold text, or a
    `ColumnTransformer` picks them by name, every column is an input of its own, of shape (n, 1),
    and the empty text means a missing value. Inputs are named as their columns, with ``_``
    for what ONNX does not take in a name; the true names stand in the metadata, as "columns".
    Out come ``label`` and ``memberships`` (``scores`` for `ProximalSVC`
    and `LeastSquaresSVC`); of a calibrated model, ``memberships`` are probabilities.

    Parameters
    ----------
    model : fitted estimator
        Of this library, or a scikit-learn pipeline that ends in one, with steps that skl2onnx
        supports.

    Returns
    -------
    onnx.ModelProto
        ``SerializeToString()`` gives the bytes of an ``.onnx`` file. The labels in the order of
        the memberships stand in its metadata, under "classes".

    Notes
    -----
    A graph cannot raise: for a category that an encoder was not fitted on, it gives zeros.

    Examples
    --------
    >>> import onnxruntime
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.store import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), FuzzyTwinSVC(planes="fuzzy")).fit(X, y)
    >>> session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    >>> label, memberships = session.run(None, {"X": X[:3]})
    >>> label.tolist(), memberships.shape
    ([0, 0, 0], (3, 3))
    """
    skl2onnx = need_onnx("skl2onnx")
    types = need_onnx("skl2onnx.common.data_types")
    check_is_fitted(model)
    estimator = _last_step(model)
    text, by_name = text_columns(model)
    width = model.n_features_in_
    inputs: list[tuple[str, Any]] = [("X", types.DoubleTensorType([None, width]))]
    if text or by_name:
        names = getattr(model, "feature_names_in_", [f"column {j}" for j in range(width)])
        inputs = [
            (
                str(name),
                (types.StringTensorType if j in text else types.DoubleTensorType)([None, 1]),
            )
            for j, name in enumerate(names)
        ]
    converters: dict[type, Any] = {SimpleImputer: impute, OneHotEncoder: encode}
    converters[OrdinalEncoder] = encode
    shapes: dict[type, Any] = dict.fromkeys((OneHotEncoder, OrdinalEncoder), encoded_shape)
    shapes[SimpleImputer] = imputed_shape
    for kind in ESTIMATORS:
        converters[kind], shapes[kind] = _label, _label_shape
    try:
        with warnings.catch_warnings():
            # Of no concern here: skl2onnx looks at numpy's and onnx's older names.
            warnings.simplefilter("ignore")
            graph = skl2onnx.convert_sklearn(
                model, type(estimator).__name__, inputs, target_opset=OPSETS,
                custom_conversion_functions=converters, custom_shape_calculators=shapes,
                custom_parsers=dict.fromkeys(ESTIMATORS, _parse),
            )  # fmt: skip
    except UnsupportedError:
        raise
    except Exception as error:
        raise ValueError(
            "the model has no form in ONNX; use steps that skl2onnx supports. It reports: "
            f"{(str(error).splitlines() or ['?'])[0]}"
        ) from error
    facts = {
        "fuzzytwin": __version__,
        "classes": json.dumps(estimator.classes_.tolist()),
        "columns": json.dumps([name for name, _ in inputs]),
    }
    for key, value in facts.items():
        entry = graph.metadata_props.add()
        entry.key, entry.value = key, value
    graph.producer_name, graph.producer_version = "fuzzytwin", __version__
    return graph


def _last_step(model: Any) -> Any:
    last = model[-1] if isinstance(model, Pipeline) else model
    if not isinstance(last, ESTIMATORS):
        raise UnsupportedError(
            f"{type(last).__name__} is not an estimator of fuzzytwin; give one, or a pipeline that "
            "ends in one."
        )
    inner = getattr(last, "best_estimator_", last)
    phi = getattr(inner, "landmark_map_", None)
    if phi is not None and callable(phi.kernel):
        raise UnsupportedError(f"{phi.kernel!r} has no form in ONNX; use a kernel with a name.")
    return inner


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the outputs of an estimator."""
    types = need_onnx("skl2onnx.common.data_types")
    operator = scope.declare_local_operator("Fuzzytwin", model)
    operator.inputs = inputs
    second = "scores" if isinstance(model, SeparatingPlanes) else "memberships"
    kinds = {"b": types.BooleanTensorType, "f": types.DoubleTensorType}
    kinds.update(dict.fromkeys("iu", types.Int64TensorType))
    kind = kinds.get(model.classes_.dtype.kind, types.StringTensorType)
    operator.outputs.append(scope.declare_local_variable("label", kind([None])))
    operator.outputs.append(
        scope.declare_local_variable(second, types.DoubleTensorType([None, None]))
    )
    return operator.outputs


def _label_shape(operator: Any) -> None:
    """Set the shapes of the outputs that `_parse` declared."""
    model = operator.raw_operator
    rows = operator.inputs[0].get_first_dimension()
    columns = len(model.classes_)
    if isinstance(model, SeparatingPlanes) and columns == 2:
        columns = 1
    operator.outputs[0].type.shape = [rows]
    operator.outputs[1].type.shape = [rows, columns]


def _label(scope: Any, operator: Any, container: Any) -> None:
    """Compute planes, then labels and memberships or scores."""
    graph, model = Graph(scope, container), operator.raw_operator
    model = getattr(model, "best_estimator_", model)
    X = graph.double(graph.rows(operator))
    label, second = (output.full_name for output in operator.outputs)
    Z = _landmark_features(graph, model.landmark_map_, X) if _curved(model) else X
    f = graph.op("MatMul", Z, graph.constant(model.coef_.T))
    f = graph.op("Add", f, graph.constant(model.intercept_))
    if isinstance(model, NearestPlane):
        f = _memberships(graph, model, X, f)
    elif len(model.classes_) > 2 and (model.plane_classes_[:, 1] >= 0).all():
        f = _pair_votes(graph, f, model.plane_classes_, len(model.classes_))
    graph.op("Identity", f, into=second)
    if isinstance(model, SeparatingPlanes) and len(model.classes_) == 2:
        positive = graph.op("Greater", f, graph.constant(np.zeros(1)))
        code = graph.op("Cast", positive, to=graph.types.INT64)
        code = graph.op("Reshape", code, graph.constant(np.array([-1])))
    else:
        code = graph.op("ArgMax", f, axis=1, keepdims=0)
    graph.op("Gather", graph.constant(plain(model.classes_)), code, into=label, axis=0)


def _curved(model: Any) -> bool:
    return hasattr(model, "landmark_map_")


def _landmark_features(graph: Graph, phi: Any, X: str) -> str:
    """Map rows as `fuzzytwin.kernels.LandmarkMap` does, operator by operator."""
    L = phi.landmarks.toarray() if hasattr(phi.landmarks, "toarray") else phi.landmarks
    L = np.asarray(L, dtype=np.float64)
    columns = graph.constant(np.array([1]))
    gamma = phi.gamma
    if np.ndim(gamma):  # one for each column: scaled columns need none
        factor = gamma if phi.kernel == "laplacian" else np.sqrt(gamma)
        X, L, gamma = graph.op("Mul", X, graph.constant(factor)), L * factor, 1.0
    number = {name: graph.constant(np.array([float(value)])) for name, value in
              (("-gamma", -gamma), ("gamma", gamma), ("coef0", phi.coef0),
               ("degree", phi.degree))}  # fmt: skip

    def length(rows: str) -> str:
        return graph.op("ReduceSum", graph.op("Mul", rows, rows), columns, keepdims=1)

    if phi.kernel == "laplacian":
        gap = graph.op("Sub", graph.op("Unsqueeze", X, columns), graph.constant(L[None]))
        far = graph.op("ReduceSum", graph.op("Abs", gap), graph.constant(np.array([2])), keepdims=0)
        K = graph.op("Exp", graph.op("Mul", number["-gamma"], far))
    elif phi.kernel == "rbf":
        # About the landmarks' mean, or digits would cancel where the rows lie far from zero.
        center = L.mean(axis=0)
        X, L = graph.op("Sub", X, graph.constant(center)), L - center
        product = graph.op("MatMul", X, graph.constant(-2.0 * L.T))
        far = graph.op("Add", product, graph.constant((L * L).sum(axis=1)[None, :]))
        far = graph.op("Add", far, length(X))
        far = graph.op("Max", far, graph.constant(np.zeros(1)))
        K = graph.op("Exp", graph.op("Mul", number["-gamma"], far))
    elif phi.kernel == "cosine":
        norm = graph.op("Sqrt", length(X))
        nothing = graph.op("Equal", norm, graph.constant(np.zeros(1)))
        norm = graph.op("Where", nothing, graph.constant(np.ones(1)), norm)
        own = np.linalg.norm(L, axis=1, keepdims=True)
        unit = L / np.where(own > 0, own, 1.0)
        K = graph.op("MatMul", graph.op("Div", X, norm), graph.constant(unit.T))
    else:
        K = graph.op("MatMul", X, graph.constant(L.T))
        if phi.kernel in ("poly", "sigmoid"):
            K = graph.op("Add", graph.op("Mul", number["gamma"], K), number["coef0"])
            K = graph.op("Tanh", K) if phi.kernel == "sigmoid" else (
                graph.op("Pow", K, number["degree"])
            )  # fmt: skip
    return graph.op("MatMul", K, graph.constant(phi.root))


def _memberships(graph: Graph, model: Any, X: str, f: str) -> str:
    """Compute memberships as `fuzzytwin.distances` does, operator by operator."""
    norms = np.ones(len(model.coef_))
    if model.rule == "distance":
        norms = distances.plane_norms(model.coef_)
        norms = norms if norms.any() else np.ones_like(norms)
    zero, one, inf = (graph.constant(np.array([value])) for value in (0.0, 1.0, np.inf))
    safe = graph.constant(np.where(norms > 0, norms, 1.0))

    def over_norm(value: str) -> str:
        value = graph.op("Abs", value)
        ratio = graph.op("Div", value, safe)
        if (norms > 0).all():
            return ratio
        flat = graph.constant((norms == 0)[None, :])
        beyond = graph.op("And", flat, graph.op("Greater", value, zero))
        return graph.op("Where", beyond, inf, ratio)

    a = over_norm(f)
    if hasattr(model, "width_coef_"):
        g = graph.op("MatMul", graph.op("Abs", X), graph.constant(model.width_coef_.T))
        gamma = over_norm(graph.op("Add", g, graph.constant(model.width_intercept_)))
        near = graph.op("Less", a, gamma)
        a = graph.op("Where", near, a, graph.op("Add", a, gamma))
    K = len(model.classes_)
    if getattr(model, "calibration", None) is not None:
        return _probabilities(graph, model, f, a)
    if K > 2 and len(model.coef_) > K:
        return _pair_memberships(graph, a, K)
    nearest = graph.op("ReduceMin", a, axes=[1], keepdims=1)
    ordinary = graph.op("And", graph.op("Greater", a, zero), graph.op("Less", nearest, inf))
    u = graph.op("Where", ordinary, graph.op("Div", nearest, a), one)
    total = graph.op("ReduceSum", u, graph.constant(np.array([1])), keepdims=1)
    return graph.op("Div", u, total)


def _probabilities(graph: Graph, model: Any, f: str, a: str) -> str:
    """`fuzzytwin.core.calibration.Calibration.probabilities`, operator by operator."""
    K, n_planes = len(model.classes_), len(model.coef_)
    pairs, planes = pair_planes(n_planes, K)
    first, second = (np.arange(n_planes)[:, None] == planes[:, i] for i in (0, 1))
    power = 1.0 if n_planes == K else 3.0

    def within(value: str, low: float, high: float) -> str:
        low_high = (graph.constant(np.array([bound])) for bound in (low, high))
        return graph.op("Min", graph.op("Max", value, next(low_high)), next(low_high))

    def product(value: str, matrix: Array) -> str:
        return graph.op("MatMul", value, graph.constant(matrix.astype(np.float64)))

    numbers = np.finfo(float)
    logs = graph.op("Log", within(a, float(numbers.tiny), float(numbers.max)))
    ratio = product(logs, power * (second.astype(float) - first))
    ratio = within(ratio, -MOST_LOG_RATIO, MOST_LOG_RATIO)
    c = model.calibration_coef_.T
    z = graph.op("Mul", ratio, graph.constant(c[0]))
    z = graph.op("Add", z, product(f, first * c[1] + second * c[2]))
    z = graph.op("Add", z, graph.constant(model.calibration_intercept_))
    odds = graph.op("Exp", within(z, -MOST_LOG_ODDS, MOST_LOG_ODDS))
    one = graph.constant(np.ones(1))
    of_class = [(pairs[:, i : i + 1] == np.arange(K)) for i in (0, 1)]
    against = graph.op("Add", product(graph.op("Div", one, odds), of_class[0]), one)
    against = graph.op("Add", against, product(odds, of_class[1]))
    v = graph.op("Div", one, against)
    return graph.op("Div", v, graph.op("ReduceSum", v, graph.constant(np.array([1])), keepdims=1))


def _pair_memberships(graph: Graph, a: str, n_classes: int) -> str:
    """`fuzzytwin.core.pairs.pair_memberships`, operator by operator."""
    classes = plane_classes(n_classes, "ovo")
    rival = np.arange(len(classes)) ^ 1  # the two planes of a pair are neighbours
    one = graph.constant(np.ones(1))
    ratio = graph.op("Div", a, graph.op("Gather", a, graph.constant(rival), axis=1))
    ratio = graph.op("Where", graph.op("IsNaN", ratio), one, ratio)
    low, high = (graph.constant(np.array([bound])) for bound in (1e-50, 1e50))
    ratio = graph.op("Min", graph.op("Max", ratio, low), high)
    cube = graph.op("Pow", ratio, graph.constant(np.array([3.0])))
    of_class = (classes[:, :1] == np.arange(n_classes)).astype(np.float64)
    against = graph.op("Add", graph.op("MatMul", cube, graph.constant(of_class)), one)
    u = graph.op("Div", one, against)
    total = graph.op("ReduceSum", u, graph.constant(np.array([1])), keepdims=1)
    return graph.op("Div", u, total)


def _pair_votes(graph: Graph, f: str, classes: Array, n_classes: int) -> str:
    """`fuzzytwin.core.pairs.pair_votes`, operator by operator."""
    own, rival = ((classes[:, i, None] == np.arange(n_classes)).astype(float) for i in (0, 1))
    zero, one = (graph.constant(np.array([value])) for value in (0.0, 1.0))
    won = graph.op("Where", graph.op("Greater", f, zero), one, zero)
    votes = graph.op("MatMul", won, graph.constant(own))
    lost = graph.op("MatMul", graph.op("Sub", one, won), graph.constant(rival))
    votes = graph.op("Add", votes, lost)
    total = graph.op("MatMul", f, graph.constant(own - rival))
    size = graph.op("Add", graph.op("Abs", total), one)
    third = graph.op("Mul", size, graph.constant(np.array([3.0])))
    return graph.op("Add", votes, graph.op("Div", total, third))
