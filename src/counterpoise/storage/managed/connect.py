"""Connects to the ledger store of a BookKeeper cluster, by its metadata store's URL."""

from random import SystemRandom
from typing import Final

from counterpoise.bookkeeper.bookies import BookieReadOptions
from counterpoise.bookkeeper.client import BookieLedgerClient, LedgerClientOptions
from counterpoise.bookkeeper.client.rack_placement import RackPolicy
from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.bookkeeper.ledger_metadata import DigestType
from counterpoise.metadata import InvalidMetadataUrl, MetadataError, open_store
from counterpoise.names.options import ConfigError
from counterpoise.storage.bookie_client_options import BookieClientOptions
from counterpoise.storage.managed.bookie_tls import bookie_tls
from counterpoise.storage.managed.store import ManagedLedgerStore
from counterpoise.storage.managed_options import ManagedLedgerOptions
from counterpoise.storage.options import StorageOptions
from counterpoise.storage.port import StorageError

_DIGESTS: Final = {
    "CRC32C": DigestType.CRC32C,
    "CRC32": DigestType.CRC32,
    "MAC": DigestType.HMAC,
    "DUMMY": DigestType.DUMMY,
}


def client_options(
    options: ManagedLedgerOptions, bookie_client: BookieClientOptions
) -> LedgerClientOptions:
    """The options of a BookKeeper client; raises `ConfigError`."""
    tls = bookie_tls(bookie_client)
    try:
        digest = _DIGESTS[options.digest.upper()]
    except KeyError:
        use = ", ".join(_DIGESTS)
        raise ConfigError(
            "managedLedgerDigestType", f"{options.digest} is none; use one of {use}"
        ) from None
    try:
        return LedgerClientOptions(
            quorums=options.persistence.quorums,
            racks=RackPolicy(options.rack_aware, options.racks_min, options.racks_enforced),
            digest=digest,
            password=options.password.encode(),
            bookies=BookieReadOptions(timeout_s=options.timeout_s, tls=tls),
        )
    except ValueError as error:
        raise ConfigError("managedLedgerDefaultEnsembleSize", str(error)) from None


async def connect(options: StorageOptions) -> ManagedLedgerStore:
    """The ledger store of the BookKeeper cluster with metadata at ``options.url``.

    The store has its own session with the metadata store, on which no broker's ownership of bundles
    depends. Raises `InvalidMetadataUrl`, `ConfigError`, and `StorageError` if there is no such
    cluster.
    """
    address = options.bookkeeper_metadata or ""
    if not address.startswith("zk:"):
        raise InvalidMetadataUrl(address)
    chosen = client_options(options.managed, options.bookie_client)
    metadata = await open_store(
        address,
        session_timeout_s=options.metadata_session_timeout_ms / 1000,
        operation_timeout_s=options.metadata_operation_timeout_s,
    )
    try:
        client = await BookieLedgerClient.open(metadata, chosen, SystemRandom())
    except (BookKeeperError, MetadataError) as error:
        await metadata.close()
        raise StorageError(f"{address}: {error}") from error
    return ManagedLedgerStore(
        metadata,
        client,
        options=options.managed,
        ledger_bytes=options.ledger_mb << 20,
        cache_bytes=options.cache_mb << 20,
    )
