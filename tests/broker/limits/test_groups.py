"""Resource groups over several brokers: the group's limit holds for all of them together."""

import asyncio
import json
from collections.abc import Coroutine, Mapping
from typing import Any

import pytest

from counterpoise.broker.base import paths
from counterpoise.broker.limits.groups import ResourceGroupShares
from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.limits.rates import TopicRates, no_rates
from counterpoise.broker.topic.producer import Producer
from counterpoise.metadata import MemoryTree, MetadataStore, StoreUnavailable, open_store
from counterpoise.metadata.memory import MemoryStore
from counterpoise.names.topic import TopicName
from counterpoise.quota import SECOND_NS
from counterpoise.storage.memory import MemoryLedgerStore
from tests.broker.topic.conftest import World, entry, publish
from tests.quota.jumping import now_ns, on_jumping_loop, pass_time

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
        self.limits = PublishLimits(name, self._rates_of, clock_ns=now_ns)
        self.groups = ResourceGroupShares(
            name,
            store,
            cluster.definitions,
            self.limits,
            self._interval_s,
            now_ns,
        )
        #: How many rounds were waited for.
        self.intervals = 0
        self.world = World(MemoryLedgerStore(), limits=self.limits)
        self.wanted = 0.0
        self._offered = 0.0
        self.producer: Producer
        #: Messages a second that its subscription could deliver, and what it has delivered.
        self.wanted_out = 0.0
        self.delivered = 0
        self._ready = 0.0

    def _interval_s(self) -> float:
        self.intervals += 1
        return INTERVAL_S

    async def _rates_of(self, topic: TopicName) -> TopicRates:
        await self.groups.know("g")
        return TopicRates(resource_group="g")

    async def begin(self) -> None:
        self.producer = await self.world.producer()
        self.flow = self.limits.dispatch.join(self.world.name, "s", self)

    behind = 0

    def dispatch(self) -> None:
        while self._ready >= 1:
            free, _ = self.flow.budget()
            if free <= 0:
                return
            count = min(free, int(self._ready))
            self.flow.took(count, count, 10 * count)
            self.delivered += count
            self._ready -= count

    @property
    def passed(self) -> int:
        limit = self.limits.group("g")
        return limit.passed_messages

    def step(self) -> None:
        self._offered += self.wanted * STEP_NS / SECOND_NS
        flow = self.producer.flow
        # As a client does: what is not acknowledged is limited.
        while self._offered >= 1 and (flow is None or len(flow.entries) < 20):
            publish(self.producer, 0, 0, entry("x"))
            self._offered -= 1
        self._offered = min(self._offered, 20)
        self._ready = min(self._ready + self.wanted_out * STEP_NS / SECOND_NS, 200)
        if self.flow.waits_at is None:
            self.dispatch()


class Group:
    """Three brokers and a clock."""

    def __init__(self) -> None:
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
            await pass_time(STEP_NS / SECOND_NS)
            for each in self.brokers:
                each.step()
            for number, each in enumerate(self.brokers):
                # Each has its own rhythm.
                if (step * STEP_NS) % (INTERVAL_S * SECOND_NS) == number * 3 * STEP_NS:
                    await each.groups.round()
                    # The others read what changed in the loop's next turn.
                    await asyncio.sleep(0)
        return sum(each.passed for each in self.brokers) - before


@pytest.fixture
def group() -> Group:
    """Start it in the test: it lives on the test's loop."""
    return Group()


@pytest.mark.parametrize(
    "wanted", [(2000, 2000, 2000), (2000, 100, 10), (2000, 0, 0), (600, 200, 50), (500, 300, 300)]
)
@on_jumping_loop
async def test_the_groups_rate_is_passed_whatever_the_shares_are(
    group: Group, wanted: tuple[float, ...]
) -> None:
    await group.start()
    for turned in (wanted, wanted[::-1]):
        for each, rate in zip(group.brokers, turned, strict=True):
            each.wanted = rate
        await group.run(4 * INTERVAL_S)
        passed = await group.run(10)
        assert passed / 10 == pytest.approx(min(900, sum(turned)), rel=0.05)


