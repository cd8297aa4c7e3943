"""Pytest fixtures for tests that need a Pulsar cluster; installed with the package.

``pulsar_cluster``
    A running :class:`counterpoise.Cluster` of three brokers, fresh for every test::

        def test_my_application(pulsar_cluster):
            client = pulsar.Client(pulsar_cluster.service_url)

``pulsar_cluster_module``, ``pulsar_cluster_session``
    The same, shared by the tests of one module, or by all.

``pulsar_namespace``
    A new namespace of the session's cluster for every test, ``public/…``: its own topics,
    subscriptions and policies at a few milliseconds, instead of a cluster for every test.

``pulsar_cluster_options``
    What the clusters are made with: override it (in a ``conftest.py``, a module or a class) to
    return other keyword arguments of :class:`counterpoise.Cluster`, for example
    ``{"brokers": 5, "config": {"defaultNumberOfNamespaceBundles": 16}}``.

Nothing is imported before a test asks for one of them.
"""

import gc
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from counterpoise.app.clusters.embedded import Cluster


class _OwnModules:
    """A finder by which this package's modules are imported without pytest's rewriting.

    pytest rewrites the assertions of every module of a package that has a plugin. This package has
    no use for it, and it takes a seventh of the first test's time.
    """

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of this package; None for any other, which pytest's finder then finds."""
        return PathFinder.find_spec(name, path) if name.startswith("counterpoise.") else None


sys.meta_path.insert(0, _OwnModules)


@pytest.fixture(scope="session")
def pulsar_cluster_options() -> dict[str, Any]:
    """Keyword arguments of the clusters that the other fixtures start."""
    return {"brokers": 3}


@pytest.fixture
def pulsar_cluster(pulsar_cluster_options: dict[str, Any]) -> "Iterator[Cluster]":
    """A running Pulsar cluster, for one test alone."""
    yield from _running(pulsar_cluster_options)


@pytest.fixture(scope="module")
def pulsar_cluster_module(pulsar_cluster_options: dict[str, Any]) -> "Iterator[Cluster]":
    """A running Pulsar cluster that the tests of a module share."""
    yield from _running(pulsar_cluster_options)


@pytest.fixture(scope="session")
def pulsar_cluster_session(pulsar_cluster_options: dict[str, Any]) -> "Iterator[Cluster]":
    """A running Pulsar cluster that all tests share."""
    yield from _running(pulsar_cluster_options)


@pytest.fixture
def pulsar_namespace(pulsar_cluster_session: "Cluster") -> str:
    """A new namespace for one test, in the cluster that all tests share."""
    return pulsar_cluster_session.new_namespace()


def _running(options: dict[str, Any]) -> "Iterator[Cluster]":
    import counterpoise

    with counterpoise.Cluster(**options) as cluster:
        yield cluster
    # The official client leaves file descriptors open in cycles of objects, several for each test.
    # The cycles of this test are in the young generations, whose collection takes milliseconds.
    gc.collect(1)
