"""
Learn from batches, and forget rows
===================================

`partial_fit` adds rows and `forget` removes them. Both are exact: the model equals one `fit` on the
rows that remain, however they were divided into batches. Here three batches with flipped labels are
learned and then forgotten.
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
    flipped = number in (7, 8, 9)
    model.partial_fit(X[batch], -y[batch] if flipped else y[batch], classes=[-1, 1])
    scores.append(model.score(X[test], y[test]))
    steps.append("flipped" if flipped else "correct")
for number in (7, 8, 9):
    model.forget(X[batches[number]], -y[batches[number]])
    scores.append(model.score(X[test], y[test]))
    steps.append("forgotten")

# %%
# The model now equals one fit on the seventeen correct batches:

correct = np.concatenate([batch for number, batch in enumerate(batches) if number not in (7, 8, 9)])
once = FuzzyTwinSVC().fit(X[correct], y[correct])
print("largest difference of a coefficient:", f"{np.abs(model.coef_ - once.coef_).max():.0e}")

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
colors = {"correct": "tab:blue", "flipped": "tab:red", "forgotten": "tab:green"}
ax.plot(scores, color="0.7", zorder=0)
for step, color in colors.items():
    places = [i for i, kind in enumerate(steps) if kind == step]
    ax.scatter(places, [scores[i] for i in places], color=color, label=f"{step} batch")
ax.set(xlabel="batch", ylabel="accuracy on test rows")
ax.legend()
