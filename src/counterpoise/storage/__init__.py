"""Ledger stores: the port, and stores in memory, in files and on BookKeeper."""
