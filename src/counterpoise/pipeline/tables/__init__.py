"""The history of a cluster as Delta tables: reports, decisions and outcomes.

Start at `schema.py`, which says what the tables hold; `history.py` opens and writes them.
"""
