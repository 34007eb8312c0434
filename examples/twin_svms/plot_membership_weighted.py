"""
Fuzzy SVM, and fuzzy versions of any classifier
===============================================

`MembershipWeighted` passes membership degrees to any classifier as sample weights. With `SVC` and
the "center" membership it is the fuzzy SVM of Lin and Wang (2002). Here some labels are wrong. With
the "neighbor" membership these rows hardly count, and the decision boundary is smoother.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.svm import SVC

from fuzzytwin import MembershipWeighted
from fuzzytwin.plot import COLORS

X, y = make_moons(200, noise=0.2, random_state=0)
flipped = np.random.default_rng(0).choice(len(y), 30, replace=False)
noisy = y.copy()
noisy[flipped] = 1 - y[flipped]
X_new, y_new = make_moons(5000, noise=0.2, random_state=1)

figure, axes = plt.subplots(1, 3, figsize=(7.2, 3.2), layout="constrained", sharey=True)
for ax, membership in zip(axes, (None, "center", "neighbor"), strict=True):
    model = MembershipWeighted(estimator=SVC(C=10, gamma=2.0), membership=membership).fit(X, noisy)
    DecisionBoundaryDisplay.from_estimator(
        model, X, ax=ax, response_method="predict", alpha=0.2, cmap="coolwarm"
    )
    ax.scatter(*X.T, s=4 + 40 * model.membership_, c=[COLORS[label] for label in noisy])
    score = model.score(X_new, y_new)
    ax.set_title(f"{membership}: accuracy {score:.3f}", fontsize=10)
    print(f"{membership!s:9s} {score:.4f}")
