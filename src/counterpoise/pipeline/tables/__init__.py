"""The history of a cluster as Delta tables: what was seen, decided and done.

Start at `schema.py`, which says what the tables hold; `history.py` opens and writes them.
"""
