"""Messages about scores and rows, for the command line, the report pages and the studio."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from fuzzytwin._utils.text import count, cut_middle
from fuzzytwin.tables import Finding, describe
from fuzzytwin.tables._findings import describe_all, describe_together

# Messages of the findings of an experiment. `fuzzytwin.tables` has those of tables.
TEMPLATES = {
    "unlabelled": "{rows} without a label, not used",
    "repeated_ids": (
        "--id column {column!r} has {distinct:,} different values in {rows:,} rows. If rows with "
        "the same value belong together, such as visits of a patient, use --groups "
        "{column!r}. Otherwise scores, prediction sets and label issues are too optimistic"
    ),
    "repeated_new_ids": (
        "--id column {column!r} has {distinct:,} different values in {rows:,} rows. If rows with "
        "the same value belong together, such as visits of a patient, use --groups {column!r}. "
        "Otherwise the intervals are too narrow"
    ),
    "duplicates": (
        "about {rows:,} rows equal another one. If they belong together, such as visits of a "
        "patient or copies of a record, name the column of groups with --groups. Otherwise scores, "
        "prediction sets and label issues are too optimistic"
    ),
    "annotator_columns": (
        "columns {names} contain only labels of the target and agree with it. If they are labels "
        "by annotators, use --votes (label-issues, studio) or --drop"
    ),
    "reviewed_target": (
        "the target {column!r} holds labels from the studio. A model chose the rows to review, so "
        "cross-validated scores on these labels are too optimistic. Measure on rows that were set "
        "aside and whose labels a person checked: fuzzytwin evaluate"
    ),
    "fewer_folds": "{folds} folds, because the smallest class has {folds} {units}",
    "sampled": "columns were inferred from the first {rows:,} rows",
}


MIN_GROUPED = 4  # columns that share a note


def notes(findings: Iterable[Finding]) -> list[str]:
    """Describe findings, a sentence each. Findings of one kind about many columns share a note.

    >>> missing = {"count": 1, "example": "", "filled": "filled with the median"}
    >>> notes([Finding("new_missing", f"x_{j}", missing) for j in range(40)])[0]
    '40 columns (x_0, x_1, x_2 and 37 more): 40 cells are missing (none in training), ...
    """
    return describe_together(findings, command_option, note, MIN_GROUPED)


def note(finding: Finding) -> str:
    """Describe a finding, with options of the command line."""
    if finding.code not in TEMPLATES:
        return describe(finding, command_option, full=True)
    values = {"column": finding.column, **finding.values}
    if finding.code == "unlabelled":
        values["rows"] = count(values["rows"], "row")
    return TEMPLATES[finding.code].format_map(values)


def verdict_text(score: dict[str, Any]) -> str:
    """Describe the verdict of `fuzzytwin.experiment._metrics.measure`."""
    verdict = score["verdict"]
    if verdict == "no_better_than_guessing":
        return (
            "It may be no better than guessing, which has a balanced accuracy of "
            f"{score['chance']:.3f}."
        )
    if verdict == "perfect":
        return "It predicts every row correctly. Make sure that no column reveals the label."
    label = score["weakest"]
    weakest = next(entry for entry in score["per_class"] if entry["class"] == label)
    recall = with_interval(weakest["sensitivity"], weakest["sensitivity_interval"])
    if verdict == "better_than_guessing":
        return (
            "It is better than guessing. Recall (sensitivity) is lowest for class "
            f"{label}: {recall}."
        )
    if weakest["sensitivity"] == 0:
        return f"It is better than guessing, but never finds class {label}: its recall is {recall}."
    return f"It is better than guessing, but the recall of class {label} is only {recall}."


def with_interval(share: float, interval: tuple[float, float]) -> str:
    """Format a share and its interval: "0.80 (0.72 to 0.86)"."""
    low, high = interval
    digits = 2 if share == 0 or 0.01 <= share < 0.995 else 4
    return f"{share:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def command_option(name: str, value: str) -> str:
    """Name an option of the command line and its value, for `fuzzytwin.tables.describe`.

    >>> command_option("drop", "blood pressure")
    "--drop 'blood pressure'"
    """
    if name == "all_rows":
        return "use --no-stream"
    if name in ("allow_missing", "stream"):
        return f"--{name.replace('_', '-')}"
    return f"--{name} {shlex.quote(value)}"


def effect_name(column: Mapping[str, Any], width: int = 1000) -> str:
    """Name what changes in an effect of `fuzzytwin.explain.explain`.

    >>> effect_name({"name": "cp = 4", "column": "cp", "value": "4", "deviation": None})
    'cp: 4 (vs others)'
    >>> effect_name({"name": "age", "column": "age", "value": None, "deviation": 9.04})
    'age (+9.04)'
    """
    if column["value"] is not None:
        more = " (vs others)"
        value = cut_middle(column["value"], (width - len(more)) // 2)
        more = f": {value}{more}"
    else:
        more = "" if column["deviation"] is None else f" (+{column['deviation']:.3g})"
    return cut_middle(column["column"], width - len(more)) + more


def column_note(column: dict[str, Any]) -> str:
    """Describe how a column of a schema was used."""
    findings = (Finding(**finding) for finding in column["findings"])
    return describe_all(findings, command_option)
