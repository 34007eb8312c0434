"""
Twin SVM, GEPSVM and other classics
===================================

Two classes lie along two lines that cross. Estimators with one plane, the proximal SVM (P-SVM) and
the least-squares SVM (LS-SVM), cannot separate them. Estimators with one plane per class can. The
exception is the least-squares twin SVM (LST-SVM) with C = 1, whose two planes are parallel.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from fuzzytwin import GEPSVC, LeastSquaresSVC, LeastSquaresTwinSVC, ProximalSVC, TwinSVC
from fuzzytwin.datasets import make_xor
from fuzzytwin.plot import COLORS

X, y, _ = make_xor(noise=0.15, random_state=0)
models = {
    "P-SVM": ProximalSVC(),
    "LS-SVM": LeastSquaresSVC(),
    "LST-SVM, C = 1": LeastSquaresTwinSVC(),
    "LST-SVM, C = 0.05": LeastSquaresTwinSVC(C=0.05),
    "T-SVM, C = 0.05": TwinSVC(C=0.05),
    "GEP-SVM": GEPSVC(),
}
low, high = X.min(axis=0) - 0.3, X.max(axis=0) + 0.3
grid = np.dstack(np.meshgrid(*np.linspace(low, high, 250).T))
colors = ListedColormap(COLORS[:2])
figure, axes = plt.subplots(2, 3, figsize=(7.5, 5), layout="constrained")
for ax, (name, model) in zip(axes.flat, models.items(), strict=True):
    labels = model.fit(X, y).predict(grid.reshape(-1, 2)).reshape(grid.shape[:2])
    ax.pcolormesh(grid[..., 0], grid[..., 1], labels == y.max(), cmap=colors, alpha=0.25)
    ax.scatter(*X.T, c=y == y.max(), cmap=colors, s=10)
    ax.set_title(f"{name}: {model.score(X, y):.1%}", fontsize=10)
    print(f"{name:18s}{model.score(X, y):.3f}")
