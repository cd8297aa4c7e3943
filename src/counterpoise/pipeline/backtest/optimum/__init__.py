"""How even any strategy could keep a cluster with a number of moves, to compare strategies with.

`floor.py` has a lower bound at one instant, for any assignment. `bound.py` has a lower bound for
any sequence of a number of moves, by a mixed-integer program (HiGHS, the extra ``optimum``).
`players.py` has what local search reaches, with the future known and with past reports alone.
Decisions use none of it.
"""
