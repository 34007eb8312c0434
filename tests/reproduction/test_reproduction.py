"""The reproduction: no leak, nothing lost, same numbers, a report that stands alone."""

import csv
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from reproduction import main, noise, protocol, published, uci
from reproduction.cache import _VERSIONS, Cache, Cell
from reproduction.methods import METHODS, Method, make_methods
from reproduction.ranks import compare_ranks
from reproduction.run import work_through
from reproduction.scale import Scale


def test_the_tables_of_the_paper_are_copied_right():
    table = np.array(
        [[row[c][0] for c in published.COLUMNS] for row in published.TABLE_III.values()]
    )
    result = compare_ranks(pd.DataFrame(table, columns=published.COLUMNS))
    np.testing.assert_allclose(result.mean_ranks, [1, 2.95, 5.35, 3.6, 4.1, 4.0])
    assert result.chi2 == pytest.approx(30.27, abs=0.005)
    assert published.TABLE_III["wpbc"]["FLST-SVM"] == (98.2, 1.6)
    assert published.TABLE_III["sonar"]["GEP-SVM"] == (79.8, 7.6)
    assert published.TABLE_VI["1m"]["SVM"] is published.TABLE_VI["1m"]["T-SVM"] is None
    np.testing.assert_allclose(table.mean(axis=0)[0], 88.713)


@pytest.fixture
def rows():
    """Rows whose first column is their number, labels, and one outer fold."""
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 40)
    X = np.column_stack([np.arange(80.0), rng.normal(size=(80, 3)) + y[:, None]])
    return X, y, *protocol.outer_fold(y, 5, 0, 0)


class Spy(Method):
    def __init__(self):
        self.seen = []

    def tune(self, A, a, inner, seed, degrees=None):
        self.seen.append(A[:, 0])
        return make_methods(quick=True)["P-SVM"].tune(A, a, inner, seed)


class Watched(StandardScaler):
    seen = []  # noqa: RUF012

    def fit(self, X, y=None, sample_weight=None):
        self.seen.append(X[:, 0].copy())
        return super().fit(X, y, sample_weight)

    def fit_transform(self, X, y=None):
        return self.fit(X).transform(X)


def test_tuning_and_scaling_never_see_outer_test_rows(rows):
    X, y, train, test = rows
    spy = Spy()
    protocol.honest_fold(spy, X, y, train, test, inner=3)
    protocol.honest_fold(Spy(), X, y, train, test, inner=3, prepare=Watched())
    assert len(Watched.seen) == 1
    for seen in spy.seen + Watched.seen:
        assert set(seen) == set(train)
        assert not set(seen) & set(test)


@pytest.mark.parametrize("name", METHODS)
def test_other_test_rows_make_no_other_machine(rows, name):
    X, y, train, test = rows
    method = make_methods(quick=True)[name]

    def chosen(X, y):
        return protocol.honest_fold(method, X, y, train, test, inner=3, prepare=StandardScaler())

    plain = chosen(X, y)
    other_X, other_y = X.copy(), y.copy()
    other_X[test] *= 1000
    other_y[test] = 1 - y[test]
    assert chosen(other_X, y)["chosen"] == plain["chosen"]
    flipped = chosen(X, other_y)
    assert flipped["chosen"] == plain["chosen"]
    assert flipped["hits"] == len(test) - plain["hits"]


def test_the_optimistic_protocol_is_the_best_point_of_one_run():
    folds = [{"hits": [5, 9, 8], "rows": 10}, {"hits": [9, 6, 8], "rows": 10}]
    assert protocol.best_point(folds) == [0.8, 0.8]


@pytest.mark.parametrize("name", METHODS)
def test_hits_are_those_of_single_machines(rows, name):
    X, y, train, test = rows
    A, B = protocol.prepared(StandardScaler(), X, train, test)
    method = make_methods(quick=True)[name]
    hits = method.hits(A, y[train], B, y[test])
    machine, _ = method.tune(A, y[train], 3, 0)
    assert int((machine.predict(B) == y[test]).sum()) in hits
    assert hits.min() >= 0
    assert hits.max() <= len(test)


