"""
Which columns drive a prediction
================================

The effect of a column is the mean change of the membership in a class when the column rises by one
standard deviation. The coefficients of a twin SVM do not show it: in the breast cancer dataset,
many columns have the same sign in the planes of both classes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.explain import explain

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
model = make_pipeline(StandardScaler(), FuzzyTwinSVC(C=0.1)).fit(X, y)
first, second = np.sign(model[-1].coef_)
print(f"{(first == second).sum()} of {X.shape[1]} columns have the same sign in both planes")
for column in explain(model, X, y, top=5)[1]["columns"]:
    print(f"{column['name']:25s} effect {column['effect']:+.3f}  strength {column['strength']:.3f}")

# %%
# The columns with the strongest effects on the membership in class 1, "benign":

columns = explain(model, X, y, top=6)[1]["columns"][::-1]
names = [column["name"] for column in columns]
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
ax.barh(names, [column["strength"] for column in columns], color="0.85", label="strength")
ax.barh(names, [column["effect"] for column in columns], height=0.5, label="effect")
ax.axvline(0, color="0.3", linewidth=0.8)
ax.set_xlabel("change of the membership if the column rises by one standard deviation")
ax.legend()
