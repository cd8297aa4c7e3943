"""Clients that say much at once: others are served in between, and no memory grows."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.connection import topic_queries, topic_watches
from counterpoise.broker.connection.client_link import REQUESTS_MAX
from counterpoise.broker.connection.connection import STEP
from counterpoise.broker.connection.outbox import HIGH_WATER, MIB, UNREAD_MAX
from counterpoise.broker.connection.reading_rounds import REQUEST_S, ROUND_S, ReadingRounds
from counterpoise.broker.connection.topic_watches import WATCHES_MAX
from counterpoise.broker.connection.topics_hash import topics_hash
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError
from tests.broker.connection.one_broker import Everything, OneBroker
from tests.broker.connection.raw_client import RawClient
from tests.broker.connection.test_departures import SlowOwner
from tests.waiting import WITHIN_S, until
from tests.wire import frames
from tests.wire.frames import Type

Dial = Callable[[], RawClient]


def command(field: str, **values: object) -> bytes:
    return frames.frame(frames.command(field, **values))


PING, PONG = command("ping"), command("pong")


async def test_a_connection_has_one_turn_in_each_round() -> None:
    """Whatever is left of the round: between two the loop looks at its sockets."""
    rounds, turns = ReadingRounds(), list[int]()

    def take_turn() -> None:
        turns.append(len(turns))
        if len(turns) < 3:
            rounds.wait(take_turn)

    rounds.wait(take_turn)
    for taken in (1, 2, 3, 3):
        await asyncio.sleep(0)
        assert len(turns) == taken


class Crowd(SlowOwner):
    """Says when as many ask as may."""

    def __init__(self) -> None:
        super().__init__()
        self.crowded = asyncio.Event()
        self._asked = 0

    async def lookup(self, topic: TopicName, *, authoritative: bool = False):  # type: ignore[no-untyped-def]
        self._asked += 1
        if self._asked == REQUESTS_MAX:
            self.crowded.set()
        return await super().lookup(topic, authoritative=authoritative)


class Order(Everything):
    """Remembers in which order lookups were begun."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    async def lookup(self, topic: TopicName, *, authoritative: bool = False):  # type: ignore[no-untyped-def]
        self.seen.append(topic.local_name)
        return await super().lookup(topic, authoritative=authoritative)


def lookup(name: str, request_id: int) -> bytes:
    return command("lookup_topic", topic=name, request_id=request_id)


def ping_until_it_blocks(client: RawClient, sent: int, most: int) -> int:
    """Go on with pings, ``sent`` bytes into them, until no more are taken; return how far."""
    pings = PING * 10_000
    client.socket.settimeout(0.5)
    with contextlib.suppress(TimeoutError):
        while sent < most:
            sent += client.socket.send(pings[sent % len(PING) :])
    client.socket.settimeout(WITHIN_S)
    return sent


def test_lookups_of_two_connections_alternate() -> None:
    """Both have sent all theirs before either is served: neither waits for the other's last."""
    world = Order()
    with (
        OneBroker(world=world) as broker,
        RawClient(broker.service_url) as one,
        RawClient(broker.service_url) as other,
    ):
        one.connect()
        other.connect()
        with broker.held():
            one.send(b"".join(lookup(f"one-{n}", n) for n in range(500)))
            other.send(b"".join(lookup(f"other-{n}", n) for n in range(500)))
        for client in (one, other):
            for _ in range(500):
                client.receive(Type.LOOKUP_RESPONSE)
    firsts = [
        next(n for n, name in enumerate(world.seen) if name.startswith(who + "-"))
        for who in ("one", "other")
    ]
    lasts = [
        max(n for n, name in enumerate(world.seen) if name.startswith(who + "-"))
        for who in ("one", "other")
    ]
    assert max(firsts) < 150
    assert min(lasts) > 850
    for who in ("one", "other"):
        numbers = [int(name.split("-")[1]) for name in world.seen if name.startswith(who + "-")]
        assert numbers == list(range(500))


