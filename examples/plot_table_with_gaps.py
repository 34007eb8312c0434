"""
A table of text, gaps and categories
====================================

`TablePreprocessor` does in a pipeline what ``fuzzytwin train`` does with a file: it judges the
columns, reads cells such as ``<0.5``, imputes, encodes and scales. Votes of the US congress hold
"y", "n" and gaps.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.datasets import load_uci
from fuzzytwin.tables import TablePreprocessor

X, y = load_uci("votes", return_X_y=True, as_frame=True)
print(X.iloc[:3, :4])
model = make_pipeline(TablePreprocessor(), FuzzyTwinSVC())
print(f"accuracy over 10 folds: {cross_val_score(model, X, y, cv=10).mean():.3f}")

# %%
# What became of the columns:

model.fit(X, y)
for column in model[0].columns_[:4]:
    print(f"{column.name:40s} {column.kind:9s} {column.missing:3d} missing  {column.note}")

# %%
# What moves a prediction: how much the degree in class "republican" changes when one vote does.

base = model.predict_proba(X)[:, 1]
effect = {}
for name in X.columns:
    yes, no = (model.predict_proba(X.assign(**{name: vote}))[:, 1] for vote in ("y", "n"))
    effect[name] = float(np.mean(yes - no))
order = sorted(effect, key=lambda name: abs(effect[name]))[-8:]
figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.barh(order, [effect[name] for name in order])
ax.axvline(0, color="black", linewidth=0.8)
ax.set_xlabel('degree in "republican": all vote yes, minus all vote no')
