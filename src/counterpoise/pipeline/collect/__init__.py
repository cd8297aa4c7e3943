"""Reading a cluster's load through its admin API: what was seen, what could not be, how old it is.

Start at `collector.py`. `modular.py` and `extensible.py` read one broker each, by the load manager
it runs; `admin.py` is the one way in which anything here asks a broker.
"""
