"""Pages from templates: names stay what they are, pages stand alone, sections are linked."""

import re
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fuzzytwin.experiment._experiment import Experiment
from fuzzytwin.experiment._rows import Settings
from fuzzytwin.report import picture
from fuzzytwin.report._label_issues import label_issues_page
from fuzzytwin.report._page import _confusion, model_page

NAMES = ["`a`", "**b**", "<d>", 'e"&', "{{ 1 + 1 }}", "{% f %}"]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A table whose names and labels look like markup."""
    rng = np.random.default_rng(0)
    y = np.repeat([NAMES[2], NAMES[4]], 40)
    frame = pd.DataFrame({NAMES[3]: rng.normal(size=80), NAMES[0]: np.where(y == NAMES[2], 1, -1)})
    frame[NAMES[0]] += rng.normal(size=80) / 2
    frame[NAMES[5]] = np.resize([*NAMES[:2], None], 80)
    label = y.copy()
    label[:4] = NAMES[4]
    path = tmp_path_factory.mktemp("pages") / "table.csv"
    frame.assign(label=label).to_csv(path, index=False)
    return Experiment(str(path), Settings("label", folds=2))


def test_names_are_shown_as_they_are(study):
    for page in (model_page(study, "fuzzytwin <x>"), label_issues_page(study, "fuzzytwin <x>")):
        assert "<d>" not in page
        assert "&lt;d&gt;" in page
        assert "{{ 1 + 1 }}" in page
        assert "fuzzytwin &lt;x&gt;" in page
        assert page.count("<table>") == page.count("</table>") >= 2


def test_pages_stand_alone_and_link_their_sections(study):
    page = model_page(study, "fuzzytwin train")
    assert not re.search(r"(src|href)=.?https?:", page)
    anchors = re.findall(r'<a href="#([^"]+)">', page)
    assert anchors == re.findall(r'<h2 id="([^"]+)">', page)
    assert len(anchors) == 9
    assert "data:image/png;base64," in page
    assert "95% confidence intervals" in page


def test_the_page_has_curves_and_thresholds(study):
    page = model_page(study, "fuzzytwin train")
    assert page.count("data:image/png;base64,") == 4  # three curves, and label quality
    for name in ("threshold", "chosen for", "sensitivity", "specificity", "PPV", "NPV"):
        assert f">{name}</th>" in page
    assert page.index("Result") < page.index("PPV") < page.index(study.model[-1].members_[0].name)


def test_the_tone_does_not_depend_on_names(tmp_path):
    """A class called "but" once made a warning of the verdict."""
    rng = np.random.default_rng(0)
    y = np.repeat(["but", "no better"], 40)
    frame = pd.DataFrame({"a": rng.normal(size=80) + 8 * (y == "but"), "y": y})
    frame.to_csv(tmp_path / "t.csv", index=False)
    page = model_page(
        Experiment(str(tmp_path / "t.csv"), Settings("y", folds=2)), "fuzzytwin train"
    )
    assert '<div class="note">' in page
    assert '<div class="warning">' not in page


def test_the_heads_of_many_classes_are_short():
    def heads(n):
        score = {"classes": list(range(n)), "confusion": np.eye(n, dtype=int).tolist()}
        return _confusion(score)["head"][:2]

    assert heads(2) == ["", "predicted 0"]
    assert heads(10) == ["predicted:", "0"]


def test_the_page_says_what_taking_the_suggestions_would_do(study):
    page = " ".join(label_issues_page(study, "fuzzytwin label-issues").split())
    assert "No other label is certain enough to be suggested" in page
    annotated = Experiment(study.path, replace(study.settings, labels="annotated"))
    page = " ".join(label_issues_page(annotated, "fuzzytwin label-issues").split())
    assert re.search(
        r"a suggestion \(another label with at least 80%\)\. Accepting (all of them|it) unreviewed "
        r"would leave about \d+",
        page,
    )


def test_the_page_says_that_there_are_no_label_issues(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=40), "y": np.resize(["u", "v"], 40)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    page = label_issues_page(
        Experiment(str(tmp_path / "t.csv"), Settings("y")), "fuzzytwin label-issues"
    )
    assert "No label issues are reported for 40 rows" in page
    assert "unknown" in page


def test_bars_show_size_and_sign(study):
    number = {"value": None, "deviation": 1.5}
    effects = [{"class": name, "vagueness": 0.0, "columns": [
        {**number, "column": "a", "effect": sign * 2.0, "strength": 2.0},
        {**number, "column": "b", "effect": -sign * 1.0, "strength": 1.0},
    ]} for name, sign in ((NAMES[4], -1), (NAMES[2], 1))]  # fmt: skip
    other = Experiment(study.path, study.settings)
    vars(other).update(vars(study))
    other.metadata = {**study.metadata, "effects": effects}
    page = model_page(other, "fuzzytwin train")
    assert "<th>a (+1.5)</th>" in page
    assert page.count('<span class="bar" style="width:100.0%">') == 1
    assert page.count('<span class="bar minus" style="width:50.0%">') == 1


def test_a_study_computes_what_is_asked_for(study):
    fresh = Experiment(study.path, study.settings)
    assert fresh.label_issues.codes.shape == (80,)
    assert "fitted" not in vars(fresh)  # no model was fitted for it
    P, labels = study.cv_predictions
    assert P.shape == (80, 2)
    assert labels.shape == (80,)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert study.names[0] == NAMES[3]
    assert {entry["class"] for entry in study.effects} == {NAMES[2], NAMES[4]}


def test_without_matplotlib_there_is_no_picture(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert picture(lambda canvas: None, (1, 1)) == ""


def test_codes_are_described_by_the_most_frequent_one(tmp_path):
    """A median of codes would be one that no row has."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    frame = pd.DataFrame({"a": rng.normal(y), "code": np.resize([1, 1, 1, 1, 3, 3, 4, 4], 80)})
    frame.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    found = Experiment(str(tmp_path / "t.csv"), Settings("y", folds=2, category=["code"]))
    every = np.ones(80, dtype=bool)
    assert found.kinds == {"a": "number", "code": "category"}
    assert found.typical("code", every) == "1"  # the median is 2
    assert found.typical("a", every) == pytest.approx(float(frame["a"].median()))
    assert found.typical("a", ~every) is None


def test_cards_begin_with_the_column_that_tells_the_class(tmp_path):
    """A number that separates the classes comes before spellings that do not."""
    rng = np.random.default_rng(0)
    y = np.repeat(["no", "yes"], 60)
    frame = pd.DataFrame({
        "sex": rng.choice(["f", "F", "m"], 120), "crp": rng.normal(10 + 50 * (y == "yes"), 9)
    })  # fmt: skip
    frame.loc[:4, "crp"] = rng.normal(60, 9, 5)  # five labels are wrong
    frame.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    page = label_issues_page(Experiment(str(tmp_path / "t.csv"), Settings("y")), "fuzzytwin")
    card = page.split('<section class="card">')[1]
    assert "labelled no, yes is suggested" in card or "labelled no, worth a look" in card
    assert card.index("<th>crp</th>") < card.index("<th>sex</th>")
