"""A subscription of each type beside a plain model, step by step."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from counterpoise.admin.subscription_json import subscription_json
from counterpoise.broker.base import clock
from counterpoise.broker.topic.consumer import Consumer
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.ports import KeySharedMeta
from counterpoise.broker.topic.subscription import Subscription
from counterpoise.names.topic import TopicName
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import Chunk, Position
from counterpoise.wire.bit_words import words_of
from counterpoise.wire.encode_runs import Delivery
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import Wire, World, batch, entry, on_bookies, publish
from tests.broker.topic.delivery_model import MANY, Client, Model, Stored
from tests.broker.topic.ends import EARLIEST, LATEST
from tests.quota.jumping import JumpingLoop, pass_time

STARTED_S = 1000
STORIES = 200
SINGLE = (SubscriptionType.Exclusive, SubscriptionType.Failover)
UNKEYED = (SubscriptionType.Shared, SubscriptionType.Failover)


class ModelledWire(Wire):
    """The connection of one consumer; the model sees what it is sent at once."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model: Model | None = model
        """None: its broker has crashed."""
        self.broken: list[AssertionError] = []

    def deliver(self, consumer_id: int, partition: int, messages: Sequence[Delivery]) -> None:
        if self.model is None:
            return
        try:
            self.model.delivered(consumer_id, messages)
        except AssertionError as wrong:
            self.broken.append(wrong)


@dataclass(frozen=True)
class Setting:
    """What a story is played on."""

    kind: SubscriptionType
    of_consumer: int
    of_subscription: int
    turn: int
    look_ahead: int
    delay_ms: int
    partition: int
    by_ring: bool
    chunks: bool
    batch_index_acks: bool
    sticky: bool
    out_of_order: bool
    durable: bool
    trims: bool
    """Whether a ledger is deleted as soon as all of it is acknowledged."""
    compacts: bool
    """Whether consumers read what compaction left."""
    on_bookies: bool
    saved_ranges: int


Step = tuple[str, int, int]
OF_A_SUBSCRIPTION = ["seek", "skip", "clear", "expire", "budget", "stable", "abort"]
OPENING = ["publish", "publish", "join", "flow"]
STEPS = ["publish"] * 6 + ["flow"] * 5 + ["ack"] * 4 + ["join"] * 3
STEPS += ["nack", "nack", "nack all", "part", "part", "any", "cumulative", "cumulative", "leave"]
STEPS += ["pause", "resume", "seek", "skip", "clear", "expire", "limit", "budget"]
STEPS += ["cold", "warm", "stable", "stable", "abort", "pass", "unload", "trim"]
STEPS += ["crash", "compact", "compact"]


def story_of(kind: SubscriptionType, seed: int) -> tuple[Setting, list[Step]]:
    """A setting, and what happens: names of methods of `Story`, each with its two numbers."""
    rng = random.Random(f"{kind.name} {seed}")
    setting = Setting(
        kind,
        of_consumer=rng.choice([2, 5, 50_000]),
        of_subscription=rng.choice([3, 8, 200_000]),
        turn=rng.choice([1, 3, 20]),
        look_ahead=rng.choice([2, 20_000]),
        delay_ms=rng.choice([0, 1000]),
        partition=rng.choice([-1, 0, 1]),
        by_ring=rng.random() < 0.5,
        chunks=rng.random() < 0.5,
        batch_index_acks=rng.random() < 0.5,
        sticky=kind not in UNKEYED and rng.random() < 0.5,
        out_of_order=rng.random() < 0.5,
        durable=rng.random() < 0.7,
        trims=rng.random() < 0.5,
        compacts=kind in SINGLE and rng.random() < 0.4,
        on_bookies=rng.random() < 0.3,
        saved_ranges=rng.choice([1, 10_000]),
    )
    if setting.compacts:
        # Compaction takes a chunk for a message.
        setting = replace(setting, chunks=False)
    names = [*rng.choices(OPENING, k=12), *rng.choices(STEPS, k=rng.randint(15, 45))]
    return setting, [(each, rng.randrange(12), rng.randrange(12)) for each in names]


