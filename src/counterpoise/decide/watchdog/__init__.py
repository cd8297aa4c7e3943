"""Judges what is wrong with a cluster that still answers; pure functions of observations.

`observation.py` is the input; `judge.py` finds what is wrong, and what would help.
"""
