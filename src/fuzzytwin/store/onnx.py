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
from fuzzytwin.classics.separating import SeparatingPlanes
from fuzzytwin.core import distances
from fuzzytwin.core.calibration import MOST_LOG_ODDS, MOST_LOG_RATIO, pair_planes
from fuzzytwin.core.planes import plane_classes
from fuzzytwin.estimators.committee import FuzzyTwinCommittee
from fuzzytwin.estimators.membership_weighted import MembershipWeighted
from fuzzytwin.estimators.prediction import NearestPlane
from fuzzytwin.fit.members import LEAST, Features
from fuzzytwin.search.estimator import FuzzyTwinSVCCV
from fuzzytwin.store.archive import public_classes
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

# Estimators that have planes; `_label` converts them, and `_committee` the last.
ESTIMATORS = tuple(
    kind
    for kind in public_classes()
    if issubclass(kind, (NearestPlane, SeparatingPlanes, FuzzyTwinSVCCV, FuzzyTwinCommittee))
)
OPSETS = {"": 17, "ai.onnx.ml": 3}


def to_onnx(model: Any) -> Any:
    """Turn a fitted model or pipeline into an ONNX graph with the same answers.

    Numbers are computed in double precision, so labels and memberships are those of Python to
    rounding. A table of numbers goes in as one tensor ``X``; where columns hold text, or a
    `ColumnTransformer` picks them by name, every column is an input of its own, of shape (n, 1),
    and the empty text means a missing value. Inputs are named as their columns, with ``_``
    for what ONNX does not take in a name; the true names stand in the metadata, as "columns".
    Behind a `TablePreprocessor` that is numbers and texts, so cells such as ``<0.5`` or ``12 %``
    are to be read before.
    Out come ``label`` and ``memberships`` (``probabilities`` for `FuzzyTwinCommittee`, ``scores``
    for `ProximalSVC` and `LeastSquaresSVC`); of a calibrated model, ``memberships`` are
    probabilities.

    Parameters
    ----------
    model : fitted estimator
        Of this library, or a scikit-learn pipeline that ends in one, with steps that skl2onnx
        supports. Of a `MembershipWeighted`, its classifier, if that is one of this library.

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
    model = _without_cells(_without_degrees(model))
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
    converters[FuzzyTwinCommittee] = _committee
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


def _without_degrees(model: Any) -> Any:
    """Put the fitted classifier in place of a `MembershipWeighted`, whose degrees only train it."""
    last = model[-1] if isinstance(model, Pipeline) else model
    if not isinstance(last, MembershipWeighted):
        return model
    inner = last.estimator_
    if not isinstance(inner, ESTIMATORS):
        raise UnsupportedError(
            f"MembershipWeighted holds a {type(inner).__name__}, which is not an estimator of "
            "fuzzytwin; convert its estimator_ by skl2onnx.to_onnx, as degrees are used in "
            "training alone."
        )
    if isinstance(model, Pipeline):
        return Pipeline([*model.steps[:-1], (model.steps[-1][0], inner)])
    return inner


def _without_cells(model: Any) -> Any:
    """Put what a `TablePreprocessor` does with cells that are read in its place."""
    inner = getattr(model[0], "transformer_", None) if isinstance(model, Pipeline) else None
    if inner is None:
        return model
    return Pipeline([(model.steps[0][0], inner), *model.steps[1:]])


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
    second = "probabilities" if isinstance(model, FuzzyTwinCommittee) else second
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
    Z = X
    if hasattr(model, "landmark_map_"):
        K = _kernel_values(graph, model.landmark_map_, X)
        Z = graph.op("MatMul", K, model.landmark_map_.root)
    f = graph.op("MatMul", Z, model.coef_.T)
    f = graph.op("Add", f, model.intercept_)
    if isinstance(model, NearestPlane):
        f = _memberships(graph, model, X, f)
    elif len(model.classes_) > 2 and (model.plane_classes_[:, 1] >= 0).all():
        f = _pair_votes(graph, f, model.plane_classes_, len(model.classes_))
    graph.op("Identity", _unweighted(graph, model, f), into=second)
    if isinstance(model, SeparatingPlanes) and len(model.classes_) == 2:
        positive = graph.op("Greater", f, 0.0)
        code = graph.op("Cast", positive, to=graph.types.INT64)
        code = graph.op("Reshape", code, -1)
    else:
        code = graph.op("ArgMax", f, axis=1, keepdims=0)
    graph.op("Gather", plain(model.classes_), code, into=label, axis=0)


def _committee(scope: Any, operator: Any, container: Any) -> None:
    """Compute the values of all members, then probabilities and labels."""
    graph, model = Graph(scope, container), operator.raw_operator
    X = graph.double(graph.rows(operator))
    label, second = (output.full_name for output in operator.outputs)
    Z = graph.op("Div", graph.op("Sub", X, model.mean_), model.scale_)
    values = graph.op("MatMul", Z, np.zeros((len(model.mean_), len(model.classes_))))
    for member in model.members_:
        if member.weight == 0:
            continue
        if member.classifier is not None:
            F = _log_probabilities(graph, member.classifier, X, len(model.mean_))
        else:
            phi = Features(member, model.landmarks_, 0).map
            features = Z if member.kernel == "linear" else _kernel_values(graph, phi, Z)
            F = graph.op("Add", graph.op("MatMul", features, member.coef), member.intercept)
        values = graph.op("Add", values, graph.op("Mul", F, member.weight))
    scores = graph.op("Add", graph.op("MatMul", values, model.mixing_), model.biases_)
    graph.op("Softmax", scores, axis=1, into=second)
    scores = graph.op("Add", scores, np.log(model.class_weight_))
    code = graph.op("ArgMax", scores, axis=1, keepdims=0)
    graph.op("Gather", plain(model.classes_), code, into=label, axis=0)


def _log_probabilities(graph: Graph, classifier: Any, X: str, n_columns: int) -> str:
    """Let skl2onnx convert a member that is a classifier; `fit.members.log_probabilities`."""
    types = need_onnx("skl2onnx.common.data_types")
    known = need_onnx("skl2onnx._supported_operators").sklearn_operator_name_map
    if type(classifier) not in known:
        raise UnsupportedError(
            f"{type(classifier).__name__} is a member that skl2onnx does not convert; use "
            "kernels alone as members, or a classifier of scikit-learn that it supports."
        )
    scope = graph.scope
    rows = scope.declare_local_variable("rows", types.DoubleTensorType([None, n_columns]))
    graph.op("Identity", X, into=rows.full_name)
    part = scope.declare_local_operator(known[type(classifier)], classifier)
    part.inputs.append(rows)
    part.outputs.append(scope.declare_local_variable("code", types.Int64TensorType()))
    part.outputs.append(scope.declare_local_variable("share", types.DoubleTensorType()))
    P = graph.double(part.outputs[1].full_name)
    total = 1 + len(classifier.classes_) * LEAST
    return graph.op("Log", graph.op("Div", graph.op("Add", P, LEAST), total))


def _kernel_values(graph: Graph, phi: Any, X: str) -> str:
    """`fuzzytwin.fit.kernels.LandmarkMap.kernel_values`, operator by operator."""
    L = phi.landmarks.toarray() if hasattr(phi.landmarks, "toarray") else phi.landmarks
    L = np.asarray(L, dtype=np.float64)
    gamma = phi.gamma
    if np.ndim(gamma):  # one for each column: scaled columns need none
        factor = gamma if phi.kernel == "laplacian" else np.sqrt(gamma)
        X, L, gamma = graph.op("Mul", X, factor), L * factor, 1.0
    gamma = float(gamma)

    def length(rows: str) -> str:
        return graph.op("ReduceSum", graph.op("Mul", rows, rows), 1, keepdims=1)

    if phi.kernel == "laplacian":
        gap = graph.op("Sub", graph.op("Unsqueeze", X, 1), L[None])
        far = graph.op("ReduceSum", graph.op("Abs", gap), 2, keepdims=0)
        K = graph.op("Exp", graph.op("Mul", -gamma, far))
    elif phi.kernel == "rbf":
        # About the landmarks' mean, or digits would cancel where the rows lie far from zero.
        center = L.mean(axis=0)
        X, L = graph.op("Sub", X, center), L - center
        product = graph.op("MatMul", X, -2.0 * L.T)
        far = graph.op("Add", product, (L * L).sum(axis=1)[None, :])
        far = graph.op("Add", far, length(X))
        far = graph.op("Max", far, 0.0)
        K = graph.op("Exp", graph.op("Mul", -gamma, far))
    elif phi.kernel == "cosine":
        norm = graph.op("Sqrt", length(X))
        nothing = graph.op("Equal", norm, 0.0)
        norm = graph.op("Where", nothing, 1.0, norm)
        own = np.linalg.norm(L, axis=1, keepdims=True)
        unit = L / np.where(own > 0, own, 1.0)
        K = graph.op("MatMul", graph.op("Div", X, norm), unit.T)
    elif phi.kernel in ("linear", "poly", "sigmoid"):
        K = graph.op("MatMul", X, L.T)
        if phi.kernel != "linear":
            K = graph.op("Add", graph.op("Mul", gamma, K), float(phi.coef0))
            power = float(phi.degree)
            K = graph.op("Tanh", K) if phi.kernel == "sigmoid" else graph.op("Pow", K, power)
    else:
        raise UnsupportedError(f"kernel={phi.kernel!r} has no form in ONNX; use another kernel.")
    return K


def _memberships(graph: Graph, model: Any, X: str, f: str) -> str:
    """Compute memberships as `fuzzytwin.distances` does, operator by operator."""
    norms = np.ones(len(model.coef_))
    if model.rule == "distance":
        norms = distances.plane_norms(model.coef_)
        norms = norms if norms.any() else np.ones_like(norms)
    safe = np.where(norms > 0, norms, 1.0)

    def over_norm(value: str) -> str:
        value = graph.op("Abs", value)
        ratio = graph.op("Div", value, safe)
        if (norms > 0).all():
            return ratio
        flat = (norms == 0)[None, :]
        beyond = graph.op("And", flat, graph.op("Greater", value, 0.0))
        return graph.op("Where", beyond, np.inf, ratio)

    a = over_norm(f)
    if hasattr(model, "width_coef_"):
        g = graph.op("MatMul", graph.op("Abs", X), model.width_coef_.T)
        gamma = over_norm(graph.op("Add", g, model.width_intercept_))
        near = graph.op("Less", a, gamma)
        a = graph.op("Where", near, a, graph.op("Add", a, gamma))
    K = len(model.classes_)
    if getattr(model, "calibration", None) is not None:
        return _probabilities(graph, model, f, a)
    if K > 2 and len(model.coef_) > K:
        return _pair_memberships(graph, a, K)
    nearest = graph.op("ReduceMin", a, axes=[1], keepdims=1)
    ordinary = graph.op("And", graph.op("Greater", a, 0.0), graph.op("Less", nearest, np.inf))
    return _shares(graph, graph.op("Where", ordinary, graph.op("Div", nearest, a), 1.0))


def _probabilities(graph: Graph, model: Any, f: str, a: str) -> str:
    """`fuzzytwin.core.calibration.Calibration.weighted`, operator by operator."""
    K, n_planes = len(model.classes_), len(model.coef_)
    pairs, planes = pair_planes(n_planes, K)
    first, second = (np.arange(n_planes)[:, None] == planes[:, i] for i in (0, 1))
    power = 1.0 if n_planes == K else 3.0

    def within(value: str, low: float, high: float) -> str:
        return graph.op("Min", graph.op("Max", value, low), high)

    def product(value: str, matrix: Array) -> str:
        return graph.op("MatMul", value, matrix.astype(np.float64))

    numbers = np.finfo(float)
    logs = graph.op("Log", within(a, float(numbers.tiny), float(numbers.max)))
    ratio = product(logs, power * (second.astype(float) - first))
    ratio = within(ratio, -MOST_LOG_RATIO, MOST_LOG_RATIO)
    c = model.calibration_coef_.T
    z = graph.op("Mul", ratio, c[0])
    z = graph.op("Add", z, product(f, first * c[1] + second * c[2]))
    z = graph.op("Add", z, model.calibration_intercept_)
    odds = graph.op("Exp", within(z, -MOST_LOG_ODDS, MOST_LOG_ODDS))
    of_class = [(pairs[:, i : i + 1] == np.arange(K)) for i in (0, 1)]
    against = graph.op("Add", product(graph.op("Div", 1.0, odds), of_class[0]), 1.0)
    against = graph.op("Add", against, product(odds, of_class[1]))
    return _shares(graph, graph.op("Div", 1.0, against))


def _shares(graph: Graph, v: str) -> str:
    """Divide by the sum of each row."""
    return graph.op("Div", v, graph.op("ReduceSum", v, 1, keepdims=1))


def _unweighted(graph: Graph, model: Any, P: str) -> str:
    """`fuzzytwin.core.calibration.Calibration.unweighted`, operator by operator."""
    if not hasattr(model, "class_weight_"):
        return P
    g = model.class_weight_ / model.class_weight_.max()
    share = np.divide(1.0, g, out=np.zeros_like(g), where=g > 0)
    return _shares(graph, graph.op("Mul", P, share))


def _pair_memberships(graph: Graph, a: str, n_classes: int) -> str:
    """`fuzzytwin.core.distances.memberships_of`, operator by operator."""
    classes = plane_classes(n_classes, "ovo")
    rival = np.arange(len(classes)) ^ 1  # the two planes of a pair are neighbours
    ratio = graph.op("Div", a, graph.op("Gather", a, rival, axis=1))
    ratio = graph.op("Where", graph.op("IsNaN", ratio), 1.0, ratio)
    ratio = graph.op("Min", graph.op("Max", ratio, 1e-50), 1e50)
    cube = graph.op("Pow", ratio, 3.0)
    of_class = (classes[:, :1] == np.arange(n_classes)).astype(np.float64)
    against = graph.op("Add", graph.op("MatMul", cube, of_class), 1.0)
    return _shares(graph, graph.op("Div", 1.0, against))


def _pair_votes(graph: Graph, f: str, classes: Array, n_classes: int) -> str:
    """`fuzzytwin.core.classic_planes.pair_votes`, operator by operator."""
    own, rival = ((classes[:, i, None] == np.arange(n_classes)).astype(float) for i in (0, 1))
    won = graph.op("Where", graph.op("Greater", f, 0.0), 1.0, 0.0)
    votes = graph.op("MatMul", won, own)
    lost = graph.op("MatMul", graph.op("Sub", 1.0, won), rival)
    votes = graph.op("Add", votes, lost)
    total = graph.op("MatMul", f, own - rival)
    size = graph.op("Add", graph.op("Abs", total), 1.0)
    third = graph.op("Mul", size, 3.0)
    return graph.op("Add", votes, graph.op("Div", total, third))
