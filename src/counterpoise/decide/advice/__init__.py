"""Plans that a person reads and approves before they are carried out; pure functions of snapshots.

Start at `plan.py`, the content of a plan; `planned.py` makes one; `splits.py` finds bundles that
are worth a split, which cannot be undone; `changed.py` checks whether a plan still fits the
cluster.
"""
