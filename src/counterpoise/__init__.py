"""Apache Pulsar's broker load balancing in Python: a test cluster, and a balancer on Spark.

Two faces over one library:

* **A cluster** of brokers that the official Pulsar clients and tools take for Pulsar, in one
  process for a test (:class:`Cluster`), and as a cluster that keeps its data, in one process or as
  processes on a real ZooKeeper (``counterpoise up``).
* **A balancer** that watches any Pulsar cluster through its admin API, explains every decision,
  and carries out what it plans (``counterpoise balance``).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterpoise.app.clusters.embedded import Cluster, EmbeddedBroker

__all__ = ["Cluster", "EmbeddedBroker", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Imported when first used: importing the package, and its pytest plugin with every test run,
    # must cost nothing.
    if name in ("Cluster", "EmbeddedBroker"):
        from counterpoise.app.loading import loading

        with loading():
            from counterpoise.app.clusters import embedded
        return getattr(embedded, name)
    raise AttributeError(f"module 'counterpoise' has no attribute {name!r}")
