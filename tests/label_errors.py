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
