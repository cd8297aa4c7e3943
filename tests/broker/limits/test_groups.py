"""Resource groups over several brokers: the group's limit holds for all of them together."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from counterpoise.broker.base import paths
from counterpoise.broker.limits.groups import ResourceGroupShares
from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.limits.rates import no_rates
from counterpoise.metadata import MemoryTree, NotificationKind, StoreUnavailable, open_store
from counterpoise.quota import SECOND_NS
from tests.broker.limits.groups import INTERVAL_S, STEP_NS, Definitions, Group, OfGroup, reported
from tests.quota.jumping import now_ns, on_jumping_loop, pass_time


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
    await group.refresh(publishRateInMsgs=900)
    assert all(each.limits.dispatch.all() == [] for each in group.brokers)
    assert all(each.flow.waits_at is None for each in group.brokers)


@on_jumping_loop
async def test_a_broker_that_goes_leaves_its_part_to_the_others(group: Group) -> None:
    await group.start(wanted=2000)
    await group.run(6)
    gone = group.brokers.pop()
    await gone.store.close()
    await group.run(6)
    assert await group.run(10) / 10 == pytest.approx(900, rel=0.05)


@on_jumping_loop
async def test_a_changed_group_holds_at_once(group: Group) -> None:
    await group.start(wanted=2000)
    await group.run(6)
    await group.refresh(publishRateInMsgs=300, publishRateInBytes=10**9)
    assert await group.run(10) / 10 == pytest.approx(300, rel=0.05)
    await group.refresh()
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
    said = await reported(store, "b9")
    assert said["messages"] == pytest.approx(100, rel=0.1)
    assert not said["waiting"]


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
async def test_the_rounds_go_on_when_one_of_two_groups_is_left(group: Group) -> None:
    await group.start(1)
    (broker,) = group.brokers
    await broker.groups.know("left")
    rounds = asyncio.ensure_future(broker.groups.run())
    await pass_time(1.5 * INTERVAL_S)
    assert broker.groups.names == ["g"]
    path = paths.group_usage("g", "b0")
    for _ in range(2):
        await broker.store.delete(path)
        await pass_time(INTERVAL_S)
        assert await broker.store.exists(path), "no round was made"
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
    assert (await reported(broker.store))["messages"] == pytest.approx(100, rel=0.05)


@on_jumping_loop
async def test_a_group_is_read_once_for_all_topics_of_a_broker(group: Group) -> None:
    await group.start(1)
    before = group.definitions.reads
    await group.brokers[0].groups.know("g")
    assert group.definitions.reads == before == 1


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


@on_jumping_loop
async def test_what_a_broker_reports_is_the_last_interval_and_written_when_it_changes(
    group: Group,
) -> None:
    await group.start()
    first = group.brokers[0]
    assert await reported(first.store) == {"messages": 0, "bytes": 0, "waiting": True}, "a newcomer"
    writes: list[str] = []
    first.store.subscribe(lambda it: writes.append(it.path) if it.path.endswith("/b0") else None)
    size = 0
    for wanted, waiting in ((0, False), (100, False), (2000, True), (50, False)):
        for each in group.brokers:
            each.wanted = wanted
        await group.run(6 * INTERVAL_S)
        said = await reported(first.store)
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


@on_jumping_loop
async def test_a_group_that_was_left_while_it_was_read_again_is_not_reported(group: Group) -> None:
    """Or the others would make room for it until it is seen to have gone."""
    await group.start()
    store = group.brokers[0].store
    limits = PublishLimits("b9", no_rates, clock_ns=now_ns)
    answers = asyncio.Event()
    answers.set()

    class Slow(Definitions):
        async def resource_group(self, name: str) -> Mapping[str, Any] | None:
            await answers.wait()
            return await super().resource_group(name)

    groups = ResourceGroupShares("b9", store, Slow(), limits, lambda: 1, now_ns)
    await groups.know("g")
    answers.clear()
    again = asyncio.create_task(groups.refresh("g"))
    await asyncio.sleep(0)
    await groups.round()
    made: list[str] = []
    store.subscribe(
        lambda each: made.append(each.path) if each.kind is NotificationKind.CREATED else None
    )
    answers.set()
    await again
    await pass_time(0.01)
    assert not groups.names
    assert paths.group_usage("g", "b9") not in made
