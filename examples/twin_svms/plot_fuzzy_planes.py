"""
Fuzzy planes
============

Two classes lie along two lines that cross, and no single plane separates them. A twin SVM has one
plane per class, close to the rows of that class. A fuzzy plane (model M2 of the paper on fuzzy
least-squares twin SVMs) also has a width, shown as a band. It shows how vague the distance to the
plane is. The size of a point is its membership degree.
"""

import matplotlib.pyplot as plt

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.datasets import make_xor
from fuzzytwin.plot import PlanesDisplay

X, y, degrees = make_xor(noise=0.15, random_state=0)
figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.8), layout="constrained", sharey=True)
for ax, planes in zip(axes, ("crisp", "fuzzy"), strict=True):
    model = FuzzyTwinSVC(planes=planes, C=0.03, alpha=0.0, margin_width=2.0)
    model.fit(X, y, membership=degrees)
    PlanesDisplay.from_estimator(model, X, y, degrees=degrees, ax=ax)
    ax.set_title(f'planes="{planes}"')

# %%
# The fuzzy distance of a row has a centre, delta, and a width, gamma. For crisp planes gamma is 0.

delta, gamma = model.fuzzy_distance(X[:2])
print("delta", delta.round(3).tolist())
print("gamma", gamma.round(3).tolist())
