"""Two processes that the tests of a file share."""

import pytest
from dask.distributed import Client, LocalCluster


@pytest.fixture(scope="module")
def client():
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    )
    with cluster, Client(cluster) as client:
        yield client
