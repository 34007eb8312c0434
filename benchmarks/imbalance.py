"""Which settings of FuzzyTwinSVCCV serve imbalanced tables.

Nine tables of KEEL (folder ``data/more`` of the shared data, or the folder given as argument),
0.6 to 15 % of the rows in the rare class. Outer 3 folds; categories are encoded, columns scaled
and all parameters tuned (inner 5 folds) on the outer training rows alone. Average precision
(the ranking) and balanced accuracy (the labels) are means over the outer folds.

A setting is chosen on one half of the tables, by its mean rank in either measure, and confirmed
on the other half; tables of one origin are in one half.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import average_precision_score, balanced_accuracy_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV

FOLDER = Path("/work/shared/data/more")
HALVES = {
    "chosen on": ("yeast4", "yeast6", "segment0", "car-good"),
    "confirmed on": (
        "abalone19", "abalone9-18", "page-blocks0", "winequality-red-4", "poker-9_vs_7",
    ),
}  # fmt: skip
BALANCED = ("center_balanced", "hyperplane_balanced", "neighbor_balanced")
POWERS = 2.0 ** np.arange(-8, 9, 2)


def settings():
    """Models by name; each call makes new ones."""
    few = {"Cs": POWERS[::2], "alphas": (1.0, 10.0, 100.0), "memberships": (None,)}
    one = {"C": POWERS, "alpha": 10.0 ** np.arange(-3, 4)}
    regression = {"Cs": 10, "cv": 5, "max_iter": 1000}
    return {
        "defaults": FuzzyTwinSVCCV(),
        "Cs=[1]": FuzzyTwinSVCCV([1.0]),
        "one C (GridSearchCV)": GridSearchCV(FuzzyTwinSVC(), one, cv=5),
        "class_weight": FuzzyTwinSVCCV(class_weight="balanced"),
        "*_balanced": FuzzyTwinSVCCV(memberships=BALANCED),
        "bal. accuracy": FuzzyTwinSVCCV(scoring="balanced_accuracy"),
        "bal. accuracy, score": FuzzyTwinSVCCV(scoring="balanced_accuracy", selection="score"),
        "both": FuzzyTwinSVCCV(scoring="balanced_accuracy", class_weight="balanced"),
        "*_balanced, bal. acc.": FuzzyTwinSVCCV(scoring="balanced_accuracy", memberships=BALANCED),
        "roc_auc": FuzzyTwinSVCCV(scoring="roc_auc", memberships=(None, "hyperplane")),
        "average precision": FuzzyTwinSVCCV(scoring="average_precision", **few),
        "LogisticRegressionCV": LogisticRegressionCV(**regression),
        "LogReg, balanced": LogisticRegressionCV(class_weight="balanced", **regression),
    }
