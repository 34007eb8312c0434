"""find_doubtful; users find it in `fuzzytwin.doubts`."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import StratifiedKFold, check_cv, cross_val_predict
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from fuzzytwin._utils.rows import canonical
from fuzzytwin._utils.types import Array
from fuzzytwin.doubts.committee import Member, committee
from fuzzytwin.doubts.noise import fit_noise, rows_to_flag
from fuzzytwin.doubts.report import DoubtsReport
from fuzzytwin.doubts.votes import is_missing
from fuzzytwin.rows import check_weights, encode, naming_text_columns, refuse_non_finite


def find_doubtful(
    X: Any,
    y: Any,
    estimator: Any = None,
    sample_weight: Any = None,
    *,
    cv: Any = 5,
    ids: Any = None,
    id_name: str = "id",
    random_state: Any = 0,
) -> DoubtsReport:
    r"""Find rows whose labels are probably wrong.

    Every row is judged by models that never saw it. From their values F, a model of how labels
    come about is fitted to the labels given: the clean class j has probability p_ij, and label k
    is then written down with probability T_jk,

        p_i = softmax_k(sum_m t_m F_ikm + b_k),    P(label k) = sum_j p_ij T_jk.

    By Bayes' rule this gives the degree to which each label is right,
    p_ik T_kk / sum_j p_ij T_jk for label k. A class that is rare, or that the models are rarely
    sure of, is therefore not doubtful as such. Flagged are the rows of greatest expected F1 that
    are clearly more doubtful than the average one: none where it is likelier that no label is
    wrong, or where features tell nothing about labels.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, d)
        Rows; numbers, unless `estimator` takes others. Frames keep their index.
    y : array-like of shape (n,)
        Their labels, of any kind, at least two different ones.
    estimator : classifier, default=None
        None: a committee of our planes (linear, RBF and Laplacian kernels, two gammas each, the
        ridge of least leave-one-out error), each row by planes that never saw it in closed form;
        columns are scaled by `StandardScaler` first. An estimator with `loo_membership`, such as
        `FuzzyTwinSVC`: its leave-one-out memberships. Any other classifier with `predict_proba`:
        probabilities out of folds.
    sample_weight : array-like of shape (n,), default=None
        Importance of each row for what is learned. Rows of weight 0 are judged too.
    cv : int, cross-validation generator or iterable, default=5
        Folds for other classifiers; a number means shuffled stratified folds, fewer where a
        class has fewer rows.
    ids : str or array-like of shape (n,), default=None
        Names of the rows: a column of X, which is then not learned from, or the names.
    id_name : str, default="id"
        What given names are called in `to_frame`.
    random_state : int, RandomState instance or None, default=0
        For landmarks and folds.

    Returns
    -------
    DoubtsReport
        With `degrees`, `suggested`, `doubtful`, `order`, `noise_matrix`, `n_wrong` and its
        interval, `estimator`, `setting`, `to_frame()` and `summary()`.

    Raises
    ------
    ValueError
        For gaps, text or infinity in X (naming the column), labels that are missing or all
        alike, weights below zero, a class too small for folds.

    Notes
    -----
    Noise and overlap of classes look alike where no row lies deep in a class: the number of
    wrong labels is an estimate that a person should check on some flagged rows. Rows that are
    repeated vouch for each other; leave out repetitions.

    Finding again with the degrees as weights finds less (``python -m benchmarks doubts --loop``:
    the area under the curve falls from 0.946 to 0.941 on the tables that this was chosen on, from
    0.941 to 0.932 on the others), so there is no such loop.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fuzzytwin.doubts import find_doubtful
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> wrong = np.random.default_rng(0).choice(len(y), 50, replace=False)
    >>> y[wrong] = 1 - y[wrong]
    >>> report = find_doubtful(X, y)
    >>> bool(np.isin(report.order[:50], wrong).mean() > 0.8)
    True
    >>> model = report.estimator.fit(X, y, fuzzytwinsvc__membership=report.degrees)
    """
    X, index, ids, id_name = _named_rows(X, y, ids, id_name)
    y = column_or_1d(y)
    check_consistent_length(X, y)
    _refuse_missing_labels(y)
    classes, codes = encode(y, None)
    codes = codes.astype(np.intp)
    if len(classes) < 2:
        raise ValueError(
            f"y has one class only ({classes[0]}); give labels of at least two classes."
        )
    s = check_weights(sample_weight, len(y))
    _refuse_classes_without_weight(classes, codes, s)
    if ids is not None and len(ids) != len(y):
        raise ValueError(f"ids has {len(ids)} names for {len(y)} rows; give one for each row.")
    if estimator is None:
        F, members = committee(_numbers(X), codes, len(classes), s, random_state)
        noise = fit_noise(F, codes, s)
        members = [
            replace(member, weight=float(t))
            for member, t in zip(members, noise.weights, strict=True)
        ]
        used, setting = _leader(members, F).estimator(random_state), _words(members)
    else:
        P, setting = _probabilities(estimator, X, y, classes, codes, s, cv, random_state)
        least = 1 / (2 * len(y))
        noise = fit_noise(np.log((P + least) / (1 + len(classes) * least))[:, :, None], codes, s)
        used = clone(estimator)
    flags = rows_to_flag(1 - noise.posterior[np.arange(len(y)), codes])
    return DoubtsReport(
        classes, codes, noise.posterior, flags, noise.deviation, used, setting,
        index=index, ids=ids, id_name=id_name,
    )  # fmt: skip


def _named_rows(X: Any, y: Any, ids: Any, id_name: str) -> tuple[Any, Any, Array | None, str]:
    """Return rows without their column of names, their index, their names, and its name."""
    index = next((part.index for part in (X, y) if hasattr(part, "iloc")), None)
    if not isinstance(ids, str):
        return X, index, None if ids is None else column_or_1d(ids), id_name
    columns = [str(name) for name in getattr(X, "columns", ())]
    if ids not in columns:
        known = f"its columns are {', '.join(columns[:10])}" if columns else "X has no names"
        raise ValueError(
            f"ids={ids!r} is not a column of X; {known}. Give the name of a column, or the names."
        )
    names = np.asarray(X[ids])
    rest = X.drop(columns=ids) if hasattr(X, "iloc") else X.drop(ids)
    return rest, index, names, ids


def _numbers(X: Any) -> Any:
    """Validate rows for our own planes."""
    with naming_text_columns(X):
        rows = check_array(
            X, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False, input_name="X"
        )
    refuse_non_finite(rows, getattr(X, "columns", None))
    return canonical(rows)


def _refuse_missing_labels(y: Array) -> None:
    missing = np.array([is_missing(label) for label in y.tolist()])
    if missing.any():
        raise ValueError(
            f"y has no label in row {int(missing.argmax())}; leave out rows without a label."
        )


def _refuse_classes_without_weight(classes: Array, codes: Array, s: Array | None) -> None:
    if s is None:
        return
    total = np.bincount(codes, s, minlength=len(classes))
    if not (total > 0).all():
        raise ValueError(
            f"sample_weight is zero for every row of class {classes[int(total.argmin())]}; give "
            "some of them weight, or leave these rows out."
        )


def _probabilities(
    estimator: Any,
    X: Any,
    y: Array,
    classes: Array,
    codes: Array,
    s: Array | None,
    cv: Any,
    random_state: Any,
) -> tuple[Array, str]:
    """Return probabilities of each row by models that never saw it, and how they came about."""
    name = type(estimator).__name__
    if hasattr(estimator, "loo_membership"):
        fitted = clone(estimator).fit(X, y, sample_weight=s)
        return fitted.loo_membership(X, y, s), f"{name}, leaving out each row"
    if isinstance(estimator, type) or not (
        is_classifier(estimator) and hasattr(estimator, "predict_proba")
    ):
        raise ValueError(
            f"estimator={estimator!r} is not a classifier with predict_proba; give one, such as "
            "LogisticRegression(), or None for our own."
        )
    if isinstance(cv, int):
        fewest = int(np.bincount(codes).min())
        if min(cv, fewest) < 2:
            raise ValueError(
                f"class {classes[int(np.bincount(codes).argmin())]} has {fewest} row(s) and "
                f"cv={cv!r}; folds need two: give cv=2 or more, and leave smaller classes out."
            )
        cv = StratifiedKFold(min(cv, fewest), shuffle=True, random_state=random_state)
    folds = check_cv(cv, y, classifier=True)
    step = f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""
    params = None if s is None else {f"{step}sample_weight": s}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Number of classes in training fold")
        P = cross_val_predict(estimator, X, y, cv=folds, method="predict_proba", params=params)
    return np.asarray(P), f"{name} out of {folds.get_n_splits(X, y)} folds"


def _leader(members: list[Member], F: Array) -> Member:
    """Find the member that moves the log-odds most."""
    return members[int(np.argmax([m.weight * F[:, :, j].std() for j, m in enumerate(members)]))]


def _words(members: list[Member]) -> str:
    most = max(member.weight for member in members)
    parts = "; ".join(str(member) for member in members if member.weight > most / 100)
    return f"leave-one-out planes on scaled columns ({parts or 'none tells the classes apart'})"
