"""
Compare classifiers on several datasets
=======================================

We compare five tuned linear classifiers on six datasets, with the same folds. Encoding, scaling and
tuning are done inside the folds. The Friedman test asks whether there is any difference at all. The
diagram joins classifiers whose mean ranks do not differ significantly by the Nemenyi test. Here it
joins all of them.
"""

import warnings

import matplotlib.pyplot as plt
import pandas as pd
from scikit_posthocs import critical_difference_diagram, posthoc_nemenyi_friedman
from scipy.stats import friedmanchisquare
from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline

from fuzzytwin import FuzzyTwinSVCCV, LeastSquaresSVC, LeastSquaresTwinSVC
from fuzzytwin.datasets import load_uci
from fuzzytwin.tables import TablePreprocessor, TableWarning

# In some folds, only a test row has a missing value in a column. It is replaced by the median.
warnings.filterwarnings("ignore", category=TableWarning)
penalties = {"C": [2.0**k for k in (-9, -6, -3, 0, 3)]}
models = {
    "FuzzyTwinSVCCV": FuzzyTwinSVCCV(cv=3),
    "LST-SVM": GridSearchCV(LeastSquaresTwinSVC(), penalties, cv=3),
    "LS-SVM": GridSearchCV(LeastSquaresSVC(), penalties, cv=3),
    "logistic regression": GridSearchCV(LogisticRegression(), penalties, cv=3),
    "ridge": RidgeClassifierCV([2.0**k for k in (-3, 0, 3, 6, 9)]),
}
folds = StratifiedKFold(5, shuffle=True, random_state=0)
scores = pd.DataFrame(columns=list(models), dtype=float)
for dataset in ("australian", "bupa", "heart_cleveland", "hepatitis", "pima", "votes"):
    X, y = load_uci(dataset, return_X_y=True, as_frame=True)
    for name, model in models.items():
        pipeline = make_pipeline(TablePreprocessor(), model)
        scores.loc[dataset, name] = cross_val_score(pipeline, X, y, cv=folds).mean()

print(scores.round(3))
print(friedmanchisquare(*scores.to_numpy().T))

# %%
# Mean ranks, and which classifiers do not differ significantly:

mean_ranks = scores.rank(axis=1, ascending=False).mean()
p_values = posthoc_nemenyi_friedman(scores.to_numpy())
p_values.index = p_values.columns = scores.columns
figure, ax = plt.subplots(figsize=(6.5, 3), layout="constrained")
critical_difference_diagram(
    mean_ranks, p_values, ax=ax, label_fmt_left="{label} ({rank:.1f})  ",
    label_fmt_right="  {label} ({rank:.1f})",
)  # fmt: skip
