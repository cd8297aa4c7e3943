"""A topic's transactions beside a plain model: what may be delivered, and what has to be."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.consumer import Consumer
from counterpoise.broker.topic.persistent import PersistentTopic
from counterpoise.broker.topic.transaction_ends import LocalParticipants
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.encode_runs import Delivery
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import EndOnParticipant, Send
from counterpoise.wire.values import SubscriptionType, TransactionId
from tests.broker.topic.conftest import Wire, World, entry, on_bookies
from tests.broker.topic.ends import EARLIEST
from tests.quota.jumping import JumpingLoop, pass_time

STORIES = 150
SINGLE = (SubscriptionType.Exclusive, SubscriptionType.Failover)
OPEN = 3
"""The most transactions that are open at a time."""


@dataclass(eq=False)
class Stored:
    """An entry of the log, and what has become of it."""

    at: tuple[int, int] | None = None
    """Its ledger id and entry id; None until it is received or delivered."""
    of: TransactionId | None = None
    """The transaction that it was published in, until that is committed."""
    is_aborted: bool = False
    acked: bool = False
    is_firm: bool = False
    """It was acknowledged by a transaction that was committed."""
    pending: TransactionId | None = None
    """The open transaction that acknowledges it."""


@dataclass(eq=False)
class Client(Wire):
    """A consumer's connection, which judges what it is sent at once."""

    story: "Story"
    consumer: Consumer | None = None
    got: list[Stored] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def deliver(self, consumer_id: int, partition: int, messages: Sequence[Delivery]) -> None:
        if self.story.clients.get(self) is None:
            return
        for message in messages:
            at, last = (message[0], message[1]), self.story.log[-1]
            if last.at is None and message[3] == self.story.sent:
                last.at = at
            found = next((it for it in self.story.log if it.at == at), None)
            if found is None:
                self.broken.append(f"{at} is no message")
            elif found not in self.story.deliverable():
                self.broken.append(f"{found} is delivered")
            elif not self.story.is_single and any(found in it.got for it in self.story.clients):
                self.broken.append(f"{found} has a consumer")
            else:
                self.got.append(found)


STEPS = ["publish"] * 3 + ["publish_in"] * 5 + ["end_topic"] * 4 + ["ack"] * 3
STEPS += ["ack_in"] * 6 + ["through_in"] * 2 + ["end_acks"] * 5 + ["nack", "nack"]
STEPS += ["join", "join", "leave", "unload", "crash", "trim", "clear", "pass"]


