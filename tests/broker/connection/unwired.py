"""A client without a socket, for what takes its time: on a loop whose time jumps."""

import asyncio
from collections.abc import Iterable
from typing import Any, Self

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.connection import Connection, ConnectionConfig, Services
from counterpoise.broker.connection.shared_parts import SharedByConnections
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.storage.ledger_store import LedgerStore
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.frames import cut_frames
from tests.broker.connection.one_broker import OPEN_TO_ALL, Everything
from tests.wire import frames


class _Written(asyncio.Transport):
    """Keeps what the broker writes."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.data = b""
        self.closing = False

    def write(self, data: Any) -> None:
        self.data += bytes(data)

    def writelines(self, data: Iterable[Any]) -> None:
        self.write(b"".join(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class UnwiredClient:
    """A client whose connection the broker reads as soon as it says something."""

    def __init__(
        self, store: LedgerStore | None = None, config: ConnectionConfig | None = None
    ) -> None:
        world, config = Everything(), config or ConnectionConfig()
        topics = TopicRegistry(store or MemoryLedgerStore(), world, world, owner="localhost:0")
        services = Services(topics, world, world, world, OPEN_TO_ALL, None, None)
        self._background = BackgroundTasks()
        shared = SharedByConnections(config, self._background, services)
        self._transport = _Written()
        self._connection = Connection(services, config, shared, "")

    async def __aenter__(self) -> Self:
        self._connection.connection_made(self._transport)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._connection.connection_lost(None)
        await self._background.stop()

    @property
    def is_disconnected(self) -> bool:
        """Whether the broker has ended the connection."""
        return self._transport.closing

    def say(self, field: str, **values: object) -> None:
        self.send(frames.frame(frames.command(field, **values)))

    def send(self, data: bytes) -> None:
        self._connection.data_received(data)

    def heard(self) -> list[int]:
        """The types of the commands that came since the last call."""
        said, self._transport.data = self._transport.data, b""
        return [command.type for command, _ in cut_frames(said)]
