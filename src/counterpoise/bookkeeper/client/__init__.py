"""A BookKeeper client that can also write: creates, appends to, recovers and deletes ledgers."""

from counterpoise.bookkeeper.client.ledger_client import BookieLedgerClient, LedgerClientOptions

__all__ = ["BookieLedgerClient", "LedgerClientOptions"]
