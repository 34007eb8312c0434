"""
A first model
=============

Patients of the Cleveland heart table, cross-validated in a pipeline. After `fit`, every patient
has a degree of membership in each class; the picture shows how much each belongs to the class
that the table says, and names those of the lowest degree.
"""

from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.datasets import load_uci
from fuzzytwin.plot import MembershipDisplay
from fuzzytwin.tables import TablePreprocessor

X, y = load_uci("heart_cleveland", return_X_y=True, as_frame=True)
model = make_pipeline(TablePreprocessor(), FuzzyTwinSVC(membership="neighbor"))
scores = cross_val_score(model, X, y, cv=10)
print(f"accuracy over 10 folds: {scores.mean():.3f}")

# %%
# The degrees of the first three patients in class 0 (healthy) and class 1 (ill):

model.fit(X, y)
print(model.predict_proba(X[:3]).round(2))

# %%
# And of all of them, in the class that the table gives them:

MembershipDisplay.from_estimator(model, X, y, n_named=4)
