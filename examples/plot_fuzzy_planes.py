"""
Fuzzy planes
============

Two classes along two lines that cross, which no single plane separates. Each class has a plane
near to its own samples; a fuzzy plane (model M2) has a width besides, shown as a band, which says
how vague the distance to it is. The size of a sample is its degree of membership.
"""

import matplotlib.pyplot as plt

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.datasets import make_xor
from fuzzytwin.plot import PlanesDisplay

X, y, degrees = make_xor(noise=0.15, random_state=0)
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharey=True)
for ax, planes in zip(axes, ("crisp", "fuzzy"), strict=True):
    model = FuzzyTwinSVC(planes, C=0.03, alpha=0.0, margin_width=2.0)
    model.fit(X, y, membership=degrees)
    PlanesDisplay.from_estimator(model, X, y, degrees=degrees, ax=ax)
    ax.set_title(f'planes="{planes}"')

# %%
# The fuzzy distance of a row has a centre, delta, and a width, gamma; for crisp planes gamma is 0.

delta, gamma = model.fuzzy_distance(X[:2])
print("delta", delta.round(3).tolist())
print("gamma", gamma.round(3).tolist())
