"""Apache BookKeeper: its metadata, its bookies, and what Pulsar keeps on them.

Nothing outside `client/` writes to the metadata store or fences a ledger.
"""
