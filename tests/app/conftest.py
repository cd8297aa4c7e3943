"""Clusters and verbs for the tests of the composition root."""

from collections.abc import Iterator

import pytest

from counterpoise import Cluster


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    """One embedded cluster for the tests of a module that do not harm it."""
    with Cluster(brokers=3) as cluster:
        yield cluster
