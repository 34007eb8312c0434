"""
Missing values and categories
=============================

Votes of the US Congress are "y", "n" or missing. `TablePreprocessor` does in a pipeline what
``fuzzytwin train`` does with a file: it infers the type of each column, fills in missing values,
encodes categories and scales numbers.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from fuzzytwin import FuzzyTwinCommittee
from fuzzytwin.datasets import load_uci
from fuzzytwin.tables import TablePreprocessor

X, y = load_uci("votes", return_X_y=True, as_frame=True)
print(X.iloc[:3, :4])
model = make_pipeline(TablePreprocessor(), FuzzyTwinCommittee())
print(f"accuracy over 10 folds: {cross_val_score(model, X, y, cv=10).mean():.3f}")

# %%
# How each column was read:

model.fit(X, y)
for column in model[0].columns_[:4]:
    print(f"{column.name:40s} {column.kind:9s} {column.missing:3d} missing  {column.note}")

# %%
# Which votes matter: the mean probability of "republican" if everybody votes yes, minus the same if
# everybody votes no.

effects = {}
for name in X.columns:
    yes = model.predict_proba(X.assign(**{name: "y"}))[:, 1]
    no = model.predict_proba(X.assign(**{name: "n"}))[:, 1]
    effects[name] = float(np.mean(yes - no))
strongest = sorted(effects, key=lambda name: abs(effects[name]))[-6:]
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.barh(strongest, [effects[name] for name in strongest])
ax.axvline(0, color="black", linewidth=0.8)
ax.set_xlabel('change of the probability of "republican"')
