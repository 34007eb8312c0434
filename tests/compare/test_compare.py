"""Known answers (the paper's Table III), oracles (scipy, scikit-posthocs), edges, drawings."""

import dataclasses
import itertools
import warnings

import numpy as np
import pytest
import scipy
from scipy import stats

from fuzzytwin.compare import CriticalDifferenceDisplay, compare_classifiers
from tests.pairs import every_pair

NAMES = ("FLST-SVM", "LST-SVM", "SVM", "T-SVM", "P-SVM", "GEP-SVM")
TABLE_III = np.array(
    [
        [79.63, 77.3, 72.6, 73.4, 75.8, 74.2],
        [88.7, 83.4, 81.2, 83.2, 83.6, 85.1],
        [92.9, 82.7, 82.2, 83.5, 83.1, 78.7],
        [87.6, 82.9, 79.5, 82.8, 62.5, 81.7],
        [79.6, 68.7, 69.4, 69.4, 68.8, 66.2],
        [91.3, 85.4, 80.7, 84.5, 83.9, 84.2],
        [98.2, 83.7, 81.2, 83.2, 83.3, 79.8],
        [75.4, 67.8, 65.6, 67.8, 67.1, 68.1],
        [98.7, 94.6, 88.4, 93.1, 92.8, 93.0],
        [95.1, 79.2, 76.9, 78.7, 78.9, 79.8],
    ]
)


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    yield plt
    plt.close("all")


def random_scores(n_datasets, n_classifiers, seed=0, decimals=None):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n_datasets, n_classifiers)) + 0.4 * np.arange(n_classifiers)
    return scores if decimals is None else np.round(scores, decimals)


def test_the_papers_table():
    result = compare_classifiers(TABLE_III, names=NAMES)
    np.testing.assert_allclose(result.mean_ranks, [1, 2.95, 5.35, 3.6, 4.1, 4.0])
    assert result.chi2 == pytest.approx(30.27, abs=0.005)
    assert result.chi2_ties == pytest.approx(30.45, abs=0.005)
    assert result.critical_difference == pytest.approx(2.38, abs=0.005)
    assert result.control == "FLST-SVM"
    differs = result.nemenyi_p[0] <= 0.05
    assert differs.tolist() == [False, False, True, True, True, True]
    # Every one of the ten differences is positive: p = 2 / 2**10, five times over by Holm.
    np.testing.assert_allclose(result.wilcoxon_p[1:], 2 / 2**10)
    np.testing.assert_allclose(result.holm_p[1:], 10 / 2**10)


def test_papers_formula():
    result = compare_classifiers(TABLE_III)
    d, c = TABLE_III.shape
    r = result.mean_ranks
    expected = 12 * d / (c * (c + 1)) * ((r**2).sum() - c * (c + 1) ** 2 / 4)
    assert result.chi2 == pytest.approx(expected)
    assert result.chi2_p == pytest.approx(stats.chi2.sf(expected, c - 1))
    f = (d - 1) * result.chi2_ties / (d * (c - 1) - result.chi2_ties)
    assert result.f == pytest.approx(f)
    assert result.f_p == pytest.approx(stats.f.sf(f, c - 1, (c - 1) * (d - 1)))


# Demsar (2006), Table 5a: q_0.05 and q_0.10 for 2 to 10 classifiers.
@pytest.mark.parametrize(
    ("alpha", "c", "q"),
    [(0.05, 3, 2.343), (0.05, 6, 2.850), (0.05, 10, 3.164), (0.1, 4, 2.291), (0.1, 10, 2.920)],
)
def test_critical_difference_is_demsars(alpha, c, q):
    result = compare_classifiers(random_scores(12, c), alpha=alpha)
    assert result.critical_difference == pytest.approx(q * np.sqrt(c * (c + 1) / 72), abs=1e-3)


# Where few data sets tie, older scipys approximate p by a normal law; ours is exact.
ROUGH_SCIPY = tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 13)
ROUGH = "this scipy's wilcoxon is no oracle: it approximates where there are ties"