@on_jumping_loop
async def test_what_a_group_delivers_is_shared_like_what_it_publishes(group: Group) -> None:
    await group.start()
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
    assert delivered[0] / 10 == pytest.approx(10, rel=0.1), "a broker that needs little gets it"
    group.definitions.group = {"publishRateInMsgs": 900}
    for each in group.brokers:
        await each.groups.refresh("g")
    assert all(each.limits.dispatch.all() == [] for each in group.brokers)
    assert all(each.flow.waits_at is None for each in group.brokers)


@on_jumping_loop
async def test_a_broker_that_goes_leaves_its_part_to_the_others(group: Group) -> None:
    await group.start()
    for each in group.brokers:
        each.wanted = 2000
    await group.run(6)
    gone = group.brokers.pop()
    await gone.store.close()
    await group.run(6)
    assert await group.run(10) / 10 == pytest.approx(900, rel=0.05)


@on_jumping_loop
async def test_a_changed_group_holds_at_once(group: Group) -> None:
    await group.start()
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
    assert left == [], "a group that limits nothing is not reported"


@on_jumping_loop
async def test_a_group_that_no_topic_is_in_any_more_is_forgotten(group: Group) -> None:
    await group.start()
    first = group.brokers[0]
    await group.run(4)
    assert "b0" in await first.store.children(paths.group_usages("g"))
    await first.world.registry.unload_topic(first.world.name)
    await first.groups.round()
    assert first.groups.names == []
    assert "b0" not in await first.store.children(paths.group_usages("g"))
    assert first.limits.all() == first.limits.dispatch.all() == []


@on_jumping_loop
async def test_a_report_that_is_gone_already_is_none_to_withdraw(group: Group) -> None:
    await group.start()
    first = group.brokers[0]
    await first.world.registry.unload_topic(first.world.name)
    await first.store.delete(paths.group_usage("g", "b0"))
    await first.groups.round()
    assert first.groups.names == []


@on_jumping_loop
async def test_a_limit_in_bytes_is_shared_by_bytes(group: Group) -> None:
    """One broker takes much in few messages, another little in many."""
    group.definitions.group = {"publishRateInBytes": 90_000}
    await group.start(2)
    first, _ = group.brokers
    use = {"messages": 1, "bytes": 80_000, "waiting": False}
    little = {"messages": 80_000, "bytes": 1000, "waiting": False}
    for broker, said in ((0, use), (1, little)):
        text = json.dumps({"publish": said, "dispatch": said})
        await group.brokers[broker].store.put(paths.group_usage("g", f"b{broker}"), text.encode())
    await first.groups.refresh("g")
    limit = first.limits.group("g")
    assert limit.bytes.rate > 80_000


@on_jumping_loop
async def test_who_has_to_wait_gets_its_equal_part_back_within_two_rounds(group: Group) -> None:
    await group.start()
    first, second, third = group.brokers
    first.wanted = 2000
    await group.run(4 * INTERVAL_S)
    second.wanted = third.wanted = 2000
    await group.run(2 * INTERVAL_S)
    before = [each.passed for each in group.brokers]
    await group.run(10)
    passed = [each.passed - had for each, had in zip(group.brokers, before, strict=True)]
    assert [each / 10 for each in passed] == pytest.approx([300] * 3, rel=0.05)


