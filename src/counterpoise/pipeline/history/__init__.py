"""What was seen, decided and done, kept at a URI as Parquet tables that anything can read.

Start at `layout.py`, which says where everything is; `store.py` is the only module that touches a
file system.
"""
