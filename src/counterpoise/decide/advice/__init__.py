"""A plan that a person can read, approve and have carried out: pure functions of what was seen.

Start at `plan.py`, what a plan says; `planned.py` makes one; `splits.py` says which bundle is worth
a split, which cannot be undone; `changed.py` says whether a plan still fits the cluster.
"""
