"""Reads a cluster's load through its admin API: reports, their age, and what could not be read.

Start at `collector.py`. `modular.py` and `extensible.py` read one broker each, by the load manager
it runs; every request to a broker goes through `admin.py`.
"""