@every_pair(
    decimals=[None, 0],
    size=[(2, 3), (9, 4), (14, 3), (20, 6), (60, 4)],
    zero_method=["wilcox", "pratt", "zsplit"],
)
def test_oracles(size, decimals, zero_method):
    """scipy's Friedman, scikit-posthocs' Nemenyi and Wilcoxon, statsmodels' Holm."""
    posthocs = pytest.importorskip("scikit_posthocs")
    multipletests = pytest.importorskip("statsmodels.stats.multitest").multipletests
    d, c = size
    if ROUGH_SCIPY and decimals == 0 and d <= 13:
        pytest.skip(ROUGH)
    scores = random_scores(d, c, seed=d + c, decimals=decimals)
    result = compare_classifiers(scores, zero_method=zero_method)

    friedman = stats.friedmanchisquare(*scores.T)
    assert result.chi2_ties == pytest.approx(friedman.statistic)
    assert result.chi2_ties_p == pytest.approx(friedman.pvalue)
    nemenyi = posthocs.posthoc_nemenyi_friedman(scores)
    np.testing.assert_allclose(result.nemenyi_p, nemenyi, atol=1e-12)

    j = result.names.index(result.control)
    with warnings.catch_warnings():  # its own, on ties
        warnings.simplefilter("ignore")
        pairs = posthocs.posthoc_wilcoxon(list(scores.T), zero_method=zero_method).to_numpy()
    np.testing.assert_allclose(result.wilcoxon_p, pairs[j], rtol=1e-9)
    others = np.arange(c) != j
    holm = multipletests(pairs[j][others], method="holm")[1]
    np.testing.assert_allclose(result.holm_p[others], holm, rtol=1e-9)
    assert result.wilcoxon_p[j] == result.holm_p[j] == 1


@pytest.mark.slow
@pytest.mark.skipif(ROUGH_SCIPY, reason=ROUGH)
def test_wilcoxon_is_exact_up_to_13_data_sets():
    scores = random_scores(13, 3, decimals=0)
    result = compare_classifiers(scores, control="classifier 1")
    expected = stats.wilcoxon(scores[:, 0], scores[:, 2]).pvalue  # by permutation, slowly
    assert result.wilcoxon_p[2] == pytest.approx(expected)


@pytest.mark.skipif(ROUGH_SCIPY, reason=ROUGH)
def test_floating_point_noise_breaks_no_ties():
    whole = np.round(100 * TABLE_III)  # the same table in exact arithmetic
    noisy = compare_classifiers(TABLE_III, control="T-SVM", names=NAMES)
    exact = compare_classifiers(whole, control="T-SVM", names=NAMES)
    np.testing.assert_array_equal(noisy.wilcoxon_p, exact.wilcoxon_p)
    expected = [stats.wilcoxon(whole[:, 3], whole[:, j]).pvalue for j in (0, 1, 2, 4, 5)]
    np.testing.assert_allclose(np.delete(noisy.wilcoxon_p, 3), expected)
    sums = compare_classifiers([[0.1 + 0.2, 0.3, 0.1], [0.3, 0.1 + 0.2, 0.1]])
    np.testing.assert_array_equal(sums.mean_ranks, [1.5, 1.5, 3])


def test_lower_is_better_is_the_mirror():
    scores = random_scores(9, 4, decimals=1)
    up, down = compare_classifiers(scores), compare_classifiers(-scores, higher_is_better=False)
    assert str(up) == str(down)
    np.testing.assert_allclose(
        compare_classifiers(scores, higher_is_better=False).mean_ranks, 5 - up.mean_ranks
    )


def test_invariance():
    """Order of data sets, monotone maps (ranks), order of columns."""
    scores = random_scores(11, 5)
    base = compare_classifiers(scores, control="classifier 2")
    assert str(compare_classifiers(scores[::-1], control="classifier 2")) == str(base)
    np.testing.assert_array_equal(compare_classifiers(np.exp(scores)).nemenyi_p, base.nemenyi_p)
    p = np.array([3, 1, 4, 0, 2])
    moved = compare_classifiers(
        scores[:, p], names=[base.names[j] for j in p], control="classifier 2"
    )
    np.testing.assert_allclose(moved.nemenyi_p, base.nemenyi_p[np.ix_(p, p)])
    np.testing.assert_allclose(moved.holm_p, base.holm_p[p])
    assert str(moved) == str(base)


def test_full_agreement():
    result = compare_classifiers(np.tile([3.0, 2.0, 2.0, 1.0], (7, 1)))
    assert (result.f, result.f_p) == (np.inf, 0.0)
    assert result.chi2_ties == 7 * 3
    assert "inf" in str(result)