def test_noise_touches_the_stated_share_and_leaves_its_input_alone():
    A, a = np.zeros((50, 2)), np.tile([0, 1], 25)
    same, flipped = noise.spoil_rows(A, a, "flips", 0.2, seed=1)
    assert (flipped != a).sum() == 10
    far, labels = noise.spoil_rows(A, a, "outliers", 0.2, seed=1)
    assert far.any(axis=1).sum() == 10
    np.testing.assert_array_equal(labels, a)
    assert not A.any()
    assert not same.any()
    more = noise.spoil_rows(A, a, "flips", 0.4, seed=1)[1]
    assert (flipped != a)[more == a].sum() == 0  # a greater share contains the smaller one


def test_a_result_is_used_again_only_for_the_same_question(tmp_path, monkeypatch):
    cache, cell = Cache(tmp_path), Cell("toy.run", {"draw": 1, "quick": True})
    assert cache.get(cell) is None
    cache.put(cell, {"scores": [0.1 + 0.2]})
    assert cache.get(Cell("toy.run", {"draw": 1, "quick": True})) == {"scores": [0.1 + 0.2]}
    assert cache.get(Cell("toy.run", {"draw": 2, "quick": True})) is None
    assert cache.get(Cell("toy.run", {"draw": 1, "quick": False})) is None
    file = tmp_path / cell.path
    whole = file.read_text()
    for broken in ("", whole[:-9], "[]", json.dumps({**json.loads(whole), "key": "another"})):
        file.write_text(broken)
        assert cache.get(cell) is None
    file.write_text(whole)
    monkeypatch.setitem(_VERSIONS, "protocol", -1)
    assert cache.get(cell) is None


def test_known_results_are_not_computed_again(tmp_path, monkeypatch):
    scale = Scale.of(True)
    cells = [uci.honest_cell(scale, "hepatitis", "P-SVM", 0, fold) for fold in (0, 1)]
    cache = Cache(tmp_path)
    assert work_through(cells, cache, 1, False) == 0
    before = [cache.get(cell) for cell in cells]
    (tmp_path / cells[0].path).unlink()
    calls = []
    monkeypatch.setattr(uci, "honest", lambda **s: calls.append(s) or before[0])
    assert work_through(cells, cache, 1, False) == 1
    assert [call["fold"] for call in calls] == [0]
    assert [cache.get(cell) for cell in cells] == before


