"""What a limit throttles is released, whatever happens to rates, clients, topics and connections.

A state machine over two brokers that share a metadata store: policies of the namespace, topics and
subscriptions, resource groups and dynamic configuration change; producers and subscriptions come
and go; topics move to the other broker; connections are cut. After every step nothing waits without
a reason or longer than it has to. In the end, given time, all that producers have sent has passed,
in its order, and every subscription has been delivered its topic's entries.

Brokers' limits and what they read from the store are real; topics, producers and subscriptions are
the few lines below, and time is that of a `JumpingLoop`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.connection.throttled import ThrottledMemory
from counterpoise.broker.limits.options import RateOptions
from counterpoise.broker.limits.policies import LimitPolicies
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.metadata import MemoryTree, open_store
from counterpoise.names.namespace import NamespaceName
from counterpoise.quota import LimitedFlow, RateLimit
from tests.broker.limits.clients import FakeTopic, Publisher, Wired
from tests.quota.jumping import JumpingLoop, pass_time

CLUSTER = "standalone"
NAMESPACE = NamespaceName.parse("t/n")
ENTRY = 100
SLACK_NS = 2_000_000
"""A timer may be so much later than its reason: none is set for less than a millisecond."""

WHICH = st.integers(0, 5)
RATE = st.sampled_from([0, 3, 3, 20, 500])
SIZE = st.sampled_from([0, 0, 400, 50_000])
USE = st.sampled_from(["publish", "dispatch"])
DYNAMIC = st.sampled_from(
    [
        "topic_publish_messages",
        "broker_publish_messages",
        "topic_dispatch_messages",
        "subscription_dispatch_messages",
        "broker_dispatch_messages",
    ]
)


class Broker:
    """The limits of one broker; a `clients.Publisher` publishes there."""

    def __init__(self, name: str, loop: JumpingLoop) -> None:
        self.name = name
        self._loop = loop
        self.options = RateOptions()
        self.background = BackgroundTasks()

    async def start(self, tree: MemoryTree) -> None:
        store = await open_store("memory:", tree=tree, session_timeout_s=30)
        self.policies = Policies(store)
        self.rates = LimitPolicies(
            self.name, CLUSTER, store, self.policies, lambda: self.options, clock_ns=self.now
        )
        self.limits = self.rates.publish
        self.rates.start(self.background)

    def now(self) -> int:
        return self._loop.jumping.now_ns

    def flows(self) -> list[LimitedFlow]:
        producers = [
            each.flow for topic in self.limits.topics for each in topic.attached_producers()
        ]
        return [flow for flow in producers if flow is not None]


class Topic(FakeTopic):
    """A topic that delivers what it takes to its subscriptions, as far as their budgets go."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.taken = 0
        self.subscriptions: list[Subscription] = []

    def accepted(self) -> None:
        self.taken += 1
        for each in self.subscriptions:
            each.dispatch()


