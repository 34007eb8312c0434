"""The literal forms of model M2 against the paper's own equations."""

import numpy as np
import pytest

from reproduction.literal import FORMS, fit_m2


@pytest.fixture(params=[True, False], ids=["degrees", "no degrees"])
def rows(request):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=150)
    X = rng.normal(size=(150, 4)) @ rng.normal(size=(4, 4)) + 2 * rng.normal(size=(2, 4))[y]
    return X, y, rng.random(150) if request.param else np.ones(150)


@pytest.mark.parametrize("tau", [1.0, 0.2])
def test_stationary_planes_zero_the_papers_gradients(rows, tau):
    X, y, mu = rows
    p = [0.5, 3.0]
    found = fit_m2("stationary", X, y, mu, tau, C=p)
    for k in range(2):
        A, B, U = X[y == k], X[y != k], np.diag(mu[y != k])
        w, b = found.coef_[k], found.intercept_[k]
        c, d = found.width_coef_[k], found.width_intercept_[k]
        inside = A @ w + b + A @ c + d
        slack = p[k] * U @ (B @ w + b + 1)
        gradients = [
            A.T @ inside + B.T @ slack,
            [inside.sum() + slack.sum()],
            A.T @ inside + tau * c,
            [inside.sum() + tau],  # the one for d, which the paper does not print
        ]
        size = np.abs(A).sum()
        np.testing.assert_allclose(np.concatenate(gradients), 0, atol=1e-11 * size)


def test_printed_planes_solve_the_printed_system(rows):
    X, y, mu = rows
    p, tau = [0.5, 3.0], 0.7
    found = fit_m2("printed", X, y, mu, tau, C=p)
    for k in range(2):
        A, B, u = X[y == k], X[y != k], mu[y != k]
        m1, m2, d = len(A), u.sum(), 4
        sA, sB = A.sum(axis=0)[:, None], (u @ B)[:, None]
        BB = (B.T * u) @ B
        system = np.block(
            [
                [A.T @ A / p[k] + BB, sA / p[k] + sB, A.T @ A / p[k], sA / p[k]],
                [sA.T / p[k] + sB.T, m1 / p[k] + m2, sA.T / p[k], m1 / p[k]],
                [A.T @ A, sA, A.T @ A + np.full((d, d), tau), sA],
                [sA.T, m1, sA.T, m1],
            ]
        )
        right = np.concatenate([sB[:, 0], [u.mean()], np.zeros(d), [tau]])
        z = [found.coef_[k], found.intercept_[k], found.width_coef_[k], found.width_intercept_[k]]
        residual = system @ np.hstack(z) - right
        np.testing.assert_allclose(residual, 0, atol=1e-8 * np.abs(right).max())


def test_only_the_intended_form_separates_the_classes(rows):
    accuracy = {form: fit_m2(form, *rows).score(*rows[:2]) for form in FORMS}
    assert accuracy["printed"] < 0.5 < accuracy["endpoints"]
