"""`docs/compare.md`, README and paper quote what `docs/compare_results.csv` gives."""

from pathlib import Path

import pandas as pd
import pytest

from benchmarks import pictures

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def means():
    return pd.read_csv(ROOT / "docs" / "compare_results.csv")


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_dataset_has_every_method(means):
    assert means.groupby("half")["table"].nunique().to_dict() == {
        "first half": 27,
        "second half": 24,
    }
    assert set(means["method"]) == set(pictures.NAMES.values())
    assert len(means) == 51 * 2 * len(pictures.NAMES)
    assert not means.duplicated(["table", "flip", "method"]).any()
    assert means.drop(columns=["log loss", "AUC"]).notna().all(axis=None)


def test_tables_of_the_page_are_those_of_the_csv_file(means, capsys):
    """Means, the best in bold, and what is not significant."""
    pictures.print_tables(means)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(lines) == 2 * (1 + len(pictures.NAMES))
    text = page("docs/compare.md")
    assert [line for line in lines if line not in text] == []


def test_the_page_says_on_how_many_datasets_catboost_has_the_lower_log_loss(means):
    clean = means[means["flip"] == 0].pivot(index="table", columns="method", values="log loss")
    n_lost = (clean["CatBoost"] < clean["FuzzyTwinCommittee"]).sum()
    text = " ".join(page("docs/compare.md").split())
    assert f"CatBoost has the lower log loss on {n_lost} of the 51 datasets" in text


@pytest.mark.parametrize("name", ["README.md", "paper/paper.md"])
def test_other_pages_quote_the_second_half(means, name):
    second = means[(means["half"] == "second half") & (means["flip"] == 0)]
    mean = second.groupby("method")[["accuracy", "log loss"]].mean()
    text = page(name)
    for method in ("FuzzyTwinCommittee", "CatBoost"):
        assert f"{mean.loc[method, 'accuracy']:.3f}" in text
        assert f"{mean.loc[method, 'log loss']:.3f}" in text
    assert f"{mean.loc['SVC, grid of 25', 'accuracy']:.3f}" in text
