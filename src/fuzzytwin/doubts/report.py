"""DoubtsReport: what `find_doubtful` returns; users find it in `fuzzytwin.doubts`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from fuzzytwin._params import is_whole, not_allowed
from fuzzytwin._rows import is_missing
from fuzzytwin._utils.extras import need
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._noise import TIE, noise_matrix
from fuzzytwin.doubts.settle import corrected, corrected_flags, rows_to_ask
from fuzzytwin.doubts.votes import Annotators

FEWEST_DOUBTFUL = 5  # rows of one label that are worth a word of caution


@dataclass(frozen=True, eq=False, repr=False)
class DoubtsReport:
    """Doubtful labels of a table. `find_doubtful` makes one; its docstring has an example.

    Parameters
    ----------
    classes : ndarray of shape (K,)
        The labels, sorted.
    codes : ndarray of shape (n,)
        Label of each row, as an index of `classes`.
    posterior : ndarray of shape (n, K)
        Probability that a row is of each class, from its features and its label.
    doubtful : ndarray of bool of shape (n,)
        Rows to look at: those of greatest expected F1 (see `find_doubtful`).
    interval : tuple of float
        95 % interval of the number of wrong labels.
    estimator : estimator
        The classifier that was used, unfitted. For ours, a pipeline of `StandardScaler` and the
        `FuzzyTwinSVC` that counted most in the committee.
    setting : str
        What was used and chosen, in words.
    index : array-like of shape (n,), default=None
        The caller's index.
    ids : ndarray of shape (n,), default=None
        Names of the rows.
    id_name : str, default="id"
        What the names are called.
    tells : bool, default=True
        Whether the columns tell the classes apart at all. If not, no row is doubtful and no number
        of wrong labels is claimed.
    settled : ndarray of int of shape (n,), default=None
        True class of rows that a person has looked at, -1 for others; see `settle`.
    unsettled : DoubtsReport, default=None
        The report before any row was settled.
    annotators : Annotators, default=None
        With votes: how good each annotator is.

    Attributes
    ----------
    degrees : ndarray of shape (n,)
        Degree in [0, 1] to which each label is right. To learn from labels with errors, use
        ``FuzzyTwinCommittee(noise="auto")``: rows weighed by these degrees make it worse.
    suggested : ndarray of shape (n,)
        The most probable label of each row, everything considered: its own unless another one is
        more probable. A doubtful row is one to look at; that another label is more probable is
        not needed for that.
    order : ndarray of shape (n,)
        All rows, the most doubtful first.
    n_wrong : float
        Expected number of wrong labels: the sum of 1 - degrees. NaN where none is claimed.
    n_wrong_interval : tuple of float
        Its 95 % interval.
    n_wrong_after : float
        Expected number of wrong labels once all suggestions are taken.
    names : ndarray of shape (n,)
        What `to_ask` and `settle` call the rows: their ids, else the entries of the index if these
        are all different, else row numbers from 0.
    noise_matrix : ndarray of shape (K, K)
        Share of the rows of each class (row) that has each label (column); rows sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.doubts.find import find_doubtful
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> y[:2] = 1 - y[:2]
    >>> report = find_doubtful(X, y)
    >>> np.argsort(report.degrees)[:2]
    array([1, 0])
    """

    classes: Array
    codes: Array
    posterior: Array = field(repr=False)
    doubtful: Array
    interval: tuple[float, float]
    estimator: Any
    setting: str
    index: Any = None
    ids: Array | None = None
    id_name: str = "id"
    tells: bool = True
    settled: Array | None = field(default=None, repr=False)
    unsettled: DoubtsReport | None = field(default=None, repr=False)
    annotators: Annotators | None = field(default=None, repr=False)

    @cached_property
    def degrees(self) -> Array:
        """Return the degree to which each label is right."""
        own: Array = self.posterior[np.arange(len(self.codes)), self.codes]
        return np.clip(own, 0.0, 1.0)

    @cached_property
    def suggested(self) -> Array:
        """Return the most probable label of each row, its own where others are no likelier."""
        rows = np.arange(len(self.codes))
        sizes = np.bincount(self.codes, minlength=len(self.classes))
        most = self.posterior.max(axis=1)
        likeliest = self.posterior >= most[:, None] * (1 - TIE)
        best = np.where(likeliest, sizes, -1).argmax(axis=1)  # of equals, the commonest label
        better = most > self.posterior[rows, self.codes]
        labels: Array = self.classes[np.where(better, best, self.codes)]
        return labels

    @cached_property
    def order(self) -> Array:
        """Return all rows, the most doubtful first."""
        return np.argsort(self.degrees, kind="stable")

    @property
    def n_wrong(self) -> float:
        """Return the expected number of wrong labels."""
        return float((1.0 - self.degrees).sum()) if self.tells else float("nan")

    @property
    def n_wrong_interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the number of wrong labels."""
        return self.interval

    @property
    def n_wrong_after(self) -> float:
        """Return the expected number of wrong labels once all suggestions are taken."""
        best = np.clip(self.posterior.max(axis=1), 0.0, 1.0)
        return float((1.0 - best).sum()) if self.tells else float("nan")

    @cached_property
    def noise_matrix(self) -> Array:
        """Return the share of each class (row) that has each label (column)."""
        return noise_matrix(self.posterior, self.codes)

    @cached_property
    def names(self) -> Array:
        """Return what `to_ask` and `settle` call the rows."""
        if self.ids is not None:
            return _as_given(self.ids)
        if self.index is not None:
            labels = _as_given(self.index)
            if len(set(labels.tolist())) == len(labels):
                return labels
        return np.arange(len(self.codes))

    def to_ask(self, n: int = 30, random_state: int = 0) -> Array:
        """Choose rows to look at, so that `settle` learns most about the number of wrong labels.

        Half of them are drawn as their labels are uncertain, half from all rows alike: who looks
        at the most doubtful rows alone never learns how many wrong labels the others hide. With
        votes, the rows whose true class is least certain, which one more vote would help most.

        Parameters
        ----------
        n : int, default=30
            How many; fewer where fewer are left.
        random_state : int, default=0
            Where the draw begins.

        Returns
        -------
        ndarray of shape (n,)
            Names of rows (`names`), the most doubtful first; none that is settled.
        """
        if not (is_whole(n) and n >= 0):
            raise not_allowed("n", n, "give a whole number of at least 0")
        open_ = np.arange(len(self.codes))
        if self.settled is not None:
            open_ = np.flatnonzero(self.settled < 0)
        if self.annotators is not None:
            unsure = 1 - self.posterior[open_].max(axis=1)
            drawn = np.argsort(-unsure, kind="stable")[:n]
        else:
            wrong = 1 - self.degrees[open_]
            drawn = rows_to_ask(wrong, min(n, len(open_)), np.random.default_rng(random_state))
        return np.asarray(self.names[open_[drawn]])

    def settle(self, decisions: Any) -> DoubtsReport:
        """Count rows that a person has looked at as known, and learn from them about the others.

        The probabilities of wrong labels of all other rows are corrected by what was found:
        degrees, `n_wrong` and its interval follow, and flags, more slowly. In which order rows were
        looked at does not matter. Ask about rows that `to_ask` draws; decisions on the most
        doubtful rows alone are taken into account, but say little about the others.

        Parameters
        ----------
        decisions : mapping or array-like of shape (n,)
            True label of rows that were looked at, also where it is the one given: from the names
            that `to_ask` returns (`names`); or one for each row, None or NaN where it is open. They
            are added to those of an earlier call.

        Returns
        -------
        DoubtsReport
            A new report; this one stays as it is.

        Raises
        ------
        ValueError
            For rows or labels that the report does not know.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_breast_cancer
        >>> from fuzzytwin.doubts.find import find_doubtful
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> wrong = np.random.default_rng(0).choice(len(y), 60, replace=False)
        >>> given = y.copy()
        >>> given[wrong] = 1 - y[wrong]
        >>> report = find_doubtful(X, given)
        >>> rows = report.to_ask(30)
        >>> settled = report.settle({row: y[row] for row in rows})  # a person looks at these
        >>> bool(settled.n_wrong_interval[0] <= 60 <= settled.n_wrong_interval[1])
        True
        """
        first = self if self.unsettled is None else self.unsettled
        known = np.full(len(self.codes), -1) if self.settled is None else self.settled.copy()
        for row, label in self._decided(decisions):
            known[row] = label
        rows = np.flatnonzero(known >= 0)
        if not len(rows):
            return self
        K = len(self.classes)
        before = 1 - first.degrees
        found_wrong = known[rows] != self.codes[rows]
        wrong, _, interval = corrected(before, self.codes, K, rows, found_wrong)
        posterior = first.posterior + np.finfo(float).tiny
        posterior[np.arange(len(wrong)), self.codes] = 0.0
        posterior *= (wrong / posterior.sum(axis=1))[:, None]
        posterior[np.arange(len(wrong)), self.codes] = 1 - wrong
        posterior[rows] = np.eye(K)[known[rows]]
        flags = corrected_flags(first.doubtful, before, self.codes, K, rows, found_wrong)
        return replace(
            first, posterior=posterior, doubtful=flags, interval=interval, tells=True,
            settled=known, unsettled=first,
        )  # fmt: skip

    def _decided(self, decisions: Any) -> list[tuple[int, int]]:
        """Return row numbers and true classes."""
        n = len(self.codes)
        kind = f"a row from 0 to {n - 1}"
        if not isinstance(decisions, Mapping):
            names = list(range(n))
            decisions = dict(enumerate(decisions))
            if len(decisions) != n:
                raise ValueError(
                    f"decisions has {len(decisions)} entries for {n} rows; give one for each row, "
                    "or {row: true label}."
                )
        else:
            names = self.names.tolist()
            if self.ids is not None:
                kind = "an id of the report"
            elif names != list(range(n)):
                kind = "in the index of the report"
        times, rows = Counter(names), {name: row for row, name in enumerate(names)}
        places = {label: k for k, label in enumerate(self.classes.tolist())}
        found = []
        for name, label in decisions.items():
            if is_missing(label):
                continue
            if name not in rows:
                raise ValueError(f"decisions names {name!r}, which is not {kind}.")
            if times[name] > 1:
                raise ValueError(
                    f"decisions names {name!r}, the id of {times[name]} rows; give one decision "
                    "for each row, in their order."
                )
            if label not in places:
                raise ValueError(
                    f"decisions gives row {name!r} the label {label!r}; known are {list(places)!r}."
                )
            found.append((rows[name], places[label]))
        return found

    def to_frame(self) -> Any:
        """Make a pandas frame: one line for each row, in the caller's order and index.

        Returns
        -------
        DataFrame
            With the column of names if there is one ("id" where its own name is taken), then
            "label", "suggested", "degree", "doubtful" and "rank" (1 is the most doubtful row).
        """
        pandas = need("pandas", None, "to_frame")
        rank = np.empty(len(self.codes), dtype=np.int64)
        rank[self.order] = np.arange(1, len(self.codes) + 1)
        columns = {
            "label": self.classes[self.codes],
            "suggested": self.suggested,
            "degree": self.degrees,
            "doubtful": self.doubtful,
            "rank": rank,
        }
        if self.ids is not None:
            name = "id" if self.id_name in ("row", *columns) else self.id_name
            columns = {name: self.ids, **columns}
        return pandas.DataFrame(columns, index=self.index)

    def summary(self) -> str:
        """Describe the report in a few lines."""
        lines = [self.headline()]
        for k, label in enumerate(self.classes[:12].tolist()):
            own = self.codes == k
            wrong = f", about {(1 - self.degrees[own]).sum():,.1f} wrong" if self.tells else ""
            lines.append(
                f"  {label}: {own.sum():,} rows, {self.doubtful[own].sum():,} doubtful{wrong}"
            )
        if len(self.classes) > 12:
            lines.append(f"  ... and {len(self.classes) - 12} more classes")
        if self.tells:
            lines += filter(None, (self.caution, self.after_suggestions))
        if self.annotators is not None:
            who = self.annotators
            pairs = zip(who.names, who.reliability.tolist(), strict=True)
            named = ", ".join(f"{name} {share:.0%}" for name, share in list(pairs)[:12])
            lines.append(f"Share of right votes: {named}.")
        return "\n".join([*lines, f"Found by {self.setting}."])

    @property
    def caution(self) -> str:
        """Name the labels whose rows are mostly doubtful; "" where there is none."""
        sizes, flagged = (
            np.bincount(codes, minlength=len(self.classes))
            for codes in (self.codes, self.codes[self.doubtful])
        )
        mostly = np.flatnonzero((flagged > sizes / 2) & (flagged >= FEWEST_DOUBTFUL))
        if not len(mostly):
            return ""
        named = ", ".join(f"{self.classes[k]} ({flagged[k]:,} of {sizes[k]:,})" for k in mostly)
        return (
            f"Most rows of {named} are doubtful: either this label is often wrong, or the columns "
            "hardly tell the class apart. Look at some of them before you accept suggestions."
        )

    @property
    def after_suggestions(self) -> str:
        """Say what accepting all suggestions would do."""
        changed = int((self.suggested != self.classes[self.codes]).sum())
        if not changed:
            return "No other label is more probable than the one given."
        these = f"all {changed:,} suggestions of another label were"
        if changed == 1:
            these = "the suggestion of another label was"
        after, low = f"{self.n_wrong_after:,.0f}", self.n_wrong_interval[0]
        harm = ""
        if low < self.n_wrong_after:
            harm = (
                f" That would do harm if fewer than {after} are wrong now, as the interval allows."
            )
        return (
            f"If {these} accepted without a look, about {after} labels of the table would be wrong "
            f"instead of {self.n_wrong:,.0f}.{harm}"
        )

    def headline(self) -> str:
        """Say how many labels are doubtful, and how many are probably wrong."""
        n = len(self.codes)
        if not self.tells:
            return (
                f"No label of {n:,} is called doubtful: the columns do not tell the classes apart, "
                "so nothing can be said about wrong labels."
            )
        low, high = self.n_wrong_interval
        looked = ""
        if self.settled is not None:
            count = int((self.settled >= 0).sum())
            looked = f" {count:,} {'row was' if count == 1 else 'rows were'} looked at."
        return (
            f"{self.doubtful.sum():,} of {n:,} labels are doubtful; about {self.n_wrong:,.0f} "
            f"({low:,.0f} to {high:,.0f}) are probably wrong.{looked}"
        )

    def __repr__(self) -> str:
        low, high = self.n_wrong_interval
        return (
            f"DoubtsReport({len(self.codes)} rows, {len(self.classes)} classes, "
            f"{int(self.doubtful.sum())} doubtful, "
            f"n_wrong={self.n_wrong:.1f} ({low:.1f} to {high:.1f}))"
        )


def _as_given(names: Any) -> Array:
    """Return names in an array whose elements are equal to what the caller has."""
    values = np.asarray(names)
    if values.dtype.kind in "biufUS":
        return values
    objects = np.empty(len(names), dtype=object)
    for row, name in enumerate(names):
        objects[row] = name
    return objects
