"""Whatever a limit holds or pauses is let go, whatever happens to rates, producers, topics, wires.

The judge looks after every step: what is held waits at a limit that applies to it, with an alarm
set; a connection is paused only while something of it is held; and in the end, given time, all that
was sent by those who are still there has passed, in its order.
"""

import asyncio
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.broker.limits.rates import Rate, TopicRates
from tests.broker.limits.clients import Clients, FakeTopic, Publisher, Wired
from tests.quota.jumping import JumpingLoop

ENTRY = 100
RATES = st.builds(Rate, st.sampled_from([0, 0, 1, 5, 100]), st.sampled_from([0, 0, 500, 50_000]))
WHICH = st.integers(0, 5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), WHICH, st.integers(1, 8)),
        st.tuples(st.just("send"), WHICH, st.integers(1, 8)),
        st.tuples(st.just("wait"), st.sampled_from([1, 10, 300, 2000]), st.none()),
        st.tuples(st.just("topic rate"), WHICH, RATES),
        st.tuples(st.just("group"), WHICH, st.sampled_from([None, "g", "h"])),
        st.tuples(st.just("group rate"), st.sampled_from(["g", "h"]), RATES),
        st.tuples(st.just("broker rate"), st.none(), RATES),
        st.tuples(st.just("end"), WHICH, st.none()),
        st.tuples(st.just("come"), WHICH, WHICH),
        st.tuples(st.just("move"), WHICH, st.none()),
        st.tuples(st.just("cut"), WHICH, st.none()),
    ),
    max_size=40,
)


class Party:
    """Two topics, three connections, and who publishes."""

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        self.limits = clients.limits
        self.topics: list[FakeTopic] = []
        self.wires = [Wired(clients.memory, entries_max=6) for _ in range(3)]
        self.publishers: list[Publisher] = []

    async def run(self, steps: list[tuple[str, Any, Any]]) -> None:
        self.topics = [await self.clients.topic(name) for name in ("x", "y")]
        for number in range(3):
            self._come(number, number)
        for step in steps:
            await self._do(*step)
            for wire in self.wires:
                wire.read()
            self._judge()
        await self._drain()

    async def _do(self, what: str, which: Any, value: Any) -> None:
        rates = self.clients.rates
        if what == "send":
            for publisher in self._one(self.publishers, which):
                for _ in range(value):
                    publisher.send(1, ENTRY)
        elif what == "wait":
            await asyncio.sleep(which / 1000)
        elif what in ("topic rate", "group"):
            name = self.topics[which % 2].name
            rates[name] = (
                replace(rates[name], publish=value)
                if what == "topic rate"
                else TopicRates(rates[name].publish, value)
            )
            await self.limits.refresh(self.limits.topics)
        elif what == "group rate":
            self.limits.set_group_rate(which, value)
        elif what == "broker rate":
            self.limits.set_broker_rate(value)
        elif what == "end":
            for publisher in self._one(self.publishers, which):
                self._end(publisher)
        elif what == "come":
            self._come(which, value)
        elif what == "move":
            # The topic goes, and what comes back begins anew.
            topic = self.topics[which % 2]
            for publisher in [each for each in self.publishers if each.topic is topic]:
                self._end(publisher)
            self.limits.end(topic)
            await self.limits.begin(topic)
        else:
            self._cut(which % 3)

    @staticmethod
    def _one(among: list[Publisher], which: int) -> list[Publisher]:
        return [among[which % len(among)]] if among else []

    def _come(self, which: int, wire: int) -> None:
        self.publishers.append(
            Publisher(self.clients, self.topics[which % 2], self.wires[wire % 3], "p")
        )

    def _end(self, publisher: Publisher) -> None:
        publisher.close()
        self.publishers.remove(publisher)

    def _cut(self, number: int) -> None:
        wire = self.wires[number]
        wire.transport.closing = True
        for publisher in [each for each in self.publishers if each.sink is wire]:
            self._end(publisher)
        assert wire.held_entries == 0, "a connection that is gone takes memory"
        self.wires[number] = Wired(self.clients.memory, entries_max=6)

    def _judge(self) -> None:
        for wire in self.wires:
            flows = [each.flow for each in self.publishers if each.sink is wire and each.flow]
            assert wire.held_entries == sum(len(flow.held) for flow in flows)
            assert wire.transport.reading or wire.held_entries, "paused for no reason"
            for flow in flows:
                at = flow.waits_at
                assert (at is not None) is bool(flow.held)
                if at is not None:
                    assert at in flow.limits
                    assert at.active
                    assert at in self.limits._timers, "nobody will let it go"
        assert self.clients.memory.size == sum(wire.held_entries for wire in self.wires) * ENTRY

    async def _drain(self) -> None:
        for _ in range(500):
            await asyncio.sleep(1)
            for wire in self.wires:
                wire.read()
            self._judge()
            if not any(each.outstanding for each in self.publishers):
                break
        for each in self.publishers:
            assert each.passed == list(range(each.sent)), "somebody waits for ever"
        await asyncio.sleep(1)
        assert not self.limits._timers, "an alarm for nobody"
        assert self.clients.memory.size == 0
        assert all(wire.transport.reading for wire in self.wires)
        self.limits.stop()


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_whatever_is_held_or_paused_is_let_go(steps: list[tuple[str, Any, Any]]) -> None:
    loop = JumpingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(Party(Clients(loop, memory=600)).run(steps))
