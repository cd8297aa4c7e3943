"""Strategies tried on loads that were recorded, or made up: what would have moved, and what for.

Start at `simulate.py`, which plays one strategy over one trace with the same `decide` functions
that balance a cluster; `trace.py` says what a trace is, `run.py` spreads the plays over Spark.
"""
