"""The work behind the commands: train on a table, measure honestly, explain."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler

from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.kernels import is_count
from fuzzytwin.search.estimator import FuzzyTwinSVCCV
from fuzzytwin.tables import columns as _columns
from fuzzytwin.tables import files as _tables
from fuzzytwin.tables.columns import Column
from fuzzytwin.tables.files import TableError
from fuzzytwin.tables.measures import measure

Array = NDArray[Any]

FEW_ROWS = 20_000  # memberships that look for neighbours are tried up to here
HELD_OUT = 10  # of a file that does not fit in memory, every so many rows measure the model
MOST_PIECES = 1000  # of a file that is cut into small ones, to read for the sample
SAMPLE_ROWS = 100_000  # of a file that does not fit in memory, to guess and to tune by


@dataclass
class Settings:
    """What the user asked for."""

    target: str | None
    search: bool = True
    planes: str = "crisp"
    membership: str | None = None
    weight: str | None = None
    degree: str | None = None
    drop: Sequence[str] = ()
    folds: int = 5
    seed: int = 0
    kernel: str = "linear"


@dataclass
class Trained:
    """A trained pipeline and all that there is to tell about it."""

    model: Pipeline
    facts: dict[str, Any]
    columns: list[Column]
    search: Any = None
    # Of the rows in memory, each labelled by a model that has not seen it.
    y: Array = field(default_factory=lambda: np.empty(0))
    memberships: Array = field(default_factory=lambda: np.empty((0, 0)))
    rows: Any = None


Step = Callable[[str], None]


def train(path: str, settings: Settings, step: Step) -> Trained:
    """Train on a table that fits in memory, and measure by cross-validation.

    Everything, the choice of parameters too, is learned anew in each fold from its training rows
    alone: the score is one of the whole procedure.
    """
    step("reading")
    if _tables.check_file(path) == "libsvm":
        X, y, columns, weight, degrees, notes = _libsvm(path, settings)
        prepare: Any = MaxAbsScaler()
    else:
        X, y, columns, weight, degrees, notes = _table(path, settings)
        prepare = _columns.preparation(columns)
    folds = min(settings.folds, int(np.unique(y.astype(str), return_counts=True)[1].min()))
    if folds < settings.folds:
        notes.append(f"{folds} folds, as the smallest class has {folds} rows")
    machine, tuned = _machine(settings, len(y), folds)
    if tuned:
        notes.append(tuned)
    pipeline = Pipeline([("prepare", prepare), ("model", machine)])
    classes = np.unique(y)
    outside = np.zeros((len(y), len(classes)))
    scores = []
    splits = StratifiedKFold(folds, shuffle=True, random_state=settings.seed).split(X, y)
    for number, (train_rows, test_rows) in enumerate(splits, start=1):
        step(f"fold {number} of {folds}")
        fitted = _fit(clone(pipeline), X, y, weight, degrees, train_rows)
        with _quiet():
            u = fitted.predict_proba(_rows(X, test_rows))
        outside[np.ix_(test_rows, np.searchsorted(classes, fitted.classes_))] = u
        hit = classes[outside[test_rows].argmax(axis=1)] == y[test_rows]
        part = None if weight is None else weight[test_rows]
        if part is None or part.any():
            scores.append(float(np.average(hit, weights=part)))
    step("all rows")
    model = _fit(pipeline, X, y, weight, degrees, None)
    search = model[-1] if settings.search else None
    best = model[-1].best_estimator_ if settings.search else model[-1]
    model = Pipeline([("prepare", model[0]), ("model", best)])
    facts = _facts(path, settings, columns, best, y, notes)
    told = measure(y, classes[outside.argmax(axis=1)], weight)
    told.update(accuracy=float(np.mean(scores)), accuracy_std=float(np.std(scores, ddof=1)))
    facts["score"] = {**told, "how": f"{folds}-fold cross-validation", "folds": scores}
    return Trained(model, facts, columns, search, y, outside, X)


def train_stream(path: str, settings: Settings, step: Step) -> Trained:
    """Train on a table of any size, a batch of rows at a time, by `fuzzytwin.sources`.

    Columns are judged, parameters tuned and landmarks taken by the first rows. Every tenth row is
    kept out of a first fit, to be measured by; the model itself learns from all.
    """
    from fuzzytwin.sources import fit_source

    if _tables.check_file(path) == "libsvm":
        raise TableError(
            f"{path}: LIBSVM text is not read in batches here; use fuzzytwin.sources.fit_source."
        )
    if settings.target is None:
        raise TableError(f"which column of {path} is to be predicted? Name it: --target NAME.")
    step("looking at the first rows")
    head, more_rows = _sample(path)
    first = len(head) if more_rows else 0
    frame, y, weight, degrees, notes = _parts(head, settings, path, first)
    others = [name for name in (settings.target, settings.weight, settings.degree) if name]
    columns = _columns.look(frame, others, settings.drop, first)
    prepare = _columns.preparation(columns)
    X = _columns.chosen(frame, columns, path)
    settings = Settings(**{**vars(settings), "membership": _streaming_way(settings.membership)})
    machine, _ = _machine(settings, FEW_ROWS + 1, min(settings.folds, 5))
    # Every tenth row, to be measured by, has no say in this either.
    usable = np.flatnonzero(np.asarray(X.index) % HELD_OUT)
    sample = np.random.default_rng(settings.seed).permutation(usable)[:FEW_ROWS]
    prepare.fit(X.iloc[usable])
    best = machine
    curved = settings.kernel != "linear"
    if settings.search or curved:
        step("choosing parameters" if settings.search else "taking landmarks")
        _check_sample(y[sample], str(settings.target), len(head))
        keys = {"sample_weight": weight, "membership": degrees}
        given = {key: value[sample] for key, value in keys.items() if value is not None}
        machine.fit(prepare.transform(X.iloc[sample]), y[sample], **given)
        best = _with_landmarks(machine.best_estimator_ if settings.search else machine)
    judged = "columns judged and parameters chosen" if settings.search else "columns judged"
    notes.append(f"{judged} by the first {len(y):,} rows")
    if curved:
        notes.append(f"landmarks taken from the first {len(y):,} rows")
    labels_of = np.unique(y)

    def batches(part: int | None) -> Iterator[tuple[Any, ...]]:
        text = [column.name for column in columns if column.kind == "category"]
        target = str(settings.target)
        if labels_of.dtype.kind == "U":
            text.append(target)
        start = 0
        for piece in _tables.read_batches(path, text):
            held = np.arange(start, start + len(piece)) % HELD_OUT == 0
            start += len(piece)
            asked = np.ones(len(piece), bool) if part is None else held if part else ~held
            piece = piece[piece[target].notna().to_numpy() & asked]
            if not len(piece):
                continue
            with _quiet():
                rows = prepare.transform(_columns.chosen(piece, columns, path))
            found = _stream_labels(piece[target], labels_of, target, len(head))
            w = _columns.numbers(piece, settings.weight, "weights", path)
            mu = _columns.numbers(piece, settings.degree, "degrees", path)
            if mu is not None and w is None:
                w = np.ones(len(piece))
            yield (rows, found, *(value for value in (w, mu) if value is not None))

    def learn(part: int | None) -> Any:
        fitted = fit_source(clone(best), lambda: batches(part), classes=labels_of)
        if settings.search:
            # The ridge was chosen for as many rows as the sample had; it grows with the rows.
            growth = float(fitted.moments_.own.weight.sum()) / sum_of(weight, sample)
            fitted.set_params(alpha=best.alpha * growth)
            fitted.fit_moments(
                fitted.moments_,
                fitted.classes_,
                landmark_map=getattr(fitted, "landmark_map_", None),
            )
        return fitted

    step("nine rows of ten")
    trial = learn(0)
    step("the tenth rows")
    seen, said, weights = [], [], []
    for rows, found, *more in batches(1):
        seen.append(found)
        said.append(trial.predict(rows))
        weights.append(more[0] if more and settings.weight else np.ones(len(found)))
    told = measure(np.concatenate(seen), np.concatenate(said), np.concatenate(weights))
    n = int(sum(len(part) for part in seen))
    share = (n * told["accuracy"] + 1) / (n + 2)  # no certainty from few rows
    spread = float(np.sqrt(share * (1 - share) / n))
    step("all rows")
    model = Pipeline([("prepare", prepare), ("model", learn(None))])
    facts = _facts(path, settings, columns, model[-1], y, notes)
    if settings.weight is None:
        counts = [round(float(count)) for count in model[-1].moments_.own.weight]
        facts["rows"] = sum(counts)
        facts["classes"] = dict(zip(map(str, labels_of), counts, strict=True))
    facts["score"] = {**told, "accuracy_std": spread, "how": f"{n:,} rows kept out of the fit"}
    return Trained(model, facts, columns)


def sum_of(weight: Array | None, sample: Array) -> float:
    """Weight of a sample of rows."""
    return float(len(sample) if weight is None else weight[sample].sum())


# Parts --------------------------------------------------------------------------------------


def _parts(frame: Any, settings: Settings, path: str, first: int = 0) -> tuple[Any, ...]:
    """Rows with a label, and their labels, weights and degrees; `first` as in `_columns.look`."""
    target = str(settings.target)
    _columns.need_column(frame, target, "target", path)
    notes = []
    unlabelled = int(frame[target].isna().sum())
    if unlabelled == len(frame):
        where = f"each of the first {first:,} rows" if first else "every row"
        remedy = _columns.SORTED if first else "give labels"
        raise TableError(f"the target {target!r} is missing in {where}; {remedy}.")
    if unlabelled:
        notes.append(f"{unlabelled:,} rows without a label left out")
        frame = frame[frame[target].notna()]
    y = _columns.labels(frame[target], target, first)
    weight = _columns.numbers(frame, settings.weight, "weights", path)
    degrees = _columns.numbers(frame, settings.degree, "degrees", path)
    return frame, y, weight, degrees, notes


def _table(path: str, settings: Settings) -> tuple[Any, ...]:
    if settings.target is None:
        raise TableError(f"which column of {path} is to be predicted? Name it: --target NAME.")
    frame = _tables.read_frame(path)
    frame, y, weight, degrees, notes = _parts(frame, settings, path)
    others = [name for name in (settings.target, settings.weight, settings.degree) if name]
    for name in settings.drop:
        _columns.need_column(frame, name, "option --drop", path)
    columns = _columns.look(frame, others, settings.drop)
    return _columns.chosen(frame, columns, path), y, columns, weight, degrees, notes


def _libsvm(path: str, settings: Settings) -> tuple[Any, ...]:
    named = {"--target": settings.target, "--weight": settings.weight, "--degree": settings.degree}
    for option, value in named.items():
        if value:
            raise TableError(f"{path} is LIBSVM text, which has no names; leave out {option}.")
    X, y = _tables.read_libsvm(path)
    if X.shape[1] > _columns.MOST_FEATURES:
        raise TableError(
            f"{path} has {X.shape[1]:,} features, more than {_columns.MOST_FEATURES:,}; choose "
            "some."
        )
    _columns.check_labels(y, "label")
    column = Column(f"{X.shape[1]} sparse features", "number", 0, 0, "scaled by their greatest")
    return X, y, [column], None, None, []


def _machine(settings: Settings, n: int, folds: int) -> tuple[Any, str]:
    """The machine to train, and what the user should know of the choice."""
    seed = None if settings.kernel == "linear" else settings.seed  # for the landmarks
    if not settings.search:
        machine = FuzzyTwinSVC(
            settings.planes,
            membership=_way(settings.membership),
            kernel=settings.kernel,
            random_state=seed,
        )
        return machine, ""
    ways: tuple[Any, ...] = (None, "center", "hyperplane", "neighbor")
    note = ""
    if settings.membership is not None:
        ways = (_way(settings.membership),)
    elif n > FEW_ROWS:
        ways, note = ways[:-1], f"neighbor memberships not tried beyond {FEW_ROWS:,} rows"
    folds = StratifiedKFold(max(2, folds), shuffle=True, random_state=settings.seed)
    search = FuzzyTwinSVCCV(
        memberships=ways,
        planes=settings.planes,
        kernels=settings.kernel,
        cv=folds,
        random_state=seed,
    )
    return search, note


def _way(name: str | None) -> str | None:
    return None if name in (None, "none") else name


def _streaming_way(name: str | None) -> str | None:
    if name in ("neighbor", "entropy", "intuitionistic"):
        raise TableError(
            f"membership {name!r} needs all rows in memory at once; use none, center or hyperplane."
        )
    return name


def _fit(
    pipeline: Any, X: Any, y: Array, weight: Array | None, degrees: Array | None, rows: Any
) -> Any:
    given = {"model__sample_weight": weight, "model__membership": degrees}
    kept = {
        key: value if rows is None else value[rows]
        for key, value in given.items()
        if value is not None
    }
    with _quiet():
        if rows is None:
            return pipeline.fit(X, y, **kept)
        return pipeline.fit(_rows(X, rows), y[rows], **kept)


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing to warn of: the encoders know what to do with what a fold has not met."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Skipping features without any observed values")
        warnings.filterwarnings("ignore", "The least populated class in y")
        warnings.filterwarnings("ignore", "Found unknown categories")
        yield


def _rows(X: Any, rows: Array) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _sample(path: str) -> tuple[Any, bool]:
    """The first rows of a file, and whether there are more."""
    import pandas

    pieces: list[Any] = []
    count, more = 0, False
    for piece in _tables.read_batches(path):
        pieces.append(piece)
        count += len(piece)
        more = count > SAMPLE_ROWS or len(pieces) > MOST_PIECES
        if more:
            break
    head = pandas.concat(pieces[:MOST_PIECES], ignore_index=True)
    return head.iloc[:SAMPLE_ROWS], more


def _check_sample(y: Array, target: str, rows: int) -> None:
    """Refuse a sample of one class, though there are more among the first rows."""
    if len(np.unique(y)) < 2:
        raise TableError(
            f"the target {target!r} holds hardly any class but {y[0]} in the first {rows:,} rows, "
            f"which --stream goes by; {_columns.SORTED}."
        )


def _with_landmarks(fitted: Any) -> Any:
    """The machine anew, with the landmarks and the gamma that it found, if it is curved.

    The first batch of a file, where it would take them from, is no fair sample of sorted rows.
    """
    fresh = clone(fitted)
    phi = getattr(fitted, "landmark_map_", None)
    return fresh if phi is None else fresh.set_params(n_landmarks=phi.landmarks, gamma=phi.gamma)


def _stream_labels(values: Any, known: Array, name: str, rows: int) -> Array:
    """Labels of a batch, each of them among those that the first rows have."""
    if known.dtype.kind == "U":
        found = _tables.as_text(values).to_numpy(dtype=object).astype(str)
    else:
        try:
            found = values.to_numpy(dtype=np.int64)
        except (TypeError, ValueError) as error:
            raise TableError(
                f"the target {name!r} holds text further down but whole numbers in the first rows; "
                "write labels alike."
            ) from error
    strange = np.setdiff1d(found, known)
    if len(strange):
        raise TableError(
            f"the target {name!r} holds the label {strange[0]} further down but not in the first "
            f"{rows:,} rows, which --stream goes by; {_columns.SORTED}."
        )
    return found


def _facts(
    path: str, settings: Settings, columns: list[Column], best: Any, y: Array, notes: list[str]
) -> dict[str, Any]:
    labels, counts = np.unique(y, return_counts=True)
    chosen = {name: getattr(best, name) for name in ("planes", "C", "alpha", "membership", "rule")}
    chosen["C"] = np.asarray(chosen["C"], dtype=float).tolist()
    chosen |= _curvature(best, len(y))
    phi = getattr(best, "landmark_map_", None)
    return {
        "data": str(path),
        "target": settings.target,
        "weight": settings.weight,
        "degree": settings.degree,
        "rows": len(y),
        "classes": {str(label): int(n) for label, n in zip(labels, counts, strict=True)},
        "columns": [column.as_dict() for column in columns],
        "parameters": chosen,
        "landmarks": None if phi is None else int(phi.landmarks.shape[0]),
        "tuned": settings.search,
        "notes": notes,
    }


def _curvature(best: Any, rows: int) -> dict[str, Any]:
    """Parameters of a machine's kernel that make it again; none where it is linear.

    As many landmarks as asked for, not as found: classes' shares are rounded down, so that the
    number found would draw another sample.
    """
    phi = getattr(best, "landmark_map_", None)
    if phi is None:
        return {}
    asked = best.n_landmarks if is_count(best.n_landmarks) else phi.landmarks.shape[0]
    gamma = {} if best.kernel == "cosine" else {"gamma": float(phi.gamma)}
    count = {"n_landmarks": min(int(asked), rows), "random_state": best.random_state}
    return {"kernel": best.kernel, **gamma, **count}
