"""Convert models to ONNX graphs of plain operators, in double precision.

skl2onnx converts the pipeline. Its converters for imputing and encoding work in single precision,
which could move rows across a decision boundary. This module replaces them by its own.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.types import Array
from fuzzytwin._utils.version import __version__
from fuzzytwin.classics._base import SeparatingPlanes
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.committee._members import SMOOTHING, Features
from fuzzytwin.committee._preprocessing import as_pipeline
from fuzzytwin.committee._trees import TreeEnsemble
from fuzzytwin.core.blocks import column_means
from fuzzytwin.core.distances import LAST_OF_EQUAL, plane_norms
from fuzzytwin.kernels._landmark_map import PROPERTIES, column_factors
from fuzzytwin.memberships._weighted import MembershipWeighted
from fuzzytwin.store._archive import first_line, public_classes
from fuzzytwin.store._onnx_steps import (
    STEPS,
    UnsupportedError,
    Value,
    converter,
    import_onnx,
    inputs_of,
    parse_table,
    plain,
    set_shape,
)
from fuzzytwin.tables._preprocessor import TablePreprocessor
from fuzzytwin.twin._calibration import MAX_LOG_ODDS, MAX_LOG_RATIO, pair_planes
from fuzzytwin.twin._prediction import NearestPlane
from fuzzytwin.twin._search import FuzzyTwinSVCCV

# Estimators that have planes.
ESTIMATORS = tuple(
    kind
    for kind in public_classes()
    if issubclass(kind, (NearestPlane, SeparatingPlanes, FuzzyTwinSVCCV, FuzzyTwinCommittee))
)
OPSETS = {"": 20, "ai.onnx.ml": 3}


def to_onnx(model: Any) -> Any:
    """Convert a fitted model or pipeline to an ONNX graph with the same predictions.

    The graph computes in double precision, so labels and memberships equal those of Python up to
    rounding.

    Inputs: a numeric table is one tensor ``X``. If columns contain text, or if a
    `TablePreprocessor` or `ColumnTransformer` selects them by name, each column is an input of
    shape (n, 1), and the empty string is a missing value. Inputs are named like their columns, with
    ``_`` for characters that ONNX does not allow. The metadata has the original names as "columns".
    With a `TablePreprocessor`, numeric columns must be numbers: cells such as ``<0.5`` or ``12 %``
    have to be parsed before. In text columns, surrounding spaces are ignored, and markers such as
    ``NA`` are missing values.

    Outputs: ``label`` and ``memberships`` (``probabilities`` for `FuzzyTwinCommittee` and for
    calibrated models, ``scores`` for `ProximalSVC` and `LeastSquaresSVC`).

    Parameters
    ----------
    model : fitted estimator
        An estimator of this library, or a scikit-learn pipeline that ends in one, with steps that
        skl2onnx supports. For a `MembershipWeighted`, its classifier is converted, which must be
        an estimator of this library.

    Returns
    -------
    onnx.ModelProto
        ``SerializeToString()`` returns the content of an ``.onnx`` file. Its metadata has the
        labels in the order of the memberships, as "classes".

    Notes
    -----
    A graph cannot raise errors: it encodes an unknown category as zeros.

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
    skl2onnx = import_onnx("skl2onnx")
    check_is_fitted(model)
    model, estimator = _converted(model)
    inputs = inputs_of(model)
    steps = STEPS | dict.fromkeys(ESTIMATORS, _label)
    shapes: dict[type, Any] = dict.fromkeys(STEPS, set_shape)
    shapes |= dict.fromkeys(ESTIMATORS, lambda operator: None)  # `_parse` declares them
    parsers = {TablePreprocessor: parse_table} | dict.fromkeys(ESTIMATORS, _parse)
    try:
        with warnings.catch_warnings():
            # skl2onnx uses deprecated names of numpy and onnx.
            warnings.simplefilter("ignore")
            graph = skl2onnx.convert_sklearn(
                model,
                type(estimator).__name__,
                inputs,
                target_opset=OPSETS,
                custom_conversion_functions={kind: converter(steps[kind]) for kind in steps},
                custom_shape_calculators=shapes,
                custom_parsers=parsers,
            )
        import_onnx("onnx.checker").check_model(graph, full_check=True)
    except UnsupportedError:
        raise
    except Exception as error:
        raise ValueError(
            "the model cannot be converted to ONNX; use steps that skl2onnx supports in double "
            "precision (not KBinsDiscretizer or PolynomialFeatures beside other steps in a "
            f"ColumnTransformer). skl2onnx reports: {first_line(error)}"
        ) from error
    metadata = {
        "fuzzytwin": __version__,
        "classes": json.dumps(estimator.classes_.tolist()),
        "columns": json.dumps([name for name, _ in inputs]),
    }
    for key, value in metadata.items():
        graph.metadata_props.add(key=key, value=value)
    graph.producer_name = "fuzzytwin"
    graph.producer_version = __version__
    return graph


