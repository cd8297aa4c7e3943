"""Plays strategies on recorded or synthetic loads: which moves they make, and with what effect.

Start at `simulate.py`, which plays one strategy over one trace with the same `decide` functions
that balance a cluster; `trace.py` says what a trace is, `run.py` spreads the plays over Spark.
"""
