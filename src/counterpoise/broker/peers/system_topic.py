"""A topic that all brokers of a cluster read and write: the last value of each key is current.

It corresponds to the ``TableView`` of Pulsar's extensible load manager. One of the brokers serves
the topic, and it can move like any other. If it moves, or its broker dies, the link reconnects and
reads the topic from its beginning. A listener is called when a reading begins and when it has
caught up, so reading twice does no harm.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from counterpoise.broker.base.clock import wall_clock_ms
from counterpoise.broker.base.cluster_key import PROPERTY, ClusterKey
from counterpoise.broker.peers.connection import PeerConnection, PeerError
from counterpoise.broker.peers.topic_owner import connect_to_owner
from counterpoise.metadata import MetadataError
from counterpoise.names.callbacks import MillisecondClock, Notify
from counterpoise.security.client import ANONYMOUS, ClientSecurity
from counterpoise.wire import encode
from counterpoise.wire.entry import BadEntry, build, metadata_of, split
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata
from counterpoise.wire.proto.values_pb2 import KeyValue, MessageIdData
from counterpoise.wire.values import Schema

_PRODUCER_ID: Final = 0
_CONSUMER_ID: Final = 0
_PERMITS: Final = 1000
_EARLIEST: Final = (1 << 64) - 1
"""-1 in 64 bits: both halves of the position before the first message."""
_SUBSCRIPTION: Final = "counterpoise"
_KEEPER_ID: Final = 1
KEEPER: Final = "__compaction"
"""The subscription that keeps a persistent topic's messages, by the name that Pulsar's compaction
uses."""
_PAUSE_S: Final = 0.05
_PAUSE_MAX_S: Final = 5.0
"""The pauses before the link reconnects: the first one, and the longest one."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SystemTopicMessage:
    """One message of a system topic. ``value`` None is a tombstone: it removes its key."""

    key: str
    value: bytes | None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SystemTopicListener:
    """The callbacks of a `SystemTopicLink`, called in the topic's order."""

    on_begin: Notify
    """Called when the topic is read from its beginning (again): former messages may be outdated."""
    on_message: Callable[[SystemTopicMessage], None]
    on_caught_up: Notify
    """Called when everything has been read that the topic had when the reading began."""