@on_jumping_loop
async def test_a_group_that_is_left_keeps_no_other_from_its_round(group: Group) -> None:
    """A topic of "left" was unloaded just now; the one in "g" was there later."""
    await group.start()
    store = await open_store("memory:", tree=MemoryTree(), session_timeout_s=30)
    last = OfGroup("b9", store, group)
    await last.groups.know("left")
    await last.begin()
    last.wanted = 100
    for _ in range(INTERVAL_S * SECOND_NS // STEP_NS):
        await pass_time(STEP_NS / SECOND_NS)
        last.step()
    await last.groups.round()
    assert last.groups.names == ["g"]
    stored = await store.get(paths.group_usage("g", "b9"))
    said = json.loads(stored.value)
    assert said["publish"]["messages"] == pytest.approx(100, rel=0.1)
    assert not said["publish"]["waiting"]


@on_jumping_loop
async def test_what_cannot_be_read_is_taken_for_nothing(group: Group) -> None:
    await group.start()
    first = group.brokers[0]
    much = {"messages": 10**400, "bytes": -1, "waiting": True}
    odd = ("", "{", "[]", '{"publish": 1}', '{"publish": {"messages": Infinity, "bytes": 1}}')
    for number, text in enumerate((*odd, json.dumps({"publish": much, "dispatch": much}))):
        await first.store.put(paths.group_usage("g", f"odd{number}"), text.encode())
    await first.groups.round()
    limit = first.limits.group("g")
    assert limit.messages.rate > 0


@on_jumping_loop
async def test_the_rounds_begin_with_the_first_group_and_survive_a_store_that_is_away(
    group: Group,
) -> None:
    await group.start()
    first = group.brokers[0]
    path = paths.group_usage("g", "b0")
    await first.store.delete(path)
    rounds = asyncio.ensure_future(first.groups.run())
    await pass_time(1.5 * INTERVAL_S)
    assert await first.store.exists(path)
    await first.store.close()
    await pass_time(3 * INTERVAL_S)
    assert not rounds.done(), "a store that is away ended the rounds"
    rounds.cancel()


@on_jumping_loop
async def test_the_rounds_rest_while_no_topic_is_in_a_group(group: Group) -> None:
    await group.start(1)
    (broker,) = group.brokers
    path = paths.group_usage("g", "b0")
    rounds = asyncio.ensure_future(broker.groups.run())
    await broker.world.registry.unload_topic(broker.world.name)
    await pass_time(1.5 * INTERVAL_S)
    assert not await broker.store.exists(path)
    waited = broker.intervals
    await pass_time(10 * INTERVAL_S)
    assert broker.intervals == waited
    await broker.begin()
    assert await broker.store.exists(path)
    await broker.store.delete(path)
    await pass_time(1.5 * INTERVAL_S)
    assert await broker.store.exists(path), "the rounds have begun again"
    rounds.cancel()


@on_jumping_loop
async def test_a_round_that_is_late_reports_what_passed_in_a_second(group: Group) -> None:
    """The store may have been away for some rounds."""
    await group.start(1)
    (broker,) = group.brokers
    broker.wanted = 100
    await group.run(4 * INTERVAL_S)
    for _ in range(5 * INTERVAL_S * SECOND_NS // STEP_NS):
        await pass_time(STEP_NS / SECOND_NS)
        broker.step()
    # Nothing is written that has not changed.
    await broker.store.delete(paths.group_usage("g", "b0"))
    await broker.groups.round()
    assert (await reported(broker))["messages"] == pytest.approx(100, rel=0.05)


@on_jumping_loop
async def test_a_newcomer_is_known_before_its_first_entry(group: Group) -> None:
    await group.start()
    first, second, third = group.brokers
    assert await first.store.children(paths.group_usages("g")) == ["b0", "b1", "b2"]
    for each in group.brokers:
        await each.groups.round()
    for each in (first, second, third):
        limit = each.limits.group("g")
        assert limit.messages.rate <= 300


@on_jumping_loop
async def test_after_a_lost_session_it_is_said_again_and_ends_with_the_new_one(
    group: Group,
) -> None:
    await group.start()
    first, second, _ = group.brokers
    for each in group.brokers:
        each.wanted = 2000
    await group.run(4 * INTERVAL_S)
    path = paths.group_usage("g", "b0")
    # Its session is lost and another begins, as after a long silence of the store.
    await second.store.delete(path)
    await group.run(1.5 * INTERVAL_S)
    assert await first.store.exists(path), "what it passes has not changed, but no broker knows"
    group.brokers.remove(first)
    await first.store.close()
    assert not await second.store.exists(path)


async def reported(broker: OfGroup) -> dict[str, Any]:
    """What the first broker says of its publishing."""
    stored = await broker.store.get(paths.group_usage("g", "b0"))
    said: dict[str, Any] = json.loads(stored.value)["publish"]
    return said


@on_jumping_loop
async def test_what_a_broker_reports_is_the_last_interval_and_written_when_it_changes(
    group: Group,
) -> None:
    await group.start()
    first = group.brokers[0]
    assert await reported(first) == {"messages": 0, "bytes": 0, "waiting": True}, "a newcomer"
    writes: list[str] = []
    first.store.subscribe(lambda it: writes.append(it.path) if it.path.endswith("/b0") else None)
    size = 0
    for wanted, waiting in ((0, False), (100, False), (2000, True), (50, False)):
        for each in group.brokers:
            each.wanted = wanted
        await group.run(6 * INTERVAL_S)
        said = await reported(first)
        assert said["waiting"] is waiting
        assert said["messages"] == pytest.approx(min(wanted, 300), rel=0.05)
        size = size or (said["bytes"] // said["messages"] if said["messages"] else 0)
        assert said["bytes"] == pytest.approx(size * said["messages"], rel=0.05)
        writes.clear()
        await group.run(4 * INTERVAL_S)
        await first.groups.refresh("g")
        assert not writes, "nothing has changed"
    assert size


@on_jumping_loop
async def test_what_a_former_life_said_does_not_vanish_under_the_new_one(group: Group) -> None:
    await group.start()
    first, second, _ = group.brokers
    path = paths.group_usage("g", "b0")
    await first.store.delete(path)
    # A broker of the same name was killed, and its session has not timed out yet.
    await second.store.put(path, b"{}", ephemeral=True)
    first.wanted = 50
    await group.run(1.5 * INTERVAL_S)
    await second.store.close()
    assert await first.store.exists(path)


@on_jumping_loop
async def test_a_group_that_could_not_be_read_is_read_again_for_the_next_topic(
    group: Group,
) -> None:
    await group.start()
    first = group.brokers[0]
    limits = PublishLimits("b9", no_rates, clock_ns=now_ns)

    class FirstAway(Definitions):
        away = True

        async def resource_group(self, name: str) -> Mapping[str, Any] | None:
            if self.away:
                raise StoreUnavailable(name, "away")
            return await super().resource_group(name)

    source = FirstAway()
    groups = ResourceGroupShares("b9", first.store, source, limits, lambda: 1, now_ns)
    with pytest.raises(StoreUnavailable):
        await groups.know("g")
    source.away = False
    await groups.know("g")
    assert "b9" in await first.store.children(paths.group_usages("g"))


class SlowStore(MemoryStore):
    """Lists reports when it may; ``gone`` is listed, and is gone when it is read.

    It deletes nothing while it ``is_away``, and first does ``meanwhile``.
    """

    def __init__(self, tree: MemoryTree) -> None:
        super().__init__(tree)
        self.is_away = False
        self.meanwhile: Coroutine[None, None, None] | None = None
        self.answers = asyncio.Event()
        self.answers.set()
        self.gone: list[str] = []

    async def children(self, path: str) -> list[str]:
        await self.answers.wait()
        found = await super().children(path)
        return [*found, *self.gone] if path == paths.group_usages("g") else found

    async def delete(self, path: str, *, expected_version: int | None = None) -> None:
        if self.is_away:
            raise StoreUnavailable(f"delete {path}", "away")
        meanwhile, self.meanwhile = self.meanwhile, None
        await super().delete(path, expected_version=expected_version)
        if meanwhile is not None:
            await meanwhile


class Alone:
    """A broker with a topic in group "g", which can leave while the group is being read."""

    def __init__(self) -> None:
        self.store = SlowStore(MemoryTree())
        self.definition: dict[str, Any] | None = {"publishRateInMsgs": 900}
        self.answers = asyncio.Event()
        self.answers.set()
        self.limits = PublishLimits("b9", no_rates, clock_ns=now_ns)
        self.groups = ResourceGroupShares("b9", self.store, self, self.limits, lambda: 1, now_ns)

    async def resource_group(self, name: str) -> Mapping[str, Any] | None:
        await self.answers.wait()
        return self.definition


@pytest.mark.parametrize("reads", ["definition", "reports"])
@pytest.mark.parametrize("is_known", [False, True])
@on_jumping_loop
async def test_a_group_whose_last_topic_leaves_while_it_is_read_is_forgotten(
    reads: str, is_known: bool
) -> None:
    alone = Alone()
    answers = alone.answers if reads == "definition" else alone.store.answers
    if is_known:
        await alone.groups.know("g")
    answers.clear()
    reading = asyncio.ensure_future(
        alone.groups.refresh("g") if is_known else alone.groups.know("g")
    )
    await pass_time(0.1)
    await alone.groups.round()
    answers.set()
    await reading
    await alone.groups.round()
    assert (alone.groups.names, alone.limits.all(), alone.limits.dispatch.all()) == ([], [], [])
    assert await alone.store.children(paths.group_usages("g")) == []


@on_jumping_loop
async def test_a_report_that_could_not_be_withdrawn_is_withdrawn_later() -> None:
    """Else the others leave a part to a broker that has no use for it, as long as it lives."""
    alone = Alone()
    await alone.groups.know("g")
    alone.store.is_away = True
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await alone.groups.round()
    assert await alone.store.children(paths.group_usages("g")) == ["b9"]
    alone.store.is_away = False
    await alone.groups.round()
    assert await alone.store.children(paths.group_usages("g")) == []
    assert (alone.groups.names, alone.limits.all(), alone.limits.dispatch.all()) == ([], [], [])


@on_jumping_loop
async def test_a_group_that_is_read_again_while_it_is_withdrawn_is_withdrawn_again() -> None:
    alone = Alone()
    await alone.groups.know("g")
    alone.store.meanwhile = alone.groups.refresh("g")
    for _ in range(2):
        await alone.groups.round()
    assert await alone.store.children(paths.group_usages("g")) == []
    assert (alone.groups.names, alone.limits.all()) == ([], [])


@on_jumping_loop
async def test_a_refresh_does_not_make_a_newcomer_of_a_broker_that_has_reported() -> None:
    alone = Alone()
    path = paths.group_usage("g", "b9")
    await alone.groups.know("g")
    assert json.loads(await value_of(alone.store, path))["publish"]["waiting"] is True
    report = {"messages": 10, "bytes": 10, "waiting": False}
    text = json.dumps({"publish": report, "dispatch": report}).encode()
    await alone.store.put(path, text)
    await pass_time(0.1)
    await alone.groups.refresh("g")
    assert await value_of(alone.store, path) == text


async def value_of(store: MetadataStore, path: str) -> bytes:
    found = await store.get(path)
    return found.value


@pytest.mark.parametrize("nothing", [{}, {"publishRateInMsgs": 0}, {"publishRateInMsgs": -1}, None])
@on_jumping_loop
async def test_a_rate_that_is_set_to_nothing_limits_no_more(nothing: dict[str, Any] | None) -> None:
    alone = Alone()
    await alone.groups.know("g")
    limit = alone.limits.group("g")
    assert limit.active
    alone.definition = nothing
    await alone.groups.refresh("g")
    assert not any(each.active for each in alone.limits.all())
    limit = alone.limits.group("g")
    assert limit is None or not limit.active


@on_jumping_loop
async def test_a_broker_that_left_while_reports_are_read_has_no_part() -> None:
    alone = Alone()
    alone.store.gone = ["gone"]
    await alone.groups.know("g")
    limit = alone.limits.group("g")
    assert limit.messages.rate == 900, "it is alone"
