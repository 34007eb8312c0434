"""
Soft labels: what doubts are worth
==================================

A share of the training labels is wrong, and an expert was asked how sure they are: a wrong label
got a low degree, a right one a high degree, with some noise. Hard labels ignore it. A degree of
0.7 as a soft label makes a sample 0.7 of one class and 0.3 of the other.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.datasets import load_uci

X, y = load_uci("pima", return_X_y=True)
shares = (0.0, 0.1, 0.2, 0.3, 0.4)
results = {"hard labels": [], "degrees": [], "soft labels": []}
for share in shares:
    scores = {name: [] for name in results}
    for seed in range(10):
        A, B, a, b = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)
        scaler = StandardScaler().fit(A)
        A, B = scaler.transform(A), scaler.transform(B)
        rng = np.random.default_rng(seed)
        wrong = rng.random(len(a)) < share
        given = np.where(wrong, 1 - a, a)
        sure = np.clip(np.where(wrong, 0.35, 0.85) + 0.1 * rng.normal(size=len(a)), 0, 1)
        soft = np.column_stack([np.where(given == 0, sure, 1 - sure),
                                np.where(given == 1, sure, 1 - sure)])  # fmt: skip
        for name, degrees in (("hard labels", None), ("degrees", sure), ("soft labels", soft)):
            model = FuzzyTwinSVC(membership_scope="both").fit(A, given, membership=degrees)
            scores[name].append(model.score(B, b))
    for name in results:
        results[name].append(np.mean(scores[name]))

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
for name, means in results.items():
    ax.plot(shares, means, marker="o", label=name)
    print(f"{name:12s}", " ".join(f"{value:.3f}" for value in means))
ax.set(xlabel="share of wrong training labels", ylabel="accuracy on clean test rows")
ax.set_title("pima, mean of 10 splits")
ax.legend()
