"""
Comparing classifiers over several tables
=========================================

Six of the paper's tables, the same folds for every classifier; encoding, scaling and tuning are
inside of the folds. The Friedman test asks whether there is any difference at all, and the diagram
joins classifiers whose mean ranks the Nemenyi test cannot tell apart. Linear classifiers that are
tuned alike hardly differ on small tables, and the diagram says so.
"""

from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline

from fuzzytwin import FuzzyTwinSVCCV, LeastSquaresSVC, LeastSquaresTwinSVC
from fuzzytwin.compare import CriticalDifferenceDisplay, compare_classifiers
from fuzzytwin.datasets import load_uci, uci_preprocessor

penalties = {"C": [2.0**k for k in (-9, -6, -3, 0, 3)]}
models = {
    "FuzzyTwinSVCCV": FuzzyTwinSVCCV(cv=3),
    "LST-SVM": GridSearchCV(LeastSquaresTwinSVC(), penalties, cv=3),
    "LS-SVM": GridSearchCV(LeastSquaresSVC(), penalties, cv=3),
    "logistic regression": GridSearchCV(LogisticRegression(), penalties, cv=3),
    "ridge": RidgeClassifierCV([2.0**k for k in (-3, 0, 3, 6, 9)]),
}
folds = StratifiedKFold(5, shuffle=True, random_state=0)
scores = {name: [] for name in models}
for table in ("australian", "bupa", "heart_cleveland", "hepatitis", "pima", "votes"):
    X, y = load_uci(table, return_X_y=True)
    for name, model in models.items():
        pipeline = make_pipeline(uci_preprocessor(table), model)
        scores[name].append(cross_val_score(pipeline, X, y, cv=folds).mean())

result = compare_classifiers(scores)
print(result)

# %%
# Mean ranks, and what cannot be told apart:

CriticalDifferenceDisplay.from_result(result)
