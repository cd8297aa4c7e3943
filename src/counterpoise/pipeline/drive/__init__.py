"""What an operator has done to a cluster, through its admin API alone: `drain.py` empties a broker.

`snapshot.py` reads what the decision needs; the decision itself is in `decide/balancing/`.
"""
