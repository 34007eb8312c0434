"""benchmarks contest: the place among published classifiers, on a folder made here."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

from benchmarks import contest


def write_table(folder, X, y):
    folder.mkdir(parents=True)
    header = "\t".join(["", *(f"f{j + 1}" for j in range(X.shape[1])), "clase"])
    lines = [
        "\t".join(map(str, [i + 1, *row, label]))
        for i, (row, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True))
    ]
    (folder / f"{folder.name}_R.dat").write_text("\n".join([header, *lines]) + "\n")
    places = np.random.default_rng(0).permutation(len(y)) % 4
    folds = [" ".join(map(str, np.flatnonzero(part)))
             for k in range(4) for part in (places != k, places == k)]  # fmt: skip
    (folder / "conxuntos_kfold.dat").write_text("\n".join(folds) + "\n")


@pytest.fixture
def folder(tmp_path):
    for name, load in {"iris": load_iris, "wine": load_wine}.items():
        write_table(tmp_path / "data" / name, *load(return_X_y=True))
    return tmp_path


@pytest.mark.parametrize("by_table", [True, False])
def test_places_among_published_classifiers(folder, capsys, by_table):
    table = "problem good poor gap\niris 90.0 40.0 --\nwine 91.0 99.9 50.0\nabsent 1 2 3\n"
    if not by_table:
        rows = [line.split() for line in table.splitlines()]
        table = "\n".join(" ".join(line) for line in zip(*rows, strict=True)) + "\n"
    (folder / "published.txt").write_text(table)
    contest.run([
        str(folder / "data"), "--published", str(folder / "published.txt"), "--models", "planes",
    ])  # fmt: skip
    last = capsys.readouterr().out.splitlines()[-1].split()
    assert last[:2] == ["planes", "2"]
    assert float(last[2]) > 93
    # First on both tables, of four; "good" has the ranks 2 and 3.
    assert last[3:] == ["1.00", "1", "of", "4", "good", "2.5"]


def test_a_folder_without_tables_is_named(tmp_path):
    with pytest.raises(SystemExit, match="holds no table"):
        contest.run([str(tmp_path)])
