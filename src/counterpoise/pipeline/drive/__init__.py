"""Operators' actions on a cluster by its admin API: drains, approved plans, rolling restarts.

`snapshot.py` reads what a decision needs; the decision itself is in `decide/balancing/`.
"""
