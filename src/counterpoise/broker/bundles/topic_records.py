"""The records of bundles on a system topic (``ServiceUnitStateTableViewImpl``).

Bundle ownership uses it as a metadata store. Nodes of records are read from a table that is built
from the topic's messages, and written by publishing to it; all other nodes are those of the
underlying store. A write is a compare-and-set, although topics have none: all brokers ignore the
same messages (`ownership/channel/view.py`), and the writer waits until it has read its own
message.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from counterpoise import metadata
from counterpoise.broker import peers
from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.cluster_key import ClusterKey
from counterpoise.broker.peers.json_schemas import SCHEMAS
from counterpoise.broker.peers.system_topic import KEEPER, read_entry
from counterpoise.broker.topic.compaction import Compaction, LoadedTopics
from counterpoise.metadata.port import MUST_NOT_EXIST
from counterpoise.metadata.port import Listener as StoreListener
from counterpoise.names.system_topics import SERVICE_UNIT_STATE
from counterpoise.names.topic import TopicName
from counterpoise.ownership.channel.state import RECORDS
from counterpoise.ownership.channel.view import ChannelMessage, ChannelView
from counterpoise.security.client import ANONYMOUS, ClientSecurity

log = logging.getLogger(__name__)

WITHIN_S: Final = 8.0
"""For how many seconds a request waits until the topic is connected: fewer than a request to the
metadata store may take."""
_REMOVES: Final = "removes"
"""A property of tombstones: the version of the record that they delete."""
_TOKEN: Final = "token"  # noqa: S105 - no secret
"""A property by which a broker recognises its own messages when it reads them."""
_BELOW: Final = f"{RECORDS}/"


def link_to_topic(
    me: str, security: ClientSecurity = ANONYMOUS, cluster_key: ClusterKey | None = None
) -> Callable[[peers.SystemTopicListener], peers.SystemTopicLink]:
    """A function that makes broker ``me``'s link to the topic of bundle records for a listener."""
    return lambda listener: peers.SystemTopicLink(
        SERVICE_UNIT_STATE,
        listener,
        producer_name=me,
        timeout_s=WITHIN_S,
        security=security,
        cluster_key=cluster_key,
        schema=SCHEMAS[SERVICE_UNIT_STATE],
    )


