"""What the columns of a table hold: inferred once, kept with the model, applied to later tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from fuzzytwin._utils.extras import import_optional
from fuzzytwin._utils.types import Array
from fuzzytwin.tables._batch import TableBatch, error_context, is_numeric_list
from fuzzytwin.tables._columns import Column, label_key, missing_column
from fuzzytwin.tables._findings import Finding, TableError
from fuzzytwin.tables._infer import infer_columns, infer_labels, list_names, number_columns
from fuzzytwin.tables._numeric import matrix
from fuzzytwin.tables._parse import MISSING, NA_MARKER, UNPARSED, Issues, marked_numbers, pa, pc

_FILLED = {
    "number": "filled with the median",
    "code": "filled with the most frequent value",
    "boolean": "filled with the most frequent value",
    "category": "taken as none of the categories",
}


@dataclass
class ParseIssues:
    """Cells of a table that were not as its schema has them, counted over batches."""

    source: str
    parsed: Counter[str] = field(default_factory=Counter)
    issues: dict[str, Issues] = field(default_factory=dict)
    filled: dict[str, str] = field(default_factory=dict)

    def add(self, column: Column, parsed: int, issues: Issues) -> None:
        """Count the cells of a column: how many were parsed, and which ones were not plain."""
        self.parsed[column.name] += parsed
        self.filled[column.name] = _FILLED.get(column.kind, "")
        if issues:
            before = self.issues.setdefault(column.name, {})
            for code, (count, example) in issues.items():
                known, first = before.get(code, (0, example))
                before[code] = (known + count, first)

    def findings(self) -> list[Finding]:
        """List what to report, one for each column and kind of cell."""
        return [
            Finding(code, name, {"count": count, "example": example, "filled": self.filled[name]})
            for name, issues in self.issues.items()
            for code, (count, example) in issues.items()
        ]

    def check(self) -> None:
        """Refuse a table in which a column of numbers does not hold a single one."""
        for name, issues in self.issues.items():
            if UNPARSED in issues and not self.parsed[name]:
                example = f"{issues[UNPARSED][1]:.60}"
                values = {"source": self.source, "example": example}
                raise TableError(Finding("not_numbers", name, values))


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows that a schema has decoded: features, labels, and what else is known of each row."""

    X: Any  # a pandas frame: numbers as float64, categories as text, NaN if missing
    y: Array | None
    batch: TableBatch
    index: Array  # places among the rows of the batch
    weight: Array | None = None
    membership: Array | None = None
    groups: Array | None = None
    ids: Array | None = None
    kept: Any = None  # an Arrow table of the columns to keep, as they stand
    n_unlabelled: int = 0  # rows that are left out, as they have no label

    @property
    def source(self) -> str:
        """Return the file, or "batch 3"."""
        return self.batch.source

    @property
    def row_numbers(self) -> Array:
        """Return the numbers of the rows as messages and reports show them."""
        return np.asarray(self.batch.row_numbers(self.index))

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True)
class TableSchema:
    """How to read a table: inferred from a sample of rows, kept in the model file.

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
        """Infer what the columns hold from some rows, or all.

        Parameters
        ----------
        sample : TableBatch
            Rows as `TableReader.sample` or `TableReader.read` give them.
        target, weight, membership, groups, id : str, default=None
            Columns that are no features. `membership` may be several.
        features : sequence of str, default=None
            The columns to learn from, None for all others.
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
            If a column is not there, no feature is left, or the target does not hold classes.
        """
        soft = membership if isinstance(membership, (str, type(None))) else tuple(membership)
        schema = cls((), target, weight, soft, groups, id, decimal=sample.decimal,
                     separator=separator, missing=tuple(sample.missing))  # fmt: skip
        names = sample.flat.schema.names
        asked = (*(features or ()), *drop, *numeric, *category)
        for name in (*schema.others, *dict.fromkeys(asked)):
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
        text: bool = False,
        separator: str = ",",
    ) -> TableSchema:
        """Take columns of numbers and truth values as they are, for models that learn from numbers.

        Parameters
        ----------
        sample : TableBatch
            Some rows.
        target, weight, membership : str, default=None
            Columns that are no features. `membership` may be several.
        features : sequence of str, default=None
            The columns to take, in this order. None for all others that are numeric; those that
            are not are left out.
        drop : sequence of str, default=()
            Columns to leave out.
        text : bool, default=False
            Whether `features` may hold text, which is then read as it is.
        separator : str, default=","
            Separator of a text file, for later files that do not show it.

        Returns
        -------
        TableSchema
            The labels are not read by it.

        Raises
        ------
        TableError
            If a column is not there or not numeric, or none is.
        """
        soft = membership if isinstance(membership, (str, type(None))) else tuple(membership)
        schema = cls((), target, weight, soft, decimal=sample.decimal, separator=separator,
                     missing=tuple(sample.missing))  # fmt: skip
        named = {*schema.others, *drop}
        columns = number_columns(sample, named, features, text=text)
        return replace(schema, columns=columns)

    @property
    def others(self) -> tuple[str, ...]:
        """Return the columns that are named and are no features."""
        membership = self.membership
        soft = (membership,) if isinstance(membership, str) else membership or ()
        named = (self.target, self.weight, *soft, self.groups, self.id)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    @property
    def known(self) -> set[str]:
        """Return the names of all columns of the training file."""
        return {column.name for column in self.columns} | set(self.others)

    @property
    def features(self) -> tuple[Column, ...]:
        """Return the columns that are features."""
        return tuple(column for column in self.columns if column.used)

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the columns of a table that the features are read from."""
        return tuple(dict.fromkeys(column.list_name or column.name for column in self.features))

    @property
    def findings(self) -> list[Finding]:
        """Return what was found in all columns."""
        return [finding for column in self.columns for finding in column.findings]

    def to_dict(self) -> dict[str, Any]:
        """Return a dict that is ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, page: Mapping[str, Any]) -> TableSchema:
        """Restore the schema of `to_dict`; a ValueError for anything else."""
        try:
            columns = tuple(map(_column, page["columns"]))
            soft = page.get("membership")
            membership = tuple(soft) if isinstance(soft, (list, tuple)) else soft
            missing = tuple(page.get("missing", MISSING))
            return cls(**{**page, "columns": columns, "membership": membership, "missing": missing})
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
        """Read the rows of a batch as the schema says.

        Parameters
        ----------
        batch : TableBatch
            Rows as `TableReader.batches` gives them.
        labelled : bool, default=True
            Whether to read the labels, and to leave out rows without one.
        keep : sequence of str, default=()
            Columns to copy as they stand.
        issues : ParseIssues, default=None
            Counts cells that are not as expected, over several batches.
        allow_missing : bool, default=False
            Whether a feature that is not there is taken as missing in all rows.
        unknown_labels : {"error", "keep"}, default="error"
            What to do with labels that the schema does not know: refuse them, or give them as
            text.
        as_matrix : bool, default=False
            Whether X is an array, for features that are all numbers; single precision is kept.

        Returns
        -------
        TableRows
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
        numbers = _ColumnValues(batch, index)
        soft = self.membership
        names = (soft,) if isinstance(soft, str) else soft or ()
        degrees = [numbers.between(name, "memberships", 1.0) for name in names]
        return TableRows(
            X=X,
            y=y,
            batch=batch,
            index=index,
            weight=None if self.weight is None else numbers.between(self.weight, "weights", np.inf),
            membership=None if soft is None else np.column_stack(degrees).squeeze(
                1 if isinstance(soft, str) else ()
            ),
            groups=None if self.groups is None else numbers.words(self.groups, "groups"),
            ids=None if self.id is None else numbers.words(self.id),
            kept=batch.cells.select(list(keep)).take(index) if keep else None,
            n_unlabelled=len(batch) - len(index),
        )  # fmt: skip

    def frame(self, batch: TableBatch, issues: ParseIssues, *, allow_missing: bool = False) -> Any:
        """Read the features as a pandas frame: numbers as float64, categories as text."""
        pandas = import_optional("pandas", "cli", "a table with categories")
        arrays = self._arrays(batch, issues, allow_missing)
        # Series of objects: a frame of arrays would get another type in batches of missing cells.
        columns = {
            name: pandas.Series(values, dtype=values.dtype) for name, values in arrays.items()
        }
        return pandas.DataFrame(columns, index=range(len(batch)))

    def _matrix(self, batch: TableBatch, issues: ParseIssues) -> Array:
        """Read features that are all numbers as an array."""
        names = [column.name for column in self.features]
        there = [name for name in names if batch.flat.schema.names.count(name) == 1]
        kinds = {batch.flat.field(name).type for name in there}
        narrow = kinds == {pa.float32()}
        if narrow and there == names and not marked_numbers(self.missing):
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
        missing_names = self._check_features(batch, allow_missing, empty_lists)
        columns: dict[str, Array] = {}
        for column in self.features:
            if column.name in missing_names:
                nothing = np.nan if column.kind != "category" else None
                columns[column.name] = np.full(len(batch), nothing, dtype=float)
                if column.kind == "category":
                    columns[column.name] = columns[column.name].astype(object)
                issues.add(column, 0, {"absent": (len(batch), "")})
            elif column.list_name in empty_lists:
                columns[column.name] = np.full(len(batch), np.nan)
                found = {} if column.missing else {"new_missing": (len(batch), "")}
                issues.add(column, 0, found)
            elif column.kind == "category":
                columns[column.name] = _read_category(column, batch, issues)
            else:
                columns[column.name] = _read_numbers(column, batch, issues)
        return columns

    def _check_features(
        self, batch: TableBatch, allow_missing: bool, empty_lists: Collection[str]
    ) -> set[str]:
        """Return the features that are not there, if that is allowed."""
        names = batch.flat.schema.names
        counts = Counter(names)
        expected = [column for column in self.features if column.list_name not in empty_lists]
        lost = [column for column in expected if counts[column.name] != 1]
        for name in {column.list_name for column in lost} & set(names):
            if is_numeric_list(batch.flat.field(name).type):
                raise _unequal_lists(self, name, batch)
        if not lost:
            return set()
        twice = any(counts[column.name] for column in lost)
        if allow_missing and not twice and len(lost) < len(self.features):
            return {column.name for column in lost}
        needed = [column.name for column in self.features]
        text = missing_column(lost[0].name, names, batch.source, needed, self.known)
        if twice or len(lost) == len(self.features):
            raise TableError(text)
        raise TableError(Finding("missing_columns", lost[0].name, {"text": text}))

    def read_labels(self, batch: TableBatch, unknown: str = "keep") -> tuple[Array, Array]:
        """Return labels as the model has them, and which rows have one."""
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
            known = {"label": new[0], "row": batch.row_numbers(row), "source": batch.source}
            raise TableError(Finding("new_label", name, known))
        if new or not self.labels:
            values = [w if v is None else v for w, v in zip(words, values, strict=True)]
            return np.array([*values, None], dtype=object)[codes], codes < len(words)
        whole = all(isinstance(label, int) for label in self.labels.values())
        filler = next(iter(self.labels.values()))  # of rows without a label
        known_labels = np.array([*values, filler], dtype=np.int64 if whole else str)
        return known_labels[codes], codes < len(words)


