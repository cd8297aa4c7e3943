"""The yardstick: how even a cluster could have been kept, with how many moves.

`floor.py` has what no assignment beats at an instant; `bound.py` what no sequence of so many moves
beats, by a linear program (HiGHS, the extra ``optimum``); `players.py` what local search reaches
with the future known, and with past reports alone. None of it is on the path of a decision.
"""
