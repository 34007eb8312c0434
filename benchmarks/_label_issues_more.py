"""Reviews, several annotators, and tables without label errors."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score

from benchmarks._label_error_cases import cases
from fuzzytwin import FuzzyTwinCommittee
from fuzzytwin.label_issues import find_label_issues, soft_labels

ANNOTATORS = {
    "good": (0.1, 0.1, 0.15, 0.2, 0.2),
    "lazy": (0.1, 0.3, "same", "same", 0.2),
    "weak": (0.3, 0.35, 0.4, 0.35, 0.4),
    "adversarial": (0.1, 0.15, 0.2, 0.8, 0.3),
}


def reviews(kinds, n_reviewed, draws=20):
    """The number of label errors after reviews of some rows."""
    print(
        f"\nafter reviews of {n_reviewed} rows: median |estimate / truth - 1|, coverage, "
        "width / truth;"
    )
    print("then the same before")
    for kind in kinds:
        found = []
        for case in cases(kind):
            report, wrong = find_label_issues(case.X, case.labels), case.wrong.sum()
            for draw in range(draws):
                rows = report.sample_for_review(n_reviewed, random_state=draw)
                after = report.with_reviews({int(row): case.truth[row] for row in rows})
                for one in (after, report):
                    low, high = one.n_errors_interval
                    error = abs(np.nan_to_num(one.n_errors) / wrong - 1)
                    found.append([error, low <= wrong <= high, (high - low) / wrong])
        found = np.array(found).reshape(-1, 2, 3)
        cells = "   ".join(
            f"{np.median(part[:, 0]):.3f} {part[:, 1].mean():.2f} {np.median(part[:, 2]):.2f}"
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
