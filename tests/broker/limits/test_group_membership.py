"""Which brokers have a share of a resource group, whatever happens while they read and report it.

A state machine over two brokers that share a metadata store: topics of the group come and go, its
definition changes, rounds of sharing run, and for each broker a request to the store fails, or is
not answered, or its session ends. Any of these may happen while another is under way. Once the
store answers again and everything has ended, the brokers with topics share the whole rate, and no
other broker reports or limits anything.
"""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Coroutine, Mapping
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from counterpoise.broker.base import paths
from counterpoise.broker.limits.groups import ResourceGroupShares
from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.limits.rates import TopicRates
from counterpoise.metadata import MemoryTree, StoreUnavailable
from counterpoise.metadata.memory import MemoryStore
from counterpoise.metadata.port import Stored
from counterpoise.names.topic import TopicName
from tests.broker.limits.clients import FakeTopic
from tests.quota.jumping import JumpingLoop, now_ns, pass_time

REPORTS = paths.group_usages("g")
WHICH = st.integers(0, 1)
DEFINITION = st.sampled_from(
    [{"publishRateInMsgs": 900}, {"publishRateInMsgs": 300}, {"publishRateInMsgs": 0}, {}, None]
)
HANGING = precondition(lambda self: any(it.store.hangs for it in self.brokers))


class UnreliableStore:
    """A session of which a request fails when a test asks for it, and all wait while it hangs."""

    def __init__(self, session: MemoryStore) -> None:
        self.session = session
        self.hangs = False
        self.fails_after: int | None = None
        """How many more requests are answered before one fails; None: all are."""
        self._asked: deque[asyncio.Future[None]] = deque()
        self.subscribe, self.subscribe_session = session.subscribe, session.subscribe_session

    async def reach(self) -> MemoryStore:
        if self.hangs:
            self._asked.append(asyncio.get_running_loop().create_future())
            await self._asked[-1]
        if self.fails_after is not None:
            self.fails_after -= 1
            if self.fails_after < 0:
                self.fails_after = None
                raise StoreUnavailable("a request", "away")
        return self.session

    def answer(self, most: float = math.inf) -> None:
        while self._asked and most > 0:
            self._asked.popleft().set_result(None)
            most -= 1

    async def get(self, path: str) -> Stored | None:
        return await (await self.reach()).get(path)

    async def put(self, path: str, value: bytes, **options: Any) -> int:
        return await (await self.reach()).put(path, value, **options)

    async def delete(self, path: str, **options: Any) -> None:
        await (await self.reach()).delete(path, **options)

    async def children(self, path: str) -> list[str]:
        return await (await self.reach()).children(path)


class Broker:
    """The limits of one broker whose topics are all in group "g"."""

    def __init__(self, name: str, tree: MemoryTree, definition: dict[str, Any]) -> None:
        self.name = name
        self.store = UnreliableStore(tree.open())
        self.limits = PublishLimits(name, self._rates_of, clock_ns=now_ns)
        self.groups = ResourceGroupShares(name, self.store, self, self.limits, lambda: 1.0, now_ns)
        self._definition = definition

    async def resource_group(self, name: str) -> Mapping[str, Any] | None:
        await self.store.reach()
        found: Mapping[str, Any] | None = self._definition[name]
        return found

    async def _rates_of(self, topic: TopicName) -> TopicRates:
        await self.groups.know("g")
        return TopicRates(resource_group="g")

    @property
    def share(self) -> float:
        limit = self.limits.group("g")
        return 0.0 if limit is None or not limit.active else limit.messages.rate


