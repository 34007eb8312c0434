"""Read labelled rows of a table, with weights, membership degrees, groups and ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.label_issues._report import COLUMNS
from fuzzytwin.tables import TableError, read_table
from fuzzytwin.tables._batch import TableBatch
from fuzzytwin.tables._columns import missing_column
from fuzzytwin.tables._findings import Finding
from fuzzytwin.tables._parse import MISSING
from fuzzytwin.tables._reader import TableReader
from fuzzytwin.tables._schema import ParseIssues, TableRows, TableSchema

# Columns that `fuzzytwin label-issues --keep-all` adds to a table.
LABEL_ISSUE_COLUMNS = COLUMNS[1:]
REVIEWED_LABEL = "reviewed_label"  # column of the table that the studio exports
ONE_COLUMN = ("target", "weight", "degree", "groups", "id")  # settings that name a column


@dataclass(frozen=True)
class Settings:
    """Options of a training run, as on the command line."""

    target: str | None = None
    class_weight: str | Mapping[str, float] | None = None
    noise: str | None = None  # or "auto": the committee models label errors
    weight: str | None = None
    degree: str | None = None
    groups: str | None = None
    id: str | None = None
    drop: Sequence[str] = ()
    numeric: Sequence[str] = ()
    category: Sequence[str] = ()
    sheet: str | None = None
    sep: str | None = None  # separator, decimal mark and encoding of text; None detects them
    decimal: str | None = None
    encoding: str | None = None
    labels: str = "auto"  # how the labels arose, for label issues: or "annotated", "observed"
    votes: Sequence[str] = ()  # patterns of the columns of annotators
    missing: Sequence[str] = ()  # further values that mean missing
    keep_na: bool = False  # NA, ? and the like are values
    folds: int = 5
    seed: int = 0

    @property
    def columns(self) -> list[str]:
        """Name the columns that are not features."""
        named = (getattr(self, field) for field in ONE_COLUMN)
        return list(dict.fromkeys(name for name in named if name is not None))

    @property
    def reading(self) -> dict[str, Any]:
        """Return the parameters of `fuzzytwin.tables.read_table`."""
        names = ("sep", "decimal", "encoding", "sheet")
        usual = [""] if self.keep_na else MISSING
        return {**{name: getattr(self, name) for name in names}, "missing": [*usual, *self.missing]}

    def named(self) -> dict[str, Sequence[str]]:
        """Return the columns that options name, by option."""
        single = {f"--{field}": getattr(self, field) for field in ONE_COLUMN}
        several = {f"--{field}": getattr(self, field) for field in ("drop", "numeric", "category")}
        return {option: [name] for option, name in single.items() if name is not None} | several


@dataclass(frozen=True)
class Rows:
    """Rows of a table that have a label: features, labels, and a value for each row."""

    X: Any
    y: Array
    schema: TableSchema
    weight: Array | None = None
    degrees: Array | None = None
    groups: Array | None = None
    id: str | None = None  # the column of ids
    ids: Array | None = None
    findings: list[Finding] = field(default_factory=list)
    n_unlabelled: int = 0  # rows that are not used

    @property
    def fit_params(self) -> dict[str, Array]:
        """Return weights, memberships and groups as parameters of `fit`."""
        params = {"sample_weight": self.weight, "membership": self.degrees, "groups": self.groups}
        return {name: value for name, value in params.items() if value is not None}

    def take(self, index: Any) -> Rows:
        """Return the rows of an index."""
        X = self.X.iloc[index] if hasattr(self.X, "iloc") else self.X[index]
        names = ("y", "weight", "degrees", "groups", "ids")
        arrays = {name: value for name in names if (value := getattr(self, name)) is not None}
        return replace(self, X=X, **{name: value[index] for name, value in arrays.items()})


def id_column(rows: Rows) -> dict[str, Array]:
    """Return the ids of the rows as a column."""
    return {} if rows.ids is None else {id_heading(rows.id): rows.ids}


def id_heading(name: str | None) -> str:
    """Return the name of the column of ids, or "id" if another column of the output has it."""
    return "id" if name is None or name in ("row", *COLUMNS) else name


def without_label_issues(settings: Settings, names: Sequence[str]) -> tuple[Settings, set[str]]:
    """Drop columns that an earlier search for label issues added, unless they are named."""
    named = {*settings.columns, *settings.drop, *settings.numeric, *settings.category}
    written: set[str] = set()
    for suffix in ("", "_", "__"):  # each run on the output of another adds columns
        added = {f"{name}{suffix}" for name in LABEL_ISSUE_COLUMNS}
        if added - {f"label_quality{suffix}"} <= set(names):
            written |= added & (set(names) - named)
    return replace(settings, drop=[*settings.drop, *sorted(written)]), written


def open_table(path: str | Sequence[str], settings: Settings) -> TableReader:
    """Open the table of an experiment."""
    return read_table(path, **settings.reading, expected=settings.columns)


def rows_of(batch: TableBatch, settings: Settings, separator: str = ",") -> Rows:
    """Return the labelled rows of a table, and infer its schema."""
    names = batch.flat.schema.names
    for option, columns in settings.named().items():
        for name in columns:
            if names.count(name) != 1 and name not in batch.cells.schema.names:
                raise TableError(f"{missing_column(name, names, batch.source)} ({option})")
    settings, written = without_label_issues(settings, names)
    schema = TableSchema.infer(
        batch,
        target=settings.target,
        weight=settings.weight,
        membership=settings.degree,
        groups=settings.groups,
        id=settings.id,
        drop=settings.drop,
        numeric=settings.numeric,
        category=settings.category,
        separator=separator,
    )
    findings = (Finding("written_by_us"),)
    inferred = (replace(c, findings=findings) if c.name in written else c for c in schema.columns)
    first_id = next((column.name for column in schema.columns if column.kind == "id"), None)
    schema = replace(schema, columns=tuple(inferred))
    rows = decoded_rows(
        replace(schema, id=settings.id or first_id).decode(batch), schema, settings.id or first_id
    )
    if settings.id is None or settings.groups is not None:
        return rows
    return replace(rows, findings=repeated_ids("repeated_ids", settings.id, rows.ids))


def decoded_rows(rows: TableRows, schema: TableSchema, id: str | None) -> Rows:
    """Convert rows of `TableSchema.decode`."""
    return Rows(
        rows.X, np.asarray(rows.y), schema, rows.weight, rows.membership, rows.groups, id,
        rows.ids, n_unlabelled=rows.n_unlabelled,
    )  # fmt: skip


def repeated_ids(code: str, name: str, ids: Array | None) -> list[Finding]:
    """Return a finding if ids occur more than once, which suggests groups."""
    ids = np.array([]) if ids is None else ids[ids != ""]
    distinct = len(np.unique(ids))
    if distinct == len(ids):
        return []
    return [Finding(code, name, {"distinct": distinct, "rows": len(ids)})]


def read_features(
    path: str, schema: TableSchema, id: str | None = None, **reading: Any
) -> tuple[Any, list[Finding]]:
    """Read the features of a file by a schema, and what was found in its cells."""
    table = read_table(path, like=schema, **reading)
    if id is not None:
        if table.names.count(id) != 1:
            raise TableError(f"{missing_column(id, table.names, path)} (--id)")
        if id in schema.reads:
            raise TableError(f"--id {id!r} is a column that the model was trained on.")
    issues = ParseIssues(path)
    # The file may lack the ids, groups and weights of the training rows.
    features = replace(schema, id=None, groups=None, weight=None, membership=None)
    frame = features.decode(table.read(), labelled=False, issues=issues).X
    issues.check()
    return frame, issues.findings()


def labelled_rows(
    path: str,
    schema: TableSchema,
    target: str | None = None,
    groups: str | None = None,
    default_groups: str | None = None,
    id: str | None = None,
    default_id: str | None = None,
    *,
    allow_missing: bool = False,
    **reading: Any,
) -> Rows:
    """Read the labelled rows of a file by a schema.

    `target` is the column of labels (None: that of the schema), `groups` the column of groups, `id`
    that of ids, and `default_groups` and `default_id` are the columns to use instead if the file
    has them. Labels that are not in the schema are returned as text.
    """
    target = target or schema.target
    if target is None:
        raise TableError(f"missing --target: name the column of {path} with the labels.")
    expected = [target, *(() if allow_missing else schema.reads)]
    table = read_table(path, like=schema, expected=expected, **reading)
    groups = groups or (default_groups if default_groups in table.names else None)
    id = id or (default_id if default_id in table.names else None)
    for option, name in (("--target", target), ("--groups", groups), ("--id", id)):
        if name is not None and table.names.count(name) != 1:
            raise TableError(f"{missing_column(name, table.names, path)} ({option})")
    weight = schema.weight if schema.weight in table.names else None
    labelled_schema = replace(
        schema, target=target, weight=weight, membership=None, groups=groups, id=id
    )
    issues = ParseIssues(path)
    rows = labelled_schema.decode(
        table.read(), issues=issues, unknown_labels="keep", allow_missing=allow_missing
    )
    issues.check()
    if not len(rows):
        raise TableError(f"the target {target!r} is missing in every row of {path}.")
    findings = issues.findings()
    if id is not None and groups is None:
        findings += repeated_ids("repeated_new_ids", id, rows.ids)
    return replace(decoded_rows(rows, schema, id), findings=findings)
