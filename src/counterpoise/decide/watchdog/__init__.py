"""Finds faults of a cluster that still responds; pure functions of observations.

`observation.py` is the input; `judge.py` finds the faults and their remedies.
"""