def _read_category(column: Column, batch: TableBatch, issues: ParseIssues) -> Any:
    """Read a category as text, NaN if missing."""
    words = batch.text(column.name)
    found: Issues = {}
    if column.categories:
        known = pc.is_in(words, value_set=pa.array(column.categories, pa.string()))
        unknown = pc.and_(pc.invert(known), words.is_valid())
        if count := pc.sum(unknown).as_py():
            found["unknown_category"] = (count, pc.filter(words, unknown)[0].as_py())
    if words.null_count and not column.missing:
        found["new_missing"] = (words.null_count, "")
    issues.add(column, len(words) - words.null_count, found)
    encoded = words.combine_chunks().dictionary_encode()
    values = np.array([*encoded.dictionary.to_pylist(), np.nan], dtype=object)
    return values[encoded.indices.fill_null(len(values) - 1).to_numpy()]


def _read_numbers(column: Column, batch: TableBatch, issues: ParseIssues) -> Array:
    """Read a number, a code or a truth value; NaN if missing."""
    with error_context(column.name):
        parsed = batch.numbers(column.name, column.kind, column.style)
    values, found = parsed.values, dict(parsed.issues)
    present = parsed.present
    if not parsed.is_finite and np.isinf(present).any():
        row = int(np.isinf(values).argmax())
        place = {"source": batch.source, "row": batch.row_numbers(row)}
        raise TableError(Finding("infinite_cell", column.name, place))
    if column.categories:
        unknown = present[~np.isin(present, column.categories)]
        if len(unknown):
            found["unknown_category"] = (len(unknown), f"{unknown[0]:g}")
    unparsed = sum(found.get(code, (0,))[0] for code in (NA_MARKER, UNPARSED))
    n_missing = len(values) - len(present) - unparsed
    if n_missing and not column.missing:
        found["new_missing"] = (n_missing, "")
    issues.add(column, len(present), found)
    return values


