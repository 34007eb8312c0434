"""FuzzyTwinCommittee; users find it in `fuzzytwin`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._duplicates import warn_of_duplicates
from fuzzytwin._params import (
    check_class_weight,
    check_seed,
    count_threads,
    not_allowed,
    set_fitted_attributes,
)
from fuzzytwin._passes import Total
from fuzzytwin._rows import Rows, check_finite, validate_features, validate_rows
from fuzzytwin._utils.threads import limited_blas
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._first_pass import (
    Chunk,
    FirstPassStats,
    Scales,
    WeightedRows,
    as_single_chunk,
    blocks,
    run_first_pass,
)
from fuzzytwin.committee._fit import CommitteeConfig, Learned, learn, left_out
from fuzzytwin.committee._members import CommitteeMember, check_members, is_auto, member_values
from fuzzytwin.committee._stacking import StackingModel
from fuzzytwin.core.conformal import prediction_sets, warn_of_rare_classes
from fuzzytwin.core.distances import labels_of
from fuzzytwin.kernels import check_n_landmarks


class FuzzyTwinCommittee(ClassifierMixin, BaseEstimator):
    r"""Planes in several feature spaces, put together by what they say of rows they never saw.

    This is the classifier to begin with: it needs no tuning, and gives probabilities, sets of
    labels and left-out probabilities of the training rows. Each member m has planes in features of
    its own (the columns, or kernel values at landmarks): ridge regressions of the indicator of each
    class k, with the ridge of least squared error at rows left out. One decomposition gives all of
    it, and the value F_ikm of the plane learned without row i. Then

        p_i = softmax_k(sum_m t_m F_ikm + b_k),    t >= 0,
        max over t, b of  sum_i s_i log p_i,y_i - rho |t|^2 / 2,

    stacking whose "other folds" cost nothing. A new row has the values of the planes of all rows in
    the place of F. Of three classes and more, the scores are mixed, softmax(S + (S - mean) D + d)
    with a ridge on D, which brings out classes that lie between others.

    Columns are scaled to unit variance first. If a few values of a column lie far off all others (a
    mark such as -999, a slip of the decimal point), they are taken as the nearest of the others, in
    new rows too.

    Parameters
    ----------
    members : "auto" or list, default="auto"
        "auto": planes alone, linear ones and those of RBF and Laplacian kernels at two reaches,
        with and without learned columns. A list: each one "auto" (all of these), the name of a
        kernel ("linear", "rbf", "laplacian", "poly", "cosine", "sigmoid"), a name with parameters
        such as ``("rbf", {"gamma": 0.1})``, or a classifier with `predict_proba`, whose values
        come out of bag where it has them, else out of folds; so ``["auto",
        RandomForestClassifier(300, oob_score=True)]`` adds a forest.
        Parameters are `gamma` (one number, or one for each column, for scaled columns), `reach`
        (in place of gamma: distances are divided by `reach` times their median),
        ``relevance="learned"`` (RBF only: columns count by how much planes change along them),
        `degree` and `coef0`.
    noise : None or "auto", default=None
        None: labels as given. "auto": a model of wrong labels is fitted, too; as far as the
        left-out likelihood favours it, probabilities are those of the true class. Soft labels are
        refused then.
    n_landmarks : "auto", "centers", int or array-like of shape (m, d), default="auto"
        Rows at which kernels are evaluated: their number, or the rows themselves. "auto": all rows
        up to 1,500, then fewer, so that time grows in proportion to the rows. The model, and so its
        file, holds these rows, scaled. "centers": landmarks that are no rows, for models that leave
        the house: means of five different rows or more (of five groups, with `groups`), by k-means
        without a look at labels. That costs some accuracy where rows are few: on eight tables of
        208 to 570 rows, accuracy fell from 0.892 to 0.868 on average and log loss rose from 0.259
        to 0.298, most on sonar (0.894 to 0.779) and hardly on pima, australian, banana and yeast4.
        ``limits_`` still holds single values of columns that have values far off.
    class_weight : None, dict or "balanced", default=None
        Moves labels and `decision_function` towards classes of greater weight. Probabilities remain
        those of the population that the rows were drawn from; single ones change, as planes are
        fitted with these weights.
    n_jobs : int, default=None
        Members fitted at a time.
    verbose : int, default=0
        1 shows a progress bar.
    random_state : int, RandomState instance or None, default=0
        For the sample of landmarks and for folds. None is the same as 0: two fits of one table
        give one model.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    members_ : list of CommitteeMember
        Kernel, gamma, alpha (ridge), weight and error of each member, and its planes.
    stack_coef_ : ndarray of shape (K, K)
        The values of all members, weighted and added up, are multiplied by it.
    stack_intercept_ : ndarray of shape (K,)
        What is added then: logarithms of the probabilities, up to a constant.
    loo_log_loss_ : float
        Mean log loss of the left-out probabilities: what to expect of new rows. With
        ``noise="auto"`` that of true classes as the model of wrong labels sees them: too low where
        it takes classes that overlap for wrong labels, and below the log loss of given labels.
    noise_matrix_ : ndarray of shape (K, K)
        With ``noise="auto"``: share of the rows of each class (row) that has each label (column).
    membership_ : ndarray of shape (n,)
        With ``noise="auto"``: degree to which the label of each row is right.
    noise_inverse_ : ndarray of shape (K, K)
        With ``noise="auto"``: probabilities of labels times this are those of true classes, as far
        as they are above 0.
    noise_weight_ : float
        With ``noise="auto"``: the weight that these have in `predict_proba`; probabilities of
        labels have the rest.
    landmarks_ : ndarray or CSR matrix of shape (m, d)
        Scaled landmarks.
    mean_, scale_ : ndarray of shape (d,)
        What is subtracted from the columns, and what they are divided by.
    limits_ : ndarray of shape (2, d)
        Values of a column beyond these are taken as these: of the training rows only values far
        off all others, of new rows also values far outside of those of the training rows.
    conformity_scores_ : ndarray of shape (n, 3) or (n, 4)
        One minus the left-out probability of the label of each row, its class, its weight and, with
        `groups`, the number of its group: what `predict_set` compares with.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    A weight is an importance, and its row is left out with all of it: a weight of w is the same as
    w copies of the row in one group, and a common factor of all weights changes nothing. Ridges and
    priors are in units of what is left out together, a row or group: with the totals W_g of these,
    sum W_g^2 / sum W_g. A row of weight 0 takes no part: it is judged by the planes of all others,
    its group included. Scaler, landmarks and gammas
    are taken as fixed where rows are left out, but for columns that are learned from up to 1,500
    rows (3,000 where columns are more than 20): those are learned from other rows.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fuzzytwin import FuzzyTwinCommittee
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = FuzzyTwinCommittee().fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.96)
    True
    >>> bool(model.loo_log_loss_ < 0.1)
    True
    >>> model.predict_set(X[1:2], coverage=0.95).shape
    (1, 2)
    """

    def __init__(
        self,
        members: Any = "auto",
        *,
        noise: str | None = None,
        n_landmarks: Any = "auto",
        class_weight: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = 0,
    ) -> None:
        self.members = members
        self.noise = noise
        self.n_landmarks = n_landmarks
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        members = self.members if isinstance(self.members, list | tuple) else ()
        tags.input_tags.sparse = all(
            get_tags(member).input_tags.sparse
            for member in members
            if hasattr(member, "predict_proba")
        )
        return tags

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None, groups: Any = None
    ) -> Self:
        """Fit the members, and how much each of them counts.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Labels, at least two different ones.
        sample_weight : array-like of shape (n,), default=None
            Importances of the rows; a row of weight 0 is left out.
        membership : array-like of shape (n,) or (n, K), default=None
            Degrees to which labels are right, which weigh the rows; or soft labels, which are the
            targets in place of y.
        groups : array-like of shape (n,), default=None
            Rows that belong together, such as the visits of one patient: they are left out
            together.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For parameters out of range, gaps, text or infinity in X (naming the column), labels of
            one class, weights below zero.
        """
        self.fit_values(X, y, sample_weight, membership, groups)
        return self

    def fit_values(
        self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None, groups: Any = None
    ) -> tuple[Learned, Array | None]:
        """Fit, and return what was learned and the values of all rows, each left out.

        Values (n, K, M) are None unless noise is modelled.
        """
        plan = self._plan()
        rows, chunk = as_single_chunk(validate_rows(self, X, y, sample_weight, membership), groups)
        if groups is None:
            warn_of_duplicates(rows.X, "probabilities and sets of labels", stacklevel=4)
        with limited_blas():
            look, summed = run_first_pass(chunk.total, names=rows.names)
            learned = learn(plan, look, summed)
            F = self._left_out_values(learned, look, chunk)
        membership = None if F is None else _label_degrees(learned, rows, F)
        self._keep(learned, rows.names, membership_=membership)
        return learned, F

    def _left_out_values(
        self, learned: Learned, look: FirstPassStats, chunk: Chunk
    ) -> Array | None:
        """Compute values (n, K, M) of all rows, each left out; None unless noise is modelled."""
        if learned.noise is None:
            return None
        # Rows of weight 0 are judged by a copy of the model: a failure must not change this one.
        fitted = type(self)(**self.get_params(deep=False))
        set_fitted_attributes(fitted, **learned.attributes)
        if not look.sampled:
            return fitted.with_others(learned.F, look.rows.place, chunk)
        held, index = chunk.total(WeightedRows.of)
        return fitted.with_others(learned.values(held), index, chunk)

    def fit_chunks(
        self, total: Total, *, names: Any = None, classes: Array | None = None, schema: Any = None,
        look: Any = None,
    ) -> Learned:  # fmt: skip
        """Fit to chunks of rows that are never in one place: files, Dask, Spark.

        Parameters
        ----------
        total : callable
            Calls a function on every chunk and adds up: see `fuzzytwin._passes.Total`.
        names : sequence of str, default=None
            Names of the columns.
        classes : ndarray, default=None
            All labels; each must have rows.
        schema : dict, default=None
            How files are to be read, kept as ``schema_``.
        look : tuple, default=None
            What `fuzzytwin.committee._first_pass.run_first_pass` returned, if it was called before.

        Returns
        -------
        Learned
            What was learned, for values of further rows.
        """
        plan = self._plan()
        learned = learn(plan, *(look or run_first_pass(total, names=names, classes=classes)))
        self._keep(learned, names, schema_=schema)
        return learned

    def _plan(self) -> CommitteeConfig:
        """Check the parameters."""
        if not (self.noise is None or (isinstance(self.noise, str) and self.noise == "auto")):
            raise not_allowed("noise", self.noise, "use None or 'auto'")
        check_class_weight(self.class_weight)
        check_seed(self.random_state)
        if not (isinstance(self.n_landmarks, str) and self.n_landmarks == "auto"):
            check_n_landmarks(self.n_landmarks)
        return CommitteeConfig(
            check_members(self.members),
            self.n_landmarks,
            class_weight=self.class_weight,
            n_threads=count_threads(self.n_jobs),
            random_state=self.random_state,
            screen=is_auto(self.members),
            noise=self.noise is not None,
            verbose=bool(self.verbose),
        )

    def _keep(self, learned: Learned, names: Any, **more: Any) -> None:
        """Set all fitted attributes, at once and last."""
        names = None if names is None else np.asarray(names, dtype=object)
        set_fitted_attributes(self, **learned.attributes, feature_names_in_=names, **more)

    def predict(self, X: Any) -> Array:
        """Predict the label of each row: the most probable one, class weights considered.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        scores = self._scores(X) + np.log(self.class_weight_)
        labels: Array = self.classes_[labels_of(scores)]
        return labels

    def decision_function(self, X: Any) -> Array:
        """Compute the logarithms of the odds of the classes, class weights considered.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            For two classes log(p_2 / p_1), positive for ``classes_[1]``; for more log p_k.
        """
        scores = log_softmax(self._scores(X) + np.log(self.class_weight_), axis=1)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> Array:
        """Compute the probability of each class; rows sum to 1.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
        """
        return np.asarray(softmax(self._scores(X), axis=1))

    def predict_log_proba(self, X: Any) -> Array:
        """Compute the logarithm of the probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
        """
        return np.asarray(log_softmax(self._scores(X), axis=1))

    def predict_set(self, X: Any, coverage: float = 0.9, class_conditional: bool = False) -> Array:
        """Predict a set of labels for each row that holds the true one with a given probability.

        A label is in the set unless its probability is below that of all but a share
        1 - coverage of the training rows, each by planes that never saw it (the conformal
        jackknife). For exchangeable rows coverage is that asked for, up to the effect of single
        rows on the planes. With weights it is that of a population in which rows occur as often as
        they weigh: weights that have nothing to do with how hard a row is leave the promise as it
        is, and if rows of one class weigh more, the promise is for as many more of them (by class,
        with ``class_conditional=True``, it is the same either way).

        An empty set means that no label is probable enough: the row is stranger with any label
        than all but a share 1 - coverage of the training rows are with theirs. A greater coverage
        gives larger sets. A set that is not empty may lack the label that `predict` gives if
        classes are compared each with its own rows (``class_conditional=True``), as the rows of one
        class may have higher probabilities than those of another, or if class weights move labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.
        coverage : float, default=0.9
            Between 0 and 1.
        class_conditional : bool, default=False
            Compare with rows of the same class alone: then the coverage holds for every class, rare
            ones too, at the price of larger sets. Otherwise it holds on average over all rows.

        Returns
        -------
        ndarray of bool of shape (n, K)
            Which labels, in the order of ``classes_``, are in the set.

        Warns
        -----
        UserWarning
            If the coverage holds on average, a class is rarer than 1 - coverage, and its rows,
            left out, are covered less than half as often as promised.
        """
        check_is_fitted(self)
        sets = self._sets(X, coverage, class_conditional)
        if not class_conditional:
            warn_of_rare_classes(self.conformity_scores_, self.classes_, coverage)
        return sets

    def _sets(self, X: Any, coverage: float, class_conditional: bool) -> Array:
        P = self.predict_proba(X)
        return prediction_sets(
            self.conformity_scores_, P, coverage, class_conditional=class_conditional
        )

    def loo_proba(
        self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None, groups: Any = None
    ) -> Array:
        """Compute probabilities of the rows of the fit, by planes that never saw the row.

        Members that are classifiers are fitted again: out of bag, or out of folds.

        Parameters
        ----------
        X, y, sample_weight, membership, groups
            As given to `fit`, in any order of the rows.

        Returns
        -------
        ndarray of shape (n, K)

        Raises
        ------
        ValueError
            Where the rows are not those of the fit.
        """
        check_is_fitted(self)
        rows = validate_rows(self, X, y, sample_weight, membership, first=False)
        rows, chunk = as_single_chunk(rows, groups)
        with limited_blas():
            look, summed = run_first_pass(chunk.total, names=rows.names)
            if look.sampled:
                held, index = chunk.total(WeightedRows.of)
            else:
                held, index = look.rows, look.rows.place
            F = self.with_others(left_out(self, look, summed, held), index, chunk)
        return np.asarray(softmax(self._combination(self.members_).scores(F), axis=1))

    def with_others(self, values: Array, index: Array, chunk: Chunk) -> Array:
        """Return values (n, K, M) of all rows as given: left-out ones, and of rows of weight 0.

        The left-out values are those of the rows `index` of the chunk.
        """
        F = np.empty((chunk.X.shape[0], *values.shape[1:]))
        F[index] = values
        others = np.setdiff1d(np.arange(len(F)), index)
        if len(others):
            F[others] = self._values(chunk.X[others], self.members_)
        return chunk.every_row(F)

    def _combination(self, members: list[CommitteeMember]) -> StackingModel:
        weights = np.array([member.weight for member in members])
        noise = getattr(self, "noise_inverse_", None), getattr(self, "noise_weight_", 0.0)
        return StackingModel(
            weights, self.stack_coef_, self.stack_intercept_, self.loo_log_loss_, *noise
        )

    def _scores(self, X: Any) -> Array:
        """Compute log p up to a constant for each row."""
        X = validate_features(self, X)
        check_finite(X, getattr(self, "feature_names_in_", None))
        counting = [member for member in self.members_ if member.weight > 0] or self.members_
        combination = self._combination(counting)
        scores = np.empty((X.shape[0], len(self.classes_)))
        for here in blocks(X.shape[0], max(X.shape[1], self.landmarks_.shape[0])):
            scores[here] = combination.scores(self._values(X[here], counting))
        return scores

    def _values(self, X: Any, members: list[CommitteeMember]) -> Array:
        """Compute values (n, K, M) of members at rows that took no part."""
        landmarks, known = self.landmarks_, dict[str, Array]()
        Z = Scales(self.mean_, self.scale_, self.limits_)(X)
        if sparse.issparse(landmarks) and not sparse.issparse(Z):
            Z = type(landmarks)(Z)
        return np.stack([member_values(m, X, Z, landmarks, known) for m in members], axis=2)


def _label_degrees(learned: Learned, rows: Rows, F: Array) -> Array:
    """Compute the degree to which the label of each row is right, from values left out."""
    assert learned.noise is not None
    codes = rows.codes.astype(np.intp)
    own = learned.noise.posterior(F, codes)[np.arange(len(rows)), codes]
    # A class without any weight is not known, and its rows have the number of another.
    own[rows.classes[codes] != rows.y] = 0.0
    return np.clip(own, 0.0, 1.0)
