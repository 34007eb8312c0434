"""
Calibrated probabilities
========================

The memberships of twin SVMs are not probabilities. With calibration, the reliability curve follows
the diagonal: log odds are fitted to leave-one-out values of the planes.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import train_test_split

from fuzzytwin import FuzzyTwinSVC

X, y = make_classification(6000, 12, n_informative=6, class_sep=0.7, random_state=0)
A, B, a, b = train_test_split(X, y, test_size=4000, random_state=0)
figure, ax = plt.subplots(figsize=(5.5, 4.4), layout="constrained")
for calibration in (None, "loo"):
    model = FuzzyTwinSVC(calibration=calibration).fit(A, a)
    p = (model.predict_proba(B) if calibration else model.predict_membership(B))[:, 1]
    name = f"calibration={calibration!r}"
    CalibrationDisplay.from_predictions(b, p, n_bins=12, ax=ax, name=name)
    print(f"{name:24s} log loss {log_loss(b, p):.3f}   Brier score {brier_score_loss(b, p):.3f}")
