"""The balancer on Spark: watch a cluster by its admin API, decide, move bundles, keep a history."""
