"""Apache BookKeeper, read: its metadata, its bookies, and what Pulsar keeps on them.

Nothing here writes to the metadata store, and no request to a bookie fences a ledger.
"""
