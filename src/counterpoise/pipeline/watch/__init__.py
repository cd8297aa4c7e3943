"""Watches a cluster: `polling.py` writes each poll to the history and logs changes,
`history_keeper.py` does no more than that, `metrics.py` and `serve.py` export it to Prometheus.
"""
