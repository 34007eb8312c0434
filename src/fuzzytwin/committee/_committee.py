"""The estimator `FuzzyTwinCommittee`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._rows import check_predicted, label_array
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._first_pass import Scales, blocks
from fuzzytwin.committee._fit import fit_rows
from fuzzytwin.committee._members import CommitteeMember, predict_values
from fuzzytwin.committee._preprocessing import as_numbers, columns_of
from fuzzytwin.committee._stacking import StackingModel
from fuzzytwin.core.conformal import prediction_sets, warn_of_rare_classes
from fuzzytwin.core.distances import labels_of
from fuzzytwin.tables import TablePreprocessor
from fuzzytwin.tables._checks import warn_of_labels


class FuzzyTwinCommittee(ClassifierMixin, BaseEstimator):
    r"""Stack linear and kernel ridge classifiers, and trees, by held-out predictions.

    This is the classifier to begin with. It needs no tuning, and gives probabilities, prediction
    sets and held-out probabilities of the training rows. Each member m has its own features
    (the columns, or kernel values at landmarks). On these, it fits a ridge regression to the
    indicator of each class k, with the ridge of smallest leave-one-out squared error. One matrix
    decomposition gives the fits at all ridges, and the leave-one-out value F_ikm of row i. Then

        p_i = softmax_k(sum_m t_m F_ikm + b_k),    t >= 0,
        max over t, b of  sum_i s_i log p_i,y_i - rho |t|^2 / 2,

    with the sample weights s: stacking (Wolpert, 1992) without the cost of refits. For a new row,
    F are the values of the members fitted to all rows. With three classes or more, the scores S
    are calibrated by matrix scaling, softmax(S + (S - mean) D + d) with a ridge on D, which helps
    with classes that lie between others (Guo et al., 2017).

    Labels that follow thresholds of single columns are learned better by trees. The last two
    members are boosted trees, with the log probabilities of held-out folds as F, and a forest, with
    those of rows out of bag.

    Columns are scaled to unit variance first. If a few values of a column lie far from all others
    (a code such as -999, a misplaced decimal point), they are clipped to the nearest of the others,
    in new rows also. Sparse rows have the same scales, but are not centred, so that zeros stay
    zeros. For linear, RBF and Laplacian members without `ard` this makes no difference, unless
    there are more columns than landmarks. Members with "poly", "cosine", "sigmoid" or `ard` differ
    from those of dense rows, and trees and Laplacian kernels with `ard` are for dense rows only.

    Parameters
    ----------
    members : "auto", "planes" or list, default="auto"
        "planes": a linear member, RBF kernels of two bandwidths, and an RBF and a Laplacian kernel
        with per-feature bandwidths (ARD; the Laplacian kernel has one bandwidth if there are more
        than 100 columns, or rows are sparse). "auto": these, boosted trees and a forest. There are
        no trees if X is sparse, with soft labels, or if a class has too few rows for three folds.
        Trees learn from up to 200,000 rows (and 128 MiB of numbers), and from a sample of that size
        if there are more.
        A list: each entry is the name of a kernel ("linear", "rbf", "laplacian", "poly", "cosine",
        "sigmoid"), or a name with parameters such as ``("rbf", {"gamma": 0.1})``.
        Parameters of kernels are `gamma` (one number, or one for each column, for scaled columns),
        `length_scale_factor` (instead of gamma: the bandwidth is this factor times the median
        distance, default 1), `ard` (RBF and Laplacian: True learns a gamma for each column from the
        labels, automatic relevance determination), `degree` ("poly") and `coef0` ("poly" and
        "sigmoid"). Parameters that a kernel does not have raise a ValueError.
    noise : None or "auto", default=None
        None: labels are taken as correct. "auto": also fit a label-noise model. As far as the
        leave-one-out likelihood favours it, probabilities are those of the true class. Soft labels
        are not supported then.
    n_landmarks : "auto", "all", "centers", int or array-like of shape (m, d), default="auto"
        Rows at which kernels are evaluated: their number, or the rows themselves. "auto": all rows
        up to 1,500, otherwise 400, so that time grows in proportion to the rows. "all": all rows,
        up to 10,000. The model, and so its file, holds these rows, scaled. "centers": landmarks
        that are not rows, for models that are shared with others: means of at least five different
        rows (of five groups, with `groups`), by k-means without the labels. That costs some
        accuracy if rows are few (``python -m benchmarks committee centers``). ``limits_`` still
        holds single values of columns with extreme values, and thresholds of trees lie half-way
        between two values.
    class_weight : None, dict or "balanced", default=None
        Moves labels and `decision_function` towards classes of greater weight. Probabilities still
        refer to the population that the rows were drawn from, but change a little, as members are
        fitted with these weights.
    n_jobs : int, default=None
        Number of members fitted in parallel.
    verbose : int, default=0
        1 shows a progress bar.
    random_state : int, RandomState instance or None, default=0
        Seed of the landmarks. With an int, two fits to the same rows give the same model. None is
        random.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels.
    members_ : list of CommitteeMember
        Kernel, gamma, alpha (ridge), weight, error and coefficients of each member. Trees are the
        last ones, with a `TreeEnsemble` as ``trees``.
    stack_coef_ : ndarray of shape (K, K)
        Matrix that the weighted sum of the members' values is multiplied by: the identity plus D.
    stack_intercept_ : ndarray of shape (K,)
        Intercepts that are added then. The result is log p up to a constant.
    class_weight_ : ndarray of shape (K,)
        Weight of each class, according to `class_weight`.
    loo_proba_ : ndarray of shape (n, K)
        Held-out probabilities of the training rows, if they were in memory: values of members are
        leave-one-out, out-of-fold or out-of-bag, and stacking weights are fitted without the row.
    loo_log_loss_ : float
        Mean log loss of these probabilities: an estimate of the log loss of new rows (``python -m
        benchmarks committee held-out`` compares both). With ``noise="auto"`` it refers to the true
        classes according to the noise model: lower than the log loss of the observed labels, and
        too low if overlap of classes is taken for label noise.
    noise_matrix_ : ndarray of shape (K, K)
        With ``noise="auto"``: share of each true class (row) that has each label (column).
    membership_ : ndarray of shape (n,)
        With ``noise="auto"``: probability that the label of each row is correct.
    noise_inverse_ : ndarray of shape (K, K)
        With ``noise="auto"``: probabilities of labels times this matrix, clipped at 0, are those of
        true classes.
    noise_weight_ : float
        With ``noise="auto"``: weight of the probabilities of true classes in `predict_proba`. Those
        of labels have the weight ``1 - noise_weight_``.
    landmarks_ : ndarray or CSR matrix of shape (m, d)
        Scaled landmarks.
    mean_, scale_ : ndarray of shape (d,)
        Mean that is subtracted from each column (0 for sparse rows), and scale by which it is then
        divided.
    limits_ : ndarray of shape (2, d)
        Limits to which columns are clipped. Among the training rows, only values far from all
        others are beyond them, among new rows also values far outside the training range.
    conformity_scores_ : ndarray of shape (n, 3) or (n, 4)
        One minus the leave-one-out probability of the label of each row, its class, its weight and,
        with `groups`, the number of its group, as used by `predict_set`.
    preprocessor_ : TablePreprocessor or None
        Fitted to X, without the labels, if X holds text, categories, dates or missing values. None
        if X holds finite numbers. Landmarks, means, scales and limits refer to the columns that it
        returns.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (d,)
        Names of the columns, if X is a data frame.
    schema_ : dict
        How the columns of files are read, if the model is fitted by `fuzzytwin.files.fit`.

    Notes
    -----
    X may be a data frame of pandas, polars or Arrow with text, categories, dates, truth values and
    missing values, or an array with NaN. It is then turned into numbers by a `TablePreprocessor`
    (which needs the extra ``cli``), as in ``make_pipeline(TablePreprocessor(),
    FuzzyTwinCommittee())``. New categories and missing values at prediction are handled, with a
    warning.

    A weight is an importance, and a row is held out with its full weight: a weight of w is the same
    as w copies of the row in one group, and multiplying all weights by a constant changes nothing.
    Ridges and priors are in units of the mean weight of what is held out together, a row or a
    group: sum W_g^2 / sum W_g, with the total weight W_g of each. A row of weight 0 is not used in
    the fit: its leave-one-out values come from all other rows, its group included. Scaling,
    landmarks and gammas are kept fixed when rows are held out. Only per-feature gammas learned from
    up to 1,500 rows (3,000 with more than 20 columns) are cross-fitted. Boosted
    trees are held out by three folds instead, to which rows are assigned by a hash of their
    content, and groups as a whole. A forest predicts rows, and groups as a whole, by the trees that
    were not fitted to them. The smallest leaves of trees are counted in rows, not in weights.

    References
    ----------
    D. H. Wolpert, "Stacked generalization", Neural Networks 5 (1992), 241-259.
    C. Guo et al., "On calibration of modern neural networks", ICML 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fuzzytwin import FuzzyTwinCommittee
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = FuzzyTwinCommittee().fit(X[::2], y[::2])
    >>> round(model.score(X[1::2], y[1::2]), 2)
    0.97
    >>> round(model.loo_log_loss_, 2)
    0.07
    >>> model.predict_set(X[1:3], coverage=0.95)
    array([[ True, False],
           [ True, False]])
    """

    def __init__(
        self,
        *,
        members: Any = "auto",
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

    preprocessor_: TablePreprocessor | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.sparse = True
        return tags

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None, groups: Any = None
    ) -> Self:
        """Fit the members and their stacking weights.

        Parameters
        ----------
        X : data frame, {array-like, sparse matrix} of shape (n, d)
            Rows of numbers, or of text, categories, dates and missing values.
        y : array-like of shape (n,)
            Labels, at least two different ones. They are matched to the rows of X by position, not
            by an index.
        sample_weight : array-like of shape (n,), default=None
            Importances of the rows. A row of weight 0 is not used.
        membership : array-like of shape (n,) or (n, K), default=None
            Degrees (n,) to which labels are right, which multiply the weights, or soft labels
            (n, K), which are the targets instead of y.
        groups : array-like of shape (n,), default=None
            Rows that belong together, such as the visits of one patient, and are held out together.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter is out of range, X holds infinity (the column is named), y has only one
            class, or a weight is negative.

        Warns
        -----
        TableWarning
            If X is a data frame and one of its columns gives the labels away, or if labels differ
            only in case or spaces.
        """
        fit_rows(self, X, y, sample_weight, membership, groups)
        warn_of_labels(X, column_or_1d(label_array(y)), columns_of(self.preprocessor_))
        return self

    def predict(self, X: Any) -> Array:
        """Predict the most probable label of each row, after class weights.

        Parameters
        ----------
        X : data frame, {array-like, sparse matrix} of shape (n, d)
            Rows, with the columns of the fit.

        Returns
        -------
        ndarray of shape (n,)
        """
        scores = self._scores(X) + np.log(self.class_weight_)
        labels: Array = self.classes_[labels_of(scores)]
        return labels

    def decision_function(self, X: Any) -> Array:
        """Compute the log odds of the classes, after class weights.

        Parameters
        ----------
        X : data frame, {array-like, sparse matrix} of shape (n, d)
            Rows, with the columns of the fit.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            log(p_2 / p_1) for two classes, positive for ``classes_[1]``, and log p_k for more.
        """
        scores = log_softmax(self._scores(X) + np.log(self.class_weight_), axis=1)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> Array:
        """Compute the probability of each class. Rows sum to 1.

        Parameters
        ----------
        X : data frame, {array-like, sparse matrix} of shape (n, d)
            Rows, with the columns of the fit.

        Returns
        -------
        ndarray of shape (n, K)
        """
        return np.asarray(softmax(self._scores(X), axis=1))

    def predict_log_proba(self, X: Any) -> Array:
        """Compute the logarithm of the probability of each class.

        Parameters
        ----------
        X : data frame, {array-like, sparse matrix} of shape (n, d)
            Rows, with the columns of the fit.

        Returns
        -------
        ndarray of shape (n, K)
        """
        return np.asarray(log_softmax(self._scores(X), axis=1))

    def predict_set(
        self, X: Any, coverage: float = 0.9, *, class_conditional: bool = False
    ) -> Array:
        """Compute conformal prediction sets.

        A set contains the true label with probability `coverage`.

        A label is in the set unless its probability is below the (1 - coverage) quantile of the
        leave-one-out probabilities of the training labels (the conformal jackknife). For
        exchangeable rows, the coverage is as requested, up to the influence of single rows on the
        model. With weights, it refers to a population in which rows occur in proportion to their
        weights. Weights unrelated to how hard rows are to classify do not change it. If rows of
        one class weigh more, the coverage is an average with more of them (within a class, with
        ``class_conditional=True``, it is the same).

        An empty set means that no label is probable enough: each probability is below its
        quantile. A higher coverage gives larger sets. A
        nonempty set may lack the label that `predict` gives if each class is compared with its own
        rows (``class_conditional=True``), as probabilities may be higher in one class than in
        another, or if class weights change the predicted label.

        Parameters
        ----------
        X : data frame, {array-like, sparse matrix} of shape (n, d)
            Rows, with the columns of the fit.
        coverage : float, default=0.9
            Between 0 and 1.
        class_conditional : bool, default=False
            Compare only with rows of the same class. The coverage then holds for every class, rare
            ones included, but sets are larger. Otherwise it holds on average over all rows.

        Returns
        -------
        ndarray of bool of shape (n, K)
            Which labels, in the order of ``classes_``, are in the set.

        Warns
        -----
        UserWarning
            If ``class_conditional=False``, a class is rarer than 1 - coverage, and the
            leave-one-out sets of its rows cover less than half as often as requested.
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

    def _stacking(self, members: list[CommitteeMember]) -> StackingModel:
        return StackingModel(
            np.array([member.weight for member in members]),
            self.stack_coef_,
            self.stack_intercept_,
            noise_inverse=getattr(self, "noise_inverse_", None),
            noise_weight=getattr(self, "noise_weight_", 0.0),
        )

    def _scores(self, X: Any) -> Array:
        """Compute log p up to a constant for each row."""
        X = as_numbers(self, X)
        members = [member for member in self.members_ if member.weight > 0] or self.members_
        stacking = self._stacking(members)
        scales = Scales(self.mean_, self.scale_, self.limits_)
        scores = np.empty((X.shape[0], len(self.classes_)))
        for block in blocks(X.shape[0], max(X.shape[1], self.landmarks_.shape[0])):
            F = predict_values(members, X[block], scales, self.landmarks_)
            scores[block] = stacking.scores(F)
        return check_predicted(scores)
