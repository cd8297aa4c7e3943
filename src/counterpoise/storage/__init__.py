"""Where messages are kept: the port of the ledger stores, one in memory and one in files."""
