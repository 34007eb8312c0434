"""What the columns of a table hold: inferred once, stored with the model, used for later tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, get_type_hints

import numpy as np

from fuzzytwin._utils.extras import import_optional
from fuzzytwin._utils.types import Array, has_type
from fuzzytwin.tables._batch import TableBatch, error_context, is_numeric_list
from fuzzytwin.tables._columns import Column, label_key, missing_column
from fuzzytwin.tables._findings import Finding, TableError
from fuzzytwin.tables._infer import infer_columns, infer_labels, list_names, number_columns
from fuzzytwin.tables._numeric import matrix
from fuzzytwin.tables._parse import MISSING, NA_MARKER, UNPARSED, Issues, marker_numbers, pa, pc

_FILLED = {
    "number": "filled with the median",
    "boolean": "filled with the most frequent value",
    "category": "taken as none of the categories",
}


@dataclass
class ParseIssues:
    """Counts of the cells that are not as the schema expects, over all batches of a table."""

    source: str
    parsed: Counter[str] = field(default_factory=Counter)
    issues: dict[str, Issues] = field(default_factory=dict)
    filled: dict[str, str] = field(default_factory=dict)

    def add(self, column: Column, parsed: int, issues: Issues) -> None:
        """Add the cells of a column: how many were parsed, and which ones are unusual."""
        self.parsed[column.name] += parsed
        self.filled[column.name] = _FILLED.get(column.kind, "")
        if issues:
            totals = self.issues.setdefault(column.name, {})
            for code, (count, example) in issues.items():
                earlier, first_example = totals.get(code, (0, example))
                totals[code] = (earlier + count, first_example)

    def findings(self) -> list[Finding]:
        """List the findings, one for each column and kind of cell."""
        return [
            Finding(code, name, {"count": count, "example": example, "filled": self.filled[name]})
            for name, issues in self.issues.items()
            for code, (count, example) in issues.items()
        ]

    def check(self) -> None:
        """Raise a TableError if a column of numbers holds text and not a single number."""
        for name, issues in self.issues.items():
            if UNPARSED in issues and not self.parsed[name]:
                example = f"{issues[UNPARSED][1]:.60}"
                values = {"source": self.source, "example": example}
                raise TableError(Finding("not_numbers", name, values))


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows that a schema has decoded: features, labels, weights, groups and ids."""

    X: Any  # a pandas frame: numbers as float64, categories as text, NaN if missing
    y: Array | None
    batch: TableBatch
    index: Array  # positions among the rows of the batch
    weight: Array | None = None
    membership: Array | None = None
    groups: Array | None = None
    ids: Array | None = None
    kept: Any = None  # an Arrow table of the columns to keep, unchanged
    n_unlabelled: int = 0  # rows that are left out because they have no label

    @property
    def source(self) -> str:
        """Return the name of the batch in messages: a file, or "batch 3"."""
        return self.batch.source

    @property
    def row_numbers(self) -> Array:
        """Return the numbers of the rows as messages and reports show them."""
        return np.asarray(self.batch.row_numbers(self.index))

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True)
class TableSchema:
    """How to read a table: inferred from a sample of rows, and stored in the model file.

    Examples
    --------
    >>> import pandas as pd
    >>> from fuzzytwin.tables import TableSchema, read_table
    >>> frame = pd.DataFrame({
    ...     "dose": ["1,5", "<0,5", None, "2", "8", "9,5"], "ward": list("aabbab"),
    ...     "sick": ["no", "no", "no", "yes", "yes", "yes"],
    ... })
    >>> table = read_table(frame)
    >>> schema = TableSchema.infer(table.sample(), target="sick")
    >>> [(column.name, column.kind) for column in schema.features]
    [('dose', 'number'), ('ward', 'category')]
    >>> for batch in table.batches(4):
    ...     rows = schema.decode(batch)
    ...     print(rows.X["dose"].tolist(), rows.y.tolist())
    [1.5, 0.5, nan, 2.0] ['no', 'no', 'no', 'yes']
    [8.0, 9.5] ['yes', 'yes']
    """

    columns: tuple[Column, ...] = ()  # all except those that are named next
    target: str | None = None
    weight: str | None = None
    membership: str | tuple[str, ...] | None = None
    groups: str | None = None
    id: str | None = None
    labels: Mapping[str, Any] = field(default_factory=dict)  # by `label_key`, as spelled
    decimal: str = "."  # marks of the training file, for later files that do not show them
    separator: str = ","
    missing: tuple[str, ...] = MISSING  # texts that stand for missing values

    @classmethod
    def infer(
        cls,
        sample: TableBatch,
        *,
        target: str | None = None,
        weight: str | None = None,
        membership: str | Sequence[str] | None = None,
        groups: str | None = None,
        id: str | None = None,
        features: Sequence[str] | None = None,
        drop: Collection[str] = (),
        numeric: Collection[str] = (),
        category: Collection[str] = (),
        separator: str = ",",
    ) -> TableSchema:
        """Infer what the columns hold from a sample of rows.

        Parameters
        ----------
        sample : TableBatch
            Rows of `TableReader.sample` or `TableReader.read`.
        target, weight, membership, groups, id : str, default=None
            Columns that are not features. `membership` may be several columns.
        features : sequence of str, default=None
            The columns to train on, None for all others.
        drop, numeric, category : sequence of str, default=()
            Columns to leave out, to take as numbers and to take as categories, whatever they look
            like.
        separator : str, default=","
            Separator of a text file, for later files that do not show it.

        Returns
        -------
        TableSchema

        Raises
        ------
        TableError
            If a column is missing, no feature is left, or the target does not hold classes.
        """
        schema = cls(
            target=target,
            weight=weight,
            membership=_hashable(membership),
            groups=groups,
            id=id,
            decimal=sample.decimal,
            separator=separator,
            missing=tuple(sample.missing),
        )
        names = sample.flat.schema.names
        named = (*(features or ()), *drop, *numeric, *category)
        for name in (*schema.others, *dict.fromkeys(named)):
            if names.count(name) != 1 and name not in sample.cells.schema.names:
                raise TableError(missing_column(name, names, sample.source))
        if features is not None:
            lists = list_names(sample)
            listed = {*features, *schema.others}
            unlisted = (name for name in names if not {name, lists.get(name)} & listed)
            drop = {*drop, *unlisted}
        labels = {} if target is None else infer_labels(sample, target)
        columns = infer_columns(sample, schema.others, drop, numeric, category)
        return replace(schema, columns=columns, labels=labels)

    @classmethod
    def of_numbers(
        cls,
        sample: TableBatch,
        *,
        target: str | None = None,
        weight: str | None = None,
        membership: str | Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        drop: Collection[str] = (),
        numeric: Collection[str] = (),
        text: bool = False,
        separator: str = ",",
    ) -> TableSchema:
        """Take columns of numbers and truth values unchanged, for models that take only numbers.

        Parameters
        ----------
        sample : TableBatch
            Rows of `TableReader.sample` or `TableReader.read`.
        target, weight, membership : str, default=None
            Columns that are not features. `membership` may be several columns.
        features : sequence of str, default=None
            The columns to take, in this order. None for all other columns that are numeric.
        drop, numeric : sequence of str, default=()
            Columns to leave out, and columns that must be numbers.
        text : bool, default=False
            Whether `features` may hold text, which is then read unchanged.
        separator : str, default=","
            Separator of a text file, for later files that do not show it.

        Returns
        -------
        TableSchema
            A schema without `labels`.

        Raises
        ------
        TableError
            If a column is missing or not numeric, or no column is numeric.
        """
        schema = cls(
            target=target,
            weight=weight,
            membership=_hashable(membership),
            decimal=sample.decimal,
            separator=separator,
            missing=tuple(sample.missing),
        )
        excluded = {*schema.others, *drop}
        columns = number_columns(sample, excluded, features, numeric, text=text)
        return replace(schema, columns=columns)

    @property
    def membership_names(self) -> tuple[str, ...]:
        """Return the columns of degrees or soft labels."""
        if isinstance(self.membership, str):
            return (self.membership,)
        return self.membership or ()

    @property
    def others(self) -> tuple[str, ...]:
        """Return the target and the other named columns that are not features."""
        named = (self.target, self.weight, *self.membership_names, self.groups, self.id)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    @property
    def training_names(self) -> set[str]:
        """Return the names of all columns of the training table."""
        return {column.name for column in self.columns} | set(self.others)

    @property
    def features(self) -> tuple[Column, ...]:
        """Return the columns that are features."""
        return tuple(column for column in self.columns if column.used)

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the columns of the table that the features are read from."""
        return tuple(dict.fromkeys(column.list_name or column.name for column in self.features))

    @property
    def findings(self) -> list[Finding]:
        """Return the findings of all columns."""
        return [finding for column in self.columns for finding in column.findings]

    def to_dict(self) -> dict[str, Any]:
        """Return a dict that can be stored as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TableSchema:
        """Restore the schema of `to_dict`. Raise a ValueError for anything else."""
        try:
            restored = {
                "columns": tuple(map(_column, fields["columns"])),
                "membership": _hashable(fields.get("membership")),
                "missing": tuple(fields.get("missing", MISSING)),
            }
            schema = cls(**{**fields, **restored})
            _check_types(schema)
            return schema
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is not a schema ({error}); train the model again.") from error

    def decode(
        self,
        batch: TableBatch,
        *,
        labelled: bool = True,
        keep: Sequence[str] = (),
        issues: ParseIssues | None = None,
        allow_missing: bool = False,
        unknown_labels: str = "error",
        as_matrix: bool = False,
    ) -> TableRows:
        """Read the rows of a batch according to the schema.

        Parameters
        ----------
        batch : TableBatch
            Rows of `TableReader.batches`.
        labelled : bool, default=True
            Whether to read the labels, and to leave out rows without one.
        keep : sequence of str, default=()
            Columns to copy unchanged.
        issues : ParseIssues, default=None
            Counts of unexpected cells, to which those of this batch are added.
        allow_missing : bool, default=False
            Whether an absent feature is taken as missing in all rows. If not, it is an error.
        unknown_labels : {"error", "keep"}, default="error"
            Whether labels that the schema does not have are an error, or are returned as text.
        as_matrix : bool, default=False
            Whether X is an array, if all features are numbers. Single precision is kept.

        Returns
        -------
        TableRows

        Raises
        ------
        TableError
            If columns or labels are missing, or a cell is infinite.
        """
        issues = ParseIssues(batch.source) if issues is None else issues
        if as_matrix:
            X: Any = self._matrix(batch, issues)
        else:
            X = self.frame(batch, issues, allow_missing=allow_missing)
        index = np.arange(len(batch))
        y = None
        if labelled and self.target is not None:
            y, has_label = self.read_labels(batch, unknown_labels)
            if not has_label.all():
                index = np.flatnonzero(has_label)
                X = X[index] if as_matrix else X.iloc[index]
                y = y[has_label]
        values = _ColumnValues(batch, index)
        degrees = [values.between(name, "memberships", 1.0) for name in self.membership_names]
        membership = None
        if self.membership is not None:
            membership = degrees[0] if isinstance(self.membership, str) else np.stack(degrees, 1)
        return TableRows(
            X=X,
            y=y,
            batch=batch,
            index=index,
            weight=None if self.weight is None else values.between(self.weight, "weights", np.inf),
            membership=membership,
            groups=None if self.groups is None else values.words(self.groups, "groups"),
            ids=None if self.id is None else values.words(self.id),
            kept=batch.cells.select(list(keep)).take(index) if keep else None,
            n_unlabelled=len(batch) - len(index),
        )

    def frame(self, batch: TableBatch, issues: ParseIssues, *, allow_missing: bool = False) -> Any:
        """Read the features as a pandas frame: numbers as float64, categories as text."""
        pandas = import_optional("pandas", "cli", "a table with categories")
        arrays = self._arrays(batch, issues, allow_missing)
        # Each series has its own type: pandas would infer another one from missing cells alone.
        columns = {
            name: pandas.Series(values, dtype=values.dtype) for name, values in arrays.items()
        }
        return pandas.DataFrame(columns, index=range(len(batch)))

    def _matrix(self, batch: TableBatch, issues: ParseIssues) -> Array:
        """Read features that are all numbers as an array."""
        names = [column.name for column in self.features]
        present = [name for name in names if batch.flat.schema.names.count(name) == 1]
        kinds = {batch.flat.field(name).type for name in present}
        narrow = kinds == {pa.float32()}
        if narrow and present == names and not marker_numbers(self.missing):
            cells = [batch.flat.column(name) for name in names]
            if not any(column.null_count for column in cells):
                X = matrix([column.to_numpy() for column in cells])
                if np.isfinite(X.sum()):
                    return X
        arrays = self._arrays(batch, issues, False)
        return matrix(list(arrays.values()), np.float32 if narrow else np.float64)

    def _arrays(
        self, batch: TableBatch, issues: ParseIssues, allow_missing: bool
    ) -> dict[str, Array]:
        """Read the features, each as an array."""
        empty_lists = _empty_lists(self, batch)
        absent = self._check_features(batch, allow_missing, empty_lists)
        columns: dict[str, Array] = {}
        for column in self.features:
            if column.name in absent:
                dtype = object if column.kind == "category" else float
                columns[column.name] = np.full(len(batch), np.nan, dtype=dtype)
                issues.add(column, 0, {"absent": (len(batch), "")})
            elif column.list_name in empty_lists:
                columns[column.name] = np.full(len(batch), np.nan)
                new_issues = {} if column.missing else {"new_missing": (len(batch), "")}
                issues.add(column, 0, new_issues)
            elif column.kind == "category":
                columns[column.name] = _read_category(column, batch, issues)
            else:
                columns[column.name] = _read_numbers(column, batch, issues)
        return columns

    def _check_features(
        self, batch: TableBatch, allow_missing: bool, empty_lists: Collection[str]
    ) -> set[str]:
        """Return the names of absent features. Raise a TableError unless they are allowed."""
        names = batch.flat.schema.names
        counts = Counter(names)
        expected = [column for column in self.features if column.list_name not in empty_lists]
        unmatched = [column for column in expected if counts[column.name] != 1]
        for name in {column.list_name for column in unmatched} & set(names):
            if is_numeric_list(batch.flat.field(name).type):
                raise _unequal_lists(self, name, batch)
        if not unmatched:
            return set()
        has_duplicates = any(counts[column.name] for column in unmatched)
        all_unmatched = len(unmatched) == len(self.features)
        if allow_missing and not has_duplicates and not all_unmatched:
            return {column.name for column in unmatched}
        needed = [column.name for column in self.features]
        name = unmatched[0].name
        text = missing_column(name, names, batch.source, needed, self.training_names)
        if has_duplicates or all_unmatched:
            raise TableError(text)
        raise TableError(Finding("missing_columns", name, {"text": text}))

    def read_labels(self, batch: TableBatch, unknown: str = "keep") -> tuple[Array, Array]:
        """Return the labels of the model for all rows, and which rows have one."""
        name = str(self.target)
        if name not in batch.flat.schema.names:
            raise TableError(missing_column(name, batch.flat.schema.names, batch.source))
        encoded = batch.text(name).combine_chunks().dictionary_encode()
        words = encoded.dictionary.to_pylist()
        values = [self.labels.get(label_key(word, batch.decimal)) for word in words]
        codes = encoded.indices.fill_null(len(words)).to_numpy()
        new = [word for word, value in zip(words, values, strict=True) if value is None]
        if new and unknown == "error":
            row = int(np.flatnonzero(codes == words.index(new[0]))[0])
            details = {"label": new[0], "row": batch.row_numbers(row), "source": batch.source}
            raise TableError(Finding("new_label", name, details))
        if new or not self.labels:
            values = [w if v is None else v for w, v in zip(words, values, strict=True)]
            return np.array([*values, None], dtype=object)[codes], codes < len(words)
        are_integers = all(isinstance(label, int) for label in self.labels.values())
        filler = next(iter(self.labels.values()))  # of rows without a label
        labels = np.array([*values, filler], dtype=np.int64 if are_integers else str)
        return labels[codes], codes < len(words)