@pytest.mark.parametrize("value", [0.0, 0.1, -3e300])
def test_constant_scores(value):
    result = compare_classifiers(np.full((5, 4), value))
    np.testing.assert_array_equal(result.mean_ranks, [2.5] * 4)
    assert result.chi2 == result.chi2_ties == result.f == 0
    assert result.chi2_p == result.chi2_ties_p == result.f_p == 1
    np.testing.assert_array_equal(result.nemenyi_p, np.ones((4, 4)))
    np.testing.assert_array_equal(result.holm_p, np.ones(4))
    assert result.control == "classifier 1"
    assert "no pair differs" in str(result)
    assert "do not differ" in str(result)
    assert "nan" not in str(result)


@pytest.mark.parametrize("n_datasets", [3, 13, 30, 80])
def test_many_ties_and_identical_columns(n_datasets):
    scores = np.random.default_rng(1).integers(0, 2, size=(n_datasets, 4)).astype(float)
    scores[:, 2] = scores[:, 0]
    result = compare_classifiers(scores, control="classifier 1")
    assert result.wilcoxon_p[2] == result.holm_p[2] == 1
    assert np.isfinite(result.wilcoxon_p).all()


def test_inputs():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(TABLE_III, columns=NAMES, index=[f"set {i}" for i in range(10)])
    base = str(compare_classifiers(TABLE_III, names=NAMES))
    assert str(compare_classifiers(frame)) == base
    assert str(compare_classifiers(TABLE_III.tolist(), names=NAMES)) == base
    assert str(compare_classifiers(dict(zip(NAMES, TABLE_III.T, strict=True)))) == base
    assert str(compare_classifiers({n: frame[n] for n in NAMES})) == base
    assert compare_classifiers(TABLE_III).names[0] == "classifier 1"
    assert compare_classifiers(frame, names=list("abcdef")).names == tuple("abcdef")


def with_hole():
    scores = TABLE_III.copy()
    scores[4, 2] = np.nan
    return scores


@pytest.mark.parametrize(
    ("scores", "options", "said"),
    [
        (TABLE_III[:, :2], {}, r"scores has shape \(10, 2\).*3 classifiers.*wilcoxon"),
        (TABLE_III[:1], {}, r"scores has shape \(1, 6\).*2 data sets"),
        (TABLE_III[0], {}, r"scores has shape \(6,\)"),
        (with_hole(), {"names": NAMES}, "scores holds nan for 'SVM' on data set 4.*drop"),
        (np.where(TABLE_III > 98.5, np.inf, TABLE_III), {}, "scores holds inf"),
        ({"a": [1, 2], "b": [1, 2], "c": [1]}, {}, "scores must be a full table"),
        ([["x", 1, 2], ["y", 1, 2]], {}, "scores must be a full table of numbers.*index"),
        (TABLE_III, {"names": ["a"] * 6}, "names=.*6 different names.*rename"),
        (TABLE_III, {"names": ["a", "b"]}, "names=.*6 different names"),
        (TABLE_III, {"control": "lda"}, "control='lda'.*choose from.*classifier 1"),
        (TABLE_III, {"alpha": 0}, "alpha=0 must lie between 0 and 1"),
        (TABLE_III, {"alpha": 1.0}, "alpha=1.0 must lie between"),
        (TABLE_III, {"alpha": float("nan")}, "alpha=nan must lie between"),
        (TABLE_III, {"zero_method": "drop"}, "zero_method='drop'.*wilcox"),
    ],
)
def test_bad_input(scores, options, said):
    with pytest.raises(ValueError, match=said):
        compare_classifiers(scores, **options)


def test_repeated_columns_of_a_frame():
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="different names"):
        compare_classifiers(pd.DataFrame(TABLE_III, columns=[*"abcde", "a"]))


def test_result_is_frozen():
    result = compare_classifiers(TABLE_III)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.alpha = 0.1
    for array in (result.mean_ranks, result.nemenyi_p, result.wilcoxon_p, result.holm_p):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_text():
    text = str(compare_classifiers(TABLE_III, names=NAMES))
    assert "FLST-SVM ranks significantly above T-SVM and all below it." in text
    assert "LST-SVM ranks significantly above SVM." in text
    assert "FLST-SVM differs significantly from every other." in text
    wide = compare_classifiers(random_scores(30, 20), names=[f"{j} " * 30 for j in range(20)])
    assert max(map(len, str(wide).splitlines())) < 80


def test_some_rivals_are_listed():
    scores = random_scores(12, 4)
    scores[:, 3] = scores[:, 2]
    text = str(compare_classifiers(scores + np.array([0, 4, 9, 9]), names=list("abcd")))
    assert "Wilcoxon-Holm: c differs significantly from b, a." in text


