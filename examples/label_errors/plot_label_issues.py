"""
Find mislabeled rows
=====================

Forty labels of the breast cancer dataset are flipped, and `find_label_issues` searches for them.
Every row is predicted by a model that was trained without it. The picture shows the label quality
of all rows, class by class: the probability that the label is correct. Label issues are red.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from fuzzytwin.label_issues import LabelIssueDisplay, find_label_issues

X, y = load_breast_cancer(return_X_y=True)
flipped = np.zeros(len(y), dtype=bool)
flipped[np.random.default_rng(0).choice(len(y), 40, replace=False)] = True
issues = find_label_issues(X, np.where(flipped, 1 - y, y))
print(issues.summary())

# %%
# The flipped labels are known here, so the result can be checked:

flagged = issues.is_label_issue
print(f"flipped labels flagged: {(flagged & flipped).sum()} of {flipped.sum()}")
print(f"correct labels flagged: {(flagged & ~flipped).sum()}")
print(f"area under the ROC curve: {roc_auc_score(flipped, -issues.label_quality):.3f}")

# %%
# All rows, lowest label quality first:

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
LabelIssueDisplay.from_report(issues, n_named=3, ax=ax)