def _hashable(names: str | Sequence[str] | None) -> str | tuple[str, ...] | None:
    """Return one name or None unchanged, and several names as a tuple."""
    return names if names is None or isinstance(names, str) else tuple(names)


def _read_category(column: Column, batch: TableBatch, issues: ParseIssues) -> Any:
    """Read a category as text, NaN if missing."""
    words = batch.keys(column.name)
    column_issues: Issues = {}
    if column.categories:
        is_category = pc.is_in(words, value_set=pa.array(column.categories, pa.string()))
        unknown = pc.and_(pc.invert(is_category), words.is_valid())
        if count := pc.sum(unknown).as_py():
            column_issues["unknown_category"] = (count, pc.filter(words, unknown)[0].as_py())
    if words.null_count and not column.missing:
        column_issues["new_missing"] = (words.null_count, "")
    issues.add(column, len(words) - words.null_count, column_issues)
    encoded = words.dictionary_encode()
    values = np.array([*encoded.dictionary.to_pylist(), np.nan], dtype=object)
    return values[encoded.indices.fill_null(len(values) - 1).to_numpy()]


def _read_numbers(column: Column, batch: TableBatch, issues: ParseIssues) -> Array:
    """Read numbers or truth values, NaN if missing."""
    with error_context(column.name):
        parsed = batch.numbers(column.name, column.kind, column.style)
    values = parsed.values
    present = parsed.present
    column_issues = dict(parsed.issues)
    if not parsed.is_finite and np.isinf(present).any():
        row = int(np.isinf(values).argmax())
        cell = {"source": batch.source, "row": batch.row_numbers(row)}
        raise TableError(Finding("infinite_cell", column.name, cell))
    n_unparsed = sum(column_issues.get(code, (0,))[0] for code in (NA_MARKER, UNPARSED))
    n_missing = len(values) - len(present) - n_unparsed
    if n_missing and not column.missing:
        column_issues["new_missing"] = (n_missing, "")
    issues.add(column, len(present), column_issues)
    return values


