"""
Tuning
======

`FuzzyTwinSVCCV` scores a grid of penalties, ridges, memberships and rules by cross-validation,
from the moments of the folds. The picture shows the scores over the penalties of the two planes,
and the point that was chosen.
"""

from time import process_time

from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV
from fuzzytwin.plot import ValidationSurfaceDisplay

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)  # inside of a Pipeline where the score is to be reported
start = process_time()
search = FuzzyTwinSVCCV().fit(X, y)
spent = process_time() - start
print(f"{len(search.cv_results_['params'])} points, best {search.best_score_:.4f}")
print(search.best_params_)

# %%
# What it cost, as a multiple of one fit (it differs from one computer to the next):

start = process_time()
for _ in range(20):
    FuzzyTwinSVC().fit(X, y)
print(f"{spent / ((process_time() - start) / 20):.0f} fits")

# %%
# Scores over the two penalties:

ValidationSurfaceDisplay.from_estimator(search)
