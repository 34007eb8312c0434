"""Kernel matrices and planes computed from the formulas, to compare with."""

import numpy as np
from sklearn.metrics.pairwise import pairwise_kernels, polynomial_kernel

from fuzzytwin import FuzzyTwinSVC, LeastSquaresSVC, LeastSquaresTwinSVC, TwinSVC

CLASSICS = (LeastSquaresTwinSVC, LeastSquaresSVC, TwinSVC)
STREAMERS = (FuzzyTwinSVC, LeastSquaresTwinSVC, LeastSquaresSVC)


def quadratic(X, Y):
    """A kernel of the user's own."""
    return polynomial_kernel(X, Y, degree=2, gamma=0.2, coef0=1.0)


KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.3},
    "poly": {"kernel": "poly", "gamma": 0.4, "degree": 3, "coef0": 1.0},
    "laplacian": {"kernel": "laplacian", "gamma": 0.2},
    "cosine": {"kernel": "cosine"},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.1, "coef0": -0.5},
    "callable": {"kernel": quadratic},
}


def kernel_matrix(X, Y, given):
    given = {"gamma": 1.0, "degree": 3, "coef0": 0.0, **given}
    kernel = given.pop("kernel")
    if callable(kernel):
        return kernel(X, Y)
    return pairwise_kernels(X, Y, metric=kernel, filter_params=True, **given)


def positive_part(K):
    """The matrix without its negative eigenvalues, and the projector on what is left."""
    values, vectors = np.linalg.eigh(K)
    V = vectors[:, values > 1e-11 * values[-1]]
    return V @ (V.T @ K @ V) @ V.T, V @ V.T


def representer_planes(K, own, rivals, C, alpha):
    """Weights u and constant b of the function sum_j u_j k(., x_j) + b that minimises J.

    `own` and `rivals` are the weights of all rows in either term. The gradient of J is K times
    the first rows below, and the last row, times alpha.
    """
    D = own + C * rivals
    n = len(K)
    A = np.zeros((n + 1, n + 1))
    A[:n, :n] = D[:, None] * K + alpha * np.eye(n)
    A[:n, n] = D
    A[n, :n] = D @ K
    A[n, n] = D.sum()
    z = np.linalg.solve(A, -np.append(C * rivals, C * rivals.sum()))
    return z[:n], z[n]
