"""The balancer on a real Apache Pulsar: `make real`."""
