"""Looking at a cluster for as long as one likes: `polling.py` lands what is seen and says what is
new, `watcher.py` does no more than that, `metrics.py` and `serve.py` show it to Prometheus.
"""
