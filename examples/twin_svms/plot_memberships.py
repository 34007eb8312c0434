"""
Five memberships compared
=========================

The data are two classes, an outlier and a few mislabeled rows. A membership gives each row a
degree, which states how much the row counts. The five memberships give low degrees to different
rows: far from the class centre, far from the plane of the class, or among rows of another class.
"""

import matplotlib.pyplot as plt
import numpy as np

from fuzzytwin.memberships import MEMBERSHIPS
from fuzzytwin.plot import COLORS

rng = np.random.default_rng(0)
X = np.vstack([rng.normal([0, 0], 0.8, (60, 2)), rng.normal([4, 0], 0.8, (60, 2)), [[0, 6]]])
y = np.repeat([0, 1, 0], [60, 60, 1])
flipped = [5, 20, 70, 100]
y[flipped] = 1 - y[flipped]
outlier = len(y) - 1

names = ("center", "hyperplane", "neighbor", "entropy", "intuitionistic")
figure, axes = plt.subplots(2, 3, figsize=(7, 4.6), layout="constrained")
for ax, name in zip(axes.flat, names, strict=False):
    degrees = MEMBERSHIPS[name]()(X, y)
    print(
        f"{name:15s} outlier {degrees[outlier]:.2f}   wrong labels {degrees[flipped].mean():.2f}   "
        f"all others {np.delete(degrees, [*flipped, outlier]).mean():.2f}"
    )
    ax.scatter(*X.T, s=4 + 70 * degrees, c=[COLORS[label] for label in y], alpha=0.7)
    ax.scatter(*X[flipped].T, s=160, facecolors="none", edgecolors="black", linewidths=0.8)
    ax.set_title(name)
axes[1, 2].axis("off")
axes[1, 2].text(0.05, 0.5, "size: membership degree\ncircle: mislabeled", fontsize=10)
