"""Read tables of any kind and turn them into numbers, by one reader and one schema.

`read_table` opens a file, a folder, a glob, a frame or an iterable of frames, and returns its rows
as batches of Arrow cells, unchanged. `TableSchema.infer` infers from a sample of them what each
column holds, and `TableSchema.decode` reads any batch accordingly: features, labels, weights,
groups and ids. Rows in memory (`TableReader.read`) and rows in chunks (`TableReader.batches`) are
read by the same code::

    table = read_table("visits/*.parquet")
    schema = TableSchema.infer(table.sample(), target="sick", id="patient")
    for batch in table.batches():
        rows = schema.decode(batch)      # rows.X, rows.y, rows.ids, rows.row_numbers, ...

`TablePreprocessor` turns the features into numbers. What is worth knowing about a table is a
`Finding`, and `describe` puts it into words.
"""

from fuzzytwin.tables._batch import TableBatch
from fuzzytwin.tables._findings import Finding, TableError, TableWarning, describe
from fuzzytwin.tables._preprocessor import TablePreprocessor
from fuzzytwin.tables._reader import TableReader, read_table
from fuzzytwin.tables._schema import ParseIssues, TableRows, TableSchema

__all__ = [
    "Finding",
    "ParseIssues",
    "TableBatch",
    "TableError",
    "TablePreprocessor",
    "TableReader",
    "TableRows",
    "TableSchema",
    "TableWarning",
    "describe",
    "read_table",
]