class _ColumnValues:
    """Values of columns that are not features, for the rows that have a label."""

    def __init__(self, batch: TableBatch, index: Array) -> None:
        self.batch = batch
        self.index = index

    def between(self, name: str, role: str, limit: float) -> Array:
        """Read numbers from 0 to `limit`. `role` is what errors call them."""
        self._check(name)
        with error_context(name):
            values = self.batch.numbers(name).values[self.index]
        bad = ~((values >= 0) & (values <= limit) & np.isfinite(values))
        if bad.any():
            row = int(self.index[bad.argmax()])
            allowed = "of at least 0" if limit == np.inf else f"from 0 to {limit:g}"
            raise TableError(
                f"column {name!r} of {self.batch.source} holds "
                f"{self.batch.cells.column(name)[row].as_py()} in row "
                f"{self.batch.row_numbers(row)}; {role} must be numbers {allowed}."
            )
        return values

    def words(self, name: str, role: str = "") -> Array:
        """Read text. If it has a `role`, which errors name, no row may be without one."""
        self._check(name)
        text = self.batch.text(name).take(self.index)
        if role and text.null_count:
            row = int(self.index[text.is_null().to_numpy().argmax()])
            raise TableError(
                f"column {name!r} of {self.batch.source} has no value in row "
                f"{self.batch.row_numbers(row)}; {role} must not be missing."
            )
        return np.array(text.fill_null("").to_pylist(), dtype=str)

    def _check(self, name: str) -> None:
        names = self.batch.flat.schema.names
        if names.count(name) != 1:
            raise TableError(missing_column(name, names, self.batch.source))


