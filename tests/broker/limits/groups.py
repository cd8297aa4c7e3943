"""Brokers that share a resource group's limit, on one clock that jumps."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from counterpoise.broker.base import paths
from counterpoise.broker.limits.groups import ResourceGroupShares
from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.limits.rates import TopicRates
from counterpoise.broker.topic.producer import Producer
from counterpoise.metadata import MemoryTree, MetadataStore, open_store
from counterpoise.names.topic import TopicName
from counterpoise.quota import SECOND_NS
from counterpoise.storage.memory import MemoryLedgerStore
from tests.broker.topic.conftest import World, entry, publish
from tests.quota.jumping import now_ns, pass_time

INTERVAL_S = 2
STEP_NS = 10_000_000


class Definitions:
    def __init__(self) -> None:
        self.group: dict[str, Any] = {"publishRateInMsgs": 900}
        self.reads = 0

    async def resource_group(self, name: str) -> Mapping[str, Any] | None:
        self.reads += 1
        return self.group


class OfGroup:
    """One broker with a producer in the group; ``wanted`` messages a second are offered to it."""

    def __init__(self, name: str, store: MetadataStore, cluster: "Group") -> None:
        self.store = store
        self.cluster = cluster
        self.limits = PublishLimits(name, self._rates_of, clock_ns=now_ns)
        self.groups = ResourceGroupShares(
            name, store, cluster.definitions, self.limits, self._interval_s, now_ns
        )
        self.intervals = 0
        """How many rounds were waited for."""
        self.world = World(MemoryLedgerStore(), limits=self.limits)
        self.wanted = 0.0
        self._offered = 0.0
        self.producer: Producer
        self.wanted_out = 0.0
        """Messages a second that its subscription could deliver, and what it has delivered."""
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

    async def start(self, count: int = 3, *, wanted: float = 0.0) -> None:
        """So many brokers, each with a producer that wants so many messages a second."""
        tree = MemoryTree()
        for number in range(count):
            store = await open_store("memory:", tree=tree, session_timeout_s=30)
            self.brokers.append(OfGroup(f"b{number}", store, self))
            await self.brokers[-1].begin()
            self.brokers[-1].wanted = wanted

    async def refresh(self, **definition: int) -> None:
        """The group is another one from now on, and each broker has read so."""
        self.definitions.group = definition
        for each in self.brokers:
            await each.groups.refresh("g")

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


async def reported(store: MetadataStore, broker: str = "b0") -> dict[str, Any]:
    """What a broker says of its publishing."""
    said: dict[str, Any] = json.loads(await value_of(store, paths.group_usage("g", broker)))
    return said["publish"]


async def value_of(store: MetadataStore, path: str) -> bytes:
    found = await store.get(path)
    return found.value
