"""The system topic of bundles' records, and every broker's way to it, as a model.

What it keeps of a topic's promises: one log, which everybody reads in the same order, each at its
own pace; only the broker that serves it now can append. What it doesn't: a link ends, or hangs, at
any time; a receipt is lost with it after the message was stored; a message that was sent on a link
that has ended is stored late; who serves the topic freezes, dies, is replaced without a word; the
log is compacted into a new one.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from counterpoise.broker.bundles.topic_records import live
from counterpoise.broker.peers import PeerError, SystemTopicListener
from counterpoise.broker.peers.system_topic import read_entry
from counterpoise.ownership.channel.state import RECORDS
from counterpoise.ownership.channel.view import ChannelMessage, ChannelView
from counterpoise.ownership.election import LEADER_NODE
from counterpoise.wire.entry import build
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata
from counterpoise.wire.proto.values_pb2 import KeyValue
from tests.sim.loop import pass_virtual_time
from tests.sim.store import NO_MACHINE, Node, Server

if TYPE_CHECKING:
    from tests.sim.broker import SimulatedBroker

WITHIN_S = 3.0
"""How long a broker waits for the topic; less than an operation of the store may take."""
COMPACTED_SHARE = 0.3
RECEIPT_LOST_SHARE = 0.02


class Topic:
    """The log, and who serves it."""

    def __init__(self, server: Server) -> None:
        self.server, self.loop, self.rng = server, server.loop, server.rng
        self.brokers: list[SimulatedBroker] = []
        """Every broker of the history."""
        self.host: SimulatedBroker | None = None
        self.entries: list[bytes] = []
        self.view = ChannelView()
        """What a reader of all entries believes."""
        self.links: list[Link] = []
        self.numbers = itertools.count(1)

    def node(self, path: str) -> Node | None:
        """A bundle's record as the topic has it now."""
        value = self.view.value(path.removeprefix(f"{RECORDS}/"))
        return None if value is None else Node(value, 0, 0)

    def at(self, when: float, callback: Callable[..., None], *args: Any) -> None:
        """Something happens in the network, which does not stop with a machine."""
        self.loop.call_at(when, callback, *args, context=NO_MACHINE)

    def leader(self) -> SimulatedBroker | None:
        """Who serves the topic, by the store's word."""
        node = self.server.nodes.get(LEADER_NODE)
        return next(
            (
                each
                for each in self.brokers
                if node is not None and each.session.number == node.owner and not each.machine.dead
            ),
            None,
        )

    def served_by(self, broker: SimulatedBroker) -> None:
        """A broker loads the topic, if it has not; the broker that had it can append no more."""
        if broker is self.host:
            return
        self.host, self.links = broker, []
        if self.rng.random() < COMPACTED_SHARE:
            self.entries = live(self.entries)
        broker.log("serves the records' topic, %s messages", len(self.entries))

    def left_by(self, broker: SimulatedBroker) -> None:
        """A broker dies, or leads no more: the connections of who reads there end."""
        for each in self.brokers:
            if each.link is not None and each.link.host is broker:
                each.link.lose(f"{broker.id} closed it")

    def append(self, link: Link, host: SimulatedBroker, entry: bytes, number: int) -> None:
        """A message reaches the broker that its link led to."""
        if host.machine.frozen:
            self.at(self.loop.time() + 0.1, self.append, link, host, entry, number)
            return
        if host.machine.dead or host is not self.host:
            link.lose(f"{host.id} is fenced", number)
            return
        self._take_up(entry)
        self.entries.append(entry)
        for each in self.links:
            each.deliver(entry)
        if self.rng.random() < RECEIPT_LOST_SHARE:
            link.lose("its connection broke", number)
        else:
            self.at(self.loop.time() + self.server.delay(), link.receipt, number)

    def _take_up(self, entry: bytes) -> None:
        heard = read_entry(entry)
        assert heard is not None
        removes = heard.properties.get("removes")
        before = self.view.value(heard.key)
        message = ChannelMessage(heard.key, heard.value, None if removes is None else int(removes))
        why = self.view.hear(message)
        after = self.view.value(heard.key)
        said = "a record of %s is taken up: %s" if why is None else "a record of %s is refused: %s"
        self.server.story.log(self.loop.time(), said, heard.key, why or after)
        if before != after:
            self.server.on_change(f"{RECORDS}/{heard.key}", before, after)