def _empty_lists(schema: TableSchema, batch: TableBatch) -> set[str]:
    """Return the columns of lists in which all lists of these rows are missing."""
    flat = batch.flat
    lists = {column.list_name for column in schema.features if column.list_name}
    names = [name for name in lists if flat.schema.names.count(name) == 1]
    return {name for name in names if flat.column(name).null_count == len(batch)}


def _unequal_lists(schema: TableSchema, name: str, batch: TableBatch) -> TableError:
    """Return the error that a list is longer or shorter than those of the first rows."""
    expected = sum(column.list_name == name for column in schema.columns)
    lengths = pc.list_value_length(batch.cells.column(name)).fill_null(expected).to_numpy()
    row = int((lengths != expected).argmax())
    values = {
        "source": batch.source,
        "length": int(lengths[row]),
        "expected": expected,
        "row": batch.row_numbers(row),
    }
    return TableError(Finding("list_length", name, values))


def _column(entry: Mapping[str, Any]) -> Column:
    """Restore a column from JSON, which has lists instead of tuples."""
    findings = tuple(Finding(**finding) for finding in entry["findings"])
    return Column(**{**entry, "findings": findings, "categories": tuple(entry["categories"])})


@cache
def _types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _check_types(part: TableSchema | Column | Finding) -> None:
    """Raise a TypeError if a field of a restored schema, or of a part of it, has another type."""
    part_type: Any = type(part)
    for name, kind in _types(part_type).items():
        value = getattr(part, name)
        if not has_type(value, kind):
            raise TypeError(f"{name} is {value!r:.40}")
        if isinstance(value, tuple):
            for item in value:
                if isinstance(item, (Column, Finding)):
                    _check_types(item)
