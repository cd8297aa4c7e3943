"""The balancer on Spark: watch a cluster through its admin API, decide, move bundles, keep a
history.
"""
