"""What all connections of a broker share: counters, and limits on all of them together."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.base.traffic import Traffic
from counterpoise.broker.connection.listings import Listings
from counterpoise.broker.connection.outbox import MIB
from counterpoise.broker.connection.pause import PauseReason
from counterpoise.broker.connection.ports import ConnectionConfig, Services
from counterpoise.broker.connection.publish_buffer import PublishBuffer
from counterpoise.broker.connection.reading_rounds import ReadingRounds
from counterpoise.broker.connection.throttled import ThrottledMemory
from counterpoise.wire.errors import ServerError

if TYPE_CHECKING:
    from counterpoise.broker.connection.connection import Connection
    from counterpoise.broker.connection.fault_gate import Interceptor


class SharedByConnections:
    """The parts, limits and counters that all connections of a broker share."""

    def __init__(
        self, config: ConnectionConfig, background: BackgroundTasks, services: Services
    ) -> None:
        self.background = background
        self.traffic = Traffic()
        self.rounds = ReadingRounds()
        self.publish_buffer = PublishBuffer(0)
        """Published bytes that wait for storage."""
        self.throttled_memory = ThrottledMemory(0)
        """Memory of throttled entries: at most half of the publish buffer's limit."""
        self.lookups = Lookups()
        self.set_limits(config)
        self.listings = Listings(services.catalog, services.topics)
        self.connections = Connections(config.connections_max, config.connections_max_per_ip)
        self.interceptor: Interceptor | None = None
        """Sees each operation before it is served, to inject faults; None: no faults."""
        self.is_frozen = False

    def set_limits(self, config: ConnectionConfig) -> None:
        """Apply the limits that may change: on lookups, and on the memory of published messages."""
        self.lookups.most = config.lookups_max
        size = max(0, config.publish_buffer_mb) * MIB
        self.publish_buffer.set_limit(size)
        self.throttled_memory.limit = size // 2


class Connections:
    """The open client connections, and the limits on their number (0: no limit)."""

    def __init__(self, most: int, most_per_ip: int) -> None:
        self._most = most
        self._most_per_ip = most_per_ip
        self._by_ip: Counter[str] = Counter()
        self.open: set[Connection] = set()
        self.closed = False
        """Whether new clients are disconnected at once, as when the broker stops."""
        self.admitted = 0
        """How many clients were accepted since the start."""
        self._former_pauses: Counter[PauseReason] = Counter()

    def why_not(self, ip: str) -> str | None:
        """Why a client from this address may not connect, in Pulsar's words; None if it may."""
        if self._most and len(self.open) >= self._most:
            return "Reached the maximum number of connections"
        if self._most_per_ip and self._by_ip[ip] >= self._most_per_ip:
            return f"Reached the maximum number of connections on address{ip}"
        return None

    def pauses(self) -> Counter[PauseReason]:
        """How often reading was paused for each reason, over all connections so far."""
        return sum((each.pause.times for each in self.open), +self._former_pauses)

    def paused(self) -> dict[PauseReason, list[str]]:
        """The addresses of clients whose reading is paused now, by reason."""
        found: dict[PauseReason, list[str]] = {reason: [] for reason in PauseReason}
        for connection in self.open:
            for reason in connection.pause.since():
                found[reason].append(connection.address)
        return found

    def add(self, connection: "Connection", ip: str) -> None:
        """Count a client's connection towards the limits."""
        self.open.add(connection)
        self.admitted += 1
        self._by_ip[ip] += 1

    def remove(self, connection: "Connection", ip: str) -> None:
        """Count a closed connection no more; ignored if it was not counted."""
        if connection in self.open:
            self.open.remove(connection)
            self._former_pauses.update(connection.pause.times)
            self._by_ip[ip] -= 1
            if not self._by_ip[ip]:
                del self._by_ip[ip]


class Lookups:
    """Limits how many lookups run at once (``maxConcurrentLookupRequest``)."""

    def __init__(self) -> None:
        self.most = 0
        """How many may run at once; it may change."""
        self._under_way = 0

    @property
    def full(self) -> bool:
        """Whether the limit is reached, so that the next lookup is refused."""
        return self._under_way >= self.most

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Count one running lookup; raises `BrokerError` (TooManyRequests) at the limit."""
        if self.full:
            raise BrokerError(
                ServerError.TooManyRequests, "Failed due to too many pending lookup requests"
            )
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
