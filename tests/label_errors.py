"""Made tables with wrong labels."""

import numpy as np


def few_rows_with_much_noise(seed):
    """A table whose noise model has several optima now and then."""
    rng = np.random.default_rng(seed)
    n, K, d = (int(rng.integers(*ends)) for ends in ((30, 200), (2, 6), (2, 7)))
    centres = rng.normal(size=(K, d)) * rng.uniform(0.5, 2.5)
    truth = rng.integers(0, K, n)
    truth[:K] = np.arange(K)
    X = centres[truth] + rng.normal(size=(n, d))
    y = np.where(rng.random(n) < rng.uniform(0, 0.5), rng.integers(0, K, n), truth)
    for k in range(K):
        if (y == k).sum() < 2:
            y[2 * k : 2 * k + 2] = k
    return X, y, rng.permutation(K), rng.permutation(n)


def hospital(seed=0, visits=4190, patients=2000, wrong=126):
    """Visits of patients with an outcome that 7% have, whatever the columns say of it.

    Returns rows, labels as given (with wrong ones near the border, four in five of them "no" for
    "yes"), true labels, and the patient of each visit.
    """
    rng = np.random.default_rng(seed)
    patient = np.r_[np.arange(patients), rng.integers(0, patients, visits - patients)]
    X = rng.normal(size=(patients, 8))[patient] * 0.8 + 0.6 * rng.normal(size=(visits, 8))
    risk = X[:, 0] + 0.7 * X[:, 1] - 0.5 * X[:, 2] + 0.4 * X[:, 3] * X[:, 4]
    outcome = 2.0 * (risk - np.quantile(risk, 0.93)) + rng.logistic(size=visits)
    truth = (outcome > np.quantile(outcome, 0.93)).astype(int)
    near = np.exp(-np.abs(risk - np.quantile(risk, 0.93)) / 0.5)
    labels = truth.copy()
    for k, count in ((1, 4 * wrong // 5), (0, wrong - 4 * wrong // 5)):
        rows = np.flatnonzero(truth == k)
        chosen = rng.choice(rows, count, replace=False, p=near[rows] / near[rows].sum())
        labels[chosen] = 1 - k
    return X, np.array(["no", "yes"])[labels], np.array(["no", "yes"])[truth], patient
