"""Learn from, and label, rows that never meet in memory: files, and batches of any making.

Moments of batches add up, so a file of any size is a matter of reading it. The planes are those
of one `fit` on all rows.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.files import refuse_existing, replacing
from fuzzytwin.chunked.fit import fixed_landmarks, learn, sampled_landmarks
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.estimators.nearest_plane import PlaneClassifier
from fuzzytwin.estimators.streaming import MomentClassifier
from fuzzytwin.fitting import FitSettings
from fuzzytwin.kernels import LandmarkMap, is_count
from fuzzytwin.sources.batches import Batch, Wanted, arrow
from fuzzytwin.sources.checkpoint import Checkpoint, CheckpointError, check_path, describe, identify
from fuzzytwin.sources.passes import Progress, Road, digest_of, located
from fuzzytwin.sources.readers import Source, open_source
from fuzzytwin.validation import check_penalties

Array = NDArray[Any]

__all__ = ["CheckpointError", "fit_source", "predict_source"]


def fit_source(
    model: Any,
    source: Any,
    *,
    target: str | None = None,
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
    membership: str | Sequence[str] | None = None,
    classes: Any = None,
    batch_rows: int = 65_536,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 64,
    progress: bool = False,
) -> Any:
    """Fit a model to rows that are read batch by batch, exactly as `fit` on all of them.

    Parameters
    ----------
    model : FuzzyTwinSVC, LeastSquaresTwinSVC, ProximalSVC or GEPSVC
        The machine; what it learned before is given up. Memberships None, "center" and
        "hyperplane" will do; those that look at neighbours are refused.
    source : path, list of paths, iterable or callable
        - a Parquet (.parquet, .pq), Arrow or Feather (.arrow, .ipc, .feather), CSV (.csv,
          .csv.gz, with a header) or LIBSVM file (.svm, .libsvm, .svmlight, .txt), or a .npy
          file of a structured array;
        - a folder or a glob of such files of one kind, or a list of them;
        - a tuple of .npy files: (X, y), (X, y, weight) or (X, y, weight, degrees);
        - an iterable of batches, or a function that returns one anew each time: Arrow tables
          or record batches, pandas or polars frames, mappings of columns, or tuples of arrays
          as above (X may be sparse).
    target : str, default=None
        Column of the labels; needed where columns have names.
    features : sequence of str, default=None
        Columns to learn from, in this order; None for all others that are numeric (in CSV,
        those whose first 8 MiB are), with a warning that names those that are not.
    sample_weight : str, default=None
        Column of weights.
    membership : str or sequence of str, default=None
        Column of degrees; or K columns of soft labels, in the order of the sorted labels.
    classes : array-like of shape (K,), default=None
        All labels. Any other is then an error, and one without rows keeps its place, as in
        `partial_fit`. None takes the labels as they come.
    batch_rows : int, default=65536
        Most rows to hold at once. Three batches are in memory at a time.
    checkpoint : path, default=None
        File to keep the state of the run in. A run that was killed goes on from there when it
        is started again with the same data and settings; others are refused. The file stays
        when the run is over: the same call then gives the model without reading anything.
    checkpoint_every : int, default=64
        Number of batches between two writings of it.
    progress : bool, default=False
        Report on stderr.

    Returns
    -------
    model
        Fitted, as an ordinary estimator but without ``membership_``. `partial_fit`, `merge` and
        `forget` go on from it, where it has them: not with the memberships "center" and
        "hyperplane", whose degrees rest on all rows.

    Raises
    ------
    ValueError
        For bad data, with the file, the row and the remedy. The model is left as it was.
    CheckpointError
        A ValueError, for a checkpoint that is damaged or of another run.

    Warns
    -----
    UserWarning
        If columns are left out because they are not numeric and `features` does not say so.

    Notes
    -----
    "center" takes three passes over the rows and "hyperplane" two or three (centres or planes;
    the farthest rows; the sums by degrees); with `membership` given or None it is one. LIBSVM
    text takes one pass more, to count the features.

    With a kernel, landmarks that are not given are taken from the first batch, and so is the
    gamma that "scale" stands for; shuffle rows that are sorted. A source that gives its rows once
    needs both given.

    Steps of a `Pipeline` see no batches. Fit them to some rows first, and give a function that
    yields transformed batches: ``lambda: ((scaler.transform(X), y) for X, y in ...)``.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.datasets import make_ndc
    >>> from fuzzytwin.sources import fit_source
    >>> X, y = make_ndc(1000, 4, random_state=0)
    >>> batches = [(X[i::5], y[i::5]) for i in range(5)]
    >>> model = fit_source(FuzzyTwinSVC(membership="center"), batches)
    >>> np.allclose(model.coef_, FuzzyTwinSVC(membership="center").fit(X, y).coef_, rtol=1e-9)
    True
    """
    if isinstance(model, Pipeline):
        raise TypeError(
            "fit_source takes the last step of a Pipeline alone, as the others see no batches; fit "
            "them to some rows first and give a function that yields transformed batches: "
            "fit_source(pipeline[-1], lambda: ((scaler.transform(X), y) for X, y in ...))."
        )
    if not isinstance(model, MomentClassifier):
        raise TypeError(
            f"{type(model).__name__} does not live on moments, so it needs all rows at once; "
            "use FuzzyTwinSVC, LeastSquaresTwinSVC, ProximalSVC or GEPSVC."
        )
    settings = model.fit_settings()
    if isinstance(settings.C, Real):
        check_penalties(settings.C, np.arange(2))
    _check_count("batch_rows", batch_rows)
    _check_count("checkpoint_every", checkpoint_every)
    if membership is not None and not isinstance(model, FuzzyTwinSVC):
        raise ValueError(
            f"membership={membership!r} is for FuzzyTwinSVC; {type(model).__name__} has weights "
            "alone: give sample_weight."
        )
    if classes is not None:
        classes = np.unique(classes)
        if len(classes) < 2:
            raise ValueError(f"classes={classes!r} has one class only; give at least two labels.")
    degrees = membership if isinstance(membership, (str, type(None))) else tuple(membership)
    wanted = Wanted(
        _name("target", target), _name("sample_weight", sample_weight), degrees, _names(features)
    )
    if checkpoint is not None:
        check_path(checkpoint)
        parameters = identify(model.get_params())
    opened = open_source(source, wanted, batch_rows)
    if opened.warning is not None:
        warnings.warn(opened.warning, UserWarning, stacklevel=2)
    given = opened.has_degrees
    if given and not isinstance(model, FuzzyTwinSVC):
        raise ValueError(f"{type(model).__name__} takes no degrees; leave them out of the source.")
    if not opened.repeatable and settings.membership is not None and not given:
        raise ValueError(
            f"membership={model.membership!r} takes several passes over the rows, but this "
            f"{type(source).__name__} gives them once; give a function that returns a new one, or "
            "set membership=None."
        )
    kept = None
    if checkpoint is not None:
        own = {"estimator": type(model).__name__, "columns": repr((opened.names, wanted))}
        own |= {"batch_rows": repr(batch_rows), "classes": describe(classes)}
        own["the data"] = digest_of(opened)
        kept = Checkpoint(checkpoint, own | parameters)
    phi = _landmarks(settings, opened, resumable=kept is not None)
    road = Road(opened, classes, kept, checkpoint_every, progress)
    learned = learn(settings, road.total, given=given, classes=classes, phi=phi, names=opened.names)
    moments = learned.moments if isinstance(model, FuzzyTwinSVC) else learned.moments.own
    return model.fit_moments(moments, learned.classes, landmark_map=phi, feature_names=opened.names)


def predict_source(
    model: Any,
    source: Any,
    out: str | os.PathLike[str],
    *,
    features: Sequence[str] | None = None,
    keep: str | Sequence[str] = (),
    batch_rows: int = 65_536,
    overwrite: bool = False,
    progress: bool = False,
) -> int:
    """Label rows that are read batch by batch, and write labels and memberships to a file.

    The file has the column "label" and, for machines that give memberships and pipelines that end
    in one, one column "membership_<label>" per class, behind the columns to keep; its rows are in
    the order of the source. It appears when it is complete: a run that fails or is killed leaves
    what was there.

    Parameters
    ----------
    model : fitted estimator
        Any machine of this library, or a `Pipeline` or search of scikit-learn around one. One that
        was fitted to a data frame is handed data frames, with text and gaps as they are.
    source : path, list of paths, iterable or callable
        As for `fit_source`; batches may be X alone, labels and weights are not looked at.
    out : path
        A .parquet or .csv file.
    features : sequence of str, default=None
        Columns of X; None for the names that the model was fitted with or, where it knows none,
        for all numeric ones.
    keep : str or sequence of str, default=()
        Columns of the source to copy, such as a key.
    batch_rows : int, default=65536
        Most rows to hold at once.
    overwrite : bool, default=False
        Whether a file that exists may be replaced.
    progress : bool, default=False
        Report on stderr.

    Returns
    -------
    int
        Number of rows written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.datasets import make_ndc
    >>> from fuzzytwin.sources import predict_source
    >>> X, y = make_ndc(100, 4, random_state=0)
    >>> model = FuzzyTwinSVC().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = Path(folder) / "labels.csv"
    ...     rows = predict_source(model, [X[:50], X[50:]], out)
    ...     rows, out.read_text().splitlines()[0]
    (100, '"label","membership_-1","membership_1"')
    """
    check_is_fitted(model)
    _check_count("batch_rows", batch_rows)
    path = os.fspath(out)
    if not path.endswith((".parquet", ".csv")):
        raise ValueError(f"out={path!r} has an unknown ending; write to a .parquet or .csv file.")
    pa = arrow()
    refuse_existing(Path(path), path, overwrite)
    if features is None and hasattr(model, "feature_names_in_"):
        features = list(model.feature_names_in_)
    kept = (keep,) if isinstance(keep, str) else tuple(keep)
    model = getattr(model, "best_estimator_", model)
    frames = hasattr(model, "feature_names_in_") and not isinstance(model, PlaneClassifier)
    wanted = Wanted(features=_names(features), keep=kept, labelled=False, frames=frames)
    opened = open_source(source, wanted, batch_rows, model.n_features_in_)
    if opened.warning is not None:
        warnings.warn(opened.warning, UserWarning, stacklevel=2)
    report = Progress("labelled", opened.rows, progress)
    schema = writer = None
    rows = 0
    if isinstance(model, PlaneClassifier):
        # Columns were chosen by their names; arrays have none.
        model = copy.copy(model)
        vars(model).pop("feature_names_in_", None)
    with replacing(out, overwrite=overwrite) as draft:
        try:
            for batch in opened.batches():
                table = _labelled(model, batch, wanted)
                if writer is None:
                    schema = table.schema
                    writer = _writer(path, str(draft), schema)
                writer.write_table(table.cast(schema))
                rows += len(batch)
                report.step(len(batch))
            if writer is None:
                raise ValueError("the source has no rows; give at least one.")
        except pa.ArrowException as error:
            raise ValueError(f"{path} cannot be written: {error}.") from error
        finally:
            if writer is not None:
                writer.close()
    report.end()
    return rows


def _labelled(model: Any, batch: Batch, wanted: Wanted) -> Any:
    """Kept columns, labels and memberships of a batch."""
    pa = arrow()
    names = wanted.features
    if names is not None and batch.names is not None and batch.names != names:
        raise ValueError(
            f"{batch.place.source} has the columns {', '.join(batch.names)}; the model wants "
            f"{', '.join(names)}, in this order."
        )
    X = _as_frame(batch.X, names) if wanted.frames else batch.X
    try:
        if hasattr(_last_step(model), "predict_membership"):
            # In a pipeline it has the name that scikit-learn knows.
            own = isinstance(model, PlaneClassifier)
            u = model.predict_membership(X) if own else model.predict_proba(X)
            labels = model.classes_[u.argmax(axis=1)]
        else:
            u = np.empty((len(batch), 0))
            labels = model.predict(X)
    except ValueError as error:
        raise ValueError(located(batch, error)) from error
    columns: dict[str, Any] = {}
    if batch.kept is not None:
        columns |= {name: batch.kept.column(name) for name in batch.kept.schema.names}
    written = {"label": pa.array(labels.tolist() if labels.dtype.kind == "O" else labels)}
    for k in range(u.shape[1]):
        written[f"membership_{model.classes_[k]}"] = pa.array(np.ascontiguousarray(u[:, k]))
    for name in columns:
        if name in written:
            raise ValueError(f"keep holds {name!r}, the name of a column to write; rename it.")
    return pa.table(columns | written)


def _last_step(model: Any) -> Any:
    """What gives the labels in a pipeline, or in a search."""
    while isinstance(model, Pipeline) or hasattr(model, "best_estimator_"):
        model = model[-1] if isinstance(model, Pipeline) else model.best_estimator_
    return model


def _as_frame(X: Any, names: tuple[str, ...] | None) -> Any:
    """Rows with the names that the model knows its columns by; sparse rows have none."""
    if not isinstance(X, np.ndarray) or names is None or X.shape[1] != len(names):
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=list(names))


def _writer(path: str, draft: str, schema: Any) -> Any:
    if path.endswith(".csv"):
        from pyarrow import csv

        return csv.CSVWriter(draft, schema)
    import pyarrow.parquet as pq

    return pq.ParquetWriter(draft, schema)


def _landmarks(settings: FitSettings, opened: Source, *, resumable: bool) -> LandmarkMap | None:
    """Compute the map of given landmarks, or take landmarks and gamma from the first batch."""
    sampled = is_count(settings.n_landmarks)
    if not settings.curved:
        return None
    if not opened.repeatable or not (sampled or settings.gamma == "scale"):
        return fixed_landmarks(settings)
    if resumable and sampled and not isinstance(settings.random_state, Integral):
        raise ValueError(
            f"random_state={settings.random_state!r} would take other landmarks when the run goes "
            "on from its checkpoint; give a whole number."
        )
    for batch in opened.batches():
        if len(batch):
            try:
                return sampled_landmarks(settings, batch.X, batch.y, batch.weight)
            except ValueError as error:
                raise ValueError(located(batch, error)) from error
    raise ValueError("the source is empty: it has no rows; give some of two classes.")


def _name(parameter: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{parameter}={value!r} is not allowed; give the name of a column.")
    return value


def _names(values: Any) -> tuple[str, ...] | None:
    if values is None:
        return None
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"features={values!r} is not allowed; give a list of names of columns.")
    if not len(values) or len(set(values)) < len(values):
        raise ValueError(f"features={values!r} is not allowed; give each column once.")
    return tuple(values)


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}={value!r} is not allowed; give a whole number of at least 1.")
