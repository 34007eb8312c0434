"""One table under study: its rows, model, left-out probabilities, doubts and effects.

`fuzzytwin train`, `fuzzytwin doubts`, the report pages and the studio show what is here. Each part
is computed when it is first asked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import cohen_kappa_score, get_scorer
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler

from fuzzytwin._duplicates import count_duplicates
from fuzzytwin._utils.extras import need
from fuzzytwin._utils.text import count
from fuzzytwin._utils.types import Array
from fuzzytwin.apps.measures import measure
from fuzzytwin.apps.table_rows import ONE_COLUMN, Rows, Settings, read_libsvm, rows_of
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.data.cells import pa
from fuzzytwin.data.columns import TableError, notices, read_text, spell
from fuzzytwin.data.files import Table, first_row, known_format, read_table
from fuzzytwin.data.preprocessor import fitted_to_schema
from fuzzytwin.data.schema import label_key
from fuzzytwin.doubts import DoubtsReport, find_doubtful
from fuzzytwin.doubts.votes import majority
from fuzzytwin.explain import explain
from fuzzytwin.explain.effects import readable_names
from fuzzytwin.kernels import has_gamma, is_centers, is_count
from fuzzytwin.memberships._registry import by_chunks, check_membership
from fuzzytwin.twin._search import FuzzyTwinSVCCV
from fuzzytwin.twin._svc import FuzzyTwinSVC

HEADLINE = "balanced_accuracy"  # what is reported first is what the search tunes
FEW_ROWS = 20_000  # memberships that look for neighbours are tried up to here
MOST_EFFECTS = 50  # columns of each class whose effects are kept
MAJORITY = "majority of the votes"
LEAST_AGREEMENT = 0.4  # Cohen's kappa of a column and the labels, from which it may be votes


class Study:
    """A table and what is learned from it, each part when it is first asked for.

    `step` is called with what begins, for a progress bar; with `verbose`, finding doubts shows a
    bar of its own.
    """

    def __init__(
        self,
        path: str,
        settings: Settings,
        step: Callable[[str], object] = lambda what: None,
        verbose: bool = False,
    ) -> None:
        self.path, self.settings, self.step, self.verbose = path, settings, step, verbose
        self.streamed = False  # whether the rows are a sample

    # The rows

    @cached_property
    def table(self) -> Table:
        """Return the cells as they stand in the file."""
        return self._read_table()

    def _read_table(self) -> Table:
        return read_table(self.path, self.settings.columns, sheet=self.settings.sheet)

    @cached_property
    def rows(self) -> Rows:
        """Return the rows that have a label, as numbers, categories and gaps."""
        self.step("reading")
        if not known_format(self.path).named:
            return read_libsvm(self.path, self.settings)
        if self.settings.target is None and not self.settings.votes:
            raise TableError(
                f"which column of {self.path} is to be predicted? Name it: --target NAME."
            )
        settings, table = self.settings, self.table
        if settings.votes:
            table, settings = self._labelled_by_votes()
        return rows_of(table, settings)

    @cached_property
    def _voted(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the columns of --votes as text; the labels of these and the target by key."""
        asked, table = self.settings.votes, self.table.cells
        names = [n for n in table.schema.names if any(fnmatchcase(n, pattern) for pattern in asked)]
        if len(names) < 2:
            known = ", ".join(table.schema.names[:10])
            raise TableError(
                f"--votes {' '.join(asked)} names {count(len(names), 'column')} of {self.path}; "
                f"two annotators are needed. Its columns are {known}."
            )
        marks = self.settings.marks
        words = {name: read_text(name, table.column(name), marks) for name in names}
        target = [name for name in table.schema.names if name == self.settings.target]
        labelled = (read_text(name, table.column(name), marks) for name in target)
        every = [*words.values(), *labelled]
        chunks = [chunk for column in every for chunk in column.chunks]
        labels, _ = spell(pa.chunked_array(chunks, pa.string()), self.table.decimal)
        return words, labels

    def _label(self, word: object) -> Any:
        """Return a label as most cells of votes and target spell it; None of an empty cell."""
        return None if word is None else self._voted[1][label_key(str(word), self.table.decimal)]

    @cached_property
    def votes(self) -> Any:
        """Return the labels by annotators, the columns of --votes; None where there is none."""
        words = {name: column.to_pylist() for name, column in self._voted[0].items()}
        votes = {name: list(map(self._label, column)) for name, column in words.items()}
        return need("pandas", "cli", "votes").DataFrame(votes, dtype=object)

    def votes_of_rows(self) -> Any:
        """Return the votes on the rows that have a label."""
        return self.votes.iloc[np.asarray(self.rows.X.index)].reset_index(drop=True)

    def _labelled_by_votes(self) -> tuple[Table, Settings]:
        """Return the table, labelled by most votes where no target is named; votes are dropped."""
        settings, votes, table = self.settings, self.votes, self.table
        if settings.target is None:
            words = [None if label is None else str(label) for label in majority(votes)]
            labels = pa.array(words, pa.string())
            table = replace(table, cells=table.cells.append_column(MAJORITY, labels))
            settings = replace(settings, target=MAJORITY)
        drop = dict.fromkeys([*settings.drop, *votes.columns])
        return table, replace(settings, drop=list(drop))

    @cached_property
    def notes(self) -> list[str]:
        """Return what a reader should know about the rows, a sentence each."""
        notes = notes_on(self.rows, self.X)
        if text := self.looks_like_votes:
            notes.append(text)
        return notes

    @cached_property
    def looks_like_votes(self) -> str:
        """Say which columns seem to hold labels by annotators; "" if fewer than two do.

        They hold labels of the target only, and agree with it better than by chance.
        """
        rows = self.rows
        if rows.schema.zero_based is not None:
            return ""
        known, y = rows.schema.labels, rows.y.astype(str)
        found = []
        for column in (one for one in rows.schema.columns if one.used):
            values = rows.X[column.name].dropna()
            if column.distinct > len(known) or not len(values):
                continue
            keys = (label_key(str(value), self.table.decimal) for value in values.unique())
            labels = [str(known[key]) if key in known else None for key in keys]
            if None in labels or len(labels) < 2:
                continue
            votes = values.map(dict(zip(values.unique(), labels, strict=True)))
            given = y[rows.X[column.name].notna().to_numpy()]
            if cohen_kappa_score(votes.astype(str), given) >= LEAST_AGREEMENT:
                found.append(column.name)
        if len(found) < 2:
            return ""
        names = ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")
        return (
            f"columns {names} hold only labels of the target and agree with it: if annotators "
            "gave them, they are no features; name them by --votes (doubts, studio) or --drop"
        )

    @property
    def numbers(self) -> Array:
        """Return the number of each row in the file, as `numbering` explains it."""
        index = getattr(self.rows.X, "index", np.arange(len(self.rows.y)))
        if not known_format(self.path).named:
            return np.asarray(index) + first_row(self.path)
        return np.asarray(self.table.numbers(np.asarray(index)))

    @property
    def classes(self) -> Array:
        """Return the labels, sorted."""
        return np.unique(self.rows.y)

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Return what each column was taken as."""
        return {column.name: column.kind for column in self.rows.schema.columns}

    def typical(self, column: str, rows: Array) -> Any:
        """Return the median of numbers, or the most frequent value, of some rows; None of none."""
        values = self.rows.X[column][rows].dropna()
        if not len(values):
            return None
        return float(values.median()) if self.kinds[column] == "number" else values.mode().iloc[0]

    # What is learned

    @cached_property
    def prepare(self) -> Any:
        """Return what makes numbers of the columns, fitted to all rows."""
        return self._prepared(self.rows.X)

    def _prepared(self, X: Any) -> Any:
        """Return what makes numbers of the columns, fitted to some rows."""
        schema = self.rows.schema
        if schema.zero_based is not None:
            return MaxAbsScaler().fit(X)
        return fitted_to_schema(schema, X)

    @cached_property
    def X(self) -> Any:
        """Return the rows as numbers."""
        return self.prepare.transform(self.rows.X)

    @cached_property
    def names(self) -> list[str]:
        """Return the names of the columns of `X`: "age", "town = Rom"."""
        return readable_names(self.prepare)

    @cached_property
    def fitted(self) -> Any:
        """Return the estimator that is fitted to all rows: the search, where there is one."""
        estimator, _ = self._plan
        self.step("all rows")
        with quiet():
            return clone(estimator).fit(self.X, self.rows.y, **self.rows.fit_params)

    @cached_property
    def model(self) -> Pipeline:
        """Return the pipeline from the columns of the table to labels."""
        best = getattr(self.fitted, "best_estimator_", self.fitted)
        return Pipeline([("prepare", self.prepare), ("model", best)])

    @cached_property
    def _plan(self) -> tuple[Any, int]:
        """Return the estimator to fit, and the number of folds to measure it by."""
        rows, settings = self.rows, self.settings
        rarest, least, what = rarest_class(rows, settings)
        folds = min(settings.folds, least)
        inner = min(settings.folds, least - -(-least // max(folds, 1)))  # left to tune by
        if folds < 2:
            raise TableError(
                f"class {rarest!r} occurs in {least} of the {what}; measuring needs two: add "
                "some, or leave out --groups."
            )
        if settings.model == "search" and inner < 2:
            raise TableError(
                f"class {rarest!r} has {least} {what}; tuning needs 3 or more of each class: add "
                "some, or train a model that needs none: --model committee."
            )
        near = len(rows.y) <= FEW_ROWS
        if folds < settings.folds:
            what = what.partition(" ")[0]
            self.notes.append(f"{folds} folds, as the smallest class has {folds} {what}")
        if settings.model == "search" and settings.membership is None and not near:
            self.notes.append(f"neighbor memberships not tried beyond {FEW_ROWS:,} rows")
        return make_estimator(settings, rows.y, inner, neighbors=near), folds

    @cached_property
    def left_out(self) -> tuple[Array, Array]:
        """Return probabilities and labels of each row by a model that never saw it.

        All that is learned, the encoding of the columns included, is learned again in each fold.
        Planes that are not calibrated give memberships in place of probabilities.
        """
        rows, classes = self.rows, self.classes
        estimator, folds = self._plan
        P, labels = np.zeros((len(rows.y), len(classes))), rows.y.copy()
        splits = splitter(self.settings, folds).split(rows.X, rows.y, rows.groups)
        for number, (train, test) in enumerate(splits, start=1):
            self.step(f"fold {number} of {folds}")
            seen = rows.take(train)
            with quiet():
                prepare = self._prepared(seen.X)
                fitted = clone(estimator).fit(prepare.transform(seen.X), seen.y, **seen.fit_params)
                X = prepare.transform(rows.take(test).X)
                P[np.ix_(test, np.searchsorted(classes, fitted.classes_))] = fitted.predict_proba(X)
                labels[test] = fitted.predict(X)
        return P, labels

    @cached_property
    def score(self) -> dict[str, Any]:
        """Measure the model by what its folds say of the rows that were left out."""
        rows, (P, predicted) = self.rows, self.left_out
        score = measure(
            rows.y, predicted, membership=P, classes=self.classes, weight=rows.weight,
            groups=rows.groups, probabilities=is_calibrated(self.model[-1]),
        )  # fmt: skip
        return {**score, "how": f"{self._plan[1]}-fold cross-validation"}

    # What is told about it

    @cached_property
    def effects(self) -> list[dict[str, Any]]:
        """Explain the model by its rows."""
        rows = self.rows
        return explain(self.model, rows.X, rows.y, rows.weight, MOST_EFFECTS)

    @cached_property
    def doubts(self) -> DoubtsReport:
        """Find the doubtful labels: every row is judged by planes that never saw it."""
        rows = self.rows
        self.step("judging every row by the others")
        y, votes = rows.y if self.settings.target or not self.settings.votes else None, None
        if self.settings.votes:
            votes = self.votes_of_rows()
            y = None if y is None else np.array(list(map(self._label, y.tolist())))
        with quiet():
            return find_doubtful(
                self.X, y, sample_weight=rows.weight, groups=rows.groups, votes=votes,
                ids=rows.names, id_name=rows.id or "id", verbose=self.verbose,
            )  # fmt: skip

    @property
    def suggestions_in_words(self) -> str:
        """Say what taking the suggestions would do; "" where no number is claimed."""
        found = self.doubts
        if not found.tells:
            return ""
        return f"{found.caution} {found.after_suggestions}".lstrip()

    def doubts_frame(self) -> Any:
        """Return the doubts as a frame of all rows, the most doubtful first."""
        frame = self.doubts.to_frame()
        frame.insert(0, "row", self.numbers)
        frame["degree"] = frame["degree"].round(4)
        return frame.iloc[self.doubts.order].reset_index(drop=True)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Collect what a model file tells about its training, ready for JSON."""
        score, effects = self.score, self.effects  # scoring adds notes
        facts = facts_of(self.path, self.settings, self.rows, self.model[-1], self.notes)
        return {**facts, "score": score, "effects": effects}


