"""Draw the pictures of the README: ``python docs/make_pictures.py``."""

import runpy
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_digits

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.datasets import make_xor
from fuzzytwin.label_issues import find_label_issues
from fuzzytwin.plot import PlanesDisplay
from fuzzytwin.tables import TablePreprocessor

HERE = Path(__file__).parent

X, y, degrees = make_xor(noise=0.15, random_state=0)
model = FuzzyTwinSVC(planes="fuzzy", C=0.03, alpha=0.0, margin_width=2.0).fit(
    X, y, membership=degrees
)
figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
PlanesDisplay.from_estimator(model, X, y, degrees=degrees, ax=ax)
ax.set_title("Two fuzzy planes. The size of a point is its membership degree", fontsize=10)
figure.savefig(HERE / "fuzzy_planes.png", dpi=110)

kernels = runpy.run_path(str(HERE.parent / "examples" / "twin_svms" / "plot_kernels.py"))
kernels["figure"].savefig(HERE / "kernel_planes.png", dpi=90)

digits = load_digits()
columns = pd.DataFrame(digits.data, columns=digits.feature_names)
rows = TablePreprocessor().fit_transform(columns)  # as the command of the README reads them
report = find_label_issues(rows, digits.target)
worst = report.ranked_rows[:2]
figure, axes = plt.subplots(1, 3 * len(worst), figsize=(8.4, 2.1))
for row, three in zip(worst, axes.reshape(-1, 3), strict=True):
    label, better = digits.target[row], report.suggested_labels[row]
    mean = [digits.images[digits.target == k].mean(axis=0) for k in (label, better)]
    words = [f"label {label},\nsuggested {better}", f"all {label}s", f"all {better}s"]
    for ax, image, word in zip(three, [digits.images[row], *mean], words, strict=True):
        ax.imshow(image, cmap="gray_r")
        ax.set_title(word, fontsize=9, color="tab:red" if ax is three[0] else "black")
        ax.set_axis_off()
figure.tight_layout()
figure.savefig(HERE / "label_issues_digits.png", dpi=90)
