"""
Kernel twin SVMs
================

No linear plane separates the classes of these four datasets: XOR, two moons, two circles and a
checkerboard. With a kernel, planes are nonlinear. Each class still has one plane, drawn as a line
of its colour (f_k = 0), and a row is assigned to the class whose plane is nearer. `FuzzyTwinSVCCV`
selects kernel, gamma, ridge and C by cross-validation.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles, make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from fuzzytwin import FuzzyTwinSVCCV
from fuzzytwin.plot import PlanesDisplay

GAMMAS = (1.0, 4.0, 16.0)


def xor(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    return X + 0.1 * rng.normal(size=X.shape), (X[:, 0] * X[:, 1] > 0).astype(int)


def moons(n, seed):
    return make_moons(n, noise=0.25, random_state=seed)


def circles(n, seed):
    return make_circles(n, noise=0.12, factor=0.5, random_state=seed)


def checkerboard(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    tiles = np.floor(2 * X).astype(int).sum(axis=1)
    return X + 0.02 * rng.normal(size=X.shape), tiles % 2


# %%
# Both classifiers are tuned on 300 training rows and scored on 3,000 new ones.

figure, axes = plt.subplots(2, 2, figsize=(7.5, 6.4), layout="constrained")
for ax, draw in zip(axes.flat, (xor, moons, circles, checkerboard), strict=True):
    X, y = draw(300, 0)
    X_new, y_new = draw(3_000, 1)
    search = FuzzyTwinSVCCV(
        kernels=("linear", "rbf"), gammas=GAMMAS, memberships=(None, "neighbor"),
        n_landmarks=60, cv=3, random_state=0,
    ).fit(X, y)  # fmt: skip
    svc = GridSearchCV(SVC(), {"C": np.logspace(-1, 3, 5), "gamma": GAMMAS}, cv=3).fit(X, y)
    accuracy = search.score(X_new, y_new)
    svc_accuracy = svc.score(X_new, y_new)
    PlanesDisplay.from_estimator(search, X, y, degrees=np.full(len(y), 0.35), ax=ax)
    legend = ax.get_legend()
    legend.remove()
    ax.set_title(f"{draw.__name__}: {accuracy:.3f} (SVC: {svc_accuracy:.3f})", fontsize=10)
    gamma = search.best_params_["gamma"]
    print(f"{draw.__name__:14s}{accuracy:.4f}  SVC {svc_accuracy:.4f}  gamma {gamma}")
names = [text.get_text() for text in legend.get_texts()]
figure.legend(legend.legend_handles, names, loc="outside upper center", ncols=2)
