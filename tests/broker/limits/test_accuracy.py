"""How exact and how fair a limit is, and what a neighbour feels: on a clock that no load disturbs.

`make bench` measures the same with the official client; here the broker's own limits and pauses run
on a loop whose time jumps from one timer to the next.
"""

import asyncio
from dataclasses import dataclass

import pytest

from counterpoise.broker.limits.rates import Rate
from tests.broker.limits.clients import Clients, Publisher, Wired, busiest_second, jain
from tests.quota.jumping import JumpingLoop, pass_time

QUEUE = 1000
"""Messages that an official client has under way at most."""
STEP = 0.016
"""A resolution step, in seconds."""


@dataclass(frozen=True)
class Case:
    rate: Rate
    producers: int = 1
    shared: bool = False
    size: int = 143
    batch: int = 1
    seconds: int = 10

    def __str__(self) -> str:
        what = f"{self.rate.messages}-messages" if self.rate.messages else f"{self.rate.size}-bytes"
        return f"{what}-{self.producers}-{'shared' if self.shared else 'own'}"


CASES = [
    Case(Rate(messages=10), producers=2, seconds=20),
    Case(Rate(messages=100), producers=3, shared=True),
    Case(Rate(messages=1000), producers=4),
    Case(Rate(messages=1000), producers=4, shared=True),
    Case(Rate(messages=10_000), producers=2, shared=True, seconds=5),
    Case(Rate(messages=50_000), producers=2, batch=20, size=2100),
    Case(Rate(messages=50_000), producers=5, batch=20, size=2100, shared=True),
    Case(Rate(size=100_000), producers=3, size=1043),
    Case(Rate(size=10_000_000), producers=2, size=5043, shared=True),
    Case(Rate(messages=1000, size=50_000), producers=2, seconds=20),
]


@pytest.mark.parametrize(
    ("case", "level"),
    [*((each, "topic") for each in CASES), (CASES[3], "group"), (CASES[6], "broker")],
    ids=str,
)
def test_a_limit_is_exact_and_fair_and_costs_no_neighbour(case: Case, level: str) -> None:
    loop = JumpingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(_run(Clients(loop), case, level))


async def _run(clients: Clients, case: Case, level: str) -> None:
    topic = await clients.topic("busy", case.rate if level == "topic" else None, "g")
    if level == "group":
        clients.limits.set_group_rate("g", case.rate)
    wires = [Wired(clients.memory) for _ in range(1 if case.shared else case.producers)]
    busy = [
        Publisher(clients, topic, wires[n % len(wires)], f"p{n}") for n in range(case.producers)
    ]
    # The neighbours have limits too, and keep to them; one shares a connection.
    quiet = await clients.topic("quiet", Rate(messages=200))
    wires.append(Wired(clients.memory))
    neighbours = [Publisher(clients, quiet, wire, "n") for wire in (wires[0], wires[-1])]
    if level == "broker":
        clients.limits.set_broker_rate(case.rate)
        neighbours = []
    for millisecond in range(1000 * case.seconds):
        # Once what the others had at the beginning has come over the wire.
        if millisecond >= 1000 and millisecond % 20 == 0:
            for each in neighbours:
                each.send(1, 143)
        while any(each.outstanding * case.batch < QUEUE for each in busy):
            for each in busy:
                if each.outstanding * case.batch < QUEUE:
                    each.send(case.batch, case.size)
        for wire in wires:
            wire.read()
        await pass_time(0.001)
    clients.limits.stop()
    for passed, rate, entry in (
        (topic.messages, case.rate.messages, case.batch),
        (topic.bytes, case.rate.size, case.size),
    ):
        if rate:
            most = busiest_second(passed, case.seconds)
            assert most <= rate * (1 + STEP) + 2 * entry
    used = [
        sum(passed.values()) / (rate * case.seconds)
        for passed, rate in ((topic.messages, case.rate.messages), (topic.bytes, case.rate.size))
        if rate
    ]
    assert max(used) == pytest.approx(1, abs=0.01)
    assert jain([len(each.passed) for each in busy]) >= 0.95
    for each in neighbours:
        assert len(each.passed) == (case.seconds - 1) * 50
        assert each.late_ns == 0
