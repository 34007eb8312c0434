"""
Tune a twin SVM
===============

`FuzzyTwinSVCCV` scores a grid of penalties, ridges, memberships and rules by cross-validation. All
points are computed from the means and covariances of the folds. The picture shows the scores for
the penalties of the two planes, and the selected point.
"""

from time import process_time

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)  # to report the score, scale inside a Pipeline
start = process_time()
search = FuzzyTwinSVCCV().fit(X, y)
spent = process_time() - start
print(f"{len(search.cv_results_['params'])} points, best {search.best_score_:.4f}")
print(search.best_params_)

# %%
# The cost of the search as a multiple of one fit, which depends on the computer:

start = process_time()
for _ in range(20):
    FuzzyTwinSVC().fit(X, y)
print(f"{spent / ((process_time() - start) / 20):.0f} fits")

# %%
# Scores over the two penalties, with the other parameters as they were chosen:

best = search.best_params_
scores = {}
for params, score in zip(
    search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
):
    if {**params, "C": best["C"]} == best:
        scores[params["C"]] = score
fig, ax = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
mesh = ax.scatter(*zip(*scores, strict=True), c=list(scores.values()), marker="s", s=320)
ax.scatter(*best["C"], marker="*", s=120, color="white", edgecolor="black", label="chosen")
ax.set(xscale="log", yscale="log", xlabel="C of class 0", ylabel="C of class 1")
ax.legend()
fig.colorbar(mesh, label="accuracy")
