"""Replays recorded or synthetic loads under a strategy: which moves it makes, and with what effect.

Start at `simulate.py`, which replays one trace under one strategy with the same `decide` functions
that balance a cluster. `trace.py` defines a trace, and `run.py` distributes replays over Spark.
"""