def notes_on(rows: Rows, X: Any) -> list[str]:
    """Return what a reader should know about rows, a sentence each; `X` are they as numbers."""
    notes = [*rows.notes, *left_out(rows.unlabelled)]
    said = notices(rows.X, rows.y, rows.schema, grouped=rows.groups is not None)
    notes += (text.rstrip(".") for text in said)
    equal, near = (0, 0) if rows.groups is not None else count_duplicates(X)
    if equal or near:
        alike = f"{equal:,} rows equal" if equal else f"{near:,} rows nearly equal"
        notes.append(
            f"about {alike} another one: if they belong together (visits of a patient, copies "
            "of a record), name the column that says so by --groups; scores, sets and doubts "
            "are too sure otherwise"
        )
    return notes


def left_out(unlabelled: int) -> list[str]:
    """Say how many rows have no label, if there are any."""
    return [f"{count(unlabelled, 'row')} without a label left out"] if unlabelled else []


# The estimator, its folds, and the facts about it


def is_calibrated(model: Any) -> bool:
    """Return whether a model gives probabilities, not memberships."""
    committee = isinstance(model, FuzzyTwinCommittee)
    return committee or getattr(model, "calibration", None) is not None


def likeliest_other(shares: Array, own: int) -> int:
    """Return the class of the greatest share, other than its own."""
    others = shares.copy()
    others[own] = -1.0
    return int(others.argmax())


