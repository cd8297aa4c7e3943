"""A plain model of one subscription: what is published, acknowledged, and sent to whom."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from counterpoise.names.hashing import murmur3_32
from counterpoise.wire.bit_words import words_of
from counterpoise.wire.encode_runs import Delivery
from counterpoise.wire.values import SubscriptionType

SLOTS = 65535
MANY = 1 << 40
MESSAGES_MAX = 4
"""The most messages of one entry that is published."""


@dataclass(eq=False)
class Stored:
    """One entry of the log."""

    at: tuple[int, int] | None
    """Its ledger id and entry id; None until it is received or delivered."""
    body: bytes
    messages: int
    key: str
    due_ms: int = 0
    chunk: tuple[str, int, bool] | None = None
    """Its message, its number in it, and whether it is the last."""
    value_of: str | None = None
    """The key that compaction knows it by."""
    is_value: bool = True
    """Whether it has a payload; without one it removes its key."""


@dataclass(eq=False)
class Client:
    """One attached consumer."""

    number: int
    name: str
    priority: int
    permits: int = 0
    writable: bool = True
    blocked: bool = False
    held: dict[int, int] = field(default_factory=dict)
    """Shared and Key_Shared: the messages of each entry that it was sent, by index."""
    got: list[int] = field(default_factory=list)
    """What it was sent and has not acknowledged."""
    sent: tuple[int, int, int] = (0, 0, 0)
    """Messages, bytes and entries."""
    sent_again: int = 0
    acked: int = 0
    ranges: list[tuple[int, int]] = field(default_factory=list)
    """The slots that it asks for."""
    replica: int = 0
    """Key_Shared: its number among those of its name."""
    waits_since: int | None = None
    """Shared: since which burst it can be sent something."""
    last_turn: int = -1

    @property
    def unacked(self) -> int:
        return sum(self.held.values())

    @property
    def ready(self) -> bool:
        return self.permits > 0 and self.writable and not self.blocked


@dataclass(eq=False)
class Budget:
    """Dispatch limits of a test: so many messages may be delivered until it is raised."""

    free: int | None = None
    largest: int = 1
    """The most messages of one entry so far."""
    taken: tuple[int, int, int] = (0, 0, 0)
    events: Mapping[tuple[str, str], int] = field(default_factory=dict)
    waits_at: None = None

    def budget(self) -> tuple[int, int]:
        free = MANY if self.free is None else self.free
        return (free, MANY) if free > 0 else (0, 0)

    def took(self, messages: int, entries: int, size: int) -> None:
        if self.free is not None:
            assert messages < self.free + self.largest, "more than the limit left"
            self.free -= messages
        was = self.taken
        self.taken = (was[0] + messages, was[1] + size, was[2] + entries)


class Model:
    """What a subscription may do; `delivered` raises on what it must not."""

    def __init__(
        self,
        kind: SubscriptionType,
        *,
        of_consumer: int,
        of_subscription: int,
        turn: int,
        look_ahead: int,
        delay_ms: int,
        topic: str,
        partition: int,
        sticky: bool,
        out_of_order: bool,
        durable: bool,
        oldest_ledger: Callable[[], int],
        now_ms: Callable[[], int],
    ) -> None:
        self.kind = kind
        self.single = kind in (SubscriptionType.Exclusive, SubscriptionType.Failover)
        self.of_consumer, self.of_subscription, self.turn = of_consumer, of_subscription, turn
        self.look_ahead = look_ahead
        self.delay_ms = delay_ms if kind is SubscriptionType.Failover else 0
        self.partition = partition
        self.topic, self.sticky, self.out_of_order = topic, sticky, out_of_order
        self.stable = MANY
        """Where the first message of an open transaction is."""
        self.durable = durable
        self.oldest_ledger = oldest_ledger
        self.now_ms = now_ms
        self.log: list[Stored] = []
        self.first = 0
        """What is before it has been deleted."""
        self.horizon = -1
        """The index up to which the log is compacted."""
        self.survivors: list[int] = []
        self.acked: set[int] = set()
        self.left: dict[int, set[int]] = {}
        """The messages that are left of a batch that was acknowledged in part."""
        self.clients: dict[int, Client] = {}
        self.again: dict[int, int] = {}
        """How often an entry was returned by a consumer."""
        self.chunks: dict[str, Client] = {}
        """To whom the rest of a message goes."""
        self.budget = Budget()
        self.bursts = 0
        self.began = 0
        """How many there were before this step."""
        self.is_cold = False
        """Whether memory has no entries, so that they are read first."""
        self.sent = (0, 0, 0)
        self.acks = self.resent = 0
        # Exclusive and Failover.
        self.active: Client | None = None
        self.serving: Client | None = None
        self.switch_at: int | None = None
        self.blocked = False
        self.settled_at = 0
        self.read = 0

    # What is where.

    @property
    def mark(self) -> int:
        """The index up to which everything is acknowledged."""
        return next((n for n in range(len(self.log)) if n not in self.acked), len(self.log)) - 1

    @property
    def backlog(self) -> list[int]:
        return [n for n in range(len(self.log)) if n not in self.acked]

    @property
    def unacked(self) -> int:
        return sum(each.unacked for each in self.clients.values())

    def ranges(self) -> list[tuple[int, int]]:
        """The stretches of acknowledged entries after the mark."""
        found: list[tuple[int, int]] = []
        for n in sorted(each for each in self.acked if each > self.mark):
            if found and found[-1][1] == n - 1:
                found[-1] = (found[-1][0], n)
            else:
                found.append((n, n))
        return found

    def to_send(self) -> list[int]:
        """What may be delivered at all: not behind an open transaction, nor to another reader."""
        left = {*self.survivors, *range(self.horizon + 1, len(self.log))}
        found = [n for n in self.backlog if n < self.stable and n in left]
        if self.single and self.sticky:
            found = [n for n in found if self.owner(self.slot(n)) is not None]
        return found

    def holder(self, index: int) -> Client | None:
        return next((each for each in self.clients.values() if index in each.held), None)

    def is_due(self, index: int) -> bool:
        return self.log[index].due_ms <= self.now_ms()

    def slot(self, index: int) -> int:
        hashed = hash_of(self.log[index].key)
        return (hashed % (SLOTS + 1) or 1) if self.sticky else hashed % SLOTS + 1

    def owner(self, slot: int) -> Client | None:
        """Whose a slot is: by ranges, or by the next point on the ring, of those that meet the
        first.
        """
        if self.sticky:
            asked = ((a, b, each) for each in self.clients.values() for a, b in each.ranges)
            return next((each for a, b, each in asked if a <= slot <= b), None)
        points: dict[int, Client] = {}
        for each in self.clients.values():
            for at in points_of(f"{each.name}\0{each.replica}\0"):
                points.setdefault(at % SLOTS + 1, each)
        return _next(points, slot) if points else None

    # Events.

    def join(self, client: Client) -> None:
        self.time_passed()
        taken = {each.replica for each in self.clients.values() if each.name == client.name}
        client.replica = next(n for n in range(len(taken) + 1) if n not in taken)
        self.clients[client.number] = client
        if self.single:
            self._choose()
            self.settled_at = self.now_ms() + self.delay_ms

    def leave(self, client: Client) -> None:
        self.time_passed()
        del self.clients[client.number]
        self.note_unacked()
        self._forget_chunks(client)
        if not self.single:
            if not self.clients:
                self.again.clear()
                self.chunks.clear()
            return
        if client is self.serving:
            self.serving = None
        if not self.clients:
            self.active = self.switch_at = None
        elif not self._choose() and self.serving is None:
            self._serve()
        self.settled_at = self.now_ms() + self.delay_ms

    def _forget_chunks(self, client: Client) -> None:
        self.chunks = {uuid: each for uuid, each in self.chunks.items() if each is not client}

    def all_leave(self) -> None:
        """A seek, or an unload: nothing is known but what is acknowledged."""
        self.clients.clear()
        self.again.clear()
        self.chunks.clear()
        self.active = self.serving = self.switch_at = None
        self.note_unacked()

    def _choose(self) -> bool:
        best = min(each.priority for each in self.clients.values())
        line = [each for each in self.clients.values() if each.priority == best]
        if self.kind is SubscriptionType.Exclusive:
            chosen = line[0]
        else:
            line.sort(key=lambda each: each.name)
            at = self.partition
            chosen = line[at % len(line)] if at >= 0 else self._next_on_ring(line)
        if chosen is self.active:
            return False
        self.active = chosen
        former, self.serving = self.serving, None
        if former is None or not self.delay_ms:
            self._serve()
        else:
            self.switch_at = self.now_ms() + self.delay_ms
        return True

    def _next_on_ring(self, line: list[Client]) -> Client:
        points: dict[int, Client] = {}
        for each in line:
            points |= dict.fromkeys(points_of(each.name), each)
        return _next(points, murmur3_32(self.topic.encode()))

    def _serve(self) -> None:
        self.switch_at = None
        self.serving = self.active
        self.read = self.mark + 1

    def time_passed(self) -> None:
        """A consumer that was to become active may be by now."""
        if self.switch_at is not None and self.switch_at <= self.now_ms():
            self._serve()

    def entered(self, client: Client) -> None:
        """It may have become ready."""
        if client.ready and client.waits_since is None:
            client.waits_since = self.bursts

    def ack(self, client: Client, index: int) -> None:
        if index in self.acked:
            return
        self.acked.add(index)
        self.left.pop(index, None)
        self.again.pop(index, None)
        if self.single:
            self._count_acked(client, 1)
        elif (holder := self.holder(index)) is not None:
            held = self._release(holder, index)
            if holder is client:
                self._count_acked(client, held)

    def ack_part(self, client: Client, index: int, left: Iterable[int]) -> None:
        """A consumer has these messages of a batch left."""
        if index in self.acked:
            return
        of = self.left.setdefault(index, set(left))
        of &= set(left)
        if not of:
            self.ack(client, index)
        elif index in client.held and client.held[index] > len(of):
            client.held[index] = len(of)
            self.unblock(client)

    def ack_through(self, client: Client | None, index: int) -> None:
        for each in range(index + 1):
            if each not in self.acked:
                self.acked.add(each)
                if client is not None:
                    self._count_acked(client, 1)
                self.left.pop(each, None)
                self.again.pop(each, None)
                if (holder := self.holder(each)) is not None:
                    self._release(holder, each)
        self.read = max(self.read, index + 1)

    def _count_acked(self, client: Client, messages: int) -> None:
        client.acked += messages
        self.acks += messages

    def give_back(self, client: Client, indexes: Iterable[int]) -> None:
        if self.single:
            if client is self.serving:
                self.read = self.mark + 1
            return
        for index in indexes:
            if index in client.held:
                self._release(client, index)
                self.again[index] = self.again.get(index, 0) + 1

    def aborted(self, index: int, *, is_read: bool) -> None:
        """Deliver an entry again, to any consumer."""
        if self.single:
            self.read = min(self.read, index)
            return
        if (holder := self.holder(index)) is not None:
            self._release(holder, index)
        if is_read and index not in self.acked:
            self.again[index] = self.again.get(index, 0) + 1

    def _release(self, client: Client, index: int) -> int:
        held = client.held.pop(index)
        self.unblock(client)
        return held

    def unblock(self, client: Client) -> None:
        self.note_unacked()
        if client.blocked and client.unacked <= self.of_consumer // 2:
            client.blocked = False
            self.entered(client)

    def note_unacked(self) -> None:
        """Block the subscription at its limit, until less than half of that is unacknowledged."""
        if self.unacked >= self.of_subscription:
            self.blocked = True
        elif self.unacked < max(self.of_subscription // 2, 1):
            self.blocked = False

    def notice_deleted(self) -> None:
        """Ledgers may have been deleted: none that a durable subscription needs."""
        oldest = self.oldest_ledger()
        first = self._first_of(oldest)
        assert first >= self.first
        self.first = first
        if self.mark < first - 1:
            assert not self.durable, "what is not acknowledged is deleted"
            self.ack_through(None, first - 1)

    def first_needed(self, newest_ledger: int) -> int:
        """The index of the first entry of the ledgers that are needed, or are not full yet."""
        needed = self.mark + 1 if self.durable else len(self.log)
        if self.horizon >= 0:
            needed = min(needed, self.horizon + 1, *self.survivors)
        oldest = self.log[needed].at[0] if needed < len(self.log) else newest_ledger
        return self._first_of(oldest)

    def _first_of(self, ledger_id: int) -> int:
        """The index of the first entry of a ledger or of those after it."""
        log = enumerate(self.log)
        later = (n for n, it in log if it.at is None or it.at[0] >= ledger_id)
        return next(later, len(self.log))

    def compact(self) -> None:
        """Each key's last entry with a payload is left of all that are stored."""
        stored = range(self.first, len(self.log))
        last = {key: n for n in stored if (key := self.log[n].value_of) is not None}
        self.survivors = sorted(n for n in last.values() if self.log[n].is_value)
        self.horizon = len(self.log) - 1

    def seek(self, index: int) -> None:
        self.acked = set(range(max(index, self.first)))
        self.left.clear()
        self.all_leave()

    def reset_counts(self) -> None:
        """The subscription is opened: nothing is counted, and no transaction is open."""
        self.stable, self.budget.taken = MANY, (0, 0, 0)
        self.sent, self.acks, self.resent = (0, 0, 0), 0, 0

    def limit(self, of_consumer: int) -> None:
        is_other = of_consumer != self.of_consumer
        self.of_consumer = of_consumer
        if is_other and not self.single:
            for each in self.clients.values():
                each.blocked = each.unacked >= of_consumer
                self.entered(each)

    # Deliveries.

    def delivered(self, number: int, burst: Sequence[Delivery]) -> None:
        """Entries were sent to a consumer together: each is allowed, and noted."""
        assert number in self.clients, "a consumer that is gone is sent something"
        client = self.clients[number]
        self.time_passed()
        self.notice_deleted()
        self.bursts += 1
        is_first_look, sent = not self.single, 0
        # A turn may pass over what is not due or not in memory, or sends another one its chunk.
        is_plain = not self.is_cold and not any(each.chunk or each.due_ms for each in self.log)
        for ledger_id, entry_id, count, body, ack_set in burst:
            index = self.index_of((ledger_id, entry_id), body)
            stored = self.log[index]
            assert body == stored.body
            assert index not in self.acked, "an acknowledged entry is delivered"
            assert client.ready, "a consumer is sent more than it takes"
            left = self.left.get(index)
            bits = sum(1 << n for n in left) if left else 0
            assert tuple(ack_set) == tuple(words_of(bits)), "the messages left of a batch"
            if self.single:
                self._delivered_in_order(client, index, count)
            else:
                if is_first_look:
                    self._may_begin(client, is_plain=is_plain)
                    is_first_look = False
                if self.kind is SubscriptionType.Shared and len(self.clients) > 1:
                    assert sent < self.turn, "more than a turn at once"
                self._delivered_to_one(client, index, count)
                client.held[index] = stored.messages
            client.permits -= stored.messages
            sent += stored.messages
            client.got.append(index)
            size = len(stored.body)
            client.sent = _plus(client.sent, stored.messages, size)
            self.sent = _plus(self.sent, stored.messages, size)
            if count:
                client.sent_again += stored.messages
                self.resent += stored.messages
            if self.kind is SubscriptionType.Key_Shared:
                client.blocked = client.unacked >= self.of_consumer
        if not self.single:
            client.blocked = client.unacked >= self.of_consumer
        self.note_unacked()
        client.last_turn = self.bursts
        client.waits_since = self.bursts if client.ready else None

    def index_of(self, at: tuple[int, int], body: bytes) -> int:
        if self.log[-1].at is None and self.log[-1].body == body:
            assert all(each.at < at for each in self.log[:-1])
            self.log[-1].at = at
        return next(n for n, each in enumerate(self.log) if each.at == at)

    def _delivered_in_order(self, client: Client, index: int, count: int) -> None:
        assert client is self.serving, "one that is not active is served"
        assert count == 0
        following = next((n for n in self.to_send() if n >= self.read), None)
        assert index == following, "out of order"
        self.read = index + 1

    def _may_begin(self, client: Client, *, is_plain: bool) -> None:
        if self.kind is SubscriptionType.Key_Shared:
            # Several consumers' shares of one look are sent one after the other.
            beyond = 0 if self.bursts == self.began + 1 else MESSAGES_MAX
            assert self.unacked < self.of_subscription + beyond
            assert beyond or not self.blocked
            return
        if not is_plain:
            return
        assert not self.blocked, "more than the subscription may hold"
        for other in self.clients.values():
            if other is client or not other.ready:
                continue
            assert other.priority >= client.priority, "a better priority waits"
            waited = other.waits_since is not None and other.waits_since < client.last_turn
            if other.priority == client.priority and waited and client.last_turn > self.began:
                assert other.last_turn > client.last_turn, "another one's turn"

    def _delivered_to_one(self, client: Client, index: int, count: int) -> None:
        assert index < self.stable, "delivered behind an open transaction"
        assert self.holder(index) is None, "two consumers hold one entry"
        assert self.is_due(index), "delivered before its time"
        assert count == self.again.get(index, 0), "the count of redeliveries"
        if self.kind is SubscriptionType.Key_Shared:
            slot = self.slot(index)
            assert self.owner(slot) is client, "another one's key"
            for n in range(len(self.log)):
                if self.slot(n) == slot and not self.out_of_order:
                    assert self.holder(n) in (None, client), "two consumers hold one key"
                    if n < index and n not in self.acked and not self.log[n].due_ms:
                        assert n in client.held, "a key's entries are out of order"
        elif (chunk := self.log[index].chunk) is not None:
            uuid, number, is_last = chunk
            assert self.chunks.get(uuid, client) is client, "a message in two parts"
            if is_last:
                self.chunks.pop(uuid, None)
            elif number == 0:
                self.chunks[uuid] = client

    def kept_back(self) -> list[int]:
        """What has to be delivered, since a consumer may be sent it and nothing is in the way."""
        self.time_passed()
        if self.budget.free is not None and self.budget.free <= 0:
            return []
        if self.single:
            free = self.serving is not None and self.serving.ready
            return [n for n in self.to_send() if n >= self.read] if free else []
        if self.blocked:
            return []
        waiting = [n for n in self.to_send() if self.holder(n) is None and self.is_due(n)]
        if self.kind is SubscriptionType.Shared:
            return [n for n in waiting if self._has_taker(n)]
        found, seen = [], set[int]()
        for n in waiting:
            slot = self.slot(n)
            if slot not in seen:
                seen.add(slot)
                owner = self.owner(slot)
                holders = {self.holder(m) for m in range(len(self.log)) if self.slot(m) == slot}
                is_free = self.out_of_order or holders <= {None, owner}
                # Unless so many wait for others before it that it was not looked at.
                is_near = sum(m < n for m in waiting) < self.look_ahead
                if owner is not None and owner.ready and is_free and is_near:
                    found.append(n)
        return found

    def _has_taker(self, index: int) -> bool:
        chunk = self.log[index].chunk
        bound = self.chunks.get(chunk[0]) if chunk else None
        return bound.ready if bound else any(each.ready for each in self.clients.values())


@cache
def hash_of(text: str) -> int:
    return murmur3_32(text.encode())


@cache
def points_of(name: str) -> list[int]:
    """The hashes of a consumer on a ring."""
    return [hash_of(f"{name}{n}") for n in range(100)]


def _next(points: dict[int, Client], at: int) -> Client:
    """Whose the next point on a ring is."""
    ring = sorted(points)
    return points[ring[bisect_left(ring, at) % len(ring)]]


def _plus(was: tuple[int, int, int], messages: int, size: int) -> tuple[int, int, int]:
    return was[0] + messages, was[1] + size, was[2] + 1
