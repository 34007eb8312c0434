"""
Prediction sets
===============

`predict_set` returns conformal prediction sets, which contain the true label for a requested share
of the rows. Rows between classes get several labels, and rows unlike every class get none.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.datasets import make_blobs

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.plot import COLORS

centers = [[0, 0], [3, 0.5], [1.2, 2.8]]
X, y = make_blobs(600, centers=centers, cluster_std=0.9, random_state=0)
X_new, y_new = make_blobs(6000, centers=centers, cluster_std=0.9, random_state=1)
model = FuzzyTwinSVC(calibration="loo").fit(X, y)

grid = np.dstack(np.meshgrid(np.linspace(-3, 6, 240), np.linspace(-3, 6, 240)))
figure, axes = plt.subplots(1, 2, figsize=(7.5, 4), layout="constrained", sharey=True)
shades = ListedColormap(["white", "0.85", "0.6", "0.35"])
for ax, coverage in zip(axes, (0.8, 0.95), strict=True):
    sets = model.predict_set(grid.reshape(-1, 2), coverage=coverage).sum(axis=1)
    ax.pcolormesh(*grid.transpose(2, 0, 1), sets.reshape(240, 240), cmap=shades, vmin=0, vmax=3)
    ax.scatter(*X.T, c=[COLORS[label] for label in y], s=8)
    new = model.predict_set(X_new, coverage=coverage)
    reached = new[np.arange(len(y_new)), y_new].mean()
    ax.set_title(f"{coverage:.0%} requested, {reached:.1%} on new rows")
    print(f"coverage {coverage}: {reached:.3f}, labels on average {new.sum(axis=1).mean():.2f}")
axes[0].set_xlabel("darker: more labels in the set (white: none)")
