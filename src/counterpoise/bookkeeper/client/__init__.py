"""A BookKeeper client that writes: ledgers created, appended to, recovered, read and deleted."""

from counterpoise.bookkeeper.client.ledger_client import BookieLedgerClient, LedgerClientOptions

__all__ = ["BookieLedgerClient", "LedgerClientOptions"]