class Link:
    """One broker's way to the topic; what `SystemTopicLink` is to a broker."""

    def __init__(
        self, topic: Topic, broker: SimulatedBroker, listener: SystemTopicListener
    ) -> None:
        self._topic, self._broker, self._listener = topic, broker, listener
        self._loop, self._rng = topic.loop, topic.rng
        self.host: SimulatedBroker | None = None
        """The broker that it leads to."""
        self._number = 0
        """Of this making; what belongs to another one does not count. 0: there is none."""
        self._ended: asyncio.Future[str] | None = None
        self._receipts: dict[int, asyncio.Future[None]] = {}
        self._sequence = itertools.count(1)
        self._sent_until = self._notified_until = 0.0
        self.hangs_until = 0.0

    async def keep(self, broker_url: str) -> NoReturn:
        """Make the link again and again."""
        while True:
            try:
                async with asyncio.timeout(WITHIN_S):
                    await self._open()
                why = await self._ended if self._ended is not None else "it ended at once"
            except (PeerError, TimeoutError) as error:
                why = str(error)
            self.close()
            self._broker.log("links to the records' topic again: %s", why)
            await pass_virtual_time(self._rng.uniform(0.05, 0.5))

    @property
    def linked(self) -> bool:
        """Whether there is one."""
        return self._number != 0

    async def publish(
        self, key: str, value: bytes | None, properties: Mapping[str, str] | None = None
    ) -> None:
        """Send a message, and wait for its receipt."""
        if not self._number or self.host is None:
            raise PeerError("not linked")
        number = next(self._sequence)
        metadata = MessageMetadata(
            producer_name=self._broker.id,
            sequence_id=number,
            publish_time=0,
            partition_key=key,
            null_value=value is None,
            properties=[KeyValue(key=k, value=v) for k, v in (properties or {}).items()],
        )
        entry = build(metadata, value or b"")
        receipt = self._receipts[number] = self._loop.create_future()
        self._sent_until = self._after(self._sent_until)
        self._topic.at(self._sent_until, self._topic.append, self, self.host, entry, number)
        try:
            async with asyncio.timeout(WITHIN_S):
                await receipt
        except TimeoutError:
            raise PeerError("no receipt") from None
        finally:
            del self._receipts[number]

    def drop(self, why: str) -> None:
        """End the link: another broker serves the topic."""
        self._end(self._number, why)

    def close(self) -> None:
        """End the link."""
        if self in self._topic.links:
            self._topic.links.remove(self)
        self.host, self._number = None, 0
        for receipt in self._receipts.values():
            if not receipt.done():
                receipt.set_exception(PeerError("the link ended"))
                receipt.exception()

    def lose(self, why: str, sequence: int | None = None) -> None:
        """Its connection breaks, as the broker hears soon."""
        if sequence is None or sequence in self._receipts:
            self._topic.at(self._after(0.0), self._soon, self._end, self._number, why)

    def receipt(self, number: int) -> None:
        """A message is stored."""
        self._soon(self._confirm, number)

    def deliver(self, entry: bytes, *, last: bool = False) -> None:
        """A message is on its way."""
        self._notified_until = self._after(self._notified_until)
        self._topic.at(self._notified_until, self._soon, self._hear, self._number, entry, last)

    async def _open(self) -> None:
        topic, leader = self._topic, self._topic.leader()
        self._ended = self._loop.create_future()
        await pass_virtual_time(topic.server.delay())
        if leader is None or leader.machine.dead or leader is not topic.leader():
            raise PeerError("no broker serves the topic")
        if not self._broker.session.connected:
            raise PeerError("who serves the topic cannot be asked")
        if not leader.election.is_leader:
            raise PeerError(f"{leader.id} does not know that it leads, or knows better")
        if leader.machine.frozen:
            await self._loop.create_future()  # Until who asked loses its patience.
        topic.served_by(leader)
        self.host, self._number = leader, next(topic.numbers)
        self._sent_until = self._notified_until = 0.0
        self._listener.on_begin()
        topic.links.append(self)
        for number, entry in enumerate(topic.entries, 1):
            self.deliver(entry, last=number == len(topic.entries))
        if not topic.entries:
            self._listener.on_caught_up()

    def _after(self, until: float) -> float:
        return max(until, self._loop.time() + self._topic.server.delay(), self.hangs_until)

    def _soon(self, callback: Callable[..., None], *args: Any) -> None:
        self._loop.call_soon(callback, *args, context=self._broker.machine.context)

    def _hear(self, number: int, entry: bytes, last: bool) -> None:
        if number != self._number:
            return
        heard = read_entry(entry)
        assert heard is not None
        self._listener.on_message(heard)
        if last:
            self._listener.on_caught_up()

    def _confirm(self, number: int) -> None:
        receipt = self._receipts.get(number)
        if receipt is not None and not receipt.done():
            receipt.set_result(None)

    def _end(self, number: int, why: str) -> None:
        if number and number == self._number:
            self.close()
            if self._ended is not None and not self._ended.done():
                self._ended.set_result(why)
