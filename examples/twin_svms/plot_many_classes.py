"""
More than two classes
=====================

Five classes lie in a row. Each class against all others fails for the classes in the middle, which
have other classes on both sides. Two planes for each pair of classes separate all of them, from one
pass over the rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.multiclass import OneVsRestClassifier

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.plot import COLORS

rng = np.random.default_rng(0)
centres = np.array([[3.0 * k, 0.8 * (k % 2)] for k in range(5)])
y = np.repeat(np.arange(5), 60)
X = centres[y] + 0.7 * rng.normal(size=(len(y), 2))

grid = np.dstack(np.meshgrid(np.linspace(-3, 15, 300), np.linspace(-3, 4, 150)))
colors = ListedColormap(COLORS[:5])
figure, axes = plt.subplots(2, 1, figsize=(6.5, 5), layout="constrained", sharex=True)
pairs = FuzzyTwinSVC(alpha=1.0)
for ax, model in zip(axes, (OneVsRestClassifier(pairs), pairs), strict=True):
    model.fit(X, y)
    labels = model.predict(grid.reshape(-1, 2)).reshape(grid.shape[:2])
    ax.pcolormesh(grid[..., 0], grid[..., 1], labels, cmap=colors, alpha=0.25, vmin=0, vmax=4)
    ax.scatter(*X.T, c=y, cmap=colors, s=12)
    ax.set_title(f"{type(model).__name__}: accuracy {model.score(X, y):.1%}")
print(f"own and rival class of the first planes: {pairs.plane_classes_[:4].tolist()}")