class Membership(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = JumpingLoop()
        self.tree = MemoryTree()
        self.definition: dict[str, Any] = {"g": {"publishRateInMsgs": 900}}
        self.under_way: list[asyncio.Task[None]] = []
        self.rounds: dict[int, asyncio.Task[None]] = {}
        """The last round of each; a broker begins none before the last one is over."""
        self.topics = 0
        self.brokers: list[Broker] = []
        self.wait(self._make())

    async def _make(self) -> None:
        self.brokers = [Broker(name, self.tree, self.definition) for name in ("b0", "b1")]

    def wait(self, work: Coroutine[Any, Any, None]) -> None:
        self.loop.run_until_complete(work)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin it, and let it run until it waits for the store."""
        self.under_way.append(self.loop.create_task(work))
        self.wait(pass_time(0.01))
        return self.under_way[-1]

    @rule(which=WHICH)
    def load(self, which: int) -> None:
        self.topics += 1
        self.start(self.brokers[which].limits.begin(FakeTopic(str(self.topics))))

    @precondition(lambda self: any(list(it.limits.topics) for it in self.brokers))
    @rule(which=WHICH)
    def unload(self, which: int) -> None:
        limits = self.brokers[which].limits
        for topic in list(limits.topics)[:1]:
            limits.end(topic)

    @rule(definition=DEFINITION)
    def define(self, definition: dict[str, Any] | None) -> None:
        self.definition["g"] = definition
        for each in self.brokers:
            self.start(each.groups.refresh("g"))

    @rule(which=WHICH)
    def share(self, which: int) -> None:
        if self.rounds.get(which) is None or self.rounds[which].done():
            self.rounds[which] = self.start(self.brokers[which].groups.round())

    @rule(which=WHICH, after=st.integers(0, 3))
    def fail(self, which: int, after: int) -> None:
        self.brokers[which].store.fails_after = after

    @rule(which=WHICH)
    def hang(self, which: int) -> None:
        self.brokers[which].store.hangs = True

    @HANGING
    @rule(which=WHICH)
    def answer_one(self, which: int) -> None:
        self.brokers[which].store.answer(1)
        self.wait(pass_time(0.01))

    @HANGING
    @rule(which=WHICH)
    def come_back(self, which: int) -> None:
        store = self.brokers[which].store
        store.hangs = False
        store.answer()
        self.wait(pass_time(0.01))

    @rule(which=WHICH)
    def lose_session(self, which: int) -> None:
        self.wait(self._expired(self.brokers[which]))

    async def _expired(self, broker: Broker) -> None:
        broker.store.session.expire()

    @rule()
    def settle(self) -> None:
        for which in range(len(self.brokers)):
            self.come_back(which)
        for each in self.brokers:
            each.store.fails_after = None
        self.wait(self._settled())
        self.check()

    async def _settled(self) -> None:
        for each in self.under_way:
            with contextlib.suppress(StoreUnavailable):
                await each
        self.under_way.clear()
        for each in self.brokers:
            await each.groups.refresh("g")
        for _ in range(3):
            for each in self.brokers:
                await pass_time(1.0)
                await each.groups.round()

    def check(self) -> None:
        rate = (self.definition["g"] or {}).get("publishRateInMsgs", 0)
        serving = [each for each in self.brokers if list(each.limits.topics)]
        for each in self.brokers:
            assert each.groups.names == (["g"] if each in serving else [])
        reporting = self.loop.run_until_complete(self.brokers[0].store.children(REPORTS))
        assert reporting == ([each.name for each in serving] if rate else [])
        assert sum(each.share for each in serving) == pytest.approx(
            rate if serving else 0, abs=len(serving)
        )
        assert not any(each.share for each in self.brokers if each not in serving or not rate)

    def teardown(self) -> None:
        try:
            self.settle()
        finally:
            self.loop.close()


TestMembership = Membership.TestCase
TestMembership.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


def test_a_topic_that_is_loaded_while_a_round_runs_is_under_the_groups_limit() -> None:
    machine = Membership()
    machine.hang(0)
    machine.load(0)
    machine.share(0)
    machine.teardown()


def test_topics_that_are_loaded_together_are_under_the_groups_limit_if_one_read_fails() -> None:
    machine = Membership()
    machine.hang(0)
    machine.load(0)
    machine.load(0)
    machine.fail(0, 0)
    machine.teardown()
