"""Settings from broker.conf for the ledger stores."""

from dataclasses import dataclass

from counterpoise.names.options import option
from counterpoise.storage.bookie_client_options import BookieClientOptions
from counterpoise.storage.managed_options import ManagedLedgerOptions

_MANAGED = ManagedLedgerOptions()
_BOOKIE_CLIENT = BookieClientOptions()


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Where ledgers are stored, and how large they get; defaults are smaller than Pulsar's, for one
    host.
    """

    url: str = option("memory:", "ledgerStoreUrl")
    """Where messages are kept: memory: (gone with the broker), file:///directory, which all
    brokers of a cluster share, or metadata-store:zk:host:port, the BookKeeper cluster whose
    metadata is there."""
    ledger_mb: int = option(64, "managedLedgerMaxSizePerLedgerMbytes", "MB", low=1)
    """A ledger of this size is closed and the next begun; only whole ledgers are deleted."""
    cache_mb: int = option(64, "managedLedgerCacheSizeMB", "MB", low=1)
    """The size of the cache for the newest entries of all topics, from which consumers are served
    without reading the store."""
    metadata_session_timeout_ms: int = option(
        30000, "metadataStoreSessionTimeoutMillis", "ms", low=100
    )
    """How long a session with the BookKeeper cluster's metadata store lasts without an answer."""
    metadata_operation_timeout_s: int = option(
        30, "metadataStoreOperationTimeoutSeconds", "s", low=1
    )
    """How long an operation on the BookKeeper cluster's metadata store may take before it fails."""
    managed: ManagedLedgerOptions = _MANAGED
    bookie_client: BookieClientOptions = _BOOKIE_CLIENT

    @property
    def bookkeeper_metadata(self) -> str | None:
        """The URL of the metadata store of the BookKeeper cluster; None if messages are stored
        elsewhere.
        """
        scheme, _, address = self.url.partition(":")
        return address.removesuffix("/ledgers") if scheme == "metadata-store" else None
