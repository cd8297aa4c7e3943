"""Apache BookKeeper: its metadata, its bookies, and what Pulsar stores on them.

Nothing outside `client/` writes to the metadata store or fences a ledger.
"""
