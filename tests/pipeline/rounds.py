"""What tests of rounds share: a balancer over a cluster that is its API, and what it saw."""

from collections.abc import Callable
from dataclasses import replace

import aiohttp

from counterpoise.decide.balancing.moves import MoveOutcome, Round
from counterpoise.decide.balancing.round import BalancingStrategy
from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.pipeline.balancer import Balancer
from counterpoise.pipeline.executor import Executor, ExecutorOptions
from counterpoise.pipeline.tables.journal import JournalWriter
from tests.decide.balancing.test_round import strategy
from tests.load.story import START, Loads, poll
from tests.pipeline.fake_cluster import FakeCluster

DO_IT = ExecutorOptions(execute=True, verify_within_s=60.0, failed_most=0)
SOON = replace(DO_IT, verify_within_s=1.0)
"""For moves that never end: a test waits so long for each."""


def loads(cluster: FakeCluster) -> dict[str, Loads | None]:
    return {
        broker.name: {b: s.msg_throughput_in for b, s in broker.report().last_stats.items()}
        for broker in cluster.brokers
    }


def seen_as(reported: dict[str, Loads | None], number: float) -> FoldState:
    return fold(FoldState.empty(), Batch.of(poll(number, reported)))


def seen(cluster: FakeCluster, number: int = 0) -> FoldState:
    return seen_as(loads(cluster), number)


class EndedMoves(list[MoveOutcome]):
    """Outcomes as an executor gives them, one after another."""

    async def keep(self, outcome: MoveOutcome) -> None:
        self.append(outcome)


class LogLines(list[str]):
    def __contains__(self, part: object) -> bool:
        return any(str(part) in sentence for sentence in self)


def balancer(
    http: aiohttp.ClientSession,
    history: JournalWriter,
    log: LogLines | None = None,
    options: ExecutorOptions = DO_IT,
    clock: Callable[[], int] = lambda: START + 1000,
    by: BalancingStrategy | None = None,
) -> Balancer:
    executor = Executor(http, clock, options)
    return Balancer(
        by or strategy(), history, executor, (LogLines() if log is None else log).append
    )


async def made_of(balancer: Balancer, state: FoldState) -> Round:
    """The round that it makes of a state, carried out."""
    made = await balancer.step(state)
    assert made is not None
    return made


def outcomes(history: JournalWriter, made: Round) -> list[MoveOutcome]:
    found = [history.outcome(move.id) for move in made.moves]
    assert None not in found
    return [outcome for outcome in found if outcome]
