"""Turn tables with text, categories and missing values into numbers, as a scikit-learn step."""

from __future__ import annotations

import json
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from fuzzytwin._params import check_choice
from fuzzytwin._rows import check_rows
from fuzzytwin._utils.extras import import_optional
from fuzzytwin._utils.types import Array
from fuzzytwin.tables._batch import TableBatch, as_arrow, check_collected
from fuzzytwin.tables._checks import sentinels
from fuzzytwin.tables._columns import Column
from fuzzytwin.tables._findings import Finding, warn_of
from fuzzytwin.tables._numeric import encode, encoded_names, learn_encoding
from fuzzytwin.tables._parse import decimal_mark, missing_markers
from fuzzytwin.tables._schema import ParseIssues, TableSchema

_LEARNED = ("schema_", "encoding_")  # attributes that can be stored as JSON
# Findings that a later table differs from that of `fit`.
_NEW = ("unknown_category", "new_missing", "absent")


class TablePreprocessor(TransformerMixin, BaseEstimator):
    """Turn columns of numbers, text and categories, with missing values, into numbers.

    `fit` infers what every column holds, by the rules of ``fuzzytwin train``:

    - Numbers, also cells such as ``<0.5``, ``12 %`` and ``1,234``, are scaled. The median replaces
      missing values.
    - True and false become 1 and 0.
    - Text, and columns of the type category, become a column for each value. Rare values share one.
      Whole numbers are numbers: codes are declared by `category` or by their type.
    - Lists of numbers, such as embeddings, become a column for each element.
    - Columns that identify rows, hold dates or are empty are not used.

    `columns_` says how each column is used, and why. The labels are not used.

    If a few numbers of a column lie far from all others, they are clipped to the nearest of the
    others, so that they do not ruin its scale. Numbers of later tables far outside the range of
    `fit` are clipped to the same limits.

    Parameters
    ----------
    drop : sequence of str, default=()
        Columns to ignore.
    numeric : sequence of str, default=()
        Columns to take as numbers, whatever they look like. Dates become days since 1970.
    category : sequence of str, default=()
        Columns to take as categories, whatever they look like.
    decimal : {"auto", ".", ","}, default="auto"
        The decimal mark of cells of text. "auto" infers it from the cells of `fit`, as
        ``fuzzytwin train`` does. Later tables are read by the same mark.
    missing : sequence of str or float, default=()
        Markers of missing values, such as "-999", instead of NA, ?, NULL and the like, so that NA
        can be a category. Empty cells and NaN are always missing.
    allow_missing : bool, default=False
        Whether columns that a later table lacks are taken as missing in all rows. If not, they are
        an error.
    scale : bool, default=True
        Whether numbers are clipped and scaled. `FuzzyTwinCommittee` does so itself.

    Attributes
    ----------
    schema_ : dict
        What was inferred about the columns, as returned by `TableSchema.to_dict`. A sparse matrix
        has a schema without columns.
    encoding_ : dict
        Medians, categories, centers and scales.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns, if X is a frame.

    Notes
    -----
    X may be a data frame of pandas or polars, an Arrow table, or an array, whose columns are named
    "x0", "x1", ... A sparse matrix holds numbers and is returned unchanged. The extra ``cli``
    (pandas and pyarrow) is needed.

    Later tables are read by the same schema. A new value of a category counts as a rare one, or as
    none of the categories if none was rare. Columns of frames are selected by name, in any order,
    and others are ignored. `transform` warns once, by a `TableWarning`, about new categories, and
    about missing values in columns that had none in `fit`. If a column of numbers holds text and no
    number at all, `transform` raises a `TableError`.

    `fit` warns about numbers such as -999 that may stand for missing values: repeated numbers, far
    from all others.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.tables import TablePreprocessor
    >>> table = pd.DataFrame({
    ...     "patient": [f"p{i}" for i in range(8)],
    ...     "dose": ["1.5", "<0.5", None, "2", "8", "9.5", "7", "8.5"],
    ...     "ward": ["a", "a", "b", "a", "b", "b", None, "b"],
    ... })
    >>> sick = ["no", "no", "no", "no", "yes", "yes", "yes", "yes"]
    >>> model = make_pipeline(TablePreprocessor(), FuzzyTwinSVC()).fit(table, sick)
    >>> for column in model[0].columns_:
    ...     print(column.name, column.kind, column.note, sep="; ")
    patient; id; looks like an ID (p0), not used; TablePreprocessor(category=['patient']) keeps it
    dose; number; 1 cell, '<0.5', read as a limit; missing values replaced by the median
    ward; category; missing values are a category
    >>> model.predict(table.tail(2)).tolist()
    ['yes', 'yes']
    """

    def __init__(
        self,
        *,
        drop: Any = (),
        numeric: Any = (),
        category: Any = (),
        decimal: str = "auto",
        missing: Any = (),
        allow_missing: bool = False,
        scale: bool = True,
    ) -> None:
        self.drop = drop
        self.numeric = numeric
        self.category = category
        self.decimal = decimal
        self.missing = missing
        self.allow_missing = allow_missing
        self.scale = scale

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with what was learned as JSON, which is much smaller than objects."""
        state = dict(super().__getstate__())
        state.pop("_reported", None)
        return state | {name: json.dumps(state[name]) for name in _LEARNED if name in state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        learned = {name: json.loads(state[name]) for name in _LEARNED if name in state}
        super().__setstate__(state | learned)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Infer what the columns hold, and compute medians, categories and scales.

        Parameters
        ----------
        X : DataFrame, array-like or sparse matrix of shape (n, d)
            Rows of text, numbers, truth values or dates.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        check_choice("decimal", self.decimal, ("auto", ".", ","))
        if isinstance(self.missing, str):
            raise ValueError(f"missing={self.missing!r} is a string; give a list of strings.")
        fitted = type(self)(**self.get_params(deep=False))  # so that a failure changes nothing
        if sparse.issparse(X):
            validate_data(fitted, X, accept_sparse="csr")
            schema = TableSchema()
            fitted.encoding_ = {}
        else:
            batch = self._batch(_as_table(fitted, X))
            if len(batch) < 2:
                raise ValueError("X has 1 sample, but inferring the columns needs at least 2.")
            schema = TableSchema.infer(
                batch,
                drop=self._column_names("drop", batch),
                numeric=self._column_names("numeric", batch),
                category=self._column_names("category", batch),
            )
            frame = schema.frame(batch, ParseIssues("X"))
            fitted.encoding_ = learn_encoding(frame, schema.features, self.scale)
            warn_of(_possible_sentinels(schema, frame))
        fitted.schema_ = schema.to_dict()
        for name in [name for name in vars(self) if name.endswith("_") or name == "_reported"]:
            delattr(self, name)
        self.__dict__.update(vars(fitted))
        return self

    def transform(self, X: Any) -> Any:
        """Turn rows into numbers, by what `fit` inferred.

        Parameters
        ----------
        X : DataFrame, array-like or sparse matrix of shape (n, d)
            A frame with the columns that are used, or an array with all columns of `fit`.

        Returns
        -------
        ndarray of shape (n, n_features_out)
            For a sparse matrix, the matrix itself.
        """
        check_is_fitted(self)
        schema = TableSchema.from_dict(self.schema_)
        if sparse.issparse(X) or not schema.columns:
            return _check_sparse(self, X, schema)
        issues = ParseIssues("X")
        batch = self._batch(_as_table(self, X, schema), schema)
        frame = schema.frame(batch, issues, allow_missing=self.allow_missing)
        issues.check()
        reported: set[tuple[str, str]] = getattr(self, "_reported", set())
        new = [
            f for f in issues.findings() if f.code in _NEW and (f.code, f.column) not in reported
        ]
        if new:
            self._reported = reported | {(finding.code, finding.column) for finding in new}
            warn_of(new)
        return encode(frame, schema.features, self.encoding_)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Name the columns of `transform`.

        Parameters
        ----------
        input_features : None
            Ignored: the names are those of `fit`.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        schema = TableSchema.from_dict(self.schema_)
        if not schema.columns:
            names = [f"x{j}" for j in range(self.n_features_in_)]
        else:
            names = encoded_names(schema.features, self.encoding_, _feature_name)
        return np.asarray(names, dtype=object)

    @property
    def columns_(self) -> tuple[Column, ...]:
        """Describe what each column holds and how it is used: name, kind, findings and counts."""
        check_is_fitted(self)
        return TableSchema.from_dict(self.schema_).columns

    def _batch(self, table: Any, schema: TableSchema | None = None) -> TableBatch:
        """Return a table as a batch, to be read by the schema or, in `fit`, by the parameters."""
        if schema is not None:
            return TableBatch(table, decimal=schema.decimal, missing=schema.missing)
        decimal = decimal_mark(table.columns) if self.decimal == "auto" else self.decimal
        return TableBatch(table, decimal=decimal, missing=missing_markers(self.missing))

    def _column_names(self, parameter: str, batch: TableBatch) -> tuple[str, ...]:
        """Return the names of columns in a parameter. Raise a ValueError if X lacks one."""
        names = getattr(self, parameter)
        if isinstance(names, str):
            raise ValueError(f"{parameter}={names!r} is a string; give a list: [{names!r}].")
        table_names = {*batch.cells.column_names, *batch.flat.column_names}
        for name in names:
            if name not in table_names:
                shown = ", ".join(map(repr, batch.cells.column_names[:10]))
                raise ValueError(
                    f"{parameter}={list(names)!r} names {name!r}, which is not a column of X; its "
                    f"columns are {shown}."
                )
        return tuple(names)


def _possible_sentinels(schema: TableSchema, frame: Any) -> list[Finding]:
    """Find numbers such as -999 that may stand for missing values."""
    names = [column.name for column in schema.features if column.kind == "number"]
    return [finding for name in names for finding in sentinels(name, frame[name].to_numpy())]


def _check_sparse(owner: TablePreprocessor, X: Any, schema: TableSchema) -> Any:
    """Return a sparse matrix unchanged. Raise a ValueError unless `fit` had one as well."""
    if schema.columns:
        raise ValueError("X is sparse, but was a table in fit; give the same kind of rows.")
    if not sparse.issparse(X):
        raise ValueError("X is dense, but was a sparse matrix in fit; give the same kind of rows.")
    return validate_data(owner, X, reset=False, accept_sparse="csr", ensure_min_samples=0)


def fitted_to_schema(schema: TableSchema, frame: Any, *, scale: bool) -> TablePreprocessor:
    """Fit a preprocessor to rows that the schema has decoded."""
    fitted = TablePreprocessor(scale=scale)
    names = [column.name for column in schema.columns]
    fitted.n_features_in_ = len(names)
    fitted.feature_names_in_ = np.array(names, dtype=object)
    fitted.encoding_ = learn_encoding(frame, schema.features, scale)
    fitted.schema_ = schema.to_dict()
    return fitted


def encode_rows(preprocessor: TablePreprocessor, frame: Any) -> Array:
    """Turn rows that the schema of a preprocessor has decoded into numbers."""
    features = TableSchema.from_dict(preprocessor.schema_).features
    return encode(frame, features, preprocessor.encoding_)


def encode_table(preprocessor: TablePreprocessor, table: Any) -> Array:
    """Turn a chunk of a table, which may be empty, into numbers."""
    schema = TableSchema.from_dict(preprocessor.schema_)
    if not len(table):
        return np.zeros((0, len(preprocessor.get_feature_names_out())))
    batch = preprocessor._batch(as_arrow(table, "X"), schema)  # noqa: SLF001
    issues = ParseIssues("X")
    frame = schema.frame(batch, issues)
    issues.check()
    return encode(frame, schema.features, preprocessor.encoding_)


def _as_table(owner: TablePreprocessor, X: Any, schema: TableSchema | None = None) -> Any:
    """Turn a frame or an array into an Arrow table, and check its columns as scikit-learn does.

    The schema is that of `fit`, and None during `fit`. If `fit` had a frame, later frames are
    reduced to the columns that are used.
    """
    pandas = import_optional("pandas", "cli", "TablePreprocessor")
    check_collected(X)
    check_rows(X)
    is_table = hasattr(X, "columns")
    if not is_table:
        X = check_array(
            X,
            dtype=None,
            ensure_all_finite=False,
            ensure_min_samples=0,
            input_name="X",
            estimator=owner,
        )
    by_name = is_table and hasattr(owner, "feature_names_in_")
    if schema is not None and by_name:
        X = _used_columns(X, schema)
    else:
        validate_data(owner, X, reset=schema is None, skip_check_array=True)
    if schema is None and not len(X):
        raise ValueError("X has 0 sample(s), while a minimum of 1 is required; add some rows.")
    if not is_table:
        X = pandas.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    table: Any = as_arrow(X, "X")
    if schema is None or by_name:
        return table
    return table.rename_columns([column.name for column in schema.columns])


def _used_columns(X: Any, schema: TableSchema) -> Any:
    """Select the columns of a frame that are features.

    If one is missing, new columns are kept as well, so that the error can suggest a renamed one.
    """
    is_arrow = type(X).__module__.startswith("pyarrow")
    names = list(dict.fromkeys(X.schema.names if is_arrow else X.columns))
    used = {column.name for column in schema.features} | set(schema.reads)
    selected = [name for name in names if name in used]
    if not used.issubset(selected):
        in_training = schema.training_names | set(schema.reads)
        selected += [name for name in names if name not in in_training]
    return X.select(selected) if is_arrow else X[selected]


def _feature_name(column: Column, value: Any) -> str:
    """Name a column of `transform` as scikit-learn's ColumnTransformer would."""
    name = f"{column.kind}__{column.name}"
    return name if value is None else f"{name}_{value}"