def _converted(model: Any) -> tuple[Any, Any]:
    """Return the model to convert, and the estimator at its end.

    A `MembershipWeighted` is replaced by its fitted classifier, because degrees are used in
    training only.
    """
    model = as_pipeline(model)
    steps = list(model.steps) if isinstance(model, Pipeline) else [("model", model)]
    name, last = steps[-1]
    if isinstance(last, MembershipWeighted):
        last = last.estimator_
        if not isinstance(last, ESTIMATORS):
            raise UnsupportedError(
                f"MembershipWeighted contains a {type(last).__name__}, which is not an estimator "
                "of fuzzytwin; convert its estimator_ with skl2onnx.to_onnx, because degrees are "
                "used in training only."
            )
    if not isinstance(last, ESTIMATORS):
        raise UnsupportedError(
            f"{type(last).__name__} is not an estimator of fuzzytwin; pass one, or a pipeline that "
            "ends in one."
        )
    estimator: Any = getattr(last, "best_estimator_", last)
    labels = estimator.classes_
    too_large = labels.dtype.kind == "u" and labels[-1] > np.iinfo(np.int64).max
    if too_large or labels.dtype.kind in "mM":
        raise UnsupportedError(
            f"the label {labels[-1]} of type {labels.dtype} has no type in ONNX; fit the model to "
            "labels as text, such as y.astype(str)."
        )
    phi = getattr(estimator, "landmark_map_", None)
    if phi is not None and callable(phi.kernel):
        raise UnsupportedError(f"{phi.kernel!r} cannot be converted to ONNX; use a named kernel.")
    steps[-1] = name, last
    return last if len(steps) == 1 else Pipeline(steps), estimator


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the outputs of an estimator."""
    types = import_onnx("skl2onnx.common.data_types")
    operator = scope.declare_local_operator("Fuzzytwin", model)
    operator.inputs = inputs
    second = "memberships"
    width = len(model.classes_)
    if isinstance(model, SeparatingPlanes):
        second = "scores"
        width = 1 if width == 2 else width
    elif hasattr(model, "predict_proba"):
        second = "probabilities"
    kinds = {"b": types.BooleanTensorType, "f": types.DoubleTensorType}
    kinds.update(dict.fromkeys("iu", types.Int64TensorType))
    kind = kinds.get(model.classes_.dtype.kind, types.StringTensorType)
    values = types.DoubleTensorType([None, width])
    for name, declared in (("label", kind([None])), (second, values)):
        operator.outputs.append(scope.declare_local_variable(name, declared))
    return operator.outputs


def _label(model: Any, X: Value) -> tuple[Value, Value]:
    """Compute labels, and memberships, probabilities or scores."""
    op = X.graph.op
    X = X.double()
    model = getattr(model, "best_estimator_", model)
    if isinstance(model, FuzzyTwinCommittee):
        scores = _committee_scores(model, X)
        values = op("Softmax", scores, axis=1)
        scores = scores + np.log(model.class_weight_)
    else:
        phi = getattr(model, "landmark_map_", None)
        Z = X if phi is None else _kernel_values(phi, X) @ phi.root
        f = Z @ model.coef_.T + model.intercept_
        separating = isinstance(model, SeparatingPlanes)
        scores = _votes(model, f) if separating else _memberships(model, X, f)
        values = _unweighted(model, scores)
        if separating and len(model.classes_) == 2:
            scores = op("Concat", -1.0 * scores, scores, axis=1)
    code = op("ArgMax", scores, axis=1, keepdims=0, select_last_index=LAST_OF_EQUAL)
    return op("Gather", plain(model.classes_), code, axis=0), values


def _committee_scores(model: Any, X: Value) -> Value:
    """Compute the scores of a committee from the weighted values of its members."""
    Z = (_within(X, *model.limits_) - model.mean_) / model.scale_
    values = Z @ np.zeros((len(model.mean_), len(model.classes_)))
    for member in model.members_:
        if member.weight == 0:
            continue
        if member.trees is not None:
            P = _tree_probabilities(member.trees, X)
            F = np.log((P + SMOOTHING) / (1 + len(model.classes_) * SMOOTHING))
        else:
            phi = Features(member, model.landmarks_, 0).map
            features = Z if member.kernel == "linear" else _kernel_values(phi, Z)
            F = features @ member.coef + member.intercept
        values = values + F * member.weight
    scores = values @ model.stack_coef_ + model.stack_intercept_
    if not hasattr(model, "noise_inverse_"):
        return scores
    P = X.graph.op("Softmax", scores, axis=1)
    true = np.maximum(P @ model.noise_inverse_, 0.0)
    mixed = true * (model.noise_weight_ / true.sum()) + (1 - model.noise_weight_) * P
    return np.log(np.maximum(mixed, np.finfo(float).tiny))


def _tree_probabilities(trees: TreeEnsemble, X: Value) -> Value:
    """Convert `TreeEnsemble.predict_proba`, operator by operator."""
    op = X.graph.op
    n_rounds, n_trees = trees.roots.shape
    zeros = op("Cast", X.columns([0]) > np.inf, to=X.graph.types.INT64)
    node = zeros + trees.roots.reshape(1, -1)
    for _ in range(trees.depth):
        values = op("GatherElements", X, op("Gather", trees.feature, node), axis=1)
        is_right = values > op("Gather", trees.threshold, node)
        left, right = (op("Gather", trees.children[:, i], node) for i in (0, 1))
        node = op("Where", is_right, right, left)
    rounds = np.tile(np.eye(n_trees), (n_rounds, 1))
    sums = [op("Gather", value, node) @ rounds for value in trees.value.T]
    if trees.kind == "forest":
        return op("Concat", *sums, axis=1)
    scores = sums[0] + trees.baseline
    if n_trees == 1:
        scores = op("Concat", scores * 0.0, scores, axis=1)
    return op("Softmax", scores, axis=1)


def _kernel_values(phi: Any, X: Value) -> Any:
    """Convert `fuzzytwin.kernels.LandmarkMap.kernel_values`, operator by operator."""
    L = phi.landmarks.toarray() if hasattr(phi.landmarks, "toarray") else phi.landmarks
    L = np.asarray(L, dtype=np.float64)
    gamma = phi.gamma
    if np.ndim(gamma):  # one for each column: scale the columns instead
        factor = column_factors(phi.kernel, gamma)
        X = X * factor
        L = L * factor
        gamma = 1.0
    gamma = float(gamma)
    kind = PROPERTIES[phi.kernel]
    if kind.function is not None:
        return kind.function(-gamma * DISTANCES[kind.distance](X, L))
    if phi.kernel == "cosine":
        norm = np.sqrt((X * X).sum())
        norm = X.graph.op("Where", norm == 0.0, 1.0, norm)
        landmark_norm = np.linalg.norm(L, axis=1, keepdims=True)
        return X / norm @ (L / np.where(landmark_norm > 0, landmark_norm, 1.0)).T
    if phi.kernel == "linear":
        return X @ L.T
    # gamma multiplies the landmarks: onnxruntime would fuse it with the product, in float32.
    K = X @ (gamma * L.T) + float(phi.coef0)
    if phi.kernel == "sigmoid":
        return np.tanh(K)
    if phi.kernel == "poly":
        return K ** float(phi.degree)
    raise UnsupportedError(
        f"kernel={phi.kernel!r} cannot be converted to ONNX; use another kernel."
    )


def _squared(X: Value, L: Array) -> Any:
    # Rows are centered at the mean of the landmarks, as digits would cancel far from zero.
    center = column_means(L)
    X = X - center
    L = L - center
    return np.maximum(X @ (-2.0 * L.T) + (L * L).sum(axis=1) + (X * X).sum(), 0.0)


DISTANCES: dict[str, Any] = {  # as in `fuzzytwin.kernels`
    "squared": _squared,
    # All differences at once would need rows x landmarks x columns.
    "manhattan": lambda X, L: X.graph.over_rows(X, lambda x: abs(x - L).sum(keepdims=0), len(L)),
}


def _votes(model: Any, f: Any) -> Any:
    """Convert `fuzzytwin.classics._base.pair_votes`, if there are more than two classes."""
    K = len(model.classes_)
    if K == 2:
        return f
    own, rival = (_one_hot(model.plane_classes_[:, i], K) for i in (0, 1))
    won = f.graph.op("Where", f > 0.0, 1.0, 0.0)
    total = f @ (own - rival)
    return won @ own + (1.0 - won) @ rival + total / (3.0 * (abs(total) + 1.0))


def _memberships(model: Any, X: Value, f: Any) -> Any:
    """Compute memberships or weighted probabilities as `fuzzytwin.core` does."""
    K, n_planes = len(model.classes_), len(model.coef_)
    norms = plane_norms(model.coef_) if model.rule == "distance" else np.ones(n_planes)
    norms = norms if norms.any() else np.ones(n_planes)

    def over_norm(value: Any) -> Any:
        far = abs(value) / norms
        return far if norms.all() else X.graph.op("Where", np.isnan(far), 0.0, far)

    a = over_norm(f)
    if hasattr(model, "width_coef_"):
        gamma = over_norm(abs(X) @ model.width_coef_.T + model.width_intercept_)
        a = X.graph.op("Where", a < gamma, a, a + gamma)
    pairs, planes = pair_planes(K)
    first, second = (_one_hot(planes[:, i], n_planes).T for i in (0, 1))
    if hasattr(model, "predict_proba"):  # `Calibration.weighted`
        limits = np.finfo(float)
        power = 1.0 if K == 2 else 3.0
        logs = np.log(_within(a, float(limits.tiny), float(limits.max)))
        ratio = _within(logs @ (power * (second - first)), -MAX_LOG_RATIO, MAX_LOG_RATIO)
        c = model.calibration_coef_.T
        z = ratio * c[0] + f @ (first * c[1] + second * c[2]) + model.calibration_intercept_
        return _coupled(np.exp(_within(-1.0 * z, -MAX_LOG_ODDS, MAX_LOG_ODDS)), pairs, K)
    if K > 2:
        ratio = a.columns(planes[:, 0]) / a.columns(planes[:, 1])
        ratio = X.graph.op("Where", np.isnan(ratio), 1.0, ratio)
        return _coupled(_within(ratio, 1e-50, 1e50) ** 3.0, pairs, K)
    nearest = X.graph.op("ReduceMin", a, 1, keepdims=1)
    ordinary = np.logical_and(a > 0.0, nearest < np.inf)
    return _shares(X.graph.op("Where", ordinary, nearest / a, 1.0))


def _coupled(odds: Any, pairs: Array, K: int) -> Any:
    """Convert `fuzzytwin.core.distances.couple_pairwise`, operator by operator."""
    first, second = (_one_hot(pairs[:, i], K) for i in (0, 1))
    return _shares(1.0 / (odds @ first + (1.0 / odds) @ second + 1.0))


def _unweighted(model: Any, P: Any) -> Any:
    """Convert `fuzzytwin.twin._calibration.Calibration.unweighted`, operator by operator."""
    if not hasattr(model, "class_weight_"):
        return P
    g = model.class_weight_ / model.class_weight_.max()
    return _shares(P * np.divide(1.0, g, out=np.zeros_like(g), where=g > 0))


def _one_hot(codes: Array, n: int) -> Array:
    """Encode codes as rows of zeros and a one."""
    return (codes[:, None] == np.arange(n)).astype(float)


def _within(value: Any, low: Any, high: Any) -> Any:
    return np.minimum(np.maximum(value, low), high)


def _shares(v: Any) -> Any:
    """Divide by the sum of each row."""
    return v / v.sum()
