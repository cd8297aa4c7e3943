"""Reads a cluster's load through its admin API, with what could not be read and its age.

Start at `collector.py`. `modular.py` and `extensible.py` read one broker each, by the load manager
it runs; every request to a broker goes through `admin.py`.
"""
