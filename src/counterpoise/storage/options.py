"""What the ledger stores read from broker.conf."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.names.options import option


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Sizes of the ledgers in files; the defaults are smaller than Pulsar's, for one host."""

    ledger_mb: int = option(
        64,
        conf="managedLedgerMaxSizePerLedgerMbytes",
        unit="MB",
        low=1,
        why="a ledger of this size is closed and the next begun; only whole ledgers are deleted",
    )
    cache_mb: int = option(
        64,
        conf="managedLedgerCacheSizeMB",
        unit="MB",
        low=1,
        why="how much of what was written last, over all topics, is delivered without a read",
    )
