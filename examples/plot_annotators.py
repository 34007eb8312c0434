"""
Several annotators
==================

Five people label 300 rows; two of them guess. Dawid and Skene's method finds out from the votes
alone how reliable each of them is, and weighs their votes by it.
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
tables = {"majority": None, "shares": soft_labels(votes), "Dawid and Skene": degrees}
scores = {}
for name, table in tables.items():
    labels = (soft_labels(votes) if table is None else table).argmax(axis=1)
    model = FuzzyTwinSVC().fit(X[:300], labels, membership=table)
    scores[name] = model.score(X[300:], truth[300:])
    print(f"{name:16s} {scores[name]:.4f} on new rows")

figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
axes[0].bar(np.arange(5) - 0.2, 1 - errors, 0.4, label="truth")
axes[0].bar(np.arange(5) + 0.2, annotators.reliability, 0.4, label="found from the votes")
axes[0].set(xlabel="annotator", ylabel="share of right votes")
axes[0].legend()
axes[1].barh(list(scores), list(scores.values()))
axes[1].set(xlim=(0.5, 1), xlabel="accuracy on 2,700 new rows")