TINY = """
import sys
from reproduction.main import reproduce
from reproduction.scale import Scale
tiny = Scale(True, folds=3, repeats=1, inner=3, toy_draws=1)
Scale.of = classmethod(lambda cls, quick: tiny)
if __name__ == "__main__":
    out, jobs = sys.argv[1:]
    reproduce(out, quick=True, only="toy", jobs=int(jobs), progress=False)
"""


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Start a run of the toy experiment, made tiny, in a process of its own."""
    script = tmp_path_factory.mktemp("script") / "tiny.py"
    script.write_text(TINY)
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}

    def run(out, jobs=1):
        return subprocess.Popen(
            [sys.executable, str(script), str(out), str(jobs)], env=environment,
            start_new_session=True,
        )  # fmt: skip

    return run


@pytest.fixture(scope="module")
def undisturbed(start, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed")
    assert start(out).wait(120) == 0
    return out


def numbers(out):
    return (out / "tables" / "toy.csv").read_bytes()


@pytest.mark.slow
def test_killed_and_started_again_it_ends_with_the_same_numbers(start, undisturbed, tmp_path):
    run = start(tmp_path)
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("cells/*/[!.]*.json"))) < 8 and time.monotonic() < deadline:
        assert run.poll() is None
        time.sleep(0.02)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    done = {file: file.stat().st_mtime_ns for file in tmp_path.glob("cells/*/[!.]*.json")}
    assert 8 <= len(done) < 42
    assert not (tmp_path / "report.html").exists()
    assert start(tmp_path).wait(120) == 0
    assert {file: file.stat().st_mtime_ns for file in done} == done  # nothing was lost
    assert numbers(tmp_path) == numbers(undisturbed)


@pytest.mark.slow
def test_processes_do_not_change_the_numbers(start, undisturbed, tmp_path):
    assert start(tmp_path, jobs=2).wait(120) == 0
    assert numbers(tmp_path) == numbers(undisturbed)


class Links(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found, self.images = [], 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "link", "iframe", "object")
        self.images += tag == "img"
        self.found += [v for k, v in attrs if k in ("src", "href", "srcset", "data")]


@pytest.mark.slow
def test_the_report_needs_nothing_beside_it(undisturbed):
    page = (undisturbed / "report.html").read_text(encoding="utf-8")
    links = Links(page)
    assert links.images == 1
    assert all(link.startswith(("data:image/", "#")) for link in links.found)
    assert not re.search(r"https?://|url\(|@import", page)
    ids = set(re.findall(r'id="([^"]+)"', page))
    assert {link[1:] for link in links.found if link[0] == "#"} <= ids
    assert "quick look" in page  # a rough run says that it is one
    assert (undisturbed / "figures" / "toy.png").read_bytes()[:4] == b"\x89PNG"
    words = (undisturbed / "results.md").read_text(encoding="utf-8")
    assert "| GEP-SVM |" in words
    with open(undisturbed / "tables" / "toy.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 14
    assert {row["paper"] for row in rows} == {"", "53.0", "65.0", "73.0"}


@pytest.mark.parametrize("wrong", [{"only": "toys"}, {"only": ""}, {"only": []}, {"jobs": 0}])
def test_bad_arguments_are_named(tmp_path, wrong):
    with pytest.raises(ValueError, match=r"toy|processes"):
        main.reproduce(tmp_path / "out", **wrong)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("package", ["matplotlib", "scikit_posthocs"])
def test_without_a_package_the_error_says_what_to_install(tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r"pip install .*\[benchmarks\]"):
        main.reproduce(tmp_path / "out")


def test_the_command_line_complains_politely(capsys):
    with pytest.raises(SystemExit):
        main.main(["--only", "nothing"])
    assert "choose from toy, uci, ndc, noise, audit" in capsys.readouterr().err


@pytest.mark.slow
def test_a_quick_run_of_everything(tmp_path, monkeypatch):
    """Every experiment, with few draws."""
    few = dataclasses.replace(
        Scale.of(True), folds=2, inner=2, toy_draws=1, ndc_draws=1, sizes=("1k", "5k"),
        tables=("hepatitis", "pima", "votes"), noise_tables=("votes",), shares=(0.0, 0.2),
    )  # fmt: skip
    monkeypatch.setattr(Scale, "of", classmethod(lambda cls, quick: few))
    report = main.reproduce(tmp_path, quick=True, jobs=2, progress=False)
    page = report.read_text(encoding="utf-8")
    assert Links(page).images == 7
    assert page.count('class="card"') == 12
    with open(tmp_path / "tables" / "audit.csv", encoding="utf-8") as file:
        found = {(row["table"], row["what"]): float(row["value"]) for row in csv.DictReader(file)}
    assert found["votes", "M2 printed, distance, fixed"] < 15
    assert found["votes", "M2 endpoints, distance, fixed"] > 93
    assert max(v for (_, what), v in found.items() if what == "turn of scalar by a shuffle") < 1e-6
    assert max(v for (_, what), v in found.items() if what == "sum of slacks") < 1e-12
    assert all(v == 0 for (_, what), v in found.items() if what == "negative widths, endpoints")
