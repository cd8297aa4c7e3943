"""A broker alone in a resource group: reads, reports and withdrawals while something changes."""

import asyncio
import json
from collections.abc import Coroutine, Mapping
from typing import Any

import pytest

from counterpoise.broker.base import paths
from counterpoise.broker.limits.groups import ResourceGroupShares
from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.limits.rates import no_rates
from counterpoise.metadata import MemoryTree, StoreUnavailable
from counterpoise.metadata.memory import MemoryStore
from tests.broker.limits.groups import reported, value_of
from tests.quota.jumping import now_ns, on_jumping_loop, pass_time


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
        rates = {"publishRateInMsgs": 900, "dispatchRateInMsgs": 800}
        self.definition: dict[str, Any] | None = rates
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
    assert (await reported(alone.store, "b9"))["waiting"] is True
    report = {"messages": 10, "bytes": 10, "waiting": False}
    text = json.dumps({"publish": report, "dispatch": report}).encode()
    await alone.store.put(path, text)
    await pass_time(0.1)
    await alone.groups.refresh("g")
    assert await value_of(alone.store, path) == text


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
