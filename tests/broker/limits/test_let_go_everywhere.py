"""Whatever a limit holds or pauses is let go, whatever happens in a cluster.

Random sequences of rates (policies of the namespace, of a topic, of a subscription, resource
groups, dynamic configuration), producers and consumers that come and go, topics that are handed
over, connections that are cut. After every step a judge looks for anything that waits for no
reason, or whose alarm comes later than its reason ends; and in the end all that was sent has been
stored, in its order, and delivered to every subscription.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.broker.limits.dispatch_limit import TIMER_S, DispatchLimit
from counterpoise.quota import SECOND_NS, PublishLimit
from tests.broker.limits.town import CLUSTER, NAMESPACE, Broker, Reader, Town, Writer
from tests.quota.jumping import JumpingLoop

SLACK_NS = 2_000_000
"""An alarm may be so much later than it has to be: no timer is set for less."""
WHICH = st.integers(0, 7)
RATE = st.sampled_from([0, 3, 3, 20, 500])
SIZE = st.sampled_from([0, 0, 400, 400, 50_000])
SUBSCRIPTIONS = ("s0", "s1", "s2", "s3")
"""One of each type."""
DYNAMIC = {
    "topic_publish_messages": RATE,
    "broker_publish_messages": RATE,
    "broker_publish_bytes": SIZE,
    "topic_dispatch_messages": RATE,
    "subscription_dispatch_bytes": SIZE,
    "broker_dispatch_messages": RATE,
}
BEGINNINGS: list[list[tuple[Any, ...]]] = [
    [("namespace", "publish", 3, 0), ("namespace", "dispatch", 3, 0)],
    [("group rate", "g", 3, 3), ("group", "g")],
    [
        ("dynamic", n, f"broker_{use}_messages", 3)
        for n in (0, 1)
        for use in ("publish", "dispatch")
    ],
    [("dynamic", n, f"topic_{use}_messages", 3) for n in (0, 1) for use in ("publish", "dispatch")],
]
"""Most of what follows happens to those who wait already, at one level or another."""
FURTHER = st.lists(
    st.one_of(
        *[st.tuples(st.just("send"), WHICH, st.integers(3, 20), st.sampled_from([1, 1, 5]))] * 6,
        st.tuples(st.just("wait"), st.sampled_from([1, 20, 400, 3000])),
        st.tuples(st.just("namespace"), st.sampled_from(["publish", "dispatch"]), RATE, SIZE),
        *[st.tuples(st.just("topic"), WHICH, st.sampled_from(["publish", "dispatch"]), RATE, SIZE)]
        * 2,
        st.tuples(st.just("subscription"), WHICH, RATE),
        st.tuples(st.just("group"), st.sampled_from([None, "g", "h"])),
        st.tuples(st.just("group rate"), st.sampled_from(["g", "h"]), RATE, RATE),
        st.one_of(
            *(st.tuples(st.just("dynamic"), WHICH, st.just(k), v) for k, v in DYNAMIC.items())
        ),
        st.tuples(st.just("writer comes"), WHICH, WHICH),
        st.tuples(st.just("writer ends"), WHICH),
        st.tuples(st.just("reader comes"), WHICH, WHICH, st.sampled_from(SUBSCRIPTIONS)),
        st.tuples(st.just("reader ends"), WHICH),
        st.tuples(st.just("move"), WHICH),
        st.tuples(st.just("move"), WHICH),
        st.tuples(st.just("unload"), WHICH),
        st.tuples(st.just("cut"), WHICH),
    ),
    min_size=20,
    max_size=45,
)

STEPS = st.builds(lambda begins, goes_on: begins + goes_on, st.sampled_from(BEGINNINGS), FURTHER)


class Story:
    """A town, what happens to it, and the judge."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self._moves: list[asyncio.Task[None]] = []

    async def run(self, steps: list[tuple[Any, ...]]) -> None:
        town = self.town
        await town.start()
        for number in range(3):
            self._writer(number, number)
        # Each subscription is there from the beginning, and owed everything.
        for number, subscription in enumerate(SUBSCRIPTIONS):
            for which in (0, 1):
                self._reader(which, number, subscription)
        await asyncio.sleep(0.5)
        for what, *how in steps:
            await self._do(what, *how)
            await asyncio.sleep(0.001)
            self.judge()
        await asyncio.gather(*self._moves)
        await self._drain()
        await town.stop()

    def _writer(self, which: int, place: int) -> None:
        writer = Writer(self.town, self.town.names[which % 2], place % 3)
        self.town.writers.append(writer)
        self.town.connect(writer)

    def _reader(self, which: int, place: int, subscription: str) -> None:
        reader = Reader(self.town, self.town.names[which % 2], place % 3, subscription)
        self.town.readers.append(reader)
        self.town.connect(reader)

    async def _do(self, what: str, *how: Any) -> None:
        if what == "wait":
            await asyncio.sleep(how[0] / 1000)
        elif what in ("move", "unload", "cut"):
            await self._disturb(what, how[0])
        elif what in ("send", "writer comes", "reader comes", "writer ends", "reader ends"):
            self._client(what, *how)
        else:
            await self._set(what, *how)

    def _client(self, what: str, *how: Any) -> None:
        town = self.town
        if what == "send":
            for writer in _one(town.writers, how[0]):
                writer.send(*how[1:])
        elif what == "writer comes":
            self._writer(*how)
        elif what == "reader comes":
            self._reader(*how)
        else:
            for clients in (town.writers if what == "writer ends" else town.readers,):
                for client in _one(clients, how[0]):  # type: ignore[arg-type]
                    clients.remove(client)
                    client.end()

    async def _disturb(self, what: str, which: int) -> None:
        town = self.town
        name = town.names[which % 2]
        if what == "move":
            self._moves.append(asyncio.ensure_future(town.move(name)))
        elif what == "unload":
            for broker in town.brokers:
                if broker.ownership.owns(name):
                    await broker.topics.unload_topic(name)
        else:
            for wire in _one(list(town.wires.values()), which):
                if not wire.transport.closing:
                    wire.cut()

    async def _set(self, what: str, *how: Any) -> None:
        town = self.town
        # The other broker hears of it from the store.
        policies = town.brokers[0].policies
        if what == "dynamic":
            town.brokers[how[0] % 2].set_options(**{how[1]: how[2]})
        elif what == "group rate":
            rates = {"publishRateInMsgs": how[1] or -1, "dispatchRateInMsgs": how[2] or -1}
            await policies.update_resource_group(how[0], rates)
        elif what == "group":
            named = {"resource_group_name": how[0]}
            await policies.update_namespace(NAMESPACE, lambda now: {**now, **named})
        elif what == "namespace":
            name = {"publish": "publishMaxMessageRate", "dispatch": "topicDispatchRate"}[how[0]]
            rate = {CLUSTER: _policy(*how)}
            await policies.update_namespace(NAMESPACE, lambda now: {**now, name: rate})
        elif what == "topic":
            topic, use = town.names[how[0] % 2], how[1]
            own = {f"{use}Rate": _policy(*how[1:])}
            await policies.update_topic_policies(topic, lambda now: {**now, **own})
        else:
            each = {f"s{how[0] % 4}": {"dispatchRate": _policy("dispatch", how[1], 0)}}
            await policies.update_topic_policies(
                town.names[how[0] % 2], lambda now: {**now, "subscriptionPolicies": each}
            )

    # The judge.

    def judge(self) -> None:
        for broker in self.town.brokers:
            self._judge_publishing(broker)
            self._judge_delivery(broker)
        for wire in self.town.wires.values():
            flows = [each.producer.flow for each in wire.writers.values() if each.producer]
            held = sum(len(flow.held) for flow in flows if flow is not None)
            assert wire.holds.entries == held, "what is held is not what is counted"
            assert wire.transport.closing or wire.transport.reading or held, "paused for no reason"

    def _judge_publishing(self, broker: Broker) -> None:
        publish = broker.limits.publish
        now = self.town.now()
        flows = {
            producer.flow
            for topic in publish.topics
            for producer in topic.attached_producers()
            if producer.flow is not None
        }
        for topic in publish.topics:
            for producer in topic.attached_producers():
                applied = producer.flow.limits if producer.flow is not None else ()
                assert applied == publish._limits_of(topic), "a limit does not apply, or still does"
        for flow in flows:
            at = flow.waits_at
            assert (at is not None) is bool(flow.held), "held, and waiting for nothing"
            assert at is None or (at in flow.limits and at.active and flow in at.waiting)
        limits: set[PublishLimit] = {it for flow in flows for it in flow.limits}
        limits.update(publish.all())
        for limit in limits | set(publish._timers):
            assert set(limit.waiting) <= flows, "somebody who is gone waits"
            assert all(flow.waits_at is limit for flow in limit.waiting), "it waits twice"
            timer = publish._timers.get(limit)
            assert (timer is not None) is bool(limit.waiting), "nobody will let it go"
            if timer is not None:
                late = timer.when() * SECOND_NS - now - limit.wait_ns(now)
                assert late <= SLACK_NS, "it waits longer than it has to"

    def _judge_delivery(self, broker: Broker) -> None:
        dispatch = broker.limits.publish.dispatch
        now = self.town.now()
        gates = {gate for gates in dispatch._gates.values() for gate in gates}
        limits: set[DispatchLimit] = {it for gate in gates for it in gate.limits}
        limits.update(dispatch.all())
        for gate in gates:
            at = gate.waits_at
            assert at is None or (at in gate.limits and at.active and gate in at.waiting)
        for limit in limits:
            assert set(limit.waiting) <= gates, "somebody who is gone waits"
            assert all(gate.waits_at is limit for gate in limit.waiting), "it waits twice"
            assert (limit._timer is not None) is bool(limit.waiting), "nobody will let it go"
            if limit._timer is not None:
                waits = [it.wait_ns(now) for it in (limit.messages, limit.bytes) if it is not None]
                late = limit._timer.when() * SECOND_NS - now - max(waits)
                assert late <= TIMER_S * SECOND_NS + SLACK_NS, "it waits longer than it has to"

    async def _drain(self) -> None:
        town = self.town
        # Whoever has no reader any more gets one.
        for number, subscription in enumerate(SUBSCRIPTIONS):
            for which in (0, 1):
                self._reader(which, number, subscription)
        for _ in range(500):
            await asyncio.sleep(5)
            self.judge()
            if not self._missing():
                break
        assert not self._missing(), "somebody waits for ever"
        # What was taken beyond a limit is owed for a while.
        await asyncio.sleep(100)
        for broker in town.brokers:
            assert not broker.limits.publish._timers, "an alarm for nobody"
            assert all(it._timer is None for it in broker.limits.publish.dispatch.all())
            assert broker.memory.size == 0
            assert not broker.background.failures

    def _missing(self) -> list[str]:
        """Who waits for what."""
        town = self.town
        late = [f"writer {each.number}" for each in town.writers if each.unanswered]
        return late + [
            f"{subscription} of {name}"
            for name, stored in town.stored.items()
            for subscription in SUBSCRIPTIONS
            if not stored <= town.got.get((name, subscription), set())
        ]


def _one(among: list[Any], which: int) -> list[Any]:
    return [among[which % len(among)]] if among else []


def _policy(use: str, messages: int, size: int) -> dict[str, int]:
    return {
        f"{use}ThrottlingRateInMsg": messages or -1,
        f"{use}ThrottlingRateInByte": size or -1,
        **({"ratePeriodInSecond": 1} if use == "dispatch" else {}),
    }


def play(steps: list[tuple[Any, ...]]) -> None:
    loop = JumpingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(Story(Town(loop)).run(steps))


@contextlib.contextmanager
def _only_errors() -> Iterator[None]:
    """Of thousands of throttled producers nobody wants to read."""
    logger = logging.getLogger("counterpoise")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@given(STEPS)
@settings(max_examples=20, deadline=None)
def test_whatever_is_held_or_paused_is_let_go_whatever_happens(
    steps: list[tuple[Any, ...]],
) -> None:
    with _only_errors():
        play(steps)
