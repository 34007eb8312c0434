"""Tests over tables that docs/compare.md quotes, and the files that it links to."""

import json

import numpy as np
import pytest

from benchmarks import pictures
from benchmarks._significance import corrected_p_values, holm, print_p_values, wilcoxon_p


def test_wilcoxon_has_the_exact_p_value_of_few_pairs():
    ours = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    assert wilcoxon_p(ours, ours - [0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx(2 / 2**5)
    assert wilcoxon_p(ours, ours) == 1.0


def test_holm_multiplies_by_the_number_of_p_values_that_are_not_smaller():
    assert holm([0.04, 0.01, 0.03]).tolist() == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.7, 0.6]).tolist() == [1.0, 1.0]


def test_p_values_of_several_baselines_are_corrected_and_marked(capsys):
    ours = np.array([0.91, 0.82, 0.73, 0.64, 0.55, 0.46, np.nan])
    baselines = {"worse": ours - 0.01 * np.arange(1, 8), "same": ours.copy()}
    p_values = corrected_p_values(ours, baselines)
    assert p_values == {"worse": pytest.approx(2 * 2 / 2**6), "same": 1.0}
    print_p_values("F1", ours, baselines)
    printed = capsys.readouterr().out
    assert printed == "p-values of F1, Wilcoxon, Holm: worse 0.0625 n.s., same 1 n.s.\n"


@pytest.fixture
def cache(tmp_path):
    """Twelve tables: the committee beats the forest everywhere, and is level with SVC."""
    lines = []
    for i in range(12):
        for fold in range(2):
            level = 0.8 + 0.001 * (-1) ** i * (i + 1)
            for method, accuracy in {
                "committee": 0.8,
                "forest": 0.7 - i / 100,
                "SVC": level,
            }.items():
                loss = float("nan") if method == "SVC" else 1 - accuracy
                key = [f"table {i}", 0.0, fold, method]
                lines.append(json.dumps([key, [accuracy, accuracy, loss, 0.5, 0.1]]))
    path = tmp_path / "cache.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_scores_that_do_not_differ_significantly_are_marked(cache, capsys):
    halves = {f"table {i}": "choose" if i < 6 else "confirm" for i in range(12)}
    means = pictures.by_table(pictures.read([cache]), halves)
    assert len(means) == 3 * 12
    pictures.print_tables(means)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3].startswith("| `FuzzyTwinCommittee` | **0.800** | ")
    assert lines[-2].startswith("| SVC, grid of 25 | **0.800** *n.s.* | ")
    assert lines[-2].endswith("| - | - |")
    # Six tables in each half: 2 / 2**6, times two methods.
    assert lines[-1].startswith("| RandomForest | 0.675 *n.s.* | 0.615 *n.s.* | ")


def test_only_folds_that_all_methods_have_are_compared(cache):
    with cache.open("a") as file:
        file.write(json.dumps([["table 0", 0.0, 2, "committee"], [0.1, 0.1, 0.9, 0.5, 0.1]]) + "\n")
    frame = pictures.read([cache])
    assert frame["fold"].max() == 1
