"""
Doubtful labels
===============

Forty labels of the breast cancer table are exchanged, and `find_doubtful` looks for them: it judges
every row by planes that never saw it. The picture shows, class by class, the degree to which each
label is right; flagged rows are red.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from fuzzytwin.doubts import DoubtsDisplay, find_doubtful

X, y = load_breast_cancer(return_X_y=True)
wrong = np.zeros(len(y), dtype=bool)
wrong[np.random.default_rng(0).choice(len(y), 40, replace=False)] = True
report = find_doubtful(X, np.where(wrong, 1 - y, y))
print(report.summary())

# %%
# How well it did, as we know which labels are wrong:

flagged = report.doubtful
print(f"wrong labels flagged: {(flagged & wrong).sum()} of {wrong.sum()}")
print(f"right labels flagged: {(flagged & ~wrong).sum()}")
print(f"area under the curve {roc_auc_score(wrong, -report.degrees):.3f}")

# %%
# All rows, the most doubtful of each class first:

DoubtsDisplay.from_report(report, n_named=3)
