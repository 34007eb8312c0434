"""`FuzzyTwinSVC` on Dask arrays and DataFrames: one task per chunk, and a tree of sums."""

from __future__ import annotations

from functools import partial
from typing import Any, Self
from uuid import uuid4

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.extras import missing
from fuzzytwin._utils.threads import single_threaded_blas
from fuzzytwin._utils.types import Array
from fuzzytwin.chunked.fit import fixed_landmarks, learn
from fuzzytwin.chunked.parts import add
from fuzzytwin.estimators import fuzzy_twin as _classifier
from fuzzytwin.estimators.streaming import streaming

try:
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd
    from dask.base import optimize
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph
    from dask.task_spec import DataNode, Task, TaskRef
except ImportError as error:  # pragma: no cover
    raise missing("fuzzytwin.dask", "Dask", "dask", error) from error


__all__ = ["FuzzyTwinSVC"]

# So many sums are added at a time; a tree of them needs little memory anywhere.
BRANCHES = 16


class FuzzyTwinSVC(_classifier.FuzzyTwinSVC):
    """`fuzzytwin.FuzzyTwinSVC` for Dask collections, with the same parameters and planes.

    Each chunk of rows becomes moments where it lies; only these travel. The fit runs on the
    current `dask.distributed.Client`, or on Dask's threads where there is none. Rows are read
    once, with the memberships "center" and "hyperplane" three times: `persist` them if they
    are costly to make and fit in the memory of the workers. Memberships that look at
    neighbours are refused.

    Other inputs are treated as by `fuzzytwin.FuzzyTwinSVC`.

    Parameters
    ----------
    planes, C, alpha, membership, membership_scope, rule, tau, margin_width, formulation, \
class_weight, n_jobs, kernel, gamma, degree, coef0, n_landmarks, random_state
        As for `fuzzytwin.FuzzyTwinSVC`. A kernel other than the linear one needs the landmarks
        themselves as `n_landmarks` and a `gamma` other than "scale".

    Attributes
    ----------
    classes_, coef_, intercept_, moments_, ...
        As for `fuzzytwin.FuzzyTwinSVC`, all of them ordinary arrays; only ``membership_`` is
        missing.

    Examples
    --------
    >>> import dask.array as da
    >>> from fuzzytwin.dask import FuzzyTwinSVC
    >>> from fuzzytwin.datasets import make_ndc
    >>> X, y = make_ndc(1000, 4, random_state=0)
    >>> X, y = da.from_array(X, chunks=(300, 4)), da.from_array(y, chunks=300)
    >>> model = FuzzyTwinSVC(membership="center").fit(X, y)
    >>> model.predict(X)
    dask.array<..., shape=(1000,), dtype=int64, chunksize=(300,), chunktype=numpy.ndarray>
    >>> model.score(X, y) == model.to_sklearn().score(X.compute(), y.compute())
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None) -> Self:
        """Learn the planes.

        Parameters
        ----------
        X : Dask array of shape (n, d) or Dask DataFrame
            Rows, in chunks of any sizes, known or not.
        y : Dask array or Series, or str
            Labels; for a DataFrame X also the name of a column of it. Columns named here or
            below are not features.
        sample_weight : Dask array or Series, or str, default=None
            Importance of each sample.
        membership : Dask array, Series or DataFrame, str or list of str, default=None
            Degrees, or a table of soft labels.

        Returns
        -------
        self
        """
        if not _is_dask(X):
            return super().fit(X, y, sample_weight, membership)
        settings = self.fit_settings()  # before any work
        phi = fixed_landmarks(settings)
        chunks = _Chunks(X, y, sample_weight, membership)
        names = chunks.feature_names
        learned = learn(settings, chunks.total, given=membership is not None, phi=phi, names=names)
        return self.fit_moments(
            learned.moments, learned.classes, landmark_map=phi, feature_names=names
        )

    @streaming
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        membership: Any = None,
    ) -> Self:
        """Add rows. Exact: the planes are those of one `fit` on all rows so far.

        Parameters
        ----------
        X, y, sample_weight, membership
            As for `fit`; labels may be missing.
        classes : array-like of shape (K,), default=None
            All labels; needed in the first call only.

        Returns
        -------
        self
        """
        if not _is_dask(X):
            return super().partial_fit(X, y, classes, sample_weight, membership)
        settings = self.fit_settings()
        classes = self._known_classes(classes)
        phi = self._same_landmarks(settings) or fixed_landmarks(settings)
        chunks = _Chunks(X, y, sample_weight, membership)
        names, before = chunks.feature_names, getattr(self, "moments_", None)
        if before is not None:
            known = getattr(self, "feature_names_in_", None)
            if (None if known is None else list(known)) != names:
                raise ValueError(
                    f"X has the columns {names}, but the model was fitted on {known}; give the "
                    "same columns in the same order."
                )
        learned = learn(
            settings, chunks.total, given=membership is not None, classes=classes, phi=phi,
            names=names,
        )  # fmt: skip
        if before is not None and learned.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {learned.n_features} columns, but the model was fitted on "
                f"{self.n_features_in_}; give the same columns."
            )
        moments = learned.moments if before is None else before + learned.moments
        return self.fit_moments(moments, classes, landmark_map=phi, feature_names=names)

    def predict(self, X: Any) -> Any:
        """Labels, lazily: a Dask array, or a Dask Series for a DataFrame."""
        return self._lazily("predict", X)

    def decision_function(self, X: Any) -> Any:
        """Scores, lazily; for two classes one column, positive for ``classes_[1]``."""
        return self._lazily("decision_function", X)

    def predict_membership(self, X: Any) -> Any:
        """Degrees, lazily: a Dask array (n, K), or a DataFrame with a column per class."""
        return self._lazily("predict_membership", X)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities (memberships where ``calibration=None``), as `predict_membership`."""
        return self._lazily("predict_proba", X)

    def fuzzy_distance(self, X: Any) -> tuple[Any, Any]:
        """Distances and their widths, lazily, each as `predict_membership`."""
        if not _is_dask(X):
            return super().fuzzy_distance(X)
        return self._lazily("_delta", X), self._lazily("_gamma", X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean accuracy, computed at once.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`; of a DataFrame the columns that the model was fitted with are taken.

        Returns
        -------
        float
        """
        if not _is_dask(X):
            return float(super().score(X, y, sample_weight))
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        chunks = _Chunks(X, y, sample_weight, None, names)
        hits, weight = chunks.total(_hits, self.to_sklearn())
        return float(hits / weight)

    def to_sklearn(self) -> _classifier.FuzzyTwinSVC:
        """Return the same fitted model as an ordinary `fuzzytwin.FuzzyTwinSVC`.

        Returns
        -------
        fuzzytwin.FuzzyTwinSVC
            With its moments: `partial_fit` and `merge` go on from here.
        """
        plain = _classifier.FuzzyTwinSVC(**self.get_params(deep=False))
        plain.__dict__.update({k: v for k, v in vars(self).items() if k.endswith("_")})
        return plain

    def _lazily(self, method: str, X: Any) -> Any:
        if not _is_dask(X):
            return getattr(super(), method)(X)
        check_is_fitted(self)
        model = self.to_sklearn()
        # Sums of training rows need not travel to label new ones.
        model.__dict__.pop("moments_", None)
        # An empty batch gives the type of the output.
        empty = _outcome(np.empty((0, model.n_features_in_)), model, method)
        if isinstance(X, da.Array):
            X = _whole_rows(X)
            shape = {} if empty.ndim == 2 else {"drop_axis": 1}
            chunks = (X.chunks[0], *((size,) for size in empty.shape[1:]))
            return X.map_blocks(
                _outcome, model=model, method=method, dtype=empty.dtype, meta=empty,
                chunks=chunks, **shape,
            )  # fmt: skip
        names = getattr(model, "feature_names_in_", None)
        if names is not None:
            X = X[_columns_of(X, "X", list(names))]
        meta = _as_frame(empty, None, model, method)
        return X.map_partitions(_frame_outcome, model=model, method=method, meta=meta)


class _Chunks:
    """Rows, labels, weights and degrees, cut alike into chunks."""

    def __init__(
        self, X: Any, y: Any, sample_weight: Any, membership: Any, features: Any = None
    ) -> None:
        given = {"y": y, "sample_weight": sample_weight, "membership": membership}
        self.columns: dict[str, Any] = {}
        self.feature_names: list[str] | None = None
        if isinstance(X, da.Array):
            X = _whole_rows(X)
        else:
            self.columns = {
                name: _columns_of(X, name, value) for name, value in given.items() if _named(value)
            }
            used = {c for v in self.columns.values() for c in (v if isinstance(v, list) else [v])}
            self.features = [name for name in X.columns if name not in used]
            if features is not None:
                self.features = _columns_of(X, "X", list(features))
                X = X[[*self.features, *sorted(used - set(self.features))]]
            if all(isinstance(name, str) for name in self.features):
                self.feature_names = self.features
        aligned = [
            None if value is None or name in self.columns else _cut_alike(X, name, value)
            for name, value in given.items()
        ]
        x, *rest = _delayed_chunks([X, *aligned])
        self.chunks = list(
            zip(x, *([None] * len(x) if part is None else part for part in rest), strict=True)
        )

    def total(self, function: Any, *shared: Any) -> Any:
        """Sum of ``function(*shared, X, y, s, mu)`` over the chunks, by a tree."""
        if not self.chunks:
            return None
        # The graph is written down as such: `delayed` would take a millisecond for each chunk.
        name = f"{function.__name__}-{uuid4().hex}"
        # One key each, so that they travel once to each worker and not with every task.
        common = [TaskRef((name, "shared", i)) for i in range(len(shared))]
        tasks: list[Any] = [
            DataNode(at.key, value) for at, value in zip(common, shared, strict=True)
        ]
        run = partial(_on_chunk, function, self.columns, getattr(self, "features", None))
        keys: list[Any] = [(name, 0, i) for i in range(len(self.chunks))]
        for key, chunk in zip(keys, self.chunks, strict=True):
            parts = (None if part is None else TaskRef(part.key) for part in chunk)
            tasks.append(Task(key, run, *parts, *common))
        level = 0
        while len(keys) > 1:
            level += 1
            groups = [keys[start : start + BRANCHES] for start in range(0, len(keys), BRANCHES)]
            keys = [(name, level, i) for i in range(len(groups))]
            for key, group in zip(keys, groups, strict=True):
                tasks.append(Task(key, _add, *map(TaskRef, group)))
        inputs = [part for chunk in self.chunks for part in chunk if part is not None]
        graph = HighLevelGraph.from_collections(
            name, {task.key: task for task in tasks}, dependencies=inputs
        )
        return Delayed(keys[0], graph, layer=name).compute()


def _on_chunk(
    function: Any, columns: Any, features: Any, x: Any, y: Any, s: Any, mu: Any, *shared: Any
) -> Any:
    """Apply a function to one chunk of rows, labels, weights and degrees."""
    given = [y, s, mu]
    for place, name in enumerate(("y", "sample_weight", "membership")):
        if name in columns:
            # Columns that were listed by name are in the order of the classes.
            given[place] = x[columns[name]].to_numpy()
    rows = x if features is None else x[features]
    with single_threaded_blas():  # Dask has threads of its own
        return function(*shared, rows, *given)


def _add(*parts: Any) -> Any:
    return add(list(parts))


def _hits(model: Any, X: Any, y: Any, s: Any, mu: Any) -> Any:
    """Weight of the rows that are labelled well, and of all."""
    n = X.shape[0]
    if not n:
        return None
    weight = np.ones(n) if s is None else np.asarray(s, dtype=float)
    right = model.predict(X) == np.asarray(y)
    return np.array([weight[right].sum(), weight.sum()])


def _outcome(X: Any, model: Any, method: str) -> Array:
    """Rows of one chunk through one method; a chunk may be empty."""
    n, K = X.shape[0], len(model.classes_)
    if n == 0:
        if method == "predict":
            return model.classes_[:0]
        flat = method == "decision_function" and K == 2
        width = len(model.coef_) if method in ("_delta", "_gamma") else K
        return np.empty((0,) if flat else (0, width))
    if method in ("_delta", "_gamma"):
        return model.fuzzy_distance(X)[method == "_gamma"]
    return getattr(model, method)(X)


def _frame_outcome(X: Any, model: Any, method: str) -> Any:
    return _as_frame(_outcome(X, model, method), X.index, model, method)


def _as_frame(values: Array, index: Any, model: Any, method: str) -> Any:
    if values.ndim == 2:
        names = list(model.classes_)
        if values.shape[1] != len(names):  # distances to the planes of pairs
            pairs = model.plane_classes_.tolist()
            names = [f"{names[own]} against {names[rival]}" for own, rival in pairs]
        return pd.DataFrame(values, index=index, columns=names)
    return pd.Series(values, index=index, name="prediction" if method == "predict" else "score")


def _is_dask(X: Any) -> bool:
    return isinstance(X, (da.Array, dd.DataFrame))


def _named(value: Any) -> bool:
    """Return whether the name of a column, or a list of names, was given."""
    return isinstance(value, str) or (
        isinstance(value, list) and bool(value) and all(isinstance(name, str) for name in value)
    )


def _columns_of(X: Any, parameter: str, names: Any) -> Any:
    """Names of columns, all of which X has."""
    for name in names if isinstance(names, list) else [names]:
        if name not in X.columns:
            raise ValueError(
                f"{parameter}: X has no column {name!r}; it has {', '.join(map(str, X.columns))}."
            )
    return names


def _whole_rows(X: Any) -> Any:
    """Return an array of two dimensions with chunks of whole rows."""
    if X.ndim != 2:
        raise ValueError(
            f"X has {X.ndim} dimensions; give rows and columns (X.reshape(-1, 1) for one column)."
        )
    return X.rechunk({1: -1}) if X.numblocks[1] > 1 else X


def _cut_alike(X: Any, name: str, value: Any) -> Any:
    """Return a collection of one row for each row of X, in the same chunks."""
    if isinstance(X, dd.DataFrame) and isinstance(value, da.Array):
        value = _whole_rows(value) if value.ndim == 2 else value
        return _same_number(X.npartitions, name, value, value.numblocks[0])
    if isinstance(X, dd.DataFrame):
        if not isinstance(value, (dd.DataFrame, dd.Series)):
            raise TypeError(
                f"{name} is of type {type(value).__name__}; with a Dask DataFrame give a Dask "
                "Series, or the name of a column of X."
            )
        known = X.known_divisions and value.known_divisions
        if known and X.divisions != value.divisions:
            raise ValueError(
                f"{name} is divided otherwise than X; use {name}.repartition(divisions=X.divisions)"
                f" or put it into X and give the name of the column."
            )
        return _same_number(X.npartitions, name, value, value.npartitions)
    if isinstance(value, (dd.DataFrame, dd.Series)):
        return _same_number(X.numblocks[0], name, value, value.npartitions)
    if not isinstance(value, da.Array):
        value = np.asarray(value)
        if value.ndim == 0:
            raise ValueError(f"{name}={value.item()!r} is one value; give one per row of X.")
        if np.isnan(X.shape[0]):
            raise ValueError(
                f"{name} is held in memory, but the sizes of X's chunks are not known; call "
                "X.compute_chunk_sizes() first, or give a Dask array."
            )
        _same_length(X.shape[0], name, len(value))
        return da.from_array(value, chunks=(X.chunks[0], *((k,) for k in value.shape[1:])))
    value = _whole_rows(value) if value.ndim == 2 else value
    if np.isnan(X.shape[0]) or np.isnan(value.shape[0]):
        return _same_number(X.numblocks[0], name, value, value.numblocks[0])
    _same_length(X.shape[0], name, value.shape[0])
    return value.rechunk({0: X.chunks[0]})


def _same_number(wanted: int, name: str, value: Any, number: int) -> Any:
    if number != wanted:
        raise ValueError(
            f"{name} has {number} chunks and X has {wanted}; cut both alike (rechunk or "
            "repartition)."
        )
    return value


def _same_length(wanted: int, name: str, length: int) -> None:
    if length != wanted:
        raise ValueError(f"{name} has {length} rows and X has {wanted}; give one per row of X.")


def _delayed_chunks(collections: list[Any]) -> list[Any]:
    """Return the chunks of each collection; None stays None."""
    arrays = [part for part in collections if isinstance(part, da.Array)]
    # Arrays together, so that what they share is made once.
    optimized = iter(optimize(*arrays))
    return [
        list(np.ravel(next(optimized).to_delayed(optimize_graph=False)))
        if isinstance(part, da.Array)
        else None
        if part is None
        else part.to_delayed()
        for part in collections
    ]
