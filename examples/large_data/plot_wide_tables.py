"""
More columns than rows
======================

The table has sixty rows and up to 4,000 columns, but only twenty columns separate the classes.
Planes are computed from the scalar products of the rows, so columns cost little. A ridge penalty
(alpha) keeps the irrelevant columns from dominating.
"""

import matplotlib.pyplot as plt
import numpy as np

from fuzzytwin import FuzzyTwinSVC

rng = np.random.default_rng(0)


def draw(n, d):
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, d))
    X[:, :20] += 0.7 * y[:, None]
    return X, y


widths, alphas = (50, 100, 250, 500, 1000, 2000, 4000), (1e-3, 10.0, 1000.0)
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for alpha in alphas:
    scores = []
    for d in widths:
        draws = []
        for _ in range(5):
            X, y = draw(60, d)
            X_new, y_new = draw(500, d)
            draws.append(FuzzyTwinSVC(alpha=alpha).fit(X, y).score(X_new, y_new))
        scores.append(np.mean(draws))
    print(f"alpha {alpha:7g}", " ".join(f"{score:.2f}" for score in scores))
    ax.semilogx(widths, scores, marker="o", label=f"alpha={alpha:g}")
ax.set(xlabel="columns (60 rows)", ylabel="accuracy on new rows, mean of 5 draws")
ax.legend()
