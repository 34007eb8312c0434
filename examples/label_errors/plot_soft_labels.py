"""
Train with uncertain labels
===========================

A share of the training labels is wrong, and an expert rates how certain each label is. Wrong labels
usually get a low rating and correct ones a high rating. Hard labels ignore the ratings. With soft
labels, a row with a rating of 0.7 counts as 0.7 of its label's class and 0.3 of the other class.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.datasets import load_uci

X, y = load_uci("pima", return_X_y=True)
shares = (0.0, 0.1, 0.2, 0.3, 0.4)
results = {"hard labels": [], "ratings as weights": [], "soft labels": []}
for share in shares:
    scores = {name: [] for name in results}
    for seed in range(10):
        A, B, a, b = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)
        scaler = StandardScaler().fit(A)
        A, B = scaler.transform(A), scaler.transform(B)
        rng = np.random.default_rng(seed)
        wrong = rng.random(len(a)) < share
        labels = np.where(wrong, 1 - a, a)
        rating = np.clip(np.where(wrong, 0.35, 0.85) + 0.1 * rng.normal(size=len(a)), 0, 1)
        soft = np.column_stack([np.where(labels == 0, rating, 1 - rating),
                                np.where(labels == 1, rating, 1 - rating)])  # fmt: skip
        uses = {"hard labels": {}, "ratings as weights": {"sample_weight": rating},
                "soft labels": {"membership": soft}}  # fmt: skip
        for name, degrees in uses.items():
            model = FuzzyTwinSVC().fit(A, labels, **degrees)
            scores[name].append(model.score(B, b))
    for name in results:
        results[name].append(np.mean(scores[name]))

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for name, means in results.items():
    ax.plot(shares, means, marker="o", label=name)
    print(f"{name:18s}", " ".join(f"{value:.3f}" for value in means))
ax.set(xlabel="share of wrong training labels", ylabel="accuracy on clean test rows")
ax.set_title("pima, mean of 10 splits")
ax.legend()