class _ColumnValues:
    """Values of columns that are no features, of the rows that have a label."""

    def __init__(self, batch: TableBatch, index: Array) -> None:
        self.batch = batch
        self.index = index

    def between(self, name: str, what: str, most: float) -> Array:
        """Read numbers from 0 to a limit, each row its own."""
        self._check(name)
        with error_context(name):
            values = self.batch.numbers(name).values[self.index]
        bad = ~((values >= 0) & (values <= most) & np.isfinite(values))
        if bad.any():
            row = int(self.index[bad.argmax()])
            allowed = "of at least 0" if most == np.inf else f"from 0 to {most:g}"
            raise TableError(
                f"column {name!r} of {self.batch.source} holds "
                f"{self.batch.cells.column(name)[row].as_py()} in row "
                f"{self.batch.row_numbers(row)}; {what} must be numbers {allowed}."
            )
        return values

    def words(self, name: str, what: str = "") -> Array:
        """Read text; every row must have one if `what` says for what."""
        self._check(name)
        text = self.batch.text(name).take(self.index)
        if what and text.null_count:
            row = int(self.index[text.is_null().to_numpy().argmax()])
            raise TableError(
                f"column {name!r} of {self.batch.source} has no value in row "
                f"{self.batch.row_numbers(row)}; every row needs one as {what}."
            )
        return np.array(text.fill_null("").to_pylist(), dtype=str)

    def _check(self, name: str) -> None:
        names = self.batch.flat.schema.names
        if names.count(name) != 1:
            raise TableError(missing_column(name, names, self.batch.source))


def _empty_lists(schema: TableSchema, batch: TableBatch) -> set[str]:
    """Return the columns of lists that hold no list in these rows, so that none can be spread."""
    flat = batch.flat
    lists = {column.list_name for column in schema.features if column.list_name}
    names = [name for name in lists if flat.schema.names.count(name) == 1]
    return {name for name in names if flat.column(name).null_count == len(batch)}


def _unequal_lists(schema: TableSchema, name: str, batch: TableBatch) -> TableError:
    """Return the error that lists do not have the length of those of the first rows."""
    expected = sum(column.list_name == name for column in schema.columns)
    lengths = pc.list_value_length(batch.cells.column(name)).fill_null(expected).to_numpy()
    row = int((lengths != expected).argmax())
    values = {"source": batch.source, "length": int(lengths[row]), "expected": expected,
              "row": batch.row_numbers(row)}  # fmt: skip
    return TableError(Finding("list_length", name, values))


def _column(entry: Mapping[str, Any]) -> Column:
    """Restore a column; JSON knows no tuples."""
    findings = tuple(Finding(**finding) for finding in entry["findings"])
    return Column(**{**entry, "findings": findings, "categories": tuple(entry["categories"])})
