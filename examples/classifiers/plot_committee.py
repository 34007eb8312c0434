"""
A classifier without tuning
===========================

`FuzzyTwinCommittee` stacks linear and kernel classifiers by their leave-one-out predictions. Three
classes spiral around each other, and some labels are wrong. The first picture shows the
probabilities, the second one the stacking weights of the members.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgb

from fuzzytwin import FuzzyTwinCommittee


def spirals(n, seed):
    """Draw three arms of a spiral; one label in twenty is wrong."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    along = rng.uniform(0.2, 1, n)
    turn = 4 * along + 2 * np.pi * y / 3
    X = along[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])
    wrong = rng.uniform(size=n) < 0.05
    return X + 0.06 * rng.normal(size=X.shape), np.where(wrong, rng.integers(0, 3, n), y)


X, y = spirals(400, 0)
model = FuzzyTwinCommittee().fit(X, y)
X_new, y_new = spirals(2000, 1)
print(f"accuracy on new rows: {model.score(X_new, y_new):.3f}")
print(f"leave-one-out log loss: {model.loo_log_loss_:.3f}")

# %%
# Colours show the probabilities of the three classes, and blend where classes meet.

side = np.linspace(-1.3, 1.3, 150)
grid = np.stack(np.meshgrid(side, side), axis=2).reshape(-1, 2)
colours = np.array([to_rgb(name) for name in ("tab:blue", "tab:orange", "tab:green")])
shades = (model.predict_proba(grid) @ colours).reshape(150, 150, 3)
fig, ax = plt.subplots(figsize=(5, 5.2), layout="constrained")
ax.imshow(0.5 + 0.5 * shades, origin="lower", extent=(-1.3, 1.3, -1.3, 1.3))
for k, colour in enumerate(colours):
    ax.scatter(*X[y == k].T, s=8, color=0.6 * colour, label=f"class {k}")
fig.legend(loc="outside upper center", ncols=3)

# %%
# Prediction sets contain the true label of about 90% of the rows. Most sets have one label.

sets = model.predict_set(X_new, coverage=0.9)
print(f"{sets[np.arange(len(y_new)), y_new].mean():.2f} of the sets contain the true label,")
print(f"{sets.sum(axis=1).mean():.2f} labels on average")

# %%
# The stacking weight of each member, and its leave-one-out error:

members = model.members_[::-1]
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
bars = ax.barh([member.name for member in members], [member.weight for member in members])
ax.bar_label(bars, [f"error {member.error:.3f}" for member in members], padding=3, fontsize=8)
ax.margins(x=0.2)
ax.set_xlabel("weight in the log odds of the classes")
