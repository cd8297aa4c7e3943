"""A client that leaves with very much behind it: others are served while that is put away."""

import asyncio
from collections import deque

import pytest

from counterpoise.broker.connection import reading_rounds
from counterpoise.broker.connection.reading_rounds import TURN_S, one_by_one
from counterpoise.names.topic import TopicName
from tests.broker.connection.one_broker import OneBroker
from tests.broker.connection.raw_client import RawClient
from tests.waiting import WITHIN_S
from tests.wire import frames
from tests.wire.frames import Type


class Clock:
    """Every look at it finds a third of a turn gone, or a little less."""

    def __init__(self) -> None:
        self.now = 0.0

    def thread_time(self) -> float:
        self.now += TURN_S * 0.3
        return self.now


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(reading_rounds, "time", clock)
    return clock


async def test_so_many_go_in_a_turn_as_it_has_time_for(slow: Clock) -> None:
    gone: list[int] = []
    one_by_one(deque(range(10)), gone.append)
    turns = [len(gone)]
    while len(gone) < 10:
        await asyncio.sleep(0)
        turns.append(len(gone))
    assert turns == [3, 6, 9, 10]
    assert gone == list(range(10))


async def test_one_that_cannot_be_closed_keeps_no_other() -> None:
    gone: list[int] = []
    failed: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failed.append(context))

    def close(number: int) -> None:
        if number == 1:
            raise RuntimeError("it cannot go")
        gone.append(number)

    asyncio.get_running_loop().call_soon(one_by_one, deque(range(4)), close)
    while len(gone) < 3:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert gone == [0, 2, 3]
    assert len(failed) == 1


@pytest.mark.parametrize("kind", range(1, 4))
def test_nothing_is_left_of_a_connection_with_many(
    broker: OneBroker, topic: str, slow: Clock, kind: int
) -> None:
    """Also what was stored for its producers after it left, while others of its were put away."""
    # A Failover subscription's first consumer learns that it is active after a second.
    many = 5 if kind == 2 else 20
    with RawClient(broker.service_url) as client:
        client.connect()
        for number in range(many):
            client.produce(topic, number)
            client.subscribe(topic, number, f"s{number}" if kind == 2 else "s", sub_type=kind)
            if kind == 2:
                client.receive(Type.ACTIVE_CONSUMER_CHANGE)
        loaded = broker.topics.loaded[TopicName.parse(topic)]
        sink = next(each.sink for s in loaded.subscriptions.values() for each in s.consumers)
        client.send(b"".join(frames.send(number, 0) for number in range(many)))
        client.receive()

    async def left() -> tuple[int, int, int]:
        at = await broker.topics.get(TopicName.parse(topic))
        async with asyncio.timeout(WITHIN_S):
            while at.producers or any(s.consumers for s in at.subscriptions.values()):  # noqa: ASYNC110
                await asyncio.sleep(0)
        return (
            len(at.producers),
            sum(len(each.consumers) for each in at.subscriptions.values()),
            broker.listener.publish_buffer.waiting,
        )

    assert broker.run(left()) == (0, 0, 0)
    assert not sink.writable, "nothing is sent to those that have yet to leave"
