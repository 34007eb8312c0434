"""Label issues of files are those of the rows in memory, in their order."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fuzzytwin import FuzzyTwinCommittee, FuzzyTwinSVC, files
from fuzzytwin._passes import in_memory
from fuzzytwin._rows import validate_chunk
from fuzzytwin.committee._first_pass import Scales, run_first_pass
from fuzzytwin.committee._members import predict_values
from fuzzytwin.committee._noise import fit_noise
from fuzzytwin.label_issues import find_label_issues
from fuzzytwin.label_issues._chunked import fit_scorer
from fuzzytwin.label_issues._report import COLUMNS
from tests.files.helpers import FEATURES, batches_of, keep_rows, make_table, write

SAMPLE = 500


@pytest.fixture(scope="module")
def frame():
    frame = make_table(900, K=3).assign(key=[f"k{i}" for i in range(900)])
    frame.loc[::20, "y"] = "b"
    return frame


def committee(frame):
    members = ["linear", ("rbf", {"length_scale_factor": 0.5})]
    return FuzzyTwinCommittee(
        members=members, n_landmarks=frame[FEATURES][:20].to_numpy(), noise="auto"
    )


def found(frame, source, folder, **options):
    options = {"target": "y", "features": FEATURES, "batch_rows": 128} | options
    report = files.find_label_issues(source, folder / "issues.parquet", **options)
    return report, pd.read_parquet(folder / "issues.parquet")


def refits(model, frame, rows):
    """Values of each member of a committee without some of the rows, by fitting again."""
    X, y = frame[FEATURES].to_numpy(), frame["y"].to_numpy(str)
    Z = (X - model.mean_) / model.scale_
    values = []
    for member in model.members_:
        if member.kernel == "linear":
            features, root = Z, np.eye(Z.shape[1])
        else:

            def kernel(A, B, gamma=member.gamma):
                return np.exp(-gamma * ((A[:, None] - B) ** 2).sum(axis=2))

            K = kernel(model.landmarks_, model.landmarks_)
            root = np.linalg.inv(np.linalg.cholesky(K)).T
            features = kernel(Z, model.landmarks_)
        features = features @ root
        Y = (y[:, None] == model.classes_).astype(float)
        of_rows = []
        for row in rows:
            rest = np.arange(len(y)) != row
            m, c = features[rest].mean(axis=0), Y[rest].mean(axis=0)
            A = features[rest] - m
            S = A.T @ A + member.alpha * np.eye(A.shape[1])
            of_rows.append(c + (features[row] - m) @ np.linalg.solve(S, A.T @ (Y[rest] - c)))
        values.append(of_rows)
    return np.stack(values, axis=2)


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv", "folder"])
def test_degrees_are_those_of_refits_in_three_passes(frame, tmp_path, kind, monkeypatch):
    keep_rows(monkeypatch, SAMPLE)
    report, written = found(
        frame, write(frame, kind, tmp_path), tmp_path, id="key", estimator=committee(frame)
    )
    assert list(written) == ["id", *COLUMNS]
    assert_array_equal(written["id"], frame["key"])
    assert_array_equal(written["given_label"], frame["y"])
    assert (report.n_rows, report.n_sampled) == (900, SAMPLE)
    assert report.n_label_issues == written["is_label_issue"].sum() > 0
    assert sorted(written["rank"]) == list(range(1, 901))
    assert written.sort_values("rank")["label_quality"].is_monotonic_increasing
    assert f"{SAMPLE} rows" in report.summary()
    assert report.noise_matrix.sum(axis=1) == pytest.approx(1)
    low, high = report.n_errors_interval
    assert low <= report.n_errors <= high
    assert report.n_errors == pytest.approx((1 - written["label_quality"]).sum())
    if kind == "parquet":
        X, y = frame[FEATURES].to_numpy(), frame["y"].to_numpy(str)
        model, codes = report.estimator, np.searchsorted(report.classes, y)
        sample = run_first_pass(in_memory(validate_chunk(X, y)))[0].sample
        some = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in sample.X]
        F = refits(model, frame, range(len(y)))
        scales = Scales(model.mean_, model.scale_, model.limits_)
        with_row = predict_values(model.members_, X, scales, model.landmarks_)
        noise = fit_noise(F[some], codes[some], None, with_row[some])
        J = noise.posterior(F, codes)
        assert_allclose(written["label_quality"], J[np.arange(len(y)), codes], atol=1e-6)
        assert_array_equal(written["suggested_label"], report.classes[noise.suggest(F, codes)])


def test_scored_rows_share_their_labels(frame, monkeypatch):
    """Two million copies of two labels would take 200 MB."""
    keep_rows(monkeypatch, SAMPLE)
    rows = validate_chunk(frame[FEATURES].to_numpy(), frame["y"].to_numpy(str))
    scored = fit_scorer(in_memory(rows), committee(frame), None, list).score(rows)
    labels = [*scored["given_label"], *scored["suggested_label"]]
    assert len(labels) == 1800
    assert len(set(map(id, labels))) == len(set(labels))


def test_rows_are_read_three_times_and_batches_do_not_matter(frame, tmp_path, monkeypatch):
    keep_rows(monkeypatch, SAMPLE)
    degrees, model = [], committee(frame)
    for size in (100, 350):
        passes = []

        def batches(size=size, passes=passes):
            passes.append(size)
            return iter(batches_of(frame, size))

        _, written = found(frame, batches, tmp_path, overwrite=True, estimator=model)
        degrees.append(written["label_quality"])
        assert len(passes) == 3
    assert_allclose(*degrees, atol=1e-7)


def test_rows_of_weight_zero_are_judged_too(frame, tmp_path, monkeypatch):
    keep_rows(monkeypatch, SAMPLE)
    source = write(frame, "parquet", tmp_path)
    _, written = found(frame, source, tmp_path, sample_weight="w", estimator=committee(frame))
    assert len(written) == 900
    assert written["label_quality"].between(0, 1).all()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"estimator": FuzzyTwinSVC()}, ValueError, "needs all rows at once; give a Fuzzy"),
        ({"id": 3}, TypeError, "id=3 is not allowed"),
        ({"id": "none"}, ValueError, "has no column 'none'"),
        ({"sample_weight": "none_of_a"}, ValueError, "zero for every row of class 'a'"),
        ({"target": None}, ValueError, "name the column of the labels"),
    ],
)
def test_what_is_refused_leaves_no_file(frame, tmp_path, options, error, text):
    weighed = frame.assign(none_of_a=frame["y"] != "a")
    with pytest.raises(error, match=text):
        found(frame, batches_of(weighed), tmp_path, **options)
    assert not (tmp_path / "issues.parquet").exists()
    with pytest.raises(ValueError, match="can be read only once"):
        found(frame, iter(batches_of(frame)), tmp_path)


def test_a_class_without_weight_in_a_batch_of_its_own_is_named(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    batches = [(X[:40], np.arange(40) % 2, np.ones(40)), (X[40:], np.full(20, 7), np.zeros(20))]
    with pytest.raises(ValueError, match="sample_weight is zero for every row of class 7"):
        files.find_label_issues(batches, tmp_path / "issues.csv")


def test_no_weight_vouches_for_its_own_row(tmp_path, monkeypatch):
    """A weight of 20 is not 20 witnesses, in memory or in batches."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    y, s = (X[:, 0] + X[:, 1] > 0).astype(int), np.ones(1500)
    wrong = np.flatnonzero(np.abs(X[:, 0] + X[:, 1]) > 2)[:3]
    y[wrong], s[wrong] = 1 - y[wrong], 20
    keep_rows(monkeypatch, 1000)
    files.find_label_issues(
        [(X[:700], y[:700], s[:700]), (X[700:], y[700:], s[700:])], tmp_path / "d.csv"
    )
    written = pd.read_csv(tmp_path / "d.csv")
    assert written["is_label_issue"][wrong].all()
    assert (written["label_quality"][wrong] < 0.1).all()
    assert find_label_issues(X, y, sample_weight=s).is_label_issue[wrong].all()