def rarest_class(rows: Rows, settings: Settings) -> tuple[str, int, str]:
    """Return the class with the fewest rows or groups, how many it has, and what they are."""
    units = np.arange(len(rows.y)) if rows.groups is None else rows.groups
    counts = {str(k): len(np.unique(units[rows.y == k])) for k in np.unique(rows.y)}
    rarest = min(counts, key=lambda label: counts[label])
    what = "rows" if rows.groups is None else f"groups of {settings.groups!r}"
    return rarest, counts[rarest], what


def splitter(settings: Settings, folds: int) -> StratifiedKFold | StratifiedGroupKFold:
    """Make shuffled folds with equal shares of the classes; groups are kept whole."""
    kind = StratifiedKFold if settings.groups is None else StratifiedGroupKFold
    return kind(folds, shuffle=True, random_state=settings.seed)


def make_estimator(settings: Settings, y: Array, folds: int, *, neighbors: bool) -> Any:
    """Make the estimator to train; `neighbors`: whether the search looks for those of each row."""
    class_weight: Any = settings.class_weight
    if class_weight is not None and not isinstance(class_weight, str):
        known = {str(label): label for label in np.unique(y).tolist()}
        if strange := [label for label in class_weight if label not in known]:
            raise ValueError(
                f"--class-weight names the class {strange[0]!r}; the classes are "
                f"{', '.join(list(known)[:10])}."
            )
        class_weight = {k: float(class_weight.get(name, 1.0)) for name, k in known.items()}
    if settings.model == "committee":
        return FuzzyTwinCommittee(
            noise=settings.noise, class_weight=class_weight, random_state=settings.seed
        )
    shared: dict[str, Any] = {
        "planes": settings.planes,
        "solver": settings.solver,
        "class_weight": class_weight,
        "calibration": "loo" if settings.calibrate else None,
        "random_state": None if settings.kernel == "linear" else settings.seed,  # for landmarks
    }
    membership = None if settings.membership == "none" else settings.membership
    if settings.model == "planes":
        return FuzzyTwinSVC(membership=membership, kernel=settings.kernel, **shared)
    search = FuzzyTwinSVCCV(
        kernels=settings.kernel,
        cv=splitter(settings, folds),
        scoring=check_scoring(settings.scoring) or HEADLINE,
        **shared,
    )
    tried = [m for m in search.memberships if neighbors or by_chunks(check_membership(m))]
    return search.set_params(memberships=tried if settings.membership is None else [membership])


