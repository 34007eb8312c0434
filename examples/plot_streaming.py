"""
Rows that come in batches
=========================

`partial_fit` adds rows and `forget` takes them out again. Both are exact: the planes are those of
one `fit` on the same rows, in whatever batches they came. Here a wrong batch, whose labels are
exchanged, is learned and then forgotten.
"""

import matplotlib.pyplot as plt
import numpy as np

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.datasets import make_ndc

X, y = make_ndc(12_000, 32, random_state=0)
test, rows = np.split(np.arange(12_000), [4_000])
batches = np.array_split(rows, 20)

model, scores, steps = FuzzyTwinSVC(), [], []
for number, batch in enumerate(batches):
    wrong = number in (7, 8, 9)
    model.partial_fit(X[batch], -y[batch] if wrong else y[batch], classes=[-1, 1])
    scores.append(model.score(X[test], y[test]))
    steps.append("wrong" if wrong else "right")
for number in (7, 8, 9):
    model.forget(X[batches[number]], -y[batches[number]])
    scores.append(model.score(X[test], y[test]))
    steps.append("forgotten")

# %%
# The model is now that of one fit on the seventeen right batches:

right = np.concatenate([batch for number, batch in enumerate(batches) if number not in (7, 8, 9)])
once = FuzzyTwinSVC().fit(X[right], y[right])
print("greatest difference of a coefficient:", f"{np.abs(model.coef_ - once.coef_).max():.0e}")

figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
colors = {"right": "tab:blue", "wrong": "tab:red", "forgotten": "tab:green"}
ax.plot(scores, color="0.7", zorder=0)
for step, color in colors.items():
    here = [i for i, kind in enumerate(steps) if kind == step]
    ax.scatter(here, [scores[i] for i in here], color=color, label=f"{step} batch")
ax.set(xlabel="batch", ylabel="accuracy on test rows")
ax.legend()
