"""The balancer on Spark: watch a cluster through its admin API, decide, carry out, remember."""
