"""Where topics' messages are stored: the interface of ledger stores, and those in memory, in files
and on BookKeeper.
"""