def test_to_frame():
    pytest.importorskip("pandas")
    frame = compare_classifiers(TABLE_III, names=NAMES).to_frame()
    assert frame.index.tolist() == ["FLST-SVM", "LST-SVM", "T-SVM", "GEP-SVM", "P-SVM", "SVM"]
    assert frame.columns.tolist() == ["mean_rank", "nemenyi_p", "wilcoxon_p", "holm_p"]
    assert frame.loc["SVM", "mean_rank"] == 5.35


@pytest.mark.parametrize("module", ["pandas", "matplotlib"])
def test_missing_extras_say_so(module, monkeypatch):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr("fuzzytwin._utils.extras.import_module", refuse)
    result = compare_classifiers(TABLE_III)
    draw = {
        "pandas": result.to_frame,
        "matplotlib": lambda: CriticalDifferenceDisplay.from_result(result),
    }
    with pytest.raises(ImportError, match=f"needs {module}.*pip install"):
        draw[module]()


def test_cliques():
    result = compare_classifiers(TABLE_III, names=NAMES)
    display = CriticalDifferenceDisplay(NAMES, result.mean_ranks, result.critical_difference)
    assert display.cliques == [(1.0, 2.95), (2.95, 4.1), (3.6, 5.35)]
    assert CriticalDifferenceDisplay("abc", [1, 2, 3], 0.5).cliques == []
    assert CriticalDifferenceDisplay("abc", [2, 2, 2], 0.5).cliques == [(2.0, 2.0)]


def texts_of(display):
    """Bounding boxes of all that is written, in pixels."""
    display.figure_.canvas.draw()
    texts = [t for t in display.ax_.texts if t.get_text()]
    return {t.get_text(): t.get_window_extent() for t in texts}, display.figure_.bbox


def assert_clean(display):
    boxes, figure = texts_of(display)
    for (a, box), (b, other) in itertools.combinations(boxes.items(), 2):
        assert not box.overlaps(other), (a, b)
    for name, box in boxes.items():
        assert figure.x0 <= box.x0 < box.x1 <= figure.x1, name
        assert figure.y0 <= box.y0 < box.y1 <= figure.y1, name


@pytest.mark.parametrize("kind", ["plain", "long names", "tied", "few data sets"])
@pytest.mark.parametrize(
    "c", [3, 4, 8, 13, 20, *(pytest.param(c, marks=pytest.mark.slow) for c in (5, 6, 10, 16))]
)
def test_no_writing_overlaps(c, kind, pyplot):
    scores = random_scores(2 if kind == "few data sets" else 15, c, seed=c)
    if kind == "tied":
        scores[:, : c // 2] = scores[:, :1]
        scores[:, c // 2 :] = scores[:, -1:]
    long = ", a name that does not want to end" if kind == "long names" else ""
    names = [f"model {j}{long if j % 2 else ''}" for j in range(c)]
    display = CriticalDifferenceDisplay.from_result(compare_classifiers(scores, names=names))
    assert len([t for t in display.ax_.texts if t.get_text().startswith("model")]) == c
    assert_clean(display)


@pytest.mark.parametrize("c", [4, 12, pytest.param(20, marks=pytest.mark.slow)])
def test_given_axes(c, pyplot):
    figure, axes = pyplot.subplots(2, 2, figsize=(10, 7))
    result = compare_classifiers(random_scores(15, c, seed=c))
    for ax in axes.flat:
        display = CriticalDifferenceDisplay.from_result(result, ax=ax)
        assert display.ax_ is ax
        assert display.figure_ is figure
        assert_clean(display)
    assert display.plot() is display
    assert display.ax_ not in axes.flat


def test_everything_tied_is_drawn(pyplot):
    assert_clean(CriticalDifferenceDisplay.from_result(compare_classifiers(np.ones((4, 5)))))


@pytest.mark.parametrize("name", ["$a$", "$x_{1$", "$$", "\\$1"])
def test_names_in_the_diagram_are_no_formulas(pyplot, name):
    display = CriticalDifferenceDisplay([name, "b", "c"], [1.2, 1.9, 2.9], 1.05).plot()
    display.figure_.canvas.draw()
    drawn = {text.get_text().replace("\\$", "$") for text in display.ax_.texts}
    assert f"{name} (1.20)" in drawn
