"""
Several annotators
==================

Five people label 300 rows, and two of them guess. The method of Dawid and Skene estimates from the
votes how reliable each annotator is, and weights the votes accordingly.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.label_issues import soft_labels

X, truth = make_classification(3000, 10, n_informative=5, class_sep=0.6, random_state=0)
rng = np.random.default_rng(0)
errors = np.array([0.05, 0.2, 0.3, 0.5, 0.5])
wrong = rng.random((5, 300)) < errors[:, None]
votes = np.where(wrong, 1 - truth[:300], truth[:300]).T

degrees, annotators = soft_labels(votes, "dawid-skene", return_annotators=True)
soft = {"majority": None, "vote shares": soft_labels(votes), "Dawid and Skene": degrees}
scores = {}
for name, membership in soft.items():
    labels = (soft_labels(votes) if membership is None else membership).argmax(axis=1)
    model = FuzzyTwinSVC().fit(X[:300], labels, membership=membership)
    scores[name] = model.score(X[300:], truth[300:])
    print(f"{name:16s} {scores[name]:.4f} on new rows")

# %%
# The estimated reliability of each annotator is close to the true one:

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.bar(np.arange(5) - 0.2, 1 - errors, 0.4, label="true")
ax.bar(np.arange(5) + 0.2, annotators.reliability, 0.4, label="estimated from the votes")
ax.set(xlabel="annotator", ylabel="share of correct votes", ylim=(0, 1.15))
ax.legend(loc="upper right")
