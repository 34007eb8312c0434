"""Reviews, several annotators, and tables without label errors."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, average_precision_score, f1_score

from benchmarks._label_error_cases import (
    cases,
    certain,
    confusable,
    hospital,
    two_normal_classes,
)
from fuzzytwin import FuzzyTwinCommittee
from fuzzytwin.label_issues import find_label_issues, soft_labels

ANNOTATORS = {
    "good": (0.1, 0.1, 0.15, 0.2, 0.2),
    "lazy": (0.1, 0.3, "same", "same", 0.2),
    "weak": (0.3, 0.35, 0.4, 0.35, 0.4),
    "adversarial": (0.1, 0.15, 0.2, 0.8, 0.3),
}


def reviews(kinds, n_reviewed, how="auto", draws=200):
    """The number of label errors after reviews of some rows."""
    print(
        f"\nafter reviews of {n_reviewed} rows: median |estimate / truth - 1|, coverage, "
        "width / rows, estimate / rows;"
    )
    print("then the same before")
    for kind in kinds:
        found = []
        for case in cases(kind):
            report = find_label_issues(case.X, case.labels, labels=how)
            wrong, n = case.wrong.sum(), len(case.labels)
            for draw in range(draws):
                rows = report.sample_for_review(n_reviewed, random_state=draw)
                after = report.with_reviews({int(row): case.truth[row] for row in rows})
                for one in (after, report):
                    low, high = one.n_errors_interval
                    number = np.nan_to_num(one.n_errors)
                    error = abs(number / wrong - 1) if wrong else np.nan
                    found.append([error, low <= wrong <= high, (high - low) / n, number / n])
        found = np.array(found).reshape(-1, 2, 4)
        cells = "   ".join(
            f"{np.nanmedian(part[:, 0]):.3f} {part[:, 1].mean():.2f} {np.median(part[:, 2]):.3f} "
            f"{part[:, 3].mean():.4f}"
            for part in (found[:, 0], found[:, 1])
        )
        print(f"{kind:10s} {cells}", flush=True)


def votes(seeds=6):
    """Labels, and a model that learns from them, by votes of annotators of several kinds."""
    print("\nshare of true labels found: majority, Dawid-Skene, ours;")
    print("held-out accuracy of logistic regression on each, and of the committee on ours")
    for kind, errors in ANNOTATORS.items():
        found = []
        for seed in range(seeds):
            K = 2 + seed % 3
            X, truth = make_classification(
                1500, 10, n_informative=6, n_classes=K, n_clusters_per_class=1, class_sep=0.9,
                random_state=seed,
            )  # fmt: skip
            rng = np.random.default_rng(seed)
            table = np.empty((500, len(errors)), dtype=object)
            for a, error in enumerate(errors):
                if error == "same":  # whatever the row is
                    table[:, a] = a % K
                    continue
                wrong = rng.random(500) < error
                table[:, a] = np.where(
                    wrong, (truth[:500] + rng.integers(1, K, 500)) % K, truth[:500]
                )
            table[rng.random(table.shape) < 0.4] = None
            table[[i for i, row in enumerate(table) if all(v is None for v in row)], 0] = 0
            shares = soft_labels(table, classes=range(K))
            skene = soft_labels(table, "dawid-skene", classes=range(K))
            report = find_label_issues(X[:500], votes=table)
            labels = [shares.argmax(axis=1), skene.argmax(axis=1), report.suggested_labels]
            row = [accuracy_score(truth[:500], label) for label in labels]
            models = [LogisticRegression(max_iter=1000).fit(X[:500], label) for label in labels]
            models.append(FuzzyTwinCommittee(random_state=0).fit(X[:500], labels[2]))
            found.append([*row, *(model.score(X[500:], truth[500:]) for model in models)])
        print(f"{kind:12s}", *(f"{mean:.3f}" for mean in np.mean(found, axis=0)), flush=True)


def votes_interval(seeds=20, n=1500, accuracies=(0.93, 0.88, 0.75)):
    """Whether the interval of the number of label errors holds, with labels and three votes."""
    found = []
    for seed in range(seeds):
        K = 4 + 2 * (seed % 2)
        X, labels, truth = confusable(seed, n=n, d=32, K=K, n_wrong=75, apart=0.3)
        rng = np.random.default_rng(seed)
        table = []
        for accuracy in accuracies:
            wrong, near = rng.random(n) > accuracy, rng.random(n) < 0.6
            other = np.where(near, truth ^ 1, (truth + rng.integers(1, K, n)) % K)
            table.append(np.where(wrong, other, truth))
        report = find_label_issues(X, labels, votes=np.column_stack(table))
        low, high = report.n_errors_interval
        found.append([report.n_errors / 75, low <= 75 <= high])
    ratio, covered = np.mean(found, axis=0)
    print(f"votes: estimated over true {ratio:.2f}, interval holds in {covered:.0%} of {seeds}")


def certain_labels(how):
    """Tables whose labels cannot be wrong, clean overlap, and a rare outcome."""
    print("estimated share of errors, interval, flagged: of all rows, most of a label, suggestions")
    tables = [*certain()]
    tables += [(f"normal, seed {seed}", *two_normal_classes(seed)) for seed in range(10)]
    found = []
    for name, X, y in tables:
        found.append(_certain_line(name, find_label_issues(X, y, labels=how)))
    for part in (found[: len(tables) - 10], found[len(tables) - 10 :]):
        begins, flagged, most, suggested = np.mean(part, axis=0)
        print(f"{len(part)} tables: from 0 {begins:.2f}, flagged {flagged:.3f}, most rows of a "
              f"label {most:.2f}, with suggestions {suggested:.2f}")  # fmt: skip
    for seed in range(5):
        X, labels, truth, patients = hospital(seed)
        report = find_label_issues(X, labels, labels=how, groups=patients)
        _certain_line(f"hospital, seed {seed}", report)
        rows = report.ranked_rows
        score = average_precision_score((labels != truth)[rows], -np.arange(len(rows)))
        n_after = (report.suggested_labels != truth).sum()
        print(f"    errors {(labels != truth).sum()}, after acceptance {n_after}, average "
              f"precision {score:.3f}")  # fmt: skip


def _certain_line(name, report):
    """Print a line, and return what is to be averaged."""
    n = len(report.codes)
    low, high = report.n_errors_interval
    share = np.bincount(report.codes[report.is_label_issue], minlength=len(report.classes))
    most = (share / np.bincount(report.codes)).max()
    flagged = report.is_label_issue.mean()
    n_suggested = (report.suggested_labels != report.given_labels).sum()
    print(f"{name:28s} {report.n_errors / n:.3f} ({low / n:.3f} to {high / n:.3f}) {flagged:.3f} "
          f"{most:.3f} {n_suggested}", flush=True)  # fmt: skip
    return low < 0.5, flagged, most > 0.5, n_suggested > 0


def many_classes(baseline, baselines, how, seeds=5):
    """Twelve classes in confusable pairs, which are more or less apart."""
    for apart in (0.11, 0.13, 0.15):
        found = []
        for seed in range(seeds):
            X, labels, truth = confusable(seed, apart=apart)
            wrong = labels != truth
            report = find_label_issues(X, labels, labels=how)
            low, high = report.n_errors_interval
            row = [f1_score(wrong, report.is_label_issue), low <= wrong.sum() <= high]
            row.append(average_precision_score(wrong, -report.label_quality))
            for method in ("logistic", "LDA"):
                doubt, flags, *_ = baseline(baselines[method], X, labels)
                row += [f1_score(wrong, flags), average_precision_score(wrong, doubt)]
            found.append(row)
        f1, covered, ours, *others = np.mean(found, axis=0)
        print(f"apart {apart}: F1 {f1:.3f}, average precision {ours:.3f}, coverage {covered:.2f}; "
              f"cleanlab, logistic {others[0]:.3f}, {others[1]:.3f}; LDA {others[2]:.3f}, "
              f"{others[3]:.3f}", flush=True)  # fmt: skip


def empty(kind, seed):
    """Rows and labels without signal, or without noise."""
    rng = np.random.default_rng([seed, kind == "no signal"])
    while True:
        n = int(np.exp(rng.uniform(np.log(20), np.log(2000))))
        K, d = int(rng.choice([2, 2, 2, 3, 4, 6, 10])), int(rng.choice([2, 4, 8, 20]))
        share = rng.choice([0.5, 0.7, 0.8, 0.9, 0.95])
        shares = (
            np.r_[share, np.full(K - 1, (1 - share) / (K - 1))] if K == 2 else np.full(K, 1 / K)
        )
        y, X = rng.choice(K, n, p=shares), rng.normal(size=(n, d))
        if kind == "no noise":
            if seed % 2:  # classes apart
                centers = rng.normal(size=(K, d))
                X += 5 * centers[y] / pdist(centers).min()
            else:  # halves, or parts, of a cloud
                y = (X @ rng.normal(size=(d, K)) / np.sqrt(d) + np.log(shares)).argmax(axis=1)
        y = np.unique(y, return_inverse=True)[1]
        if y.max() and np.bincount(y).min() > 1:
            return X, y


def nothing(seeds=200):
    """Tables with nothing to find."""
    for kind in ("no signal", "no noise"):
        flags = [find_label_issues(*empty(kind, seed)).is_label_issue for seed in range(seeds)]
        any_ = np.mean([part.any() for part in flags])
        rows = np.concatenate(flags).mean()
        mean = np.mean([part.mean() for part in flags])
        print(f"{kind}: {any_:.1%} of {seeds} tables have a flag; of all rows {rows:.2%}, in the "
              f"mean of tables {mean:.2%} are flagged")  # fmt: skip