def test_the_source_is_never_written_over(frame, tmp_path):
    path = write(frame, "parquet", tmp_path)
    with pytest.raises(ValueError, match="is an input file; give another name"):
        files.find_label_issues(path, path, target="y", overwrite=True)
    assert len(pd.read_parquet(path)) == len(frame)


def test_rows_of_several_files_have_numbers_of_their_own(tmp_path):
    for name in ("one", "two"):
        lines = [f"{i % 5}.{i},{i % 3},{i % 2}" for i in range(8)]
        text = "\n".join(["a,b,y", *lines[:3], "", *lines[3:]]) + "\n"
        (tmp_path / f"{name}.csv").write_text(text)
    paths = [tmp_path / "one.csv", tmp_path / "two.csv"]
    files.find_label_issues(paths, tmp_path / "d.csv", target="y")
    ids = pd.read_csv(tmp_path / "d.csv")["id"].tolist()
    assert ids[:8] == [2, 3, 4, 6, 7, 8, 9, 10]
    assert len(set(ids)) == 16


@pytest.mark.parametrize("last", [290, 310, "other order"])
def test_a_last_pass_over_other_rows_is_refused(tmp_path, last):
    X = np.random.default_rng(0).normal(size=(310, 3))
    y, passes = (X[:, 0] > 0).astype(int), []

    def batches():
        passes.append(1)
        rows = np.arange(300)
        if len(passes) > 2:
            rows = rows[::-1] if isinstance(last, str) else np.arange(last)
        return iter([(X[rows], y[rows])])

    with pytest.raises(ValueError, match="the data changed between passes"):
        files.find_label_issues(batches, tmp_path / "d.csv")
    assert not (tmp_path / "d.csv").exists()


@pytest.mark.parametrize("sample", [SAMPLE, 10_000])
def test_overlap_is_no_error_of_observed_labels(tmp_path, monkeypatch, sample):
    keep_rows(monkeypatch, sample)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1000)
    X = rng.normal(size=(1000, 4)) + 0.7 * y[:, None]
    batches = [(X[:600], y[:600]), (X[600:], y[600:])]
    annotated, observed = (
        files.find_label_issues(batches, tmp_path / "d.csv", labels=labels, overwrite=True)
        for labels in ("annotated", "observed")
    )
    assert observed.n_errors < 0.5 * annotated.n_errors
    if sample > 1000:
        expected = find_label_issues(X, y, labels="observed")
        assert observed.n_errors == pytest.approx(expected.n_errors)
    with pytest.raises(ValueError, match="labels='noisy' is unknown"):
        files.find_label_issues(batches, tmp_path / "e.csv", labels="noisy")