class Story:
    """A topic and its model, which take the same steps."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        options = TopicOptions(
            max_unacked_per_consumer=setting.of_consumer,
            max_unacked_per_subscription=setting.of_subscription,
            round_robin_messages=setting.turn,
            look_ahead=setting.look_ahead,
            failover_delay_ms=setting.delay_ms,
            failover_consistent_hashing=setting.by_ring,
            batch_index_acks=setting.batch_index_acks,
            delay_is_strict=True,
            saved_ranges=setting.saved_ranges,
            retention_minutes=0 if setting.trims else -1,
            retention_megabytes=0 if setting.trims else -1,
        )
        self.world = World(
            on_bookies(5) if setting.on_bookies else MemoryLedgerStore(ledger_entries=5),
            options=options,
        )
        name = "persistent://t/n/x"
        if setting.partition >= 0:
            name += f"-partition-{setting.partition}"
        self.world.name = TopicName.parse(name)
        self.model = Model(
            setting.kind,
            of_consumer=setting.of_consumer,
            of_subscription=setting.of_subscription,
            turn=setting.turn,
            look_ahead=setting.look_ahead,
            delay_ms=setting.delay_ms,
            topic=name,
            partition=-1 if setting.by_ring else setting.partition,
            sticky=setting.sticky,
            out_of_order=setting.out_of_order,
            durable=setting.durable,
            oldest_ledger=lambda: self.topic.log.ledgers[0].ledger_id,
            now_ms=self.now_ms,
        )
        self.consumers: dict[int, tuple[Consumer, ModelledWire]] = {}
        self.wires: list[ModelledWire] = []
        self.uuids = 0

    async def begin(self) -> None:
        limits = self.world.registry.limits.dispatch
        limits.join = lambda *_: self.model.budget
        limits.leave = lambda *_: None
        self.producer = await self.world.producer()
        topic = await self.world.topic()
        if "s" not in topic.subscriptions and self.setting.durable:
            await topic.create_subscription("s", EARLIEST)  # type: ignore[attr-defined]
        self.topic, log = topic, topic.log  # type: ignore[attr-defined]
        self.model.notice_deleted()
        # A topic that is opened again counts its entries from the first that it has.
        self.counted_from = self.model.first - log.begin
        if self.setting.on_bookies:
            return
        in_memory = log.cached

        async def read(index: int, _: int) -> Chunk:
            await asyncio.sleep(0)
            chunk = in_memory(index)
            if chunk is None:
                return Chunk(index, (), ())
            at = index - chunk.first
            return Chunk(index, chunk.entries[at : at + 3], chunk.messages[at : at + 3])

        log.cached = lambda index: None if self.model.is_cold else in_memory(index)
        log.read = read

    @property
    def subscription(self) -> Subscription:
        return self.topic.subscriptions["s"]

    @property
    def is_there(self) -> bool:
        """Whether there is a subscription: one that is not durable goes with its consumers."""
        is_there = "s" in self.topic.subscriptions
        assert is_there or not (self.setting.durable or self.consumers)
        return is_there

    def pick(self, n: int) -> tuple[Client, Consumer] | None:
        if not self.consumers:
            return None
        numbers = list(self.consumers)
        number = numbers[n % len(numbers)]
        return self.model.clients[number], self.consumers[number][0]

    def now_ms(self) -> int:
        return round((STARTED_S + asyncio.get_running_loop().time()) * 1000)

    async def settle(self) -> None:
        for _ in range(60 if self.model.is_cold or self.setting.on_bookies else 4):
            await asyncio.sleep(0)
        self.check()
        self.model.began = self.model.bursts

    # Steps.

    async def publish(self, n: int, m: int) -> None:
        due, chunk = 0, None
        number = len(self.model.log)
        fields: dict[str, object] = {"publish_time": self.now_ms(), "sequence_id": number}
        if (self.setting.kind not in UNKEYED or self.setting.compacts) and n % 4:
            key = fields["partition_key"] = "abc"[n % 3]
        else:
            key = f"p-{number}"
        if n == 10:
            due = fields["deliver_at_time"] = self.now_ms() + 100 * m
            if due <= self.now_ms():
                due = 0
        value_of = fields.get("partition_key")
        if 5 <= n <= 7:
            value_of = None
            body = batch(1 + m % 4, **fields)
        elif n in (8, 11) and self.setting.chunks:
            uuid, part = divmod(self.uuids, 3)
            self.uuids += 1
            chunk = (f"u{uuid}", part, part == 2)
            parts = {"uuid": f"u{uuid}", "chunk_id": part, "num_chunks_from_msg": 3}
            body = entry(number, **parts, **fields)
        else:
            body = entry("x" * m, **fields)
        wire, before = self.world.wire, len(self.world.wire.receipted)
        messages = 1 + m % 4 if 5 <= n <= 7 else 1
        self.model.budget.largest = max(self.model.budget.largest, messages)
        self.model.log.append(
            Stored(None, body, messages, key, due, chunk, value_of, is_value=m > 0)
        )
        publish(self.producer, number, number, body)
        await wire.until(lambda: len(wire.receipted) > before)
        at = wire.receipted[-1][3:]
        assert self.model.index_of(at, body) == number
        assert self.model.log[number].at == at

    async def join(self, n: int, m: int) -> None:
        kind = self.setting.kind
        if len(self.consumers) == (1 if kind is SubscriptionType.Exclusive else 4):
            return
        wire = ModelledWire(self.model)
        number = self.world.next_id() + 1
        priority = 0 if kind is SubscriptionType.Key_Shared else m % 2
        client = Client(number, "abc"[n % 3], priority)
        if self.setting.sticky:
            # Half of the slots, or a quarter that is free.
            lows = {each.ranges[0][0] for each in self.model.clients.values()}
            low = next(each for each in range(0, 65536, 16384) if each not in lows)
            is_half = kind is SubscriptionType.Exclusive
            client.ranges = [(0, 32767)] if is_half else [(low, low + 16383)]
        self.wires.append(wire)
        start = None
        if not self.is_there:
            start, index = self._start(n, m)
            self._forget(index)
        if self.model.single:
            # Another one may be served at once.
            self.model.join(client)
        consumer = await self.world.consumer(
            kind,
            permits=0,
            durable=self.setting.durable,
            start_message_id=start,
            read_compacted=self.setting.compacts,
            wire=wire,
            consumer_name=client.name,
            priority_level=client.priority,
            key_shared=KeySharedMeta(
                sticky_ranges=client.ranges or None, allow_out_of_order=self.setting.out_of_order
            ),
        )
        assert consumer.consumer_id == number
        if not self.model.single:
            self.model.join(client)
        self.consumers[number] = (consumer, wire)

    def _start(self, n: int, m: int) -> tuple[Position | None, int]:
        """Where a reader begins, and the index of the first entry that it gets."""
        log = self.model.log
        if n < 3 or not log:
            return None, self.model.first
        if n < 5:
            return LATEST, len(log)
        return Position(*log[m % len(log)].at), m % len(log)

    def _forget(self, index: int) -> None:
        """The subscription is another one than before, which begins at an entry."""
        self.model.seek(index)
        self.model.reset_counts()

    async def flow(self, n: int, m: int) -> None:
        if (picked := self.pick(n)) is not None:
            client, consumer = picked
            client.permits += 1 + m
            self.model.entered(client)
            consumer.flow(1 + m)

    async def leave(self, n: int, m: int) -> None:
        if (picked := self.pick(n)) is not None:
            client, consumer = picked
            self.model.leave(client)
            del self.consumers[client.number]
            consumer.close()
            consumer.close()
            assert self.is_there is bool(self.setting.durable or self.consumers)

    def _ids(self, indexes: Sequence[int]) -> list[tuple[int, int, tuple[int, ...]]]:
        return [(*self.model.log[each].at, ()) for each in indexes]

    async def ack(self, n: int, m: int) -> None:
        if (picked := self.pick(n)) is not None:
            client, consumer = picked
            chosen = client.got[m % 3 :][: 1 + m // 2]
            self._ack(client, consumer, chosen)

    async def any(self, n: int, m: int) -> None:
        """A consumer acknowledges an entry that it may not have."""
        if (picked := self.pick(n)) is not None and self.model.log:
            self._ack(*picked, [m % len(self.model.log)])

    def _ack(self, client: Client, consumer: Consumer, chosen: list[int]) -> None:
        client.got = [each for each in client.got if each not in chosen]
        for each in chosen:
            self.model.ack(client, each)
        consumer.ack_individual([*self._ids(chosen), (99_999, 0, ()), (0, 77, ())])

    def _messages_of(self, index: int, m: int) -> list[int]:
        """Some messages of an entry, or none."""
        return [each for each in range(self.model.log[index].messages) if (m + 1) >> each & 1]

    @staticmethod
    def _words_of(messages: Sequence[int]) -> list[int]:
        return words_of(sum(1 << each for each in messages))

    async def part(self, n: int, m: int) -> None:
        """A consumer acknowledges some messages of a batch."""
        if (picked := self.pick(n)) is None:
            return
        client, consumer = picked
        batches = [each for each in client.got if self.model.log[each].messages > 1]
        if not batches:
            return
        index = batches[m % len(batches)]
        left = self._messages_of(index, m)
        words = self._words_of(left)
        if not left:
            client.got.remove(index)
            self.model.ack(client, index)
            words = [0]
        elif self.setting.batch_index_acks:
            self.model.ack_part(client, index, left)
        consumer.ack_individual([(*self.model.log[index].at, words)])

    async def cumulative(self, n: int, m: int) -> None:
        picked = self.pick(n)
        if picked is None or not self.model.log:
            return
        client, consumer = picked
        index, words = m % len(self.model.log), list[int]()
        ledger_id, entry_id = self.model.log[index].at
        if n > 9:
            # All there is, and more: what it says of its batch is not about the last entry.
            index, ledger_id, words = len(self.model.log) - 1, 99_999, [1 << m] * (n % 2)
        if self.model.single:
            self.model.ack_through(client, index)
            client.got = [each for each in client.got if each > index]
        consumer.ack_cumulative(ledger_id, entry_id, words)

    async def nack(self, n: int, m: int) -> None:
        if (picked := self.pick(n)) is not None:
            client, consumer = picked
            chosen = client.got[m % 3 :][: 1 + m // 3]
            ids = [self.model.log[each].at for each in chosen]
            self.model.give_back(client, chosen)
            consumer.redeliver(ids)

    async def nack_all(self, n: int, m: int) -> None:
        if (picked := self.pick(n)) is not None:
            client, consumer = picked
            self.model.give_back(client, list(client.held))
            consumer.redeliver()

    async def pause(self, n: int, m: int) -> None:
        if (picked := self.pick(n)) is not None:
            client, _ = picked
            client.writable, client.waits_since = False, None
            self.consumers[client.number][1].writable = False

    async def resume(self, n: int, m: int) -> None:
        if (picked := self.pick(n)) is not None:
            client, consumer = picked
            client.writable = self.consumers[client.number][1].writable = True
            self.model.entered(client)
            consumer.resume()

    async def seek(self, n: int, m: int) -> None:
        log = self.model.log
        if n == 0:
            await self.subscription.seek_to(EARLIEST)
            self.model.seek(0)
        elif n == 1:
            await self.subscription.seek_to(LATEST)
            self.model.seek(len(log))
        elif log and n < 9:
            index = m % len(log)
            at, left = Position(*log[index].at), self._messages_of(index, m)
            await self.subscription.seek_to(at, self._words_of(left) if n > 3 else ())
            self.model.seek(index)
            if n > 3 and left and index >= self.model.first and self.setting.batch_index_acks:
                self.model.left[index] = set(left)
        elif n == 9:
            # Whatever it says of a batch that is yet to come.
            await self.subscription.seek_to(self.topic.log.position(self.topic.log.end), [1 << m])
            self.model.seek(len(log))
        else:
            await self.subscription.seek_to_time(self.now_ms() + 1)
            self.model.seek(len(log))
        for number, (consumer, wire) in self.consumers.items():
            assert consumer.closed
            assert wire.closed_consumers == [(number, None)]
            consumer.close()
        self.consumers.clear()
        if self.setting.durable:
            saved, now = self.topic.log.cursors["s"], self.subscription.cursor_state()
            # The entry before the next may have been deleted since: then it has another position.
            at = self.topic.log.index_after
            assert at(saved.mark_delete) == at(now.mark_delete)
            assert replace(saved, mark_delete=now.mark_delete) == now

    async def skip(self, n: int, m: int) -> None:
        backlog = self.model.backlog
        if n and backlog:
            self.model.ack_through(
                None, backlog[:n][-1] if n <= len(backlog) else len(self.model.log) - 1
            )
            self.subscription.skip(n)

    async def clear(self, n: int, m: int) -> None:
        if n == 0:
            self.model.ack_through(None, len(self.model.log) - 1)
            self.subscription.skip(None)

    async def expire(self, n: int, m: int) -> None:
        if n == 0:
            await self.subscription.expire(self.now_ms() + 1)
            self.model.ack_through(None, len(self.model.log) - 1)

    def wake(self) -> None:
        self.subscription.wake()

    async def limit(self, n: int, m: int) -> None:
        self.model.limit(1 + m)
        self.topic.apply(replace(self.topic.rules, unacked_of_consumer=1 + m))

    async def budget(self, n: int, m: int) -> None:
        self.model.budget.free = None if n < 6 else m // 2
        self.wake()

    async def stable(self, n: int, m: int) -> None:
        """A transaction begins, or the one that is open ends."""
        dispatcher = self.subscription.dispatcher
        read = 0
        if dispatcher is not None and self.consumers:
            read = dispatcher.read_index + self.counted_from
        begins = max(read, len(self.model.log) - m, self.model.horizon + 1)
        self.model.stable = begins if n % 3 and self.model.stable == MANY else MANY
        self.subscription.set_stable_end(self.model.stable - self.counted_from)
        self.wake()

    async def abort(self, n: int, m: int) -> None:
        """A transaction that acknowledged an entry is aborted."""
        dispatcher = self.subscription.dispatcher
        if self.consumers and self.model.log and dispatcher is not None:
            index = m % len(self.model.log)
            if not self.model.is_due(index):
                return
            at = index - self.counted_from
            self.model.aborted(index, is_read=at < dispatcher.read_index)
            dispatcher.deliver_again([at])

    async def cold(self, n: int, m: int) -> None:
        self.model.is_cold = True

    async def warm(self, n: int, m: int) -> None:
        self.model.is_cold = False

    async def pass_(self, n: int, m: int) -> None:
        # Never at the very millisecond at which something is due.
        await pass_time(0.1 * n + 0.05)

    async def unload(self, n: int, m: int) -> None:
        if n > 3:
            return
        await self.world.registry.unload_topic(self.world.name)
        for number, (consumer, wire) in self.consumers.items():
            assert consumer.closed
            assert wire.closed_consumers == [(number, None)]
        await self._begin_again()

    async def _begin_again(self) -> None:
        self.consumers.clear()
        self.model.all_leave()
        self.model.limit(self.setting.of_consumer)
        self.model.reset_counts()
        await self.begin()

    async def crash(self, n: int, m: int) -> None:
        """Another broker takes over a topic that this one has not closed."""
        if n > 5:
            return
        is_saved = n > 3
        if is_saved:
            await pass_time(2)
            await self.settle()
        for wire in self.wires:
            wire.model = None
        self.wires.clear()
        self.world.take_over()
        # The other one may deliver on, until it learns of this.
        self.model.budget = replace(self.model.budget)
        before = set(self.model.acked), dict(self.model.left)
        former = [
            (each, self._ids(self.model.clients[n].got)) for n, (each, _) in self.consumers.items()
        ]
        await self._begin_again()
        for consumer, ids in former:
            # Too late: the other one keeps no acknowledgement any more.
            consumer.ack_individual(ids)
        if not self.setting.durable:
            return
        acks, base = self.subscription.acks, self.counted_from
        log = range(len(self.model.log))
        self.model.acked = {it for it in log if it < self.model.first or acks.is_acked(it - base)}
        partial = {it + base: bits for it, bits in acks.partial.items()}
        self.model.left = {it: set(_places(bits)) for it, bits in partial.items()}
        self.model.read = self.model.mark + 1
        self.model.notice_deleted()
        assert self.model.acked <= before[0], "what was not acknowledged is not delivered again"
        for it, left in self.model.left.items():
            assert left >= before[1].get(it, set()) or it in before[0]
        if is_saved and self.setting.saved_ranges > 1:
            assert (self.model.acked, self.model.left) == before

    async def compact(self, n: int, m: int) -> None:
        if self.setting.compacts and self.model.stable == MANY:
            await self.topic.compaction.compact()
            if self.model.first < len(self.model.log):
                self.model.compact()

    async def trim(self, n: int, m: int) -> None:
        await self.topic.trim()
        self.model.notice_deleted()
        needed = self.model.first_needed(self.topic.log.ledgers[-1].ledger_id)
        assert self.model.first == (needed if self.setting.trims else 0)

    # What holds after each.

    def check(self) -> None:
        for wire in self.wires:
            assert not wire.broken, wire.broken
        model = self.model
        model.notice_deleted()
        if not self.is_there:
            return
        subscription = self.subscription
        assert model.kept_back() == [], "kept back"
        assert subscription.backlog == len(model.backlog)
        state = subscription.cursor_state(whole=True)
        at = [each.at for each in model.log]
        if model.mark >= 0:
            is_deleted = model.mark < model.first
            before_all = (model.oldest_ledger(), -1)
            assert state.mark_delete == (before_all if is_deleted else at[model.mark])
        assert list(state.acked) == [(at[a], at[b]) for a, b in model.ranges()]
        partial = {place: tuple(words) for place, words in state.partial}
        left = {at[n]: tuple(words_of(sum(1 << k for k in ms))) for n, ms in model.left.items()}
        assert partial == left
        out = subscription.meters.out
        assert (out.messages, out.bytes) == model.sent[:2]
        assert subscription.meters.acked.messages == model.acks
        assert subscription.meters.redelivered.messages == model.resent
        assert model.budget.taken == model.sent
        for number, (consumer, _) in self.consumers.items():
            client = model.clients[number]
            assert consumer.permits == client.permits
            pending = {n + self.counted_from: each for n, each in consumer.pending.items()}
            assert (pending, consumer.unacked) == (client.held, client.unacked)
            assert consumer.blocked is client.blocked
            assert (consumer.meters.out.messages, consumer.meters.out.bytes) == client.sent[:2]
            assert consumer.entries_out == client.sent[2]
            assert consumer.meters.redelivered.messages == client.sent_again
            assert consumer.meters.acked.messages == client.acked
        if subscription.dispatcher is not None and self.consumers:
            if model.single:
                behind = subscription.dispatcher.behind
                unsent = sum(n >= model.read for n in model.to_send())
                assert unsent <= behind <= len(model.log) - model.read
            else:
                assert subscription.dispatcher.unacked == model.unacked  # type: ignore[attr-defined]
                assert subscription.blocked is model.blocked
        active = model.active
        assert (subscription.active and subscription.active.consumer_id) == (
            active and active.number
        )
        for number, (_, wire) in self.consumers.items():
            if self.setting.kind is not SubscriptionType.Failover:
                assert wire.active == []
            elif model.now_ms() > model.settled_at:
                assert wire.active[-1:] == [(number, number == (active and active.number))]

    async def end(self) -> None:
        await pass_time(2)
        await self.settle()
        if not self.is_there:
            return
        saved = self.topic.log.cursors.get("s")
        assert (saved is not None) is self.setting.durable
        if self.setting.durable and self.model.mark >= 0:
            state = self.subscription.cursor_state()
            # It may name an entry that has been deleted since.
            following = [(it.mark_delete[0], it.mark_delete[1] + 1) for it in (saved, state)]
            assert len({self.topic.log.index(it) for it in following}) == 1
            assert replace(saved, mark_delete=state.mark_delete) == state
        shown = await subscription_json(self.subscription)
        assert shown["msgBacklog"] == len(self.model.backlog)
        assert shown["unackedMessages"] == self.model.unacked


def _places(bits: int) -> Iterator[int]:
    return (place for place in range(bits.bit_length()) if bits >> place & 1)


async def play(setting: Setting, script: list[Step]) -> None:
    story = Story(setting)
    await story.begin()
    for what, n, m in script:
        if what in OF_A_SUBSCRIPTION and not story.is_there:
            continue
        if what == "pass":
            await story.pass_(n, m)
        else:
            await getattr(story, what.replace(" ", "_"))(n, m)
        await story.settle()
    await story.end()


@pytest.mark.parametrize("kind", SubscriptionType)
def test_a_subscription_does_as_its_model(
    kind: SubscriptionType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def now_s() -> float:
        try:
            return STARTED_S + asyncio.get_running_loop().time()
        except RuntimeError:
            return STARTED_S

    monkeypatch.setattr(clock, "time", SimpleNamespace(time=now_s))

    for seed in range(STORIES):
        setting, script = story_of(kind, seed)
        try:
            with asyncio.Runner(loop_factory=JumpingLoop) as runner:
                runner.run(play(setting, script))
        except AssertionError as wrong:
            wrong.add_note(f"in story {seed}: {setting}, {script}")
            raise