class TopicRecords:
    """A `MetadataStore` whose nodes below ``/service_unit_state`` are stored in a topic.

    All other nodes are in the underlying metadata store.
    """

    def __init__(
        self,
        store: metadata.MetadataStore,
        me: str,
        background: BackgroundTasks,
        link: Callable[[peers.SystemTopicListener], peers.SystemTopicLink],
        within_s: float = WITHIN_S,
    ) -> None:
        """``link`` connects to the topic; ``within_s``: how long a request waits for that."""
        self._store = store
        self._me = me
        self._background = background
        self._tokens = itertools.count()
        self._view = ChannelView()
        self._reading = ChannelView()
        """The view that is read from the topic's beginning; `_view` is used until it caught up."""
        self._caught_up = asyncio.Event()
        self._verdicts: dict[str, asyncio.Future[str | None]] = {}
        self._listeners: list[StoreListener] = []
        self._leader: str | None = None
        self.compaction: Final = Compaction(TopicName.parse(SERVICE_UNIT_STATE), KEEPER, live)
        """The compaction of the topic, for the broker that serves it."""
        self._within_s = within_s
        # Subscribed before any other listener: one that reads again after a lost session must not
        # get records that were read before.
        self._leave_session = store.subscribe_session(self._on_session)
        self._link = link(
            peers.SystemTopicListener(self._on_begin, self._on_message, self._on_caught_up)
        )

    def start(self, broker_url: str, topics: LoadedTopics) -> None:
        """Start reading the topic. ``broker_url`` is any broker at which to look it up.

        ``topics`` are those that this broker serves.
        """
        keep = partial(self.compaction.keep, topics)
        self._background.keep("keeping the topic of bundles' states small", keep)
        self._background.keep("the topic of bundles' states", lambda: self._link.keep(broker_url))

    @property
    def caught_up(self) -> bool:
        """Whether all messages were read that the topic had when this broker connected to it."""
        return self._caught_up.is_set()

    @property
    def believed(self) -> Mapping[str, bytes]:
        """The current record of each bundle as JSON, by the messages read so far."""
        return self._view.values

    def stop(self) -> None:
        """Stop reading; the underlying store stays open."""
        self._leave_session()
        self._lose("this broker stops")
        self._link.close()

    # The store's methods.

    async def get(self, path: str) -> metadata.Stored | None:
        """A node with its value and version; None if there is no such node."""
        bundle = _bundle_of(path)
        if bundle is None:
            return await self._store.get(path)
        await self._ready(path)
        value, version = self._view.value(bundle), self._view.version(bundle)
        if value is None or version is None:
            return None
        return metadata.Stored(value, version, ephemeral=False, mine=False)

    async def put(
        self,
        path: str,
        value: bytes,
        *,
        expected_version: int | None = None,
        ephemeral: bool = False,
    ) -> int:
        """Write a node, creating its parents; returns its new version.

        Raises `BadVersion` also if the record is one that brokers ignore.
        """
        bundle = _bundle_of(path)
        if bundle is None:
            return await self._store.put(
                path, value, expected_version=expected_version, ephemeral=ephemeral
            )
        await self._ready(path)
        found = self._view.version(bundle)
        if expected_version is not None:
            expected = None if expected_version == MUST_NOT_EXIST else expected_version
            if found != expected:
                raise metadata.BadVersion(path)
        why = await self._publish(path, bundle, value, {})
        if why is not None:
            log.info("%s: a record was refused: %s", bundle, why)
            raise metadata.BadVersion(path)
        version = self._view.version(bundle)
        return 0 if version is None else version

    async def put_next(self, prefix: str, value: bytes, *, ephemeral: bool) -> str:
        """Create a node named ``prefix`` and the next number; returns its path."""
        return await self._store.put_next(prefix, value, ephemeral=ephemeral)

    async def delete(self, path: str, *, expected_version: int | None = None) -> None:
        """Remove a node without children; raises `NotFound`, `BadVersion` or `NotEmpty`."""
        bundle = _bundle_of(path)
        if bundle is None:
            await self._store.delete(path, expected_version=expected_version)
            return
        await self._ready(path)
        found = self._view.version(bundle)
        if found is None:
            raise metadata.NotFound(path)
        if expected_version is not None and found != expected_version:
            raise metadata.BadVersion(path)
        if await self._publish(path, bundle, None, {_REMOVES: str(found)}) is not None:
            raise metadata.BadVersion(path)

    async def children(self, path: str) -> list[str]:
        """The names (not paths) of a node's children, sorted; empty if there is no such node."""
        if path != RECORDS and not path.startswith(_BELOW):
            return await self._store.children(path)
        await self._ready(path)
        below = f"{path}/"
        every = (f"{_BELOW}{bundle}" for bundle in self._view.values)
        return sorted(
            {each[len(below) :].partition("/")[0] for each in every if each.startswith(below)}
        )

    async def exists(self, path: str) -> bool:
        """Whether there is such a node, with or without a value."""
        if _bundle_of(path) is None:
            return await self._store.exists(path)
        return await self.get(path) is not None

    def subscribe(self, listener: StoreListener) -> metadata.Unsubscribe:
        """Call the listener for every change of a node, in the topic or in the underlying store."""
        self._listeners.append(listener)
        leave = self._store.subscribe(listener)

        def unsubscribe() -> None:
            self._listeners.remove(listener)
            leave()

        return unsubscribe

    def subscribe_session(self, listener: metadata.SessionListener) -> metadata.Unsubscribe:
        """Call the listener when the session is interrupted, lost or established again."""
        return self._store.subscribe_session(listener)

    @property
    def connected(self) -> bool:
        """Whether the session is alive and the store was reachable a moment ago."""
        return self._store.connected

    async def close(self) -> None:
        """Stop reading the topic; the underlying store stays open."""
        self.stop()

    def kill(self) -> None:
        """Close at once, without waiting until requests have ended."""
        self.stop()

    # How the topic is read and written.

    async def _ready(self, path: str) -> None:
        try:
            async with asyncio.timeout(self._within_s):
                await self._caught_up.wait()
        except TimeoutError:
            raise metadata.StoreUnavailable(
                path, f"{SERVICE_UNIT_STATE} is not within reach"
            ) from None

    async def _publish(
        self, path: str, bundle: str, value: bytes | None, properties: dict[str, str]
    ) -> str | None:
        """Publish a message and wait until it is read back; returns why it is ignored, if it is."""
        if not self._link.linked:
            raise metadata.StoreUnavailable(
                path, f"{SERVICE_UNIT_STATE} is not linked at the moment"
            )
        token = f"{self._me}-{next(self._tokens)}"
        verdict: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._verdicts[token] = verdict
        try:
            await self._link.publish(bundle, value, {**properties, _TOKEN: token})
            async with asyncio.timeout(self._within_s):
                return await verdict
        except (peers.PeerError, TimeoutError) as error:
            why = str(error) or "it was written, and is not read"
            # The message may have been stored, and other brokers may have acted on it: only reading
            # the topic shows that.
            self._read_again(f"what became of a record of {bundle} is not known")
            raise metadata.StoreUnavailable(path, why) from None
        finally:
            del self._verdicts[token]

    def _on_begin(self) -> None:
        self._lose(f"{SERVICE_UNIT_STATE} is read again from its beginning")
        self._reading = ChannelView()

    def _on_message(self, message: peers.SystemTopicMessage) -> None:
        view = self._reading
        before = view.value(message.key)
        why = view.hear(
            ChannelMessage(message.key, message.value, _number(message.properties.get(_REMOVES)))
        )
        verdict = self._verdicts.get(message.properties.get(_TOKEN, ""))
        if verdict is not None and not verdict.done():
            verdict.set_result(why)
        if why is None and view is self._view:
            self._notify(message.key, before, view.value(message.key))

    def _on_caught_up(self) -> None:
        former, self._view = self._view, self._reading
        self._caught_up.set()
        for bundle in sorted({*former.values, *self._view.values}):
            self._notify(bundle, former.value(bundle), self._view.value(bundle))

    def _notify(self, bundle: str, before: bytes | None, after: bytes | None) -> None:
        if before == after:
            return
        kind = metadata.NotificationKind.MODIFIED
        if before is None:
            kind = metadata.NotificationKind.CREATED
        elif after is None:
            kind = metadata.NotificationKind.DELETED
        for listener in [*self._listeners]:
            listener(metadata.Notification(kind, f"{_BELOW}{bundle}"))

    def _on_session(self, event: metadata.SessionEvent) -> None:
        """Read the topic again after a lost session, since other brokers may have changed its
        records.

        Their messages may never arrive on the present connection, if its other end is gone.
        """
        if event is metadata.SessionEvent.SESSION_LOST:
            self._read_again("this broker's session was lost")

    def led_by(self, leader: str) -> None:
        """Notice the leader, which serves the topic; if it has changed, read the topic again from
        it.

        A former leader may never close the connection.
        """
        former, self._leader = self._leader, leader
        if former not in (None, leader):
            self._read_again(f"{leader} leads now")

    def _read_again(self, why: str) -> None:
        self._lose(why)
        self._link.drop(why)

    def _lose(self, why: str) -> None:
        self._caught_up.clear()
        for verdict in self._verdicts.values():
            if not verdict.done():
                verdict.set_exception(peers.PeerError(why))
                verdict.exception()  # Else asyncio logs it if the writer no longer awaits it.


def live(entries: Sequence[bytes]) -> list[bytes]:
    """The entries of the topic that hold current records, in order.

    If there are none, the last tombstone: a reader needs the topic's last message to know that it
    has read everything.
    """
    view, where, removal = ChannelView(), dict[str, int](), -1
    for number, entry in enumerate(entries):
        message = read_entry(entry)
        if message is None:
            continue
        before = view.value(message.key)
        removes = _number(message.properties.get(_REMOVES))
        if view.hear(ChannelMessage(message.key, message.value, removes)) is None:
            if view.value(message.key) is None:
                where.pop(message.key, None)
                removal = number
            elif view.value(message.key) != before:
                where[message.key] = number
    numbers = sorted(where.values()) or [removal]
    return [entries[number] for number in numbers if number >= 0]


def _bundle_of(path: str) -> str | None:
    return path.removeprefix(_BELOW) if path.startswith(_BELOW) else None


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
