"""Answers of any size are written while others are served."""

import asyncio
import json

from hypothesis import given
from hypothesis import strategies as st

from counterpoise.admin.large_json import IN_A_TURN, encoded, in_turns
from counterpoise.admin.topic_json import (
    RANGES_IN_A_TURN,
    internal_stats_json,
    managed_ledger_json,
    topic_stats_json,
)
from counterpoise.broker.topic.acks import AckState
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import World

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=40) | st.dictionaries(st.text(max_size=4), inner, max_size=40)
    ),
    max_leaves=200,
)


class Turns:
    """Counts how often others could have been served."""

    async def __aenter__(self) -> "Turns":
        self.count = 0
        self._counting = asyncio.ensure_future(self._run())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._counting.cancel()

    async def _run(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


@given(values)
def test_what_is_written_by_the_piece_is_the_same_json(value: object) -> None:
    text = asyncio.run(encoded(value))  # type: ignore[arg-type]
    assert json.loads(b"".join(text.pieces())) == value


async def test_others_are_served_while_it_is_written() -> None:
    many = {
        "a": {"b": {str(n): {"c": [n]} for n in range(2000)}},
        "d": [[[n]] for n in range(2000)],
    }
    async with Turns() as turns:
        text = await encoded(many)
    assert json.loads(b"".join(text.pieces())) == many
    assert turns.count >= 4000 // IN_A_TURN // 2


async def test_others_are_served_while_figures_are_looked_at() -> None:
    async def make(number: int) -> dict[str, int]:
        return {"n": number}

    async with Turns() as turns:
        answer = await in_turns(((str(n), n) for n in range(2000)), make)
    assert answer["1999"] == {"n": 1999}
    assert turns.count >= 2000 // IN_A_TURN


async def test_the_figures_of_a_topic_with_many_subscriptions() -> None:
    world = World(MemoryLedgerStore())
    topic = await world.topic()
    for number in range(100):
        await topic.create_subscription(f"s{number}")  # type: ignore[attr-defined]
    for make in (lambda: topic_stats_json(topic, "b:1"), lambda: internal_stats_json(topic)):
        async with Turns() as turns:
            answer = await make()
        assert len(answer.get("subscriptions") or answer["cursors"]) == 100
        assert turns.count >= 100 // IN_A_TURN


async def test_the_figures_of_a_subscription_with_many_consumers_and_a_topic_with_producers() -> (
    None
):
    world = World(MemoryLedgerStore())
    topic = await world.topic()
    for _ in range(100):
        await world.consumer(SubscriptionType.Shared)
        await world.producer()
    async with Turns() as turns:
        answer = await topic_stats_json(topic, "b:1")
    assert len(answer["subscriptions"]["s"]["consumers"]) == len(answer["publishers"]) == 100
    assert turns.count >= 200 // IN_A_TURN


async def test_others_are_served_while_many_holes_are_written() -> None:
    world = World(MemoryLedgerStore())
    topic = await world.topic()
    holes = [(2 * n, 2 * n) for n in range(1, 10 * RANGES_IN_A_TURN + 1)]
    subscription = await topic.create_subscription("s")  # type: ignore[attr-defined]
    subscription.acks = AckState(-1, holes)
    for make in (internal_stats_json(topic), managed_ledger_json(topic, {})):
        async with Turns() as turns:
            cursor = (await make)["cursors"]["s"]
        assert turns.count >= 10
        assert len(
            cursor.get("individualDeletedMessages")
            or cursor["individuallyDeletedMessages"].split(",")
        ) == len(holes)


@given(st.sets(st.integers(0, 2000)))
def test_holes_are_counted_without_going_through_them(acked: set[int]) -> None:
    state = AckState(-1)
    for index in acked:
        state.ack(index)
    assert state.range_count() == len(list(state.ranges()))