class Story:
    """A topic and its model, which take the same steps."""

    def __init__(self, kind: SubscriptionType, rng: random.Random) -> None:
        self.kind, self.is_single = kind, kind in SINGLE
        entries = rng.choice([3, 1000])
        self.on_bookies = rng.random() < 0.3
        self.world = World(
            on_bookies(entries) if self.on_bookies else MemoryLedgerStore(ledger_entries=entries)
        )
        self.log: list[Stored] = []
        self.sent = b""
        self.clients: dict[Client, Consumer] = {}
        self.numbers = iter(range(1000))
        self.publishing: list[TransactionId] = []
        self.acking: list[TransactionId] = []
        self.through: TransactionId | None = None
        """The transaction that acknowledges everything up to an entry."""
        self.reach = -1

    async def begin(self) -> None:
        self.producer = await self.world.producer()
        topic = await self.world.topic()
        assert isinstance(topic, PersistentTopic)
        self.topic = topic
        if "s" not in topic.subscriptions:
            await topic.create_subscription("s", EARLIEST)

    def deliverable(self) -> list[Stored]:
        """What consumers may have: nothing behind an open transaction."""
        ends = [n for n, it in enumerate(self.log) if it.of is not None and not it.is_aborted]
        stable = self.log[self.reach + 1 : min(ends, default=len(self.log))]
        return [it for it in stable if not (it.is_aborted or it.acked or it.pending is not None)]

    def transaction(self, among: list[TransactionId], n: int) -> TransactionId:
        if len(among) < OPEN and (n % 3 == 0 or not among):
            among.append(TransactionId(0, next(self.numbers)))
            return among[-1]
        return among[n % len(among)]

    # Steps.

    async def publish(self, n: int, m: int, of: TransactionId | None = None) -> None:
        wire, before = self.world.wire, len(self.world.wire.receipted)
        named = {} if of is None else {"txnid_most_bits": of[0], "txnid_least_bits": of[1]}
        body = entry(str(len(self.log)), partition_key="abc"[m % 3], **named)
        sent = Send(self.producer.producer_id, len(self.log), len(self.log), 1, False, body)
        self.log.append(Stored(of=of))
        self.sent = body
        if of is None:
            self.producer.publish([sent], len(body))
        else:
            self.topic.publish_in_transaction(self.producer, of, sent)
        await wire.until(lambda: len(wire.receipted) > before)
        at = wire.receipted[-1][3:]
        assert self.log[-1].at in (None, at)
        self.log[-1].at = at

    async def publish_in(self, n: int, m: int) -> None:
        await self.publish(n, m, self.transaction(self.publishing, n))

    async def _end(self, of: TransactionId, subscription: str | None, *, commit: bool) -> None:
        request = EndOnParticipant(0, of, commit, -1, str(self.world.name), subscription)
        for _ in range(1 + commit):
            # A coordinator that had no answer asks again.
            await LocalParticipants(self.world.registry).end(request)

    async def end_topic(self, n: int, m: int) -> None:
        if not self.publishing:
            return
        of = self.publishing.pop(n % len(self.publishing))
        for it in self.log:
            if it.of == of:
                it.is_aborted, it.of = bool(m % 2), None
        await self._end(of, None, commit=not m % 2)

    def pick(self, n: int) -> tuple[Client, Consumer] | None:
        return list(self.clients.items())[n % len(self.clients)] if self.clients else None

    async def ack(self, n: int, m: int) -> None:
        if (picked := self.pick(n)) is not None and picked[0].got:
            client, consumer = picked
            chosen = client.got.pop(m % len(client.got))
            chosen.acked = True
            consumer.ack_individual([(*chosen.at, ())])

    async def ack_in(self, n: int, m: int) -> None:
        picked = self.pick(n)
        if picked is None or not (picked[0].got or (m > 9 and self.log)):
            return
        client, consumer = picked
        of = self.transaction(self.acking, m)
        chosen = self.log[n % len(self.log)] if m > 9 else client.got[n % len(client.got)]
        if chosen.of is not None:
            # No client can know of it.
            return
        is_open = self.log.index(chosen) >= max(self.first_stored(), self.reach + 1)
        is_free = is_open and not (chosen.acked or chosen.is_aborted or chosen.pending)
        if is_free:
            chosen.pending = of
            for each in self.clients:
                each.got = [it for it in each.got if it is not chosen]
        await self._ack_in(consumer, of, chosen, is_free=is_free, through=False)

    async def through_in(self, n: int, m: int) -> None:
        if (picked := self.pick(n)) is None or not picked[0].got or not self.is_single:
            return
        client, consumer = picked
        of = self.transaction(self.acking, m)
        chosen = client.got[n % len(client.got)]
        index = self.log.index(chosen)
        is_free = not chosen.acked and (
            self.through is None or (self.through == of and self.reach < index)
        )
        if is_free:
            self.through, self.reach = of, index
            client.got = [it for it in client.got if self.log.index(it) > index]
        await self._ack_in(consumer, of, chosen, is_free=is_free, through=True)

    async def _ack_in(
        self, consumer: Consumer, of: TransactionId, chosen: Stored, *, is_free: bool, through: bool
    ) -> None:
        code = None
        try:
            await consumer.ack_in_transaction(of, [(*chosen.at, ())], cumulative=through)
        except BrokerError as refused:
            code = refused.code
        assert code is (None if is_free else ServerError.TransactionConflict), chosen

    def first_stored(self) -> int:
        oldest = self.topic.log.ledgers[0].ledger_id
        log = enumerate(self.log)
        return next((n for n, it in log if it.at is None or it.at[0] >= oldest), len(self.log))

    async def end_acks(self, n: int, m: int) -> None:
        if not self.acking:
            return
        of = self.acking.pop(n % len(self.acking))
        for it in self.log:
            if it.pending == of:
                it.pending = None
                if m % 2:
                    it.acked = it.is_firm = True
        if self.through == of:
            for it in self.log[: self.reach + 1] if m % 2 else ():
                it.acked = it.is_firm = True
            self.through, self.reach = None, -1
        await self._end(of, "s", commit=bool(m % 2))

    async def nack(self, n: int, m: int) -> None:
        if (picked := self.pick(n)) is not None:
            picked[0].got.clear()
            picked[1].redeliver()

    async def join(self, n: int, m: int) -> None:
        if len(self.clients) < (1 if self.is_single else 3):
            client = Client(self)
            # It may be sent something at once.
            self.clients[client] = await self.world.consumer(self.kind, wire=client, permits=0)
            self.clients[client].flow(1000)

    async def leave(self, n: int, m: int) -> None:
        if (picked := self.pick(n)) is not None:
            del self.clients[picked[0]]
            picked[1].close()

    async def unload(self, n: int, m: int) -> None:
        await self.world.registry.unload_topic(self.world.name)
        self.clients.clear()
        await self.begin()

    async def crash(self, n: int, m: int) -> None:
        self.world.registry.abandon()
        self.clients.clear()
        self.world.take_over()
        await self.begin()
        acks, log = self.topic.subscriptions["s"].acks, self.topic.log
        for it in self.log:
            index = log.index(it.at)
            is_acked = log.position(index) != it.at or acks.is_acked(index)
            if not it.is_aborted:
                assert is_acked or not it.is_firm, "a committed acknowledgement is lost"
                assert it.acked or not is_acked, "it was not acknowledged"
            it.acked = is_acked

    async def trim(self, n: int, m: int) -> None:
        await self.topic.trim()

    async def clear(self, n: int, m: int) -> None:
        if n < 3 and not self.publishing:
            for it in self.log:
                it.acked = True
            for each in self.clients:
                each.got.clear()
            self.topic.subscriptions["s"].skip(None)

    async def pass_(self, n: int, m: int) -> None:
        await pass_time(2)

    # What holds after each.

    async def settle(self) -> None:
        for _ in range(60 if self.on_bookies else 6):
            await asyncio.sleep(0)
        for client in self.clients:
            assert client.broken == []
        # A key's next consumer waits for the former one's acknowledgements.
        if len(self.clients) == 1 or (self.clients and self.kind is SubscriptionType.Shared):
            held = [it for client in self.clients for it in client.got]
            assert [it for it in self.deliverable() if it not in held] == [], "kept back"
        backlog = self.topic.subscriptions["s"].acks
        for it in self.log[self.first_stored() :]:
            index = self.topic.log.index(it.at)
            assert backlog.is_acked(index) is (it.acked or it.is_aborted), it


async def play(kind: SubscriptionType, seed: int) -> None:
    rng = random.Random(f"{kind.name} {seed}")
    story = Story(kind, rng)
    await story.begin()
    script = [(each, rng.randrange(12), rng.randrange(12)) for each in rng.choices(STEPS, k=40)]
    for number, (what, n, m) in enumerate(script):
        try:
            await getattr(story, "pass_" if what == "pass" else what)(n, m)
            await story.settle()
        except AssertionError as wrong:
            wrong.add_note(f"in story {seed}, after {script[: number + 1]}")
            raise


@pytest.mark.parametrize("kind", SubscriptionType)
def test_transactions_do_as_their_model(kind: SubscriptionType) -> None:
    for seed in range(STORIES):
        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(play(kind, seed))
