"""A cluster with a full broker, for the tests of what moves bundles on request."""

import pytest

from tests.pipeline.fake_cluster import FakeCluster, bundle_name


@pytest.fixture
async def full(cluster: FakeCluster) -> FakeCluster:
    """Three brokers; the first has twelve bundles, half of them without load."""
    first, _, _ = [await cluster.add_broker() for _ in range(3)]
    for index in range(12):
        cluster.carry(first, bundle_name(index), 1000.0 * (index % 2))
    return cluster
