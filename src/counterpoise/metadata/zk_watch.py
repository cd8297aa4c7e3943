"""ZooKeeper's persistent recursive watch (ZooKeeper 3.6, ``addWatch``), which kazoo 2.11 lacks.

One such watch on the root reports every change of the tree, in order, as long as the connection
lasts, as in Pulsar's ``ZKMetadataStore``. One-shot watches, set again after each event, would miss
changes in between.

This file is the only one that uses kazoo's internals: it sends one request of its own and reads the
watch events itself.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Any, ClassVar, Final

from kazoo.protocol.serialization import Watch, write_string

from counterpoise.metadata.port import Notification, NotificationKind

_KINDS: Final = {
    1: NotificationKind.CREATED,
    2: NotificationKind.DELETED,
    3: NotificationKind.MODIFIED,
}
_PERSISTENT_RECURSIVE: Final = 1


class AddWatch:
    """ZooKeeper's ``addWatch`` request for kazoo: opcode 106, path and mode; an empty response."""

    type: ClassVar[int] = 106

    def __init__(self, path: str) -> None:
        self.path = path

    def serialize(self) -> bytes:
        """Encode the request."""
        return bytes(write_string(self.path)) + struct.pack("!i", _PERSISTENT_RECURSIVE)

    @staticmethod
    def deserialize(_buffer: bytes, _offset: int) -> bool:
        """Decode the response, which has no content; always True."""
        return True


class SubtreeWatch:
    """A watch on all nodes below the client's root; calls ``hear`` from kazoo's thread."""

    def __init__(self, client: Any, hear: Callable[[Notification], None]) -> None:
        self._client = client
        self._hear = hear
        client._connection._read_watch_event = self._read_event

    async def establish(self) -> None:
        """Set the watch on the current connection; raises kazoo's errors."""
        result = self._client.handler.async_result()
        self._client._call(AddWatch(self._client.chroot or "/"), result)
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        result.rawlink(lambda _: loop.call_soon_threadsafe(done.set))
        await done.wait()
        if result.exception is not None:
            raise result.exception

    def _read_event(self, buffer: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        kind = _KINDS.get(event.type)
        path = self._client.unchroot(event.path)
        if kind is not None and path and path != "/":
            self._hear(Notification(kind, path))
