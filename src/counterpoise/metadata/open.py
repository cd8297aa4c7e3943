"""Opens a session with a metadata store by its URL."""

from counterpoise.metadata.errors import MetadataError
from counterpoise.metadata.memory import MemoryTree
from counterpoise.metadata.port import MetadataReader, MetadataStore


class InvalidMetadataUrl(MetadataError, ValueError):
    """A text is not the URL of a metadata store."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"not a metadata store URL: {url!r}; use memory: or sqlite:///file (one process), "
            "or zk:host:port[,host:port][/chroot]"
        )


async def open_tree(url: str) -> MemoryTree | None:
    """The metadata tree in memory that the brokers of one process share; None for a URL of a
    server.

    ``memory:`` creates an empty one. ``sqlite:///file`` loads the file, and raises
    `StoreUnavailable` if it cannot.
    """
    scheme, colon, address = url.partition(":")
    if scheme == "memory" and colon:
        return MemoryTree()
    if scheme == "sqlite" and colon:
        # Imported here: few clusters keep their metadata this way.
        from counterpoise.metadata.sqlite import SqliteTree, path_in

        path = path_in(address)
        if path is None:
            raise InvalidMetadataUrl(url)
        return await SqliteTree.load(path)
    return None


async def open_store(
    url: str,
    *,
    tree: MemoryTree | None = None,
    read_only: bool = False,
    session_timeout_s: float = 30.0,
    operation_timeout_s: float = 30.0,
) -> MetadataStore:
    """Open a session with the store that a URL names.

    ``tree`` is what the brokers of one process share (`open_tree`); without it a session with
    ``memory:`` or ``sqlite:`` is alone. ``zk:`` connects to ZooKeeper and raises `StoreUnavailable`
    if it cannot; ``read_only`` is for `open_reader`.
    """
    scheme, _, address = url.partition(":")
    if tree is None:
        tree = await open_tree(url)
    if tree is not None:
        return tree.open()
    if scheme == "zk" and address.strip("/"):
        # Imported here: a cluster in one process never needs kazoo.
        from counterpoise.metadata.zk import ZooKeeperStore

        try:
            return await ZooKeeperStore.connect(
                address.removeprefix("//"),
                read_only=read_only,
                session_timeout_s=session_timeout_s,
                operation_timeout_s=operation_timeout_s,
            )
        except ValueError:  # an invalid port or chroot
            raise InvalidMetadataUrl(url) from None
    raise InvalidMetadataUrl(url)


async def open_reader(url: str, *, operation_timeout_s: float = 30.0) -> MetadataReader:
    """A session that only reads: it creates no node, not even the root, and sets no watch.

    Raises `InvalidMetadataUrl` and `StoreUnavailable`.
    """
    return await open_store(url, read_only=True, operation_timeout_s=operation_timeout_s)
