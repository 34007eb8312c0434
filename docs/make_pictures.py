"""Draw the favicon and the picture of the front page: ``python docs/make_pictures.py``."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_digits

from fuzzytwin.label_issues import find_label_issues
from fuzzytwin.tables import TablePreprocessor

HERE = Path(__file__).parent


def favicon():
    """Draw two planes, and rows near to each, as an SVG picture of 64 x 64."""
    planes = [("#1f77b4", (8, 52, 56, 20)), ("#d95f02", (8, 16, 56, 48))]
    shapes = []
    for color, (x1, y1, x2, y2) in planes:
        line = f'x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"'
        shapes.append(f'<line {line} stroke="{color}" stroke-width="5" stroke-linecap="round"/>')
        for share, offset in ((0.12, -9), (0.88, 9)):
            x = x1 + share * (x2 - x1)
            y = y1 + share * (y2 - y1) + offset
            shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{color}"/>')
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">'
    return f"{head}{''.join(shapes)}</svg>\n"


(HERE / "_static" / "favicon.svg").write_text(favicon(), encoding="utf-8")

digits = load_digits()
columns = pd.DataFrame(digits.data, columns=digits.feature_names)
rows = TablePreprocessor().fit_transform(columns)  # as the command line reads them
report = find_label_issues(rows, digits.target, labels="annotated")
worst = report.ranked_rows[:2]
figure, axes = plt.subplots(len(worst), 3, figsize=(5.4, 3.4))
for row, three in zip(worst, axes, strict=True):
    label, better = digits.target[row], report.suggested_labels[row]
    mean = [digits.images[digits.target == k].mean(axis=0) for k in (label, better)]
    words = [f"label {label}, suggested {better}", *(f"mean of all {k}s" for k in (label, better))]
    for ax, image, word in zip(three, [digits.images[row], *mean], words, strict=True):
        ax.imshow(image, cmap="gray_r")
        ax.set_title(word, fontsize=11, color="tab:red" if ax is three[0] else "black")
        ax.set_axis_off()
figure.tight_layout()
figure.savefig(HERE / "label_issues_digits.png", dpi=150, bbox_inches="tight")