def check_scoring(name: str | None) -> str | None:
    """Refuse a score that scikit-learn does not know."""
    if name is not None:
        try:
            get_scorer(name)
        except ValueError:
            raise ValueError(
                f"--scoring {name!r} is unknown; usual ones are accuracy, balanced_accuracy and, "
                "for two classes, roc_auc, f1 and average_precision (scikit-learn's names)."
            ) from None
    return name


@contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings of what a study notes itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class in y")
        warnings.filterwarnings("ignore", "about .* rows (nearly )?equal another row")
        warnings.filterwarnings("ignore", "class .* of the sets of its rows hold it")
        yield


def facts_of(
    path: str, settings: Settings, rows: Rows, best: Any, notes: list[str]
) -> dict[str, Any]:
    """Collect the facts of training but for score and effects."""
    labels, counts = np.unique(rows.y, return_counts=True)
    parameters, phi = _parameters(best, settings, len(rows.y)), getattr(best, "landmark_map_", None)
    landmarks = getattr(best, "landmarks_", getattr(phi, "landmarks", None))
    return {
        "data": str(path),
        **{name: getattr(settings, name) for name in ONE_COLUMN},
        "rows": len(rows.y),
        "classes": {str(label): int(n) for label, n in zip(labels, counts, strict=True)},
        "schema": rows.schema.as_dict(),
        "model": settings.model,
        "parameters": parameters,
        "landmarks": None if landmarks is None else int(landmarks.shape[0]),
        "tuned": settings.model == "search",
        "scoring": settings.scoring or HEADLINE,
        "notes": notes,
    }


def _parameters(best: Any, settings: Settings, rows: int) -> dict[str, Any]:
    """Describe the parameters that make a model again, ready for JSON."""
    weighed = {} if best.class_weight is None else {"class_weight": settings.class_weight}
    if isinstance(best, FuzzyTwinCommittee):
        noise = {} if best.noise is None else {"noise": best.noise}
        return {"members": [str(member) for member in best.members_], **noise, **weighed}
    chosen = {name: getattr(best, name) for name in ("planes", "C", "alpha", "membership", "rule")}
    chosen = {**chosen, "C": np.asarray(chosen["C"], dtype=float).tolist(), **weighed}
    phi = getattr(best, "landmark_map_", None)
    if phi is None:
        return chosen
    # As many landmarks as asked for, not as found: shares of classes are rounded down, so that
    # the number found would draw another sample.
    asked = best.n_landmarks if is_count(best.n_landmarks) else phi.landmarks.shape[0]
    gamma = {"gamma": np.asarray(phi.gamma, float).tolist()} if has_gamma(best.kernel) else {}
    asked = asked if is_centers(asked) else min(int(asked), rows)
    count = {"n_landmarks": asked, "random_state": best.random_state}
    return {**chosen, "kernel": best.kernel, **gamma, **count}