class Subscription:
    """Delivers whatever it may, from the topic's first entry on."""

    def __init__(self, broker: Broker, topic: Topic, name: str) -> None:
        self.topic, self.name, self.delivered = topic, name, 0
        topic.subscriptions.append(self)
        self.join(broker)

    def join(self, broker: Broker) -> None:
        self.broker, self.is_open = broker, True
        self.flow = broker.limits.dispatch.join(self.topic.name, self.name, self)
        self.dispatch()

    def leave(self) -> None:
        self.broker.limits.dispatch.leave(self.topic.name, self.flow)
        assert self.flow.waits_at is None
        self.is_open = False

    @property
    def behind(self) -> int:
        return self.topic.taken - self.delivered

    def dispatch(self) -> None:
        while self.behind and self.is_open:
            messages, size = self.flow.budget()
            if messages <= 0 or size <= 0:
                assert self.flow.waits_at is not None, "nothing to deliver on, and no turn follows"
                return
            count = min(self.behind, messages, 1 + size // ENTRY)
            self.delivered += count
            self.flow.took(count, count, count * ENTRY)


class TopicPublisher(Publisher):
    """A producer that keeps what it sent, for the broker that gets its topic."""

    topic: Topic

    def accepted(self, number: int, messages: int, size: int) -> None:
        super().accepted(number, messages, size)
        self.topic.accepted()

    def move(self, broker: Broker) -> None:
        """What has no receipt is sent again."""
        self.broker, self.closed = broker, False  # type: ignore[assignment]
        self.sink.unread.extend(
            (self, number, 1, ENTRY) for number in range(len(self.passed), self.sent)
        )


class LimitsMachine(RuleBasedStateMachine):
    """Two brokers, two topics, three connections."""

    def __init__(self) -> None:
        super().__init__()
        self.level = logging.getLogger("counterpoise").level
        logging.getLogger("counterpoise").setLevel(logging.ERROR)
        self.loop = JumpingLoop()
        self.runner = asyncio.Runner(loop_factory=lambda: self.loop)
        self.memory = ThrottledMemory(3000)
        self.publishers: list[TopicPublisher] = []

    def run(self, work: Awaitable[Any]) -> None:
        async def soon() -> None:
            await work
            await pass_time(0.001)
            for wire in self.wires:
                wire.read()

        self.runner.run(soon())

    def do(self, work: Callable[[], object]) -> None:
        async def call() -> None:
            work()

        self.run(call())

    @initialize(level=st.sampled_from(["namespace", "group", "broker", "none"]))
    def start(self, level: str) -> None:
        self.runner.run(self._start(level))

    async def _start(self, level: str) -> None:
        tree = MemoryTree()
        self.brokers = [Broker(name, self.loop) for name in ("a", "b")]
        for broker in self.brokers:
            await broker.start(tree)
        self.policies = self.brokers[0].policies
        await self.policies.shared_policies(NAMESPACE).create({"bundles": {"numBundles": 4}})
        self.wires = [Wired(self.memory, entries_max=6) for _ in range(3)]
        self.topics = [Topic(name) for name in ("x", "y")]
        self.owners = dict.fromkeys(self.topics, self.brokers[0])
        # Most of what follows happens to flows that wait already, at one level or another.
        if level == "namespace":
            await self._namespace("publish", 3, 0)
            await self._namespace("dispatch", 3, 0)
        elif level == "group":
            await self._group_rate("g", 3, 3)
            await self._set_namespace(resource_group_name="g")
        elif level == "broker":
            for broker in self.brokers:
                self._dynamic(broker, broker_publish_messages=3, broker_dispatch_messages=3)
        for number, topic in enumerate(self.topics):
            await self.owners[topic].limits.begin(topic)
            for name in ("s0", "s1"):
                Subscription(self.owners[topic], topic, name)
            self._produce(number, number)
        self._produce(0, 2)

    def _produce(self, which: int, wire: int) -> None:
        topic = self.topics[which % 2]
        publisher = TopicPublisher(self.owners[topic], topic, self.wires[wire % 3], "p")  # type: ignore[arg-type]
        self.publishers.append(publisher)

    # Clients.

    @rule(which=WHICH, count=st.integers(1, 20))
    def send(self, which: int, count: int) -> None:
        for publisher in _one(self.publishers, which):
            for _ in range(count):
                publisher.send(1, ENTRY)
        self.wait(0)

    @rule(milliseconds=st.sampled_from([1, 20, 400, 3000]))
    def wait(self, milliseconds: int) -> None:
        self.run(pass_time(milliseconds / 1000))

    @precondition(lambda self: len(self.publishers) < 8)
    @rule(which=WHICH, wire=WHICH)
    def produce(self, which: int, wire: int) -> None:
        self.do(lambda: self._produce(which, wire))

    @rule(which=WHICH)
    def end_producer(self, which: int) -> None:
        self.do(lambda: [self._end(each) for each in _one(self.publishers, which)])

    def _end(self, publisher: TopicPublisher) -> None:
        wire = publisher.sink
        wire.unread = type(wire.unread)(each for each in wire.unread if each[0] is not publisher)
        publisher.close()
        self.publishers.remove(publisher)

    @rule(which=st.integers(0, 2))
    def cut(self, which: int) -> None:
        self.do(lambda: self._cut(which))

    def _cut(self, which: int) -> None:
        wire = self.wires[which]
        wire.transport.closing = True
        for publisher in [each for each in self.publishers if each.sink is wire]:
            self._end(publisher)
        assert wire.held_entries == 0, "a connection that is gone takes memory"
        self.wires[which] = Wired(self.memory, entries_max=6)

    @rule(which=WHICH)
    def subscribe_again(self, which: int) -> None:
        topic = self.topics[which % 2]
        (each,) = _one(topic.subscriptions, which // 2)
        self.do(each.leave)
        self.do(lambda: each.join(self.owners[topic]))

    @rule(which=WHICH)
    def move(self, which: int) -> None:
        self.run(self._move(self.topics[which % 2]))

    async def _move(self, topic: Topic) -> None:
        former = self.owners[topic]
        publishers = [each for each in self.publishers if each.topic is topic]
        for publisher in publishers:
            wire = publisher.sink
            wire.unread = type(wire.unread)(it for it in wire.unread if it[0] is not publisher)
            former.limits.detach(topic, publisher)
        for each in topic.subscriptions:
            each.leave()
        former.limits.end(topic)
        owner = self.owners[topic] = next(each for each in self.brokers if each is not former)
        await owner.limits.begin(topic)
        for each in topic.subscriptions:
            each.join(owner)
        for publisher in publishers:
            publisher.move(owner)
            owner.limits.attach(topic, publisher)

    # Rates.

    @rule(use=USE, messages=RATE, size=SIZE)
    def set_namespace_rate(self, use: str, messages: int, size: int) -> None:
        self.run(self._namespace(use, messages, size))

    async def _namespace(self, use: str, messages: int, size: int) -> None:
        name = {"publish": "publishMaxMessageRate", "dispatch": "topicDispatchRate"}[use]
        await self._set_namespace(**{name: {CLUSTER: _policy(use, messages, size)}})

    async def _set_namespace(self, **changed: Any) -> None:
        await self.policies.shared_policies(NAMESPACE).change(lambda now: {**now, **changed})

    @rule(which=WHICH, use=USE, messages=RATE, size=SIZE)
    def set_topic_rate(self, which: int, use: str, messages: int, size: int) -> None:
        self._set_topic(which, **{f"{use}Rate": _policy(use, messages, size)})

    @rule(which=WHICH, messages=RATE)
    def set_subscription_rate(self, which: int, messages: int) -> None:
        rate = {"dispatchRate": _policy("dispatch", messages, 0)}
        self._set_topic(which, subscriptionPolicies={"s1": rate})

    def _set_topic(self, which: int, **changed: Any) -> None:
        name = self.topics[which % 2].name
        own = self.policies.topic_policies(name)
        self.run(own.change(lambda now: {**now, **changed}, create=True))

    @rule(group=st.sampled_from([None, "g", "h"]))
    def set_group(self, group: str | None) -> None:
        self.run(self._set_namespace(resource_group_name=group))

    @rule(group=st.sampled_from(["g", "h"]), publish=RATE, dispatch=RATE)
    def set_group_rate(self, group: str, publish: int, dispatch: int) -> None:
        self.run(self._group_rate(group, publish, dispatch))

    async def _group_rate(self, group: str, publish: int, dispatch: int) -> None:
        rates = {"publishRateInMsgs": publish or -1, "dispatchRateInMsgs": dispatch or -1}
        await self.policies.resource_group_node(group).change(
            lambda now: {**now, **rates}, create=True
        )

    @rule(which=WHICH, name=DYNAMIC, rate=RATE)
    def set_dynamic(self, which: int, name: str, rate: int) -> None:
        self._dynamic(self.brokers[which % 2], **{name: rate})
        self.wait(1)

    def _dynamic(self, broker: Broker, **changed: int) -> None:
        broker.options = replace(broker.options, **changed)
        broker.rates.settings_changed()

    # The judge.

    @invariant()
    def nothing_waits_without_reason(self) -> None:
        if not hasattr(self, "owners"):
            return
        for wire in self.wires:
            flows = [each.flow for each in self.publishers if each.sink is wire and each.flow]
            throttled = sum(len(flow.entries) for flow in flows)
            assert wire.held_entries == throttled, "throttled entries are not what is counted"
            assert wire.transport.reading or throttled, "a connection is paused for no reason"
        assert self.memory.size == sum(wire.held_entries for wire in self.wires) * ENTRY
        for broker in self.brokers:
            subscriptions = [it for topic in self.topics for it in topic.subscriptions]
            dispatch = [each.flow for each in subscriptions if each.broker is broker]
            self._judge(broker, [*broker.flows(), *dispatch])
        for each in subscriptions:
            assert each.flow.waits_at is not None or not each.behind, "it could deliver"

    def _judge(self, broker: Broker, flows: list[LimitedFlow]) -> None:
        limits: set[RateLimit] = {*broker.limits.all(), *broker.limits.dispatch.all()}
        for flow in flows:
            limits.update(flow.limits)
            at = flow.waits_at
            assert at is None or (at in flow.limits and at.active and flow in at.waiting)
            assert (flow.throttled_since is None) == (at is None)
        now = broker.now()
        for limit in limits:
            assert set(limit.waiting) <= set(flows), "a flow that is gone waits"
            assert all(flow.waits_at is limit for flow in limit.waiting), "it waits twice"
            assert (limit.resume_at is not None) is bool(limit.waiting)
            if limit.resume_at is not None:
                assert limit.resume_at >= now - SLACK_NS, "its turns were not given"
                late = limit.resume_at - now - limit.wait_ns(now)
                assert late <= SLACK_NS, "it waits longer than it has to"
        assert self.loop.timers_of("LimitRunner._release") >= sum(bool(it.waiting) for it in limits)

    def teardown(self) -> None:
        try:
            if hasattr(self, "owners"):
                self.runner.run(self._drain())
        finally:
            self.runner.close()
            logging.getLogger("counterpoise").setLevel(self.level)

    async def _drain(self) -> None:
        for _ in range(500):
            await pass_time(5)
            for wire in self.wires:
                wire.read()
            self.nothing_waits_without_reason()
            subscriptions = [each for topic in self.topics for each in topic.subscriptions]
            if not any(it.outstanding for it in self.publishers) and not any(
                it.behind for it in subscriptions
            ):
                break
        else:
            raise AssertionError("a flow waits for ever")
        for each in self.publishers:
            assert each.passed == list(range(each.sent))
        await pass_time(1)
        assert self.loop.timers_of("LimitRunner._release") == 0, "a timer for no flow"
        assert self.memory.size == 0
        for broker in self.brokers:
            broker.rates.stop()
            assert not broker.background.failures
            await broker.background.stop()


def _one(among: list[Any], which: int) -> list[Any]:
    return [among[which % len(among)]] if among else []


def _policy(use: str, messages: int, size: int) -> dict[str, int]:
    return {
        f"{use}ThrottlingRateInMsg": messages or -1,
        f"{use}ThrottlingRateInByte": size or -1,
        **({"ratePeriodInSecond": 1} if use == "dispatch" else {}),
    }


LimitsMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
TestLimits = LimitsMachine.TestCase
