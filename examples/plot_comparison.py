"""
Comparing classifiers over several tables
=========================================

Six of the paper's tables, the same folds for every classifier. Encoding, scaling and tuning are
inside of the folds. The Friedman test asks whether there is any difference at all, and the diagram
joins classifiers whose mean ranks the Nemenyi test cannot distinguish. Linear classifiers that are
tuned alike hardly differ on small tables, and the diagram says so.
"""

import pandas as pd
from scikit_posthocs import critical_difference_diagram, posthoc_nemenyi_friedman
from scipy.stats import friedmanchisquare
from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline

from fuzzytwin import FuzzyTwinSVCCV, LeastSquaresSVC, LeastSquaresTwinSVC
from fuzzytwin.datasets import load_uci
from fuzzytwin.tables import TablePreprocessor

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
for table in ("australian", "bupa", "heart_cleveland", "hepatitis", "pima", "votes"):
    X, y = load_uci(table, return_X_y=True, as_frame=True)
    for name, model in models.items():
        pipeline = make_pipeline(TablePreprocessor(), model)
        scores.loc[table, name] = cross_val_score(pipeline, X, y, cv=folds).mean()

print(scores.round(3))
print(friedmanchisquare(*scores.to_numpy().T))

# %%
# Mean ranks, and which classifiers do not differ:

mean_ranks = scores.rank(axis=1, ascending=False).mean()
p_values = posthoc_nemenyi_friedman(scores.to_numpy())
p_values.index = p_values.columns = scores.columns
critical_difference_diagram(mean_ranks, p_values)
