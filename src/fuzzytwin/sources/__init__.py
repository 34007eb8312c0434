"""Learn from, and label, rows that do not fit in memory: files and any batches.

Moments of batches add up, so a file of any size is a matter of reading it. The planes are those
of one `fit` on all rows.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from fuzzytwin._utils.threads import working
from fuzzytwin.chunked.fit import fixed_landmarks, learn, sampled_landmarks
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.estimators.streaming import MomentClassifier
from fuzzytwin.kernels import LandmarkMap, is_count
from fuzzytwin.settings import FitSettings, check_penalties, count_threads
from fuzzytwin.sources.batches import Wanted
from fuzzytwin.sources.checkpoint import Checkpoint, CheckpointError, check_path, describe, identify
from fuzzytwin.sources.passes import Passes, digest_of, located
from fuzzytwin.sources.predicting import check_count, check_name, check_names, predict_source
from fuzzytwin.sources.readers import Source, open_source

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
    model : FuzzyTwinSVC, LeastSquaresTwinSVC, LeastSquaresSVC, ProximalSVC or GEPSVC
        The estimator; its earlier fit is discarded. Memberships None, "center" and
        "hyperplane" are allowed; those that look at neighbours are refused.
    source : path, list of paths, iterable or callable
        - a Parquet (.parquet, .pq), Arrow or Feather (.arrow, .ipc, .feather), CSV or TSV file
          (.csv, .tsv, .csv.gz, .tsv.gz), a workbook (.xlsx), a LIBSVM file (.svm, .libsvm,
          .svmlight, .txt), or a .npy file of a structured array;
        - a folder or a glob of such files of one kind, or a list of them;
        - a tuple of .npy files: (X, y), (X, y, weight) or (X, y, weight, degrees);
        - an iterable of batches, or a function that returns a new one at each call: Arrow tables
          or record batches, pandas or polars frames, mappings of columns, or tuples of arrays
          as above (X may be sparse).
    target : str, default=None
        Column of the labels; needed where columns have names.
    features : sequence of str, default=None
        Columns to learn from, in this order; None for all others that are numeric or true and
        false (of text: in its first 8 MiB), with a warning that names those that are not.
    sample_weight : str, default=None
        Column of weights.
    membership : str or sequence of str, default=None
        Column of degrees; or K columns of soft labels, in the order of the sorted labels.
    classes : array-like of shape (K,), default=None
        All labels. Any other is then an error, and one without rows keeps its place, as in
        `partial_fit`. None takes the labels as they come.
    batch_rows : int, default=65536
        Most rows to hold at once. Three batches are in memory at a time, and two more for each
        thread of the model's `n_jobs`, which sum up batches while another thread reads the next.
    checkpoint : path, default=None
        File to keep the state of the run in. A run that was killed is resumed when it is
        started again with the same data and settings; others are refused. A function among the
        parameters is compared by its name; one without an importable name (a lambda, a
        function of ``__main__``) is refused. The file stays when the run is over: the same call
        then gives the model without reading anything.
    checkpoint_every : int, default=64
        Number of batches between two writings of it.
    progress : bool, default=False
        Report on stderr.

    Returns
    -------
    model
        Fitted, as an ordinary estimator but without ``membership_``. ``schema_`` keeps, of files,
        how later ones are to be read: marks of text, and the first index of LIBSVM files.
        `partial_fit`, `merge` and `forget` go on from it, where it has them: not with the
        memberships "center" and "hyperplane", whose degrees rest on all rows.

    Raises
    ------
    ValueError
        For bad data, with the file, the row and the remedy. The model is left as it was.
    CheckpointError
        A ValueError, for a checkpoint that is damaged or of another run.

    Warns
    -----
    UserWarning
        If columns are left out because they are not numeric and `features` does not say so, and
        if cells such as "<0.5" or "1,234" were read as numbers.

    Notes
    -----
    "center" takes three passes over the rows and "hyperplane" two or three (centres or planes;
    the farthest rows; the sums by degrees); with `membership` given or None it is one. LIBSVM
    text takes one pass more, to count the features.

    With a kernel, landmarks that are not given are taken from the first batch, and so is the
    gamma that "scale" stands for; shuffle rows that are sorted. A source that gives its rows once
    needs both given.

    Text files may have any of the separators , ; tab | and space, a decimal comma, quotes, a BOM,
    UTF-16, and cells in Windows-1252; these are found by their first lines. Cells that are empty
    or a mark such as NA or ? are missing, which is an error in a column that is learned from.

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
            "use FuzzyTwinSVC, LeastSquaresTwinSVC, LeastSquaresSVC, ProximalSVC or GEPSVC."
        )
    settings = model.fit_settings()
    if isinstance(settings.C, Real):
        check_penalties(settings.C, np.arange(2))
    check_count("batch_rows", batch_rows)
    check_count("checkpoint_every", checkpoint_every)
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
        check_name("target", target),
        check_name("sample_weight", sample_weight),
        degrees,
        check_names(features),
    )
    if checkpoint is not None:
        check_path(checkpoint)
        parameters = identify(model.get_params())
        parameters.pop("n_jobs", None)  # threads do not change what is learned
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
    with working(count_threads(settings.n_jobs), n_columns=len(opened.names or ())):
        phi = _landmarks(settings, opened, resumable=kept is not None)
        passes = Passes(opened, classes, kept, checkpoint_every, progress)
        learned = learn(
            settings, passes.total, given=given, classes=classes, phi=phi, names=opened.names
        )
        moments = learned.moments if isinstance(model, FuzzyTwinSVC) else learned.moments.own
        fitted = model.fit_moments(
            moments,
            learned.classes,
            landmark_map=phi,
            feature_names=opened.names,
            schema=None if opened.identity() is None else opened.schema.as_dict(),
        )
    for note in opened.tally.notes():
        warnings.warn(f"{opened.tally.source}, {note}.", UserWarning, stacklevel=2)
    return fitted


def _landmarks(settings: FitSettings, opened: Source, *, resumable: bool) -> LandmarkMap | None:
    """Compute the map of given landmarks, or take landmarks and gamma from the first batch."""
    sampled = is_count(settings.n_landmarks)
    if not settings.curved:
        return None
    if not opened.repeatable or not (sampled or settings.gamma_by_rows):
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
