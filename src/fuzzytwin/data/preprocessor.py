"""What the command line does with the columns of a table, for pipelines in Python."""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from fuzzytwin._params import check_choice
from fuzzytwin._utils.extras import need
from fuzzytwin._utils.types import Array
from fuzzytwin.data.batches import as_table
from fuzzytwin.data.cells import decimal_mark, missing_marks
from fuzzytwin.data.columns import learn, sentinels
from fuzzytwin.data.encoding import encode, encoded_names, learn_encoding
from fuzzytwin.data.schema import Column, OddCells, Schema, TableError, missing_column

_LEARNED = ("schema_", "encoding_")  # attributes that are ready for JSON


class TablePreprocessor(TransformerMixin, BaseEstimator):
    """Columns of text, gaps, categories and numbers, judged and turned into numbers.

    `fit` judges every column by the rules of ``fuzzytwin train``: numbers (also ``<0.5``,
    ``12 %`` and ``1,234``) are scaled, with the median if one is missing; true and false become 1
    and 0; few whole numbers and texts become a column for each value, rare ones together; columns
    that name rows, hold dates, or are constant or empty are left out. `columns_` says what became
    of each, and why.

    If a few numbers of a column lie far off all others, they are taken as the nearest of the
    others, so that they do not ruin its scale. Numbers of later tables far outside of those that
    `fit` had are taken as the limit.

    Parameters
    ----------
    drop : sequence of str, default=()
        Columns to leave out.
    numeric : sequence of str, default=()
        Columns to take as numbers, whatever they look like; dates become days since 1970.
    category : sequence of str, default=()
        Columns to take as categories, whatever they look like.
    decimal : {"auto", ".", ","}, default="auto"
        The mark before decimals, where cells are text. "auto" finds it by the cells of each table,
        as ``fuzzytwin train`` does; where a later table does not show it, it is that of `fit`.
    missing : sequence of str or float, default=()
        Marks for missing values, such as "-999", instead of NA, ?, NULL and the like, so that NA
        can be a category. Empty cells and NaN are always missing.

    Attributes
    ----------
    schema_ : dict
        What was learned about the columns, as a model file has it.
    encoding_ : dict
        Medians, categories, centers and scales.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    It takes data frames of pandas and polars, and arrays, whose columns are then called "x0",
    "x1", ... It needs the extra ``cli`` (pandas and pyarrow). Later tables are read by what was
    learned: a value that a category did not have counts as a rare one, or as none of the known
    ones where none was rare. Columns of frames are found by their names, in any order, and others
    are ignored. A column of numbers without any number in it gets a ValueError, as does a missing
    column.

    `fit` warns of numbers such as -999 that may stand for missing values: repeated ones, far from
    all others.

    Put it in a pipeline: then cross-validation judges columns, medians and categories by the
    training rows alone.

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
    patient; id; names rows, such as p0; category=[...] keeps it
    dose; number; 1 cell, '<0.5', read as a limit; missing: the median
    ward; category; missing: a category of its own
    >>> model.predict(table.tail(2)).tolist()
    ['yes', 'yes']
    """

    def __init__(
        self, *, drop: Any = (), numeric: Any = (), category: Any = (), decimal: str = "auto",
        missing: Any = (),
    ) -> None:  # fmt: skip
        self.drop = drop
        self.numeric = numeric
        self.category = category
        self.decimal = decimal
        self.missing = missing

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Give what is learned as JSON, which takes far less room in a model file than objects."""
        state = dict(super().__getstate__())
        return state | {name: json.dumps(state[name]) for name in _LEARNED if name in state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        learned = {name: json.loads(state[name]) for name in _LEARNED if name in state}
        super().__setstate__(state | learned)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Judge the columns, and learn medians, categories and scales.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, d)
            Rows of text, numbers, truth values or dates.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        check_choice("decimal", self.decimal, ("auto", ".", ","))
        scratch = type(self)(**self.get_params(deep=False))  # so that a failure changes nothing
        table = _as_table(scratch, X)
        if table.num_rows < 2:
            raise ValueError("X has 1 sample, from which no column can be judged; give more rows.")
        drop, numeric, category = (
            self._asked(name, table) for name in ("drop", "numeric", "category")
        )
        decimal, marks = self._mark(table), self._marks()
        try:
            columns = learn(
                table, decimal, (), drop=drop, numeric=numeric, category=category, missing=marks
            )
            schema = Schema(columns, decimal=decimal, missing=marks)
            frame = schema.frame(table, decimal, OddCells("X"))
        except TableError as error:
            raise TableError(_in_python(error)) from error
        for column in schema.features:
            values = frame[column.name].to_numpy() if column.kind == "number" else np.empty(0)
            for text in sentinels(column.name, values):
                warnings.warn(_in_python(text), UserWarning, stacklevel=2)
        scratch.encoding_ = learn_encoding(frame, schema.features)
        scratch.schema_ = schema.as_dict()
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.__dict__.update(vars(scratch))
        return self

    def transform(self, X: Any) -> Array:
        """Turn rows into numbers, by what `fit` learned.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, d)
            Rows with the columns that are used, or an array with all that `fit` had.

        Returns
        -------
        ndarray of shape (n, n_features_out)
        """
        check_is_fitted(self)
        schema, odd_cells = Schema.from_dict(self.schema_), OddCells("X")
        table = _as_table(self, X, schema)
        try:
            frame = schema.frame(table, self._mark(table, schema.decimal), odd_cells)
        except TableError as error:
            raise TableError(_in_python(error)) from error
        odd_cells.check()
        return encode(frame, schema.features, self.encoding_)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Name the columns of `transform`.

        Parameters
        ----------
        input_features : None
            Ignored: the names are those that `fit` had.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        features = Schema.from_dict(self.schema_).features
        return np.asarray(encoded_names(features, self.encoding_, _feature_name), dtype=object)

    @property
    def columns_(self) -> tuple[Column, ...]:
        """Tell what each column holds and what becomes of it: name, kind, note and counts."""
        check_is_fitted(self)
        columns = Schema.from_dict(self.schema_).columns
        return tuple(replace(column, note=_in_python(column.note)) for column in columns)

    def _mark(self, table: Any, otherwise: str = ".") -> str:
        return (
            decimal_mark(table.columns, ",", otherwise) if self.decimal == "auto" else self.decimal
        )

    def _marks(self) -> tuple[str, ...]:
        """Check and return the marks for missing values."""
        if isinstance(self.missing, str):
            raise ValueError(f"missing={self.missing!r} is one text; give a list.")
        return missing_marks(self.missing)

    def _asked(self, parameter: str, table: Any) -> tuple[str, ...]:
        """Check the names of columns that a parameter holds."""
        names = getattr(self, parameter)
        if isinstance(names, str):
            raise ValueError(f"{parameter}={names!r} is one text; give a list: [{names!r}].")
        for name in names:
            if name not in table.column_names:
                known = ", ".join(map(repr, table.column_names[:10]))
                raise ValueError(
                    f"{parameter}={list(names)!r} names {name!r}, which is not a column of X; it "
                    f"has {known}."
                )
        return tuple(names)


def fitted_to_schema(schema: Schema, frame: Any) -> TablePreprocessor:
    """Fit a preprocessor to rows that the schema has read; the columns are as it judged them."""
    fitted = TablePreprocessor()
    names = [column.name for column in schema.columns]
    fitted.n_features_in_ = len(names)
    fitted.feature_names_in_ = np.array(names, dtype=object)
    fitted.encoding_ = learn_encoding(frame, schema.features)
    fitted.schema_ = schema.as_dict()
    return fitted


def _as_table(owner: TablePreprocessor, X: Any, schema: Schema | None = None) -> Any:
    """Turn a frame or an array into an Arrow table; check its columns as scikit-learn does.

    The schema is that of the fit, None during it. Of a frame after fitting to one, the columns that
    are used are taken by their names.
    """
    pandas = need("pandas", "cli", "TablePreprocessor")
    is_frame = hasattr(X, "columns")
    if not is_frame:
        X = check_array(
            X, dtype=None, ensure_all_finite=False, input_name="X", estimator=owner
        )  # fmt: skip
    by_name = is_frame and hasattr(owner, "feature_names_in_")
    if schema is not None and by_name:
        X = _used_columns(X, schema)
    else:
        validate_data(owner, X, reset=schema is None, skip_check_array=True)
    if not len(X):
        raise ValueError("X has 0 sample(s), while a minimum of 1 is required; give some rows.")
    if not is_frame:
        X = pandas.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    table: Any = as_table(X, "X")
    if schema is None or by_name:
        return table
    return table.rename_columns([column.name for column in schema.columns])


def _used_columns(X: Any, schema: Schema) -> Any:
    """Take the columns of a frame that are features, by their names."""
    is_arrow = type(X).__module__.startswith("pyarrow")
    names = X.schema.names if is_arrow else list(X.columns)
    needed = [column.name for column in schema.features]
    counts = Counter(names)
    for name in needed:
        if counts[name] != 1:
            raise TableError(missing_column(name, names, "X", needed))
    return X.select(needed) if is_arrow else X[needed]


def _feature_name(column: Column, value: Any) -> str:
    """Name a column of `transform` as scikit-learn's ColumnTransformer would."""
    name = f"{column.kind}__{column.name}"
    return name if value is None else f"{name}_{value}"


def _in_python(text: object) -> str:
    """Name parameters where the command line names its options."""
    words = re.sub(r"--(drop|numeric|category) ('[^']*')", r"\1=[\2]", str(text))
    words = re.sub(r"--missing ([-+.\w]*\w)", r"missing=['\1']", words)
    return re.sub(r"--(drop|numeric|category)", r"\1=[...]", words)
