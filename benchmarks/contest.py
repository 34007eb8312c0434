"""The place of our estimators among published classifiers, on the tables of their study.

``python -m benchmarks contest FOLDER`` reads the public UCI tables and partitions of
Fernandez-Delgado et al. (2014): for each table a folder with ``NAME_R.dat`` (a header line, then a
row number, the columns and the class, separated by white space) and ``conxuntos_kfold.dat`` (two
lines for each fold: row numbers to train on and to test on, from 0). ``--published FILE`` is their
table of accuracies in percent: a text file whose first line names the classifiers and whose other
lines begin with the name of a table (or the other way round); "--" is a gap. Nothing of it is
shipped, and nothing is downloaded.

Printed are, for each of ours, the mean accuracy, the mean rank among all classifiers on the tables
that are in both, and the place by that rank. ``--only NAME,NAME`` limits the tables,
``--models committee,search,planes`` the estimators, ``--most-rows N`` leaves out larger tables.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from fuzzytwin import FuzzyTwinCommittee, FuzzyTwinSVC, FuzzyTwinSVCCV

MODELS = {
    "committee": FuzzyTwinCommittee(random_state=0),
    "search": make_pipeline(
        StandardScaler(), FuzzyTwinSVCCV(kernels=("linear", "rbf"), random_state=0)
    ),
    "planes": make_pipeline(StandardScaler(), FuzzyTwinSVC()),
}


def read_table(folder):
    """Rows, labels and folds of one table; None where it has no partition into folds."""
    folds_file, data = folder / "conxuntos_kfold.dat", sorted(folder.glob("*_R.dat"))
    if not folds_file.exists() or not data:
        return None
    rows = np.concatenate([np.loadtxt(path, skiprows=1, ndmin=2) for path in data])
    lines = [np.array(line.split(), dtype=int) for line in folds_file.read_text().splitlines()]
    lines = [line for line in lines if len(line)]
    if len(lines) % 2 or not lines:
        raise SystemExit(f"{folds_file}: {len(lines)} lines; two are needed for each fold.")
    return rows[:, 1:-1], rows[:, -1].astype(int), list(zip(lines[::2], lines[1::2], strict=True))


def accuracy(model, X, y, folds):
    """Mean accuracy over the folds, in percent."""
    scores = []
    for train, test in folds:
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            fitted = clone(model).fit(X[train], y[train])
        scores.append(np.mean(fitted.predict(X[test]) == y[test]))
    return 100 * float(np.mean(scores))


def read_published(path, tables):
    """Published accuracies, one line for each table and one column for each classifier."""
    lines = [line.replace(",", " ").split() for line in Path(path).read_text().splitlines()]
    header, *body = [line for line in lines if line]
    width = len(body[0])
    columns = header[-(width - 1) :]
    values = [[_number(cell) for cell in line[1:]] for line in body]
    frame = pd.DataFrame(values, index=[line[0] for line in body], columns=columns)
    return frame if set(frame.index) & set(tables) else frame.T


def _number(cell):
    try:
        return float(cell)
    except ValueError:
        return np.nan


def places(ours, published):
    """Mean accuracy, mean rank and place of each of ours among all, on the tables in both.

    A classifier without a figure for a table is last there, as in the study.
    """
    found = []
    for name in ours.columns:
        both = pd.concat([published, ours[[name]]], axis=1, join="inner")
        ranks = both.rank(axis=1, ascending=False, na_option="bottom").mean()
        place = int((ranks < ranks[name]).sum()) + 1
        best = ranks.drop(name).idxmin()
        found.append((name, len(both), both[name].mean(), ranks[name], place, len(ranks),
                      f"{best} {ranks[best]:.1f}"))  # fmt: skip
    return found


def run(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks contest", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--published")
    parser.add_argument("--only")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--most-rows", type=int, default=10**9)
    parsed = parser.parse_args(arguments)
    models = parsed.models.split(",")
    wanted = None if parsed.only is None else parsed.only.split(",")
    ours = {}
    for folder in sorted(path for path in parsed.folder.iterdir() if path.is_dir()):
        table = read_table(folder) if wanted is None or folder.name in wanted else None
        if table is None or len(table[1]) > parsed.most_rows:
            continue
        ours[folder.name] = {name: accuracy(MODELS[name], *table) for name in models}
        print(
            f"{folder.name:32s}"
            + "".join(f"  {name} {score:6.2f}" for name, score in ours[folder.name].items()),
            flush=True,
        )
    if not ours:
        raise SystemExit(f"{parsed.folder} holds no table with NAME_R.dat and conxuntos_kfold.dat.")
    frame = pd.DataFrame(ours).T
    print(f"{'mean':32s}" + "".join(f"  {name} {frame[name].mean():6.2f}" for name in models))
    if parsed.published:
        print("\nestimator   tables  accuracy  mean rank  place  best published (mean rank)")
        for name, n, mean, rank, place, total, best in places(
            frame, read_published(parsed.published, frame.index)
        ):
            print(f"{name:11s} {n:6d} {mean:9.2f} {rank:10.2f}  {place:2d} of {total}  {best}")