class SystemTopicLink:
    """Reads and writes one system topic, over a connection to the broker that owns it."""

    def __init__(
        self,
        topic: str,
        listener: SystemTopicListener,
        *,
        producer_name: str,
        timeout_s: float,
        security: ClientSecurity = ANONYMOUS,
        cluster_key: ClusterKey | None = None,
        schema: Schema | None = None,
        clock_ms: MillisecondClock = wall_clock_ms,
    ) -> None:
        self.topic: Final = topic
        self._listener = listener
        self._producer_name = producer_name
        self._timeout_s = timeout_s
        self._security = security
        self._cluster_key = cluster_key
        self._schema = schema
        self._schema_version = b""
        self._clock_ms = clock_ms
        self._sequence_ids = itertools.count()
        self._opened: PeerConnection | None = None
        self._peer: PeerConnection | None = None
        """The opened connection, once its producer and reader are ready."""
        self._ended: asyncio.Future[str] | None = None
        self._last: tuple[int, int] | None = None
        self._caught_up = False
        self._read = 0

    async def run(self, broker_url: str) -> str:
        """Connect and stay connected; returns the reason why the connection ended.

        ``broker_url`` is any broker, at which the topic is looked up. Raises `PeerError` if it
        cannot connect.
        """
        ended = self._ended = asyncio.get_running_loop().create_future()
        try:
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._open(broker_url)
            except TimeoutError:
                raise PeerError(
                    f"{self.topic}: no link within {self._timeout_s} s; it is tried again"
                ) from None
            why: str = await ended
            return why
        finally:
            self.close()

    async def keep(self, broker_url: str) -> NoReturn:
        """Connect to the topic, looked up at any broker, and reconnect after every failure."""
        pause_s = _PAUSE_S
        while True:
            try:
                why = await self.run(broker_url)
                pause_s = _PAUSE_S
            except PeerError as error:
                why = str(error)
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)
            log.info("%s: the link is made again in %g s: %s", self.topic, pause_s, why)
            await asyncio.sleep(pause_s)

    @property
    def linked(self) -> bool:
        """Whether the link can be written to now."""
        return self._peer is not None

    def drop(self, why: str) -> None:
        """Close the connection, for the reason ``why``: another broker may serve the topic now."""
        if self._opened is not None:
            self._opened.close()
        self._on_closed(why)

    async def publish(
        self, key: str, value: bytes | None, properties: Mapping[str, str] | None = None
    ) -> None:
        """Publish a value (None: a tombstone); returns when it is stored. Raises `PeerError`."""
        peer = self._peer
        if peer is None:
            raise PeerError(f"{self.topic} is not linked at the moment")
        metadata = MessageMetadata(
            producer_name=self._producer_name,
            sequence_id=next(self._sequence_ids),
            publish_time=self._clock_ms(),
            partition_key=key,
            null_value=value is None,
            schema_version=self._schema_version or None,
            properties=[KeyValue(key=k, value=v) for k, v in (properties or {}).items()],
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                await peer.send(_PRODUCER_ID, metadata.sequence_id, build(metadata, value or b""))
        except TimeoutError:
            raise PeerError(
                f"{self.topic}: {peer.url} confirmed nothing within {self._timeout_s} s"
            ) from None

    def close(self) -> None:
        """Close the connection to the topic, if there is one."""
        if self._opened is not None:
            self._opened.close()
        self._opened = self._peer = None

    async def _open(self, url: str) -> None:
        peer = self._opened = await connect_to_owner(
            self.topic, url, self._timeout_s, self._security, self._receive, self._on_closed
        )
        shown = await self._shown_key()
        opened = await peer.request(
            commands.CommandProducer(
                topic=self.topic,
                producer_id=_PRODUCER_ID,
                metadata=[KeyValue(key=key, value=value) for key, value in shown.items()],
                schema=None if self._schema is None else encode.raw_schema(self._schema),
            )
        )
        self._schema_version = opened.producer_success.schema_version
        self._last, self._caught_up, self._read = None, False, 0
        self._listener.on_begin()
        if self.topic.startswith("persistent://"):
            # Only compaction acknowledges on this subscription: without it, messages would be
            # deleted that all other durable subscriptions have acknowledged.
            await peer.request(
                commands.CommandSubscribe(
                    topic=self.topic,
                    subscription=KEEPER,
                    sub_type=commands.CommandSubscribe.Shared,
                    consumer_id=_KEEPER_ID,
                    durable=True,
                    initial_position=commands.CommandSubscribe.Earliest,
                )
            )
            await peer.request(commands.CommandCloseConsumer(consumer_id=_KEEPER_ID))
        # As a reader does: from the topic's first message on.
        await peer.request(
            commands.CommandSubscribe(
                topic=self.topic,
                subscription=f"{_SUBSCRIPTION}-{self._producer_name}",
                sub_type=commands.CommandSubscribe.Exclusive,
                consumer_id=_CONSUMER_ID,
                durable=False,
                read_compacted=self.topic.startswith("persistent://"),
                initial_position=commands.CommandSubscribe.Earliest,
                start_message_id=MessageIdData(ledger_id=_EARLIEST, entry_id=_EARLIEST),
            )
        )
        if self.topic.startswith("persistent://"):
            answer = await peer.request(commands.CommandGetLastMessageId(consumer_id=_CONSUMER_ID))
            last = answer.get_last_message_id_response.last_message_id
            # An empty topic's last entry is -1, which 64 bits without a sign write as 2^64 - 1.
            if last.entry_id < 1 << 63:
                self._last = (last.ledger_id, last.entry_id)
        peer.notify(_permit(_PERMITS))
        self._peer = peer
        if self._last is None:
            self._catch_up()

    async def _shown_key(self) -> dict[str, str]:
        if self._cluster_key is None:
            return {}
        try:
            return {PROPERTY: await self._cluster_key.get()}
        except MetadataError as error:
            raise PeerError(f"{self.topic}: the cluster's key cannot be read: {error}") from error

    def _on_closed(self, why: str) -> None:
        self._opened = self._peer = None
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(why)

    def _receive(self, command: BaseCommand, entry: bytes) -> None:
        position = command.message.message_id
        if (message := read_entry(entry)) is not None:
            self._listener.on_message(message)
        self._read += 1
        if self._read >= _PERMITS // 2 and self._peer is not None:
            self._peer.notify(_permit(self._read))
            self._read = 0
        if self._last is not None and (position.ledger_id, position.entry_id) >= self._last:
            self._catch_up()

    def _catch_up(self) -> None:
        if not self._caught_up:
            self._caught_up = True
            self._listener.on_caught_up()


def _permit(messages: int) -> commands.CommandFlow:
    return commands.CommandFlow(consumer_id=_CONSUMER_ID, message_permits=messages)


def read_entry(entry: bytes) -> SystemTopicMessage | None:
    """Parse an entry of a system topic; None if a Counterpoise broker cannot have written it."""
    try:
        metadata = metadata_of(entry)
        _, payload = split(entry)
    except BadEntry:
        return None
    if _is_packed(metadata):
        return None
    gone = metadata.null_value or not payload
    properties = {each.key: each.value for each in metadata.properties}
    return SystemTopicMessage(metadata.partition_key, None if gone else bytes(payload), properties)


def _is_packed(metadata: MessageMetadata) -> bool:
    """Whether this is a batch or compressed, which brokers never write here."""
    return metadata.HasField("num_messages_in_batch") or metadata.compression != 0
