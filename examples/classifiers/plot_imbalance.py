"""
Imbalanced classes
==================

One row in twelve belongs to the rare class. Class weights move the decision boundary towards the
common class, and so do memberships with ``imbalance=True``, by which common classes count less.
More of the rare class is found, at the price of more false alarms. Balanced accuracy is the mean of
the two recalls.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import balanced_accuracy_score, recall_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fuzzytwin import EntropyMembership, FuzzyTwinSVC, IntuitionisticMembership

X, y = make_classification(
    1500, 8, n_informative=4, weights=[0.92], class_sep=0.9, flip_y=0.02, random_state=1
)
models = {
    "unweighted": FuzzyTwinSVC(),
    "class weights": FuzzyTwinSVC(class_weight="balanced"),
    "entropy": FuzzyTwinSVC(membership=EntropyMembership(imbalance=True)),
    "intuitionistic": FuzzyTwinSVC(membership=IntuitionisticMembership(imbalance=True)),
}
folds = StratifiedKFold(5, shuffle=True, random_state=0)
bars = {}
for name, model in models.items():
    predicted = cross_val_predict(make_pipeline(StandardScaler(), model), X, y, cv=folds)
    bars[name] = (
        recall_score(y, predicted, pos_label=1),
        recall_score(y, predicted, pos_label=0),
        balanced_accuracy_score(y, predicted),
    )
    print(f"{name:24s}", " ".join(f"{value:.3f}" for value in bars[name]))

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
places = np.arange(len(models))
labels = ("recall, rare class", "recall, common class", "balanced accuracy")
for j, label in enumerate(labels):
    ax.bar(places + 0.27 * (j - 1), [bars[name][j] for name in models], 0.25, label=label)
ax.set_xticks(places, models)
ax.set_ylim(0, 1)
ax.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8)
