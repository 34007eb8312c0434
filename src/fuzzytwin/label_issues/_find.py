"""find_label_issues: score the label of each row by a model trained without it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import has_fit_parameter

from fuzzytwin._params import check_choice
from fuzzytwin._rows import (
    check_has_columns,
    check_rows,
    check_weights,
    encode,
    encode_groups,
    is_name,
    label_array,
    warn_of_other_order,
)
from fuzzytwin._utils.notices import warn_user
from fuzzytwin._utils.types import Array, canonical
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.committee._fit import fit_rows
from fuzzytwin.committee._members import CommitteeMember
from fuzzytwin.committee._noise import NORMAL_95, NoiseModel, fit_noise, rows_to_flag
from fuzzytwin.committee._preprocessing import columns_of, fit_preprocessor, is_numeric
from fuzzytwin.core.hashing import (
    assign_folds,
    break_ties,
    class_ranks,
    content_keys,
    copies_in_groups,
    group_sums,
    row_hashes,
)
from fuzzytwin.core.weights import mean_weight
from fuzzytwin.label_issues._annotators import (
    check_several_annotators,
    check_several_labels,
    combine_with_votes,
    read_votes,
)
from fuzzytwin.label_issues._report import LabelIssueReport
from fuzzytwin.label_issues._review import ErrorModel
from fuzzytwin.tables._batch import check_unique
from fuzzytwin.tables._checks import (
    label_spellings,
    target_leaks,
    warn_of_findings,
    warn_of_labels,
)
from fuzzytwin.tables._columns import Column, missing_column
from fuzzytwin.tables._findings import Finding

# Chosen on the datasets of `python -m benchmarks label_issues` (kernels on the first half,
# landmarks on both): more kernels or landmarks find no more label errors.
MEMBERS = (
    "linear",
    ("rbf", {"length_scale_factor": 2.0}),
    ("rbf", {"length_scale_factor": 1.0}),
    ("laplacian", {"length_scale_factor": 4.0}),
    ("laplacian", {"length_scale_factor": 1.0}),
)
# With too few landmarks of a class, its rows become label issues because the model is too simple.
LANDMARKS_PER_CLASS = 12
MIN_LANDMARKS = 120
MAX_LANDMARKS = 400
N_FOLDS = 5
# Standard error of the logarithm of the number of label errors, if it is estimated from votes.
MODEL_ERROR_OF_VOTES = 0.5


def find_label_issues(
    X: Any,
    y: Any = None,
    *,
    labels: str = "auto",
    estimator: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    votes: Any = None,
) -> LabelIssueReport:
    r"""Find rows whose labels are probably wrong.

    The classes of each row are predicted without the row itself, by leave-one-out or out-of-fold
    predictions. A label-noise model is then fitted to these predictions F and the given labels. It
    averages three explanations. With *random label noise*, the true class j has probability p_ij,
    and the label is k with probability T_jk, independently of the row,

        p_i = softmax_k(sum_m t_m F_ikm + b_k),    P(label k) = sum_j p_ij T_jk.

    With *boundary label noise*, errors occur where classes meet: labels have the probabilities q_i,
    and the true classes are sharper than the labels. With *overlap*, the labels are draws from q_i,
    and none is wrong. Each gives a probability that a label is correct, by Bayes' rule, and
    `label_quality` averages them (see `fuzzytwin.committee._noise`).

    Features and labels cannot tell boundary noise from overlap: `labels` says which it is, or
    reviews show it. Label issues are the rows that maximise the expected F1 score. There are none,
    and the number of errors is unknown, if the features do not separate the classes.

    Parameters
    ----------
    X : {array-like, sparse matrix, data frame} of shape (n, d)
        Rows. Arrays may contain NaN. Data frames may contain text, categories and missing values,
        which `fuzzytwin.TablePreprocessor` turns into numbers without the labels, and dates, which
        it does not use by default. By default, sparse and dense rows give the same result up to
        rounding, unless they have more columns than there are landmarks (120 to 400).
    y : array-like of shape (n,) or str, default=None
        Labels of any kind, matched to the rows of X by position, not by an index. Or the name of
        the column of X that holds them. None with `votes`: the label of a row is then the one with
        most votes.
    labels : {"auto", "annotated", "observed"}, default="auto"
        How the labels arose. "annotated": people assigned them, and made errors above all where
        classes meet, so overlap is taken for boundary label noise. "observed": they are outcomes,
        such as death or churn, so overlap is no error, and only random label noise is considered.
        "auto" considers both. The number of errors is then a cautious one, its interval covers both
        and begins at 0 if overlap alone explains the labels, and a label is suggested only if that
        helps under both. About 30 reviews decide.
    estimator : classifier, default=None
        None: a `FuzzyTwinCommittee` of linear, RBF and Laplacian ridge classifiers, which has
        leave-one-out predictions in closed form. Another `FuzzyTwinCommittee`: that one. Any
        other classifier with `predict_proba`: its out-of-fold probabilities in five folds, which
        depend on the content of the rows, not on their order. It gets X as it is.
    sample_weight : array-like of shape (n,), default=None
        Importance of each row for the fit, its votes included. A row is held out with its full
        weight, and a common factor of all weights changes nothing. Rows of weight 0 are scored too,
        and numbers of errors count every row once.
    groups : array-like of shape (n,), default=None
        Rows that belong together, such as the visits of a patient or duplicates of a record. They
        are held out together. Otherwise each would be predicted from the others.
    votes : array-like of shape (n, A) or list of str, default=None
        Label that each of several annotators gave each row, or the names of the columns of X that
        hold them, which are then no features. None, NaN, -1 and the marks of missing values in
        files ("", "?", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "NULL", "null", "#N/A" and the
        like) are no vote, unless `y` holds them as labels. The text "None" is a label.
        The confusion matrix of each annotator and the true classes are estimated jointly from
        votes and features. `y`, if given, is another vote.

    Returns
    -------
    LabelIssueReport
        With `label_quality`, `is_label_issue`, `suggested_labels`, `n_errors` and its interval,
        `to_frame()`, `summary()`, `sample_for_review()` and `with_reviews()`.

    Raises
    ------
    ValueError
        For a column that X does not have, infinity in X, labels that are missing or all of one
        class, negative weights, or a class that is too small for folds.

    Warns
    -----
    TableWarning
        If X is a data frame and one of its columns gives the labels away, or if labels differ only
        in case or spaces.

    Notes
    -----
    Label errors and overlapping classes look alike to any model. The number of label errors is an
    estimate, and its interval is wide if both explain the labels. Reviews of about thirty rows
    narrow it: see `LabelIssueReport.with_reviews`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fuzzytwin import find_label_issues
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> flipped = np.random.default_rng(0).choice(len(y), 50, replace=False)
    >>> y[flipped] = 1 - y[flipped]
    >>> issues = find_label_issues(X, y)
    >>> print(f"{np.isin(issues.ranked_rows[:50], flipped).mean():.0%} of the first 50")
    88% of the first 50
    """
    check_labels_option(labels)
    check_rows(X)
    warn_of_other_order(X, y=y, votes=votes, sample_weight=sample_weight, groups=groups)
    index = next((part.index for part in (X, y) if hasattr(part, "iloc")), None)
    if is_name(y):
        X, y = _split_target(X, y)
    if _are_names(votes):
        X, votes = _split_votes(X, votes)
    check_has_columns(X)
    y = _check_labels(X, y, votes)
    if votes is not None:
        _check_votes_options(labels, estimator)
        report = _from_votes(estimator, X, y, votes, sample_weight, groups)
        return replace(report, index=index)
    classes, codes = encode(y, None)
    codes = codes.astype(np.intp)
    weight = check_weights(sample_weight, len(codes))
    _check_classes(classes, codes, weight)
    groups = None if groups is None else encode_groups(groups, len(codes))
    if estimator is None or isinstance(estimator, FuzzyTwinCommittee):
        model = default_committee(len(classes)) if estimator is None else clone(estimator)
        held_out = _leave_one_out_values(model, X, y, weight, groups)
    else:
        held_out = _held_out_probabilities(estimator, X, classes, codes, weight, groups)
    warn_of_labels(X, classes[codes], held_out.columns)
    noise = held_out.noise.assuming(labels)
    posterior = noise.posterior(held_out.values, codes)
    p_error = 1 - posterior[np.arange(len(codes)), codes]
    return LabelIssueReport(
        classes,
        codes,
        posterior,
        is_label_issue=p_error >= noise.flag_thresholds(*held_out.flag_rows)[codes],
        n_errors_interval=_interval_of_all_rows(noise, p_error),
        estimator=clone(model if estimator is None else estimator),
        method=held_out.method,
        index=index,
        separable=noise.has_signal,
        suggested=noise.suggest(held_out.values, codes),
        p_no_errors=noise.p_no_errors,
        posterior_if_errors=noise.posterior_if_errors(held_out.values, codes),
        error_model=_error_model(noise, held_out.values, codes),
        labels=labels,
        unused_columns=_unused(held_out.columns),
    )


def _error_model(noise: NoiseModel, values: Array, codes: Array) -> ErrorModel:
    """Return the probabilities of label errors under each kind of noise, for reviews."""
    rows = np.arange(len(codes))
    if_random = noise.posterior_if_errors(values, codes, 1.0)[rows, codes]
    if_boundary = noise.posterior_if_errors(values, codes, 0.0)[rows, codes]
    return ErrorModel(
        if_random=np.clip(1 - if_random, 0.0, 1.0),
        if_boundary=np.clip(1 - if_boundary, 0.0, 1.0),
        p_random=noise.random_weight,
        p_no_errors=noise.p_no_errors,
    )


def check_labels_option(labels: Any) -> None:
    """Raise a ValueError for an unknown way in which labels arose."""
    check_choice("labels", labels, ("auto", "annotated", "observed"))


def default_committee(n_classes: int = 2, verbose: int = 0) -> FuzzyTwinCommittee:
    """Return the committee that scores rows if no estimator is given."""
    n_landmarks = min(max(MIN_LANDMARKS, LANDMARKS_PER_CLASS * n_classes), MAX_LANDMARKS)
    return FuzzyTwinCommittee(members=list(MEMBERS), n_landmarks=n_landmarks, verbose=verbose)


def _split_target(X: Any, target: str) -> tuple[Any, Any]:
    """Return the other columns of a data frame, and its column of labels."""
    if not hasattr(X, "columns"):
        kind = "a string" if isinstance(target, str) else "a number"
        raise ValueError(
            f"y={target!r} is {kind}, but the columns of X have no names; give the labels "
            "themselves, one for each row, or a data frame X."
        )
    rows, columns = _split_columns(X, [target], f"y={target!r}")
    return rows, columns[target]


def _split_columns(X: Any, names: list[Any], parameter: str) -> tuple[Any, Any]:
    """Return the other columns of a data frame, and the named ones."""
    if hasattr(X, "column_names"):  # an Arrow table
        X = X.to_pandas()
    all_names = list(X.columns)
    for name in names:
        if name not in all_names:
            raise ValueError(f"{parameter}: {missing_column(str(name), all_names, 'X')}")
    check_unique(all_names, "X")
    return X.drop(columns=names) if hasattr(X, "iloc") else X.drop(names), X[names]


def _are_names(votes: Any) -> bool:
    """Return whether votes are a list of names of columns."""
    is_list = isinstance(votes, list | tuple) and len(votes) > 0
    return isinstance(votes, str) or (is_list and all(isinstance(name, str) for name in votes))


def _split_votes(X: Any, names: Any) -> tuple[Any, Any]:
    """Return the other columns of a data frame, and its columns of votes."""
    if isinstance(names, str):
        raise ValueError(
            f"votes={names!r} is a string; name at least two columns of X in a list, or give a "
            "column for each annotator."
        )
    if not hasattr(X, "columns"):
        raise ValueError(
            f"votes={names!r} names columns, but the columns of X have no names; give the votes "
            "themselves, a column for each annotator, or a data frame X."
        )
    return _split_columns(X, list(names), f"votes={names!r}")


def _check_labels(X: Any, y: Any, votes: Any) -> Array | None:
    """Return the labels as an array; raise a ValueError if some are missing."""
    if y is None:
        if votes is None:
            raise ValueError("y is missing; give the labels, or votes=... of several annotators.")
        return None
    y = column_or_1d(label_array(y))
    check_consistent_length(X, y, votes)
    return np.asarray(y)


def _check_votes_options(labels: str, estimator: Any) -> None:
    if labels == "observed":
        raise ValueError(
            "labels='observed' cannot be combined with votes, which annotators gave; omit one."
        )
    if estimator is not None and not isinstance(estimator, FuzzyTwinCommittee):
        raise ValueError(
            f"estimator={estimator!r} does not take votes; omit it, or give a FuzzyTwinCommittee."
        )


def _check_classes(classes: Array, codes: Array, weight: Array | None) -> None:
    if not len(classes):
        raise ValueError("y is empty; give labels of at least two classes.")
    if len(classes) < 2:
        raise ValueError(
            f"y has one class only ({classes[0]}); give labels of at least two classes."
        )
    has_weight = np.bincount(codes, weight, minlength=len(classes)) > 0
    if not has_weight.all():
        raise ValueError(
            f"sample_weight is zero for every row of class {classes[int(has_weight.argmin())]}; "
            "give at least one of them a weight, or leave these rows out."
        )


@dataclass(frozen=True, eq=False)
class _HeldOutValues:
    """Leave-one-out or out-of-fold values (n, K, M) of all rows, and their label-noise model."""

    values: Array
    noise: NoiseModel
    flag_rows: tuple[Array, Array]  # values and codes of the rows that set the flag thresholds
    method: str
    columns: tuple[Column, ...] | None = None  # of X, if some may be no features


def _leave_one_out_values(
    model: FuzzyTwinCommittee, X: Any, y: Any, weight: Array | None, groups: Array | None
) -> _HeldOutValues:
    """Fit a committee with its label-noise model."""
    model = clone(model).set_params(noise="auto")
    fit, values = fit_rows(model, X, y, weight, groups=groups)
    assert values is not None
    assert fit.noise is not None
    stacking_weights = fit.noise.label_stacking.weights.tolist()
    members = [
        replace(member, weight=t)
        for member, t in zip(model.members_, stacking_weights, strict=True)
    ]
    method = _describe(members, groups)
    columns = columns_of(model.preprocessor_)
    return _HeldOutValues(values, fit.noise, (fit.loo_values, fit.codes), method, columns)


def _held_out_probabilities(
    estimator: Any,
    X: Any,
    classes: Array,
    codes: Array,
    weight: Array | None,
    groups: Array | None,
) -> _HeldOutValues:
    """Predict the classes of rows that were held out, and fit a label-noise model to them."""
    probabilities, method = _out_of_fold(estimator, X, classes, codes, weight, groups)
    s = np.ones(len(codes)) if weight is None else weight
    s = s / mean_weight(s, groups)
    values = _log_probabilities(probabilities, float(s.sum()))
    counted = _distinct_rows(X, codes, s, groups)
    noise = fit_noise(values, codes, s)
    return _HeldOutValues(values, noise, (values[counted], codes[counted]), method)


def _out_of_fold(
    estimator: Any, X: Any, classes: Array, codes: Array, weight: Array | None, groups: Any
) -> tuple[Array, str]:
    """Return out-of-fold probabilities, and how they were computed."""
    if isinstance(estimator, type) or not (
        hasattr(estimator, "predict_proba") and is_classifier(estimator)
    ):
        raise ValueError(
            f"estimator={estimator!r} is not a classifier with predict_proba; give one, such as "
            "LogisticRegression() or FuzzyTwinSVC(calibration='loo'), or None for a committee."
        )
    s = np.ones(len(codes)) if weight is None else weight
    used = np.flatnonzero(s)
    sizes = np.bincount(codes[used])
    n_folds = min(N_FOLDS, int(sizes.min()))
    if n_folds < 2:
        raise ValueError(
            f"class {classes[int(sizes.argmin())]} has one row, but out-of-fold predictions need "
            "two; add rows, or leave the class out."
        )
    keys = _content_keys(X, used)
    groups = None if groups is None else groups[used]
    folds = np.zeros(len(codes), dtype=np.intp)  # rows of weight 0 are predicted with the first one
    folds[used], equal = _content_folds(keys, codes[used], s[used], groups, n_folds)
    by_content = used[np.lexsort((s[used], codes[used], keys))]
    splits = []
    for fold in np.unique(folds):
        train = by_content[folds[by_content] != fold]
        if len(np.unique(codes[train])) < 2:
            raise ValueError(
                f"without one of {n_folds} folds, only one class is left, because the rows of a "
                "group are held out together; give more groups of each class."
            )
        splits.append((train, np.flatnonzero(folds == fold)))
    params = _weights_for(estimator, weight)
    with warnings.catch_warnings(), config_context(enable_metadata_routing=False):
        warnings.filterwarnings("ignore", "Number of classes in training fold")
        P = cross_val_predict(
            estimator, X, classes[codes], cv=splits, method="predict_proba", params=params
        )
    P = np.asarray(P)
    # Which of several equal rows is in which fold is arbitrary, so they share a mean.
    means = np.stack([np.bincount(equal, p) for p in P[used].T], axis=1)
    P[used] = (means / np.bincount(equal)[:, None])[equal]
    return P, f"{type(estimator).__name__}, out of {n_folds} folds"


def _content_folds(
    keys: Array, codes: Array, weight: Array, groups: Array | None, n_folds: int
) -> tuple[Array, Array]:
    """Assign rows to folds by their content. Also return the number of each set of equal rows.

    Classes are spread evenly over the folds. Groups stay together, and equal rows do not.
    """
    codes = class_ranks(keys, codes)[codes]
    unit = np.arange(len(keys)) if groups is None else np.unique(groups, return_inverse=True)[1]
    unit_key = group_sums(keys, unit)
    first_code = np.full(len(unit_key), codes.max())  # a group counts for the first of its classes
    np.minimum.at(first_code, unit, codes)
    unique_key = break_ties(unit_key, first_code, np.bincount(unit, weight))
    folds = assign_folds(unique_key, n_folds, first_code)[unit]
    content = np.column_stack([unit_key[unit], keys, codes.astype(np.uint64), weight.view("u8")])
    return folds, np.unique(content, axis=0, return_inverse=True)[1].ravel()


def _content_keys(X: Any, used: Array) -> Array:
    """Hash the used rows by their numbers or, if other cells are among them, by ranks of cells."""
    if sparse.issparse(X):
        numbers = canonical(X.tocsr())
    elif is_numeric(X):
        numbers = np.asarray(X, dtype=np.float64)
    else:
        cells = np.asarray(X, dtype=object).reshape(len(X), -1)
        numbers = np.column_stack([_ranks(column) for column in cells.T])
    numbers = numbers[used]
    # Keys are those of distinct rows, as copies would change the keys of columns.
    _, first, inverse = np.unique(row_hashes(numbers), return_index=True, return_inverse=True)
    return content_keys(numbers[first])[inverse.ravel()]


def _ranks(column: Array) -> Array:
    """Return the ranks of the numbers of a column, or of its cells as text."""
    try:
        values = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        texts = list(map(str, column))
        rank = {text: i for i, text in enumerate(sorted(set(texts)))}
        return np.array([rank[text] for text in texts])
    return np.unique(values, return_inverse=True)[1].ravel()


def _weights_for(estimator: Any, weight: Array | None) -> dict[str, Array]:
    """Return the keyword argument of `fit` that passes weights to a classifier or pipeline.

    In a pipeline it is ``step__sample_weight`` of the last step, as without metadata routing.
    """
    if weight is None:
        return {}
    last = estimator
    prefix = ""
    while isinstance(last, Pipeline):
        name, last = last.steps[-1]
        prefix += f"{name}__"
    if has_fit_parameter(last, "sample_weight"):
        return {f"{prefix}sample_weight": weight}
    if np.ptp(weight) > 0:
        warn_user(f"{type(estimator).__name__} takes no sample_weight, so weights are ignored.")
    return {}


def _distinct_rows(X: Any, codes: Array, weight: Array, groups: Array | None) -> Array:
    """Return rows of positive weight, without duplicates within a group."""
    rows = np.arange(len(codes))
    if groups is not None and is_numeric(X):
        numbers = canonical(check_array(X, accept_sparse="csr", dtype=np.float64))
        copies = copies_in_groups(numbers, codes, weight, None, groups)
        rows = rows if copies is None else copies[0]
    return np.asarray(rows[weight[rows] > 0])


def _log_probabilities(probabilities: Array, n_rows: float) -> Array:
    """Return logarithms of smoothed probabilities, as values (n, K, 1) of one model."""
    least = 1 / (2 * n_rows)
    n_classes = probabilities.shape[1]
    return np.asarray(np.log((probabilities + least) / (1 + n_classes * least))[:, :, None])


def _interval_of_all_rows(noise: NoiseModel, p_error: Array) -> tuple[float, float]:
    """Scale the interval of the rows that the model was fitted to, a sample if they are many."""
    factor = len(p_error) / noise.n_rows
    low, high = (factor * end for end in noise.n_errors_interval)
    if not noise.has_signal:
        return low, high
    n_errors = float(p_error.sum())
    return min(low, n_errors), max(high, n_errors)


def _from_votes(
    estimator: FuzzyTwinCommittee | None,
    X: Any,
    y: Array | None,
    votes: Any,
    sample_weight: Any,
    groups: Any,
) -> LabelIssueReport:
    """Estimate true classes from votes and features together."""
    codes, classes, names = read_votes(votes, None, y)
    check_consistent_length(X, codes)
    n_rows, n_classes = len(codes), len(classes)
    weight = check_weights(sample_weight, n_rows)
    groups = None if groups is None else encode_groups(groups, n_rows)
    weight = np.ones(n_rows) if weight is None else weight
    weight = weight / mean_weight(weight, groups)
    if n_rows < n_classes:
        raise ValueError(
            f"votes holds {n_classes} labels for {n_rows} rows; give more rows, or leave out rare "
            "labels."
        )
    _check_votes(codes, classes, names, weight)
    preprocessor = fit_preprocessor(X)
    columns = columns_of(preprocessor)
    _warn_of_votes(X, codes, classes, columns)
    numbers = X if preprocessor is None else preprocessor.transform(X)
    model = default_committee(n_classes) if estimator is None else clone(estimator)
    model.set_params(noise=None)

    def leave_one_out(memberships: Array) -> Array:
        """Fit the committee to soft labels, and predict each row without itself."""
        rows = (numbers, _hard_labels(memberships), weight, memberships, groups)
        fit_rows(model, *rows)
        return np.asarray(model.loo_proba_)

    posterior, annotators = combine_with_votes(codes, weight, classes, names, leave_one_out)
    if y is None:
        n_votes = np.stack([(codes == k).sum(axis=1) for k in range(n_classes)], axis=1)
        given = (n_votes + 0.5 * posterior).argmax(axis=1)  # of tied labels, the more probable one
    else:
        given = codes[:, -1]
    p_error = 1 - posterior[np.arange(n_rows), given]
    n_errors = max(float(p_error.sum()), np.finfo(float).tiny)
    deviation = float(np.sqrt((p_error * (1 - p_error)).sum())) / n_errors
    factor = float(np.exp(min(NORMAL_95 * np.hypot(deviation, MODEL_ERROR_OF_VOTES), 700.0)))
    return LabelIssueReport(
        classes,
        given,
        posterior,
        is_label_issue=rows_to_flag(p_error),
        n_errors_interval=(n_errors / factor, min(float(n_rows), n_errors * factor)),
        estimator=clone(model),
        method=f"votes of {codes.shape[1]} annotators and {_describe(model.members_, groups)}",
        annotators=annotators,
        unused_columns=_unused(columns),
    )


def _check_votes(codes: Array, classes: Array, names: list[Any], weight: Array) -> None:
    """Raise a ValueError unless rows of positive weight have enough votes."""
    used = codes[weight > 0]
    absent = np.setdiff1d(np.arange(len(classes)), used)
    if len(absent):
        raise ValueError(
            f"sample_weight is zero for every row with a vote for {classes[absent].tolist()[0]!r}; "
            "give at least one of them a weight, or leave these rows out."
        )
    check_several_annotators(used, names)
    check_several_labels(used, len(classes))


def _unused(columns: tuple[Column, ...] | None) -> tuple[Column, ...]:
    """Return the columns that are no features."""
    return tuple(column for column in columns or () if not column.used)


def _warn_of_votes(
    X: Any, codes: Array, classes: Array, columns: tuple[Column, ...] | None
) -> None:
    """Warn of spellings of labels, and of columns that give the votes of an annotator away."""
    leaks: dict[str, Finding] = {}
    for votes in codes.T:
        for finding in target_leaks(X, votes, np.flatnonzero(votes >= 0), columns):
            leaks.setdefault(finding.column, finding)
    warn_of_findings(X, [*label_spellings(classes), *leaks.values()])


def _hard_labels(memberships: Array) -> Array:
    """Return the most probable class of each row, changed in a few rows so that all occur."""
    best = memberships.argmax(axis=1)
    n_classes = memberships.shape[1]
    for k in np.setdiff1d(np.arange(n_classes), best):
        is_spare = np.bincount(best, minlength=n_classes)[best] > 1  # another row has this class
        best[np.where(is_spare, memberships[:, k], -1.0).argmax()] = k
    return best


def _describe(members: list[CommitteeMember], groups: Any) -> str:
    """Name the kernels of a committee that have weight, and what was held out."""
    largest = max(member.weight for member in members)
    kernels = [member.kernel for member in members if member.weight > largest / 100]
    used = ", ".join(dict.fromkeys(kernels)) or "no signal"
    held_out = "leave-one-out" if groups is None else "leave-one-group-out"
    return f"{held_out} predictions of a committee ({used})"