def test_many_connections_at_once_are_served_a_few_in_a_round() -> None:
    """Each has a turn's worth of lookups waiting; the loop looks at its sockets in between."""
    world, count = Order(), 30
    with OneBroker(world=world) as broker, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker.service_url)) for _ in range(count)]
        for client in clients:
            client.connect()
        began: list[int] = []

        async def watch() -> None:
            while len(world.seen) < count * STEP:
                before = len(world.seen)
                await asyncio.sleep(0)
                began.append(len(world.seen) - before)

        with broker.held():
            watching = broker.begin(watch())
            for number, client in enumerate(clients):
                client.send(b"".join(lookup(f"c{number}-{n}", n) for n in range(STEP)))
        watching.result(WITHIN_S)
        for client in clients:
            for _ in range(STEP):
                client.receive(Type.LOOKUP_RESPONSE)
    # What is begun in one round is counted in the next, or the one after it.
    assert max(began) <= 2 * (ROUND_S / REQUEST_S + STEP)
    assert len({name.split("-")[0] for name in world.seen}) == count


def test_who_asks_little_is_served_soon_among_many_who_ask_much() -> None:
    world, count, each = Order(), 40, 300
    with OneBroker(world=world) as broker, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker.service_url)) for _ in range(count + 1)]
        for client in clients:
            client.connect()
        *many, little = clients
        with broker.held():
            for client in many:
                client.send(b"".join(lookup("much", n) for n in range(each)))
            little.send(lookup("little", 0))
        little.receive(Type.LOOKUP_RESPONSE)
        for client in many:
            for _ in range(each):
                client.receive(Type.LOOKUP_RESPONSE)
    # Those who came first have a whole turn, and then all have a part of one.
    assert world.seen.index("little") <= 10 * STEP + count * STEP // 4


async def test_rounds_give_everybody_as_many_turns() -> None:
    rounds, turns = ReadingRounds(), [0] * 10

    def take(number: int) -> None:
        turns[number] += 1
        rounds.spend(ROUND_S / 3)
        rounds.wait(lambda: take(number))

    for number in range(10):
        rounds.wait(lambda number=number: take(number))  # type: ignore[misc]
    for _ in range(100):
        before = sum(turns)
        await asyncio.sleep(0)
        assert sum(turns) - before <= 3
    assert max(turns) - min(turns) <= 1


async def test_a_turn_that_fails_takes_no_other_ones(caplog: pytest.LogCaptureFixture) -> None:
    rounds, had = ReadingRounds(), asyncio.Event()

    def broken() -> None:
        raise RuntimeError("a fault")

    rounds.wait(broken)
    rounds.wait(had.set)
    await asyncio.wait_for(had.wait(), WITHIN_S)
    assert "a fault" in caplog.text


def test_a_client_with_too_many_requests_under_way_is_not_read(topic: str) -> None:
    world = Crowd()
    with OneBroker(world=world) as broker, RawClient(broker.service_url) as client:
        client.connect()
        client.send(b"".join(lookup(topic, n) for n in range(REQUESTS_MAX + 500)))
        client.send(PING)

        def under_way() -> int:
            return broker.background.running.count("a client's request")

        async def read_on() -> int:
            await asyncio.wait_for(world.crowded.wait(), 30)
            # However many turns it is given now, it reads no further.
            for _ in range(200):
                await asyncio.sleep(0)
            return under_way()

        assert REQUESTS_MAX <= broker.run(read_on()) < REQUESTS_MAX + 64
        client.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.receive()
        client.socket.settimeout(WITHIN_S)

        async def finish() -> None:
            world.go_on.set()

        broker.run(finish())
        kinds = [client.receive().type for _ in range(REQUESTS_MAX + 501)]
        assert kinds.count(Type.LOOKUP_RESPONSE) == REQUESTS_MAX + 500
        assert Type.PONG in kinds


def test_who_does_not_read_its_answers_is_not_read(broker: OneBroker, dial: Dial) -> None:
    """Pings by the megabyte: what waits for the client stays within bounds, and nothing is lost."""
    client, bystander = dial(), dial()
    client.connect()
    bystander.connect()
    waiting = sent = 0
    while waiting < UNREAD_MAX:
        # On a busy machine it is the broker that takes its time: then there is more to send.
        sent = ping_until_it_blocks(client, sent, 64 * MIB)
        assert sent < 64 * MIB
        waiting = max(each.waiting_to_be_read for each in broker.listener.open_connections)
    assert waiting < UNREAD_MAX + 2 * MIB
    bystander.send(PING)
    bystander.receive(Type.PONG)
    left = sent // len(PING) * len(PONG)
    while left:
        left -= len(client.socket.recv(left))


