"""Leave-one-out values of a grid against those of each point."""

from __future__ import annotations

import numpy as np

from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import crisp_planes
from fuzzytwin.core.weights import RowWeights
from fuzzytwin.twin._loo_systems import LeaveOneOut, loo_grid
from tests.pairs import every_pair


@every_pair(
    multi_class=["ovo", "ovr"],
    n_classes=[2, 4],
    kind=["hard", "soft", "orphaned_planes", "large weights"],
)
def test_equals_each_point(n_classes, multi_class, kind):
    rng = np.random.default_rng(n_classes)
    n, d, K = 60, 4, n_classes
    codes = np.arange(n) % K
    if kind == "orphaned_planes":
        codes[codes == 0] = 1
        codes[5] = 0
    Z = rng.normal(size=(n, d)) + rng.normal(size=(K, d))[codes] + 100.0
    s, mu = rng.uniform(0.2, 3, n), rng.uniform(size=n)
    s[3] = 0.0
    if kind == "large weights":
        s *= 1e200
    if kind == "soft":
        table = s[:, None] * rng.dirichlet(np.ones(K), size=n)
        weights = RowWeights(None, table, table, K)
    else:
        weights = RowWeights(codes, s, s * mu, K)
    own, slack = (
        ClassMoments.from_rows(Z, weights.codes, part, n_classes=K)
        for part in (weights.own, weights.slack)
    )
    Cs, alphas = np.array([0.2, 1.0, 4.0]), np.array([3.0, 0.0, 1e-13, 0.1])
    if kind == "large weights":
        alphas = alphas * 1e200
    f, norms = np.empty((2, 4, 3, K if multi_class == "ovr" else K * (K - 1), n))
    for block in loo_grid(Z, weights, own, slack, Cs, alphas, multi_class=multi_class):
        f[..., block.index], norms[..., block.index] = block.f, block.norms
    for i, alpha in enumerate(alphas):
        for j, C in enumerate(Cs):
            C_all = np.full(K, C)
            planes = crisp_planes(own, slack, C_all, alpha, multi_class=multi_class)
            one = np.empty((2, *f.shape[2:]))
            for block in LeaveOneOut(planes, own, slack, C_all, alpha).values(Z, weights):
                one[0][:, block.index], one[1][:, block.index] = block.f, block.norms
            np.testing.assert_allclose(f[i, j], one[0], atol=1e-10)
            np.testing.assert_allclose(norms[i, j], one[1], rtol=1e-8, atol=1e-10)
