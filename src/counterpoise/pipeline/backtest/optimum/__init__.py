"""The best possible play: how even a cluster could have been kept with so many moves.

`floor.py` has what no assignment beats at an instant; `bound.py` what no sequence of so many moves
beats, by a mixed-integer program (HiGHS, the extra ``optimum``); `players.py` what local search
reaches with the future known, and with past reports alone. Decisions use none of it.
"""