def test_listings_wait_until_their_client_reads() -> None:
    """Each answer is a hundred times its question: they are not made before there is room."""
    world = Everything()
    listed = 0

    async def topics_of(*_: object) -> list[TopicName]:
        nonlocal listed
        listed += 1
        return names

    names = [TopicName.parse(f"public/default/{'x' * 1000}-{n}") for n in range(500)]
    world.topics_of = topics_of  # type: ignore[method-assign, assignment]
    ask = command("get_topics_of_namespace", namespace="public/default", request_id=1)
    with OneBroker(world=world) as broker, RawClient(broker.service_url) as client:
        client.connect()
        client.send(ask * 200)

        async def full() -> int:
            (connection,) = broker.listener.open_connections
            await until(lambda: connection.waiting_to_be_read >= HIGH_WATER)
            for _ in range(50):
                await asyncio.sleep(0)
            return connection.waiting_to_be_read

        assert broker.run(full()) < UNREAD_MAX
        assert listed < 100
        for _ in range(200):
            client.receive(Type.GET_TOPICS_OF_NAMESPACE_RESPONSE)
        assert listed == 200
        # A client that goes before it has read them leaves none that waits for it.
        client.send(ask * 200)
        broker.run(full())
        client.close()

        async def over() -> None:
            await until(lambda: not broker.listener.connections)
            await until(lambda: "a client's request" not in broker.background.running)

        broker.run(over())


def at_once(
    broker: OneBroker, clients: list[RawClient], said: bytes, order: list[str], until: int
) -> None:
    """Let the broker hear from all clients in one turn, and count turns until it has answered."""

    async def count_turns() -> None:
        async with asyncio.timeout(30):
            while order.count("hashed") < until:
                order.append("turn")
                await asyncio.sleep(0)

    with broker.held():
        counting = broker.begin(count_turns())
        for client in clients:
            client.send(said)
    counting.result(WITHIN_S)


MANY = 40


@pytest.mark.parametrize("watched", [False, True])
def test_one_list_of_topics_is_handled_in_a_turn(
    monkeypatch: pytest.MonkeyPatch, watched: bool
) -> None:
    """However many ask at once: each answer takes long where there are many topics."""
    order: list[str] = []

    def hashed(names: Iterable[str]) -> str:
        order.append("hashed")
        return topics_hash(names)

    monkeypatch.setattr(topic_queries, "topics_hash", hashed)
    monkeypatch.setattr(topic_watches, "topics_hash", hashed)
    world = Everything()
    world.topics = {TopicName.parse(f"public/default/t{n}") for n in range(10)}
    ask = command(
        "get_topics_of_namespace",
        namespace="public/default",
        topics_pattern="public/default/t.*",
        request_id=1,
    )
    if watched:
        ask = command(
            "watch_topic_list",
            namespace="public/default",
            topics_pattern="public/default/t.*",
            watcher_id=1,
            request_id=1,
        )
    with OneBroker(world=world) as broker, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker.service_url)) for _ in range(MANY)]
        for client in clients:
            client.connect()
        at_once(broker, clients, ask, order, MANY)
        for client in clients:
            client.receive()
        assert "hashed hashed" not in " ".join(order), "two in one turn"
        if not watched:
            return
        order.clear()

        async def change(name: str) -> None:
            await world.create(TopicName.parse(name))

        broker.run(change("public/default/another"))
        broker.run(change("public/default/t-new"))
        for client in clients:
            update = client.receive(Type.WATCH_TOPIC_UPDATE).watch_topic_update
            assert list(update.new_topics) == ["persistent://public/default/t-new"]
        assert order.count("hashed") == MANY, "what a pattern does not select is no news"


def test_watches_are_limited(
    broker: OneBroker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(*_: object) -> list[TopicName]:
        raise BrokerError(ServerError.ServiceNotReady, "the store cannot be reached")

    watch = {"namespace": "public/default", "topics_pattern": "x", "request_id": 1}
    with monkeypatch.context() as patched:
        patched.setattr(broker.everything, "topics_of", unreachable)
        client.command("watch_topic_list", watcher_id=999, **watch)
        assert client.receive(Type.ERROR).error.error == ServerError.ServiceNotReady
    for number in range(WATCHES_MAX + 1):
        client.command(
            "watch_topic_list",
            namespace="public/default",
            topics_pattern="x",
            watcher_id=number,
            request_id=number,
        )
    answers = [client.receive() for _ in range(WATCHES_MAX + 1)]
    refused = [each.error for each in answers if each.type == Type.ERROR]
    assert [each.error for each in refused] == [ServerError.NotAllowedError]
    assert len(answers) - len(refused) == WATCHES_MAX
