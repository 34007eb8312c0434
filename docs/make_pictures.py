"""Draw the pictures of the README: ``python docs/make_pictures.py``."""

import runpy
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.datasets import make_xor
from fuzzytwin.plot import PlanesDisplay

HERE = Path(__file__).parent

X, y, degrees = make_xor(noise=0.15, random_state=0)
model = FuzzyTwinSVC(planes="fuzzy", C=0.03, alpha=0.0, margin_width=2.0).fit(
    X, y, membership=degrees
)
figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
PlanesDisplay.from_estimator(model, X, y, degrees=degrees, ax=ax)
ax.set_title("Two fuzzy planes; the size of a sample is its degree of membership", fontsize=10)
figure.savefig(HERE / "fuzzy_planes.png", dpi=110)

curved = runpy.run_path(str(HERE.parent / "examples" / "plot_curved_planes.py"))
curved["figure"].savefig(HERE / "curved_planes.png", dpi=90)
