"""Apache Pulsar's broker load balancing in Python: a test cluster, and a balancer on Spark.

Two faces over one library:

* **A cluster** of brokers that the official Pulsar clients and tools take for Pulsar, in one
  process for a test (:class:`Cluster`) or as processes on a real ZooKeeper (``counterpoise up``).
* **A balancer** that watches any Pulsar cluster through its admin API, explains every decision,
  and carries out what it plans (``counterpoise balance``).
"""

__version__ = "0.1.0"
