"""Resource groups over several brokers: the group's limit holds for all of them together."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from counterpoise.broker.base import paths
from counterpoise.broker.limits.groups import ResourceGroups
from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.limits.rates import TopicRates
from counterpoise.broker.topic.producer import Producer
from counterpoise.metadata import MemoryTree, MetadataStore, StoreUnavailable, open_store
from counterpoise.names.topic import TopicName
from counterpoise.quota import SECOND_NS
from counterpoise.storage.memory import MemoryLedgerStore
from tests.broker.topic.conftest import World, entry, publish

INTERVAL_S = 2
STEP_NS = 5_000_000


class Definitions:
    def __init__(self) -> None:
        self.group: dict[str, Any] = {"publishRateInMsgs": 900}

    async def resource_group(self, name: str) -> Mapping[str, Any] | None:
        return self.group


class OfGroup:
    """One broker with a producer in the group; ``wanted`` messages a second are offered to it."""

    def __init__(self, name: str, store: MetadataStore, cluster: "Group") -> None:
        self.store = store
        self.cluster = cluster
        self.limits = PublishLimits(name, self._rates_of, clock_ns=lambda: cluster.now)
        self.groups = ResourceGroups(
            name,
            store,
            cluster.definitions,
            self.limits,
            lambda: INTERVAL_S,
            lambda: cluster.now,
        )
        self.world = World(MemoryLedgerStore(), limits=self.limits)
        self.wanted = 0.0
        self._offered = 0.0
        self.producer: Producer
        #: Messages a second that its subscription could deliver, and what it has delivered.
        self.wanted_out = 0.0
        self.delivered = 0
        self._ready = 0.0

    async def _rates_of(self, topic: TopicName) -> TopicRates:
        await self.groups.know("g")
        return TopicRates(resource_group="g")

    async def begin(self) -> None:
        self.producer = await self.world.producer()
        self.gate = self.limits.dispatch.gate(self.world.name, "s", self._deliver, lambda: 0)

    def _deliver(self) -> None:
        while self._ready >= 1:
            free, _ = self.gate.budget()
            if free <= 0:
                return
            count = min(free, int(self._ready))
            self.gate.took(count, count, 10 * count)
            self.delivered += count
            self._ready -= count

    @property
    def passed(self) -> int:
        limit = self.limits.group("g")
        assert limit is not None
        return limit.passed_messages

    def step(self) -> None:
        for limit in list(self.limits._timers):
            if limit.resume_at is not None and limit.resume_at <= self.cluster.now:
                self.limits._let_go(limit)
        self._offered += self.wanted * STEP_NS / SECOND_NS
        flow = self.producer.flow
        # As a client does: what is not acknowledged is limited.
        while self._offered >= 1 and (flow is None or len(flow.held) < 20):
            publish(self.producer, 0, 0, entry("x"))
            self._offered -= 1
        self._offered = min(self._offered, 20)
        limit = self.limits.dispatch.group("g")
        if limit is not None and limit._timer is not None:
            limit._ring()
        self._ready = min(self._ready + self.wanted_out * STEP_NS / SECOND_NS, 200)
        if self.gate.waits_at is None:
            self._deliver()


class Group:
    """Three brokers and a clock."""

    def __init__(self) -> None:
        self.now = 0
        self.definitions = Definitions()
        self.brokers: list[OfGroup] = []

    async def start(self, count: int = 3) -> None:
        tree = MemoryTree()
        for number in range(count):
            store = await open_store("memory:", tree=tree, session_timeout_s=30)
            self.brokers.append(OfGroup(f"b{number}", store, self))
            await self.brokers[-1].begin()

    async def run(self, seconds: float) -> int:
        """So many seconds pass; what passed the group meanwhile."""
        before = sum(each.passed for each in self.brokers)
        for step in range(int(seconds * SECOND_NS) // STEP_NS):
            self.now += STEP_NS
            for each in self.brokers:
                each.step()
            for number, each in enumerate(self.brokers):
                # Each has its own rhythm.
                if (step * STEP_NS) % (INTERVAL_S * SECOND_NS) == number * 3 * STEP_NS:
                    await each.groups.round()
                    # What changed is told to the others in the loop's next turn.
                    await asyncio.sleep(0)
        return sum(each.passed for each in self.brokers) - before


@pytest.fixture
async def group() -> Group:
    made = Group()
    await made.start()
    return made


@pytest.mark.parametrize(
    "wanted", [(2000, 2000, 2000), (2000, 100, 10), (2000, 0, 0), (600, 200, 50), (500, 300, 300)]
)
async def test_the_groups_rate_is_passed_whatever_the_shares_are(
    group: Group, wanted: tuple[float, ...]
) -> None:
    for turned in (wanted, wanted[::-1]):
        for each, rate in zip(group.brokers, turned, strict=True):
            each.wanted = rate
        await group.run(4 * INTERVAL_S)
        passed = await group.run(10)
        assert passed / 10 == pytest.approx(min(900, sum(turned)), rel=0.05)


async def test_what_a_group_delivers_is_shared_like_what_it_publishes(group: Group) -> None:
    group.definitions.group = {"publishRateInMsgs": 900, "dispatchRateInMsgs": 600}
    for each, wanted_in, wanted_out in zip(
        group.brokers, (2000, 50, 0), (10, 2000, 0), strict=True
    ):
        each.wanted, each.wanted_out = wanted_in, wanted_out
        await each.groups.refresh("g")
    await group.run(4 * INTERVAL_S)
    before = [each.delivered for each in group.brokers]
    passed = await group.run(10)
    delivered = [each.delivered - had for each, had in zip(group.brokers, before, strict=True)]
    assert passed / 10 == pytest.approx(900, rel=0.05)
    assert sum(delivered) / 10 == pytest.approx(600, rel=0.05)
    assert delivered[0] / 10 == pytest.approx(10, rel=0.1), "who needs little gets it"
    group.definitions.group = {"publishRateInMsgs": 900}
    for each in group.brokers:
        await each.groups.refresh("g")
    assert all(each.limits.dispatch.all() == [] for each in group.brokers)
    assert all(each.gate.waits_at is None for each in group.brokers)


async def test_a_broker_that_goes_leaves_its_part_to_the_others(group: Group) -> None:
    for each in group.brokers:
        each.wanted = 2000
    await group.run(6)
    gone = group.brokers.pop()
    await gone.store.close()
    await group.run(6)
    assert await group.run(10) / 10 == pytest.approx(900, rel=0.05)


async def test_a_changed_group_holds_at_once(group: Group) -> None:
    for each in group.brokers:
        each.wanted = 2000
    await group.run(6)
    group.definitions.group = {"publishRateInMsgs": 300, "publishRateInBytes": 10**9}
    for each in group.brokers:
        await each.groups.refresh("g")
    assert await group.run(10) / 10 == pytest.approx(300, rel=0.05)
    group.definitions.group = {}
    for each in group.brokers:
        await each.groups.refresh("g")
    assert all(each.limits.all() == [] for each in group.brokers)
    await group.run(4)
    left = await group.brokers[0].store.children(paths.group_usages("g"))
    assert left == [], "nothing is said of a group that limits nothing"


async def test_a_group_that_no_topic_is_in_any_more_is_forgotten(group: Group) -> None:
    first = group.brokers[0]
    await group.run(4)
    assert "b0" in await first.store.children(paths.group_usages("g"))
    await first.world.registry.unload_topic(first.world.name)
    await first.groups.round()
    assert first.groups.names == []
    assert "b0" not in await first.store.children(paths.group_usages("g"))


async def test_who_has_to_wait_gets_its_equal_part_back_within_two_rounds(group: Group) -> None:
    first, second, third = group.brokers
    first.wanted = 2000
    await group.run(4 * INTERVAL_S)
    second.wanted = third.wanted = 2000
    await group.run(2 * INTERVAL_S)
    before = [each.passed for each in group.brokers]
    await group.run(10)
    passed = [each.passed - had for each, had in zip(group.brokers, before, strict=True)]
    assert [each / 10 for each in passed] == pytest.approx([300] * 3, rel=0.05)


async def test_a_group_that_is_left_keeps_no_other_from_its_round(group: Group) -> None:
    """A topic of "left" was unloaded just now; the one in "g" was there later."""
    store = await open_store("memory:", tree=MemoryTree(), session_timeout_s=30)
    last = OfGroup("b9", store, group)
    await last.groups.know("left")
    await last.begin()
    last.wanted = 100
    for _ in range(INTERVAL_S * SECOND_NS // STEP_NS):
        group.now += STEP_NS
        last.step()
    await last.groups.round()
    assert last.groups.names == ["g"]
    stored = await store.get(paths.group_usage("g", "b9"))
    assert stored is not None
    said = json.loads(stored.value)
    assert said["publish"]["messages"] == pytest.approx(100, rel=0.1)
    assert not said["publish"]["waiting"]


async def test_what_cannot_be_read_is_taken_for_nothing(group: Group) -> None:
    first = group.brokers[0]
    much = {"messages": 10**400, "bytes": -1, "waiting": True}
    odd = ("", "{", "[]", '{"publish": 1}', '{"publish": {"messages": Infinity, "bytes": 1}}')
    for number, text in enumerate((*odd, json.dumps({"publish": much, "dispatch": much}))):
        await first.store.put(paths.group_usage("g", f"odd{number}"), text.encode())
    await first.groups.round()
    limit = first.limits.group("g")
    assert limit is not None
    assert limit.messages is not None
    assert limit.messages.rate > 0


async def test_the_rounds_begin_with_the_first_group_and_survive_a_store_that_is_away(
    group: Group,
) -> None:
    first = group.brokers[0]
    first.groups._interval_s = lambda: 0
    rounds = asyncio.ensure_future(first.groups.run())
    path = paths.group_usage("g", "b0")
    async with asyncio.timeout(10):
        while not await first.store.exists(path):  # noqa: ASYNC110 - in the round's own time
            await asyncio.sleep(0)
    assert not rounds.done()
    rounds.cancel()
    assert first.limits.group("g") is not None


async def test_a_newcomer_is_known_before_its_first_entry(group: Group) -> None:
    first, second, third = group.brokers
    assert await first.store.children(paths.group_usages("g")) == ["b0", "b1", "b2"]
    for each in group.brokers:
        await each.groups.round()
    for each in (first, second, third):
        limit = each.limits.group("g")
        assert limit is not None
        assert limit.messages is not None
        assert limit.messages.rate <= 300


async def test_after_a_lost_session_it_is_said_again_and_ends_with_the_new_one(
    group: Group,
) -> None:
    first, second, _ = group.brokers
    for each in group.brokers:
        each.wanted = 2000
    await group.run(4 * INTERVAL_S)
    path = paths.group_usage("g", "b0")
    # Its session is lost and another begins, as after a long silence of the store.
    await second.store.delete(path)
    await group.run(1.5 * INTERVAL_S)
    assert await first.store.exists(path), "what it passes has not changed, but nobody knows of it"
    group.brokers.remove(first)
    await first.store.close()
    assert not await second.store.exists(path)


async def test_what_a_former_life_said_does_not_vanish_under_the_new_one(group: Group) -> None:
    first, second, _ = group.brokers
    path = paths.group_usage("g", "b0")
    await first.store.delete(path)
    # A broker of the same name was killed, and its session has not timed out yet.
    await second.store.put(path, b"{}", ephemeral=True)
    first.wanted = 50
    await group.run(1.5 * INTERVAL_S)
    await second.store.close()
    assert await first.store.exists(path)


async def test_a_group_that_could_not_be_read_is_read_again_for_the_next_topic(
    group: Group,
) -> None:
    first = group.brokers[0]
    definitions, limits = group.definitions, PublishLimits("b9", first._rates_of)

    class Away:
        async def resource_group(self, name: str) -> Mapping[str, Any] | None:
            raise StoreUnavailable(name, "away")

    groups = ResourceGroups("b9", first.store, Away(), limits, lambda: 1, lambda: 0)
    with pytest.raises(StoreUnavailable):
        await groups.know("g")
    groups._source = definitions
    await groups.know("g")
    assert "b9" in await first.store.children(paths.group_usages("g"))
