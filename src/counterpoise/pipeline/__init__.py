"""The balancer on Spark: watches a cluster by its admin API, decides, moves bundles, keeps a
history.
"""
