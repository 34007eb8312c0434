"""
How many landmarks a kernel needs
=================================

A kernel twin SVM is computed from landmarks, a subset of the training rows (the Nyström method).
With all rows as landmarks it is exact. A few hundred come close, at a fraction of the cost.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons
from sklearn.model_selection import train_test_split

from fuzzytwin import FuzzyTwinSVC

X, y = make_moons(3000, noise=0.3, random_state=0)
A, B, a, b = train_test_split(X, y, test_size=2000, random_state=0)
counts = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
scores = [
    FuzzyTwinSVC(kernel="rbf", gamma=2.0, alpha=0.1, n_landmarks=m, random_state=0)
    .fit(A, a)
    .score(B, b)
    for m in counts
]
linear = FuzzyTwinSVC().fit(A, a).score(B, b)
print(f"linear {linear:.4f}")
for m, score in zip(counts, scores, strict=True):
    print(f"{m:4d} landmarks {score:.4f}")

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.semilogx(counts, scores, base=2, marker="o", label='kernel="rbf"')
ax.axhline(linear, color="0.5", linestyle="--", label='kernel="linear"')
ax.set(xlabel="landmarks (1,000 training rows)", ylabel="accuracy on 2,000 new rows")
ax.legend()
