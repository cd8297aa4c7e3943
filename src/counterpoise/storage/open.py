"""Opens a ledger store by its URL.

To add a store, make a folder beside ``files/`` and an entry in `SCHEMES`.
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from counterpoise.metadata import InvalidMetadataUrl
from counterpoise.storage.ledger_store import LedgerStore
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.options import StorageOptions
from counterpoise.storage.port import StorageError


class InvalidLedgerUrl(StorageError, ValueError):
    """The text is not the URL of a ledger store."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(
            f"not a ledger store URL: {url!r}: {problem}; "
            "use memory: (one process), file:///directory (shared by all brokers) or "
            "metadata-store:zk:host:port (Apache BookKeeper)"
        )


async def open_ledgers(options: StorageOptions) -> LedgerStore:
    """Open the store that ``options.url`` names; raises `InvalidLedgerUrl`.

    BookKeeper is connected to at once: raises `StorageError` and `MetadataError` if that fails.

    A store in memory is shared by passing the same object to several brokers; any other is opened
    by each broker for itself (see `in_memory`).
    """
    scheme, colon, _ = options.url.partition(":")
    opener = SCHEMES.get(scheme)
    if not colon or opener is None:
        raise InvalidLedgerUrl(options.url, f"its scheme is not one of {', '.join(SCHEMES)}")
    return await opener(options)


def in_memory(url: str) -> bool:
    """Whether the URL is of a store in memory, whose content is lost when this process ends."""
    return url.partition(":")[0] == "memory"


def file_url(directory: Path) -> str:
    """The URL of a ledger store in files below a directory."""
    return directory.absolute().as_uri()


async def _open_memory(options: StorageOptions) -> LedgerStore:
    if options.url != "memory:":
        raise InvalidLedgerUrl(options.url, "nothing may follow 'memory:'")
    return MemoryLedgerStore()


async def _open_files(options: StorageOptions) -> LedgerStore:
    # Imported here: a cluster in memory needs none of it.
    from counterpoise.storage.files.store import FileLedgerStore

    parts = urlsplit(options.url)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise InvalidLedgerUrl(options.url, "an absolute path is expected")
    if parts.query or parts.fragment:
        raise InvalidLedgerUrl(options.url, "'?' and '#' in a path are written %3F and %23")
    return FileLedgerStore(
        Path(unquote(parts.path)),
        ledger_bytes=options.ledger_mb << 20,
        cache_bytes=options.cache_mb << 20,
    )


async def _open_managed(options: StorageOptions) -> LedgerStore:
    # Imported here: other clusters need nothing of BookKeeper.
    from counterpoise.storage.managed.connect import connect

    try:
        return await connect(options)
    except InvalidMetadataUrl:
        problem = "zk:host:port[,host:port][/chroot] is expected behind 'metadata-store:'"
        raise InvalidLedgerUrl(options.url, problem) from None


SCHEMES: Mapping[str, Callable[[StorageOptions], Awaitable[LedgerStore]]] = {
    "memory": _open_memory,
    "file": _open_files,
    "metadata-store": _open_managed,
}
"""The function that opens a store, by the scheme of its URL."""
