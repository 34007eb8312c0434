"""Tables for the tests of committees."""

from sklearn.datasets import make_classification

FEW = ["linear", "rbf", "laplacian"]


def table(n=60, d=4, K=3, seed=0):
    X, y = make_classification(
        n, d, n_informative=d - 1, n_redundant=0, n_classes=K, n_clusters_per_class=1,
        random_state=seed,
    )  # fmt: skip
    return X, y
