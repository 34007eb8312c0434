"""
A first model
=============

Does a patient have heart disease? The Cleveland dataset has 303 patients, with numbers, categories
and missing values. `FuzzyTwinCommittee` takes the data frame as it is and needs no tuning.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import cross_val_predict, cross_val_score

from fuzzytwin import FuzzyTwinCommittee
from fuzzytwin.datasets import load_uci

X, y = load_uci("heart_cleveland", return_X_y=True, as_frame=True)
model = FuzzyTwinCommittee()
scores = cross_val_score(model, X, y, cv=10)
print(f"accuracy over 10 folds: {scores.mean():.3f}")

# %%
# Probabilities of no disease (0) and disease (1) for three patients, and the classes that cannot be
# ruled out with 90% coverage:

model.fit(X[3:], y[3:])
print(model.predict_proba(X[:3]).round(2))
print(model.predict_set(X[:3], coverage=0.9))

# %%
# Out-of-fold probabilities of all patients. Most are on the correct side of 0.5:

probability = cross_val_predict(model, X, y, cv=10, method="predict_proba")[:, 1]
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
groups = [probability[y == 0], probability[y == 1]]
ax.hist(groups, bins=20, range=(0, 1), stacked=True, label=["no disease", "disease"])
ax.axvline(0.5, color="black", linestyle="--")
ax.set(xlabel="probability of disease", ylabel="patients")
ax.legend(loc="upper right", bbox_to_anchor=(0.92, 1))
