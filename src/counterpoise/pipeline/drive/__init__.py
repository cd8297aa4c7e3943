"""Operators' actions on a cluster, through its admin API alone: drain, approved plans, rolling
restart.

`snapshot.py` reads what a decision needs; the decision itself is in `decide/balancing/`.
"""
