"""One story, three ways: folded inline, on Spark and played in a backtest, decided identically.

The story is a backtest's: loads shift by the minute, and bundles are where its decisions put them.
What brokers would have reported of that is landed and decided on again, inline and on Spark.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import numpy as np
import pytest

from counterpoise.app.strategies import strategy_from
from counterpoise.decide.balancing.moves import Round
from counterpoise.decide.balancing.round import BalancingStrategy
from counterpoise.load.fold import Batch, FoldState, fold, merged
from counterpoise.load.measured import measured_of
from counterpoise.load.poll_rows import Fetched, poll_rows
from counterpoise.load.rates import Indices, Rates
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats, SystemResourceUsage
from counterpoise.load.rows import ReportRows
from counterpoise.load.usage import ResourceUsage
from counterpoise.names.properties import Properties
from counterpoise.pipeline.backtest import measure, simulate
from counterpoise.pipeline.balancer import Balancer
from counterpoise.pipeline.executor import Executor, ExecutorOptions
from tests.pipeline.backtest.test_simulate import FLOORS, START, Plain
from tests.pipeline.histories import journal_of
from tests.pipeline.test_spark import landed, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

STEPS, BROKERS, BUNDLES = 8, 3, 24


@dataclass
class Shifting(Plain):
    """Loads that are drawn again each minute, in hundreds: sums are exact in whatever order."""

    by_step: list[list[float]] = field(default_factory=list)

    def loads(self, step: int) -> Rates:
        through = np.array(self.by_step[step])
        return Rates(through / 100, through / 50, through, through * 2)


def story(seed: int) -> Shifting:
    rng = np.random.default_rng(seed)
    weight = rng.integers(1, 12, BUNDLES)
    by_step = [(100.0 * weight * rng.integers(1, 90, BUNDLES)).tolist() for _ in range(STEPS)]
    owners = [0] * (BUNDLES - 6) + [1] * 4 + [2] * 2
    return Shifting(by_step[0], owners, [[True] * BROKERS] * STEPS, by_step=by_step)


def by(name: str) -> BalancingStrategy:
    return strategy_from(
        Properties(FLOORS), shedder=name, placement="LeastUsage", decide_every_s=60, grace_s=120
    )


def played(
    trace: Shifting, name: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Round], list[Indices]]:
    """The rounds of a backtest, and who owned what at each step."""
    rounds: list[Round] = []
    owners: list[Indices] = []
    plan, step = BalancingStrategy.plan, measure.Measure.step

    def planning(self: BalancingStrategy, *given: Any) -> Round:
        rounds.append(plan(self, *given))
        return rounds[-1]

    def stepping(self: object, through: object, owned: Indices, *rest: object) -> None:
        owners.append(owned.copy())
        step(self, through, owned, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(BalancingStrategy, "plan", planning)
        patch.setattr(measure.Measure, "step", stepping)
        tried = simulate.BacktestCandidate(name, by(name))
        simulate.simulate(tried, trace, 0, STEPS, move_s=1.0, seed=1)
    return rounds, owners


def reported(trace: Shifting, step: int, owners: Indices) -> ReportRows:
    """What brokers would have said, as it is landed."""
    at_ms, loads, fetched = START + step * trace.step_ms, trace.loads(step), []
    for index, name in enumerate(trace.brokers):
        mine = np.flatnonzero(owners == index).tolist()
        stats = {
            trace.bundles[row]: NamespaceBundleStats(
                loads.rate_in.item(row), loads.throughput_in.item(row),
                loads.rate_out.item(row), loads.throughput_out.item(row), topics=3,
            )
            for row in mine
        }  # fmt: skip
        inward = sum(one.msg_throughput_in for one in stats.values())
        usage = SystemResourceUsage(
            cpu=ResourceUsage(5.0, 100.0),
            bandwidth_in=ResourceUsage(100 * inward / 1e6, 100.0),
            bandwidth_out=ResourceUsage(100 * 2 * inward / 1e6, 100.0),
        )
        report = measured_of(LocalBrokerData().updated(usage, stats, at_ms))
        fetched.append(Fetched(name, at_ms, report, True, at_ms))
    return poll_rows(at_ms, "", fetched)


@pytest.mark.parametrize("name", ["ThresholdShedder", "UniformLoadShedder"])
async def test_one_story_is_decided_identically_inline_on_spark_and_in_a_backtest(
    spark: "SparkSession",
    tmp_path: Path,
    http: aiohttp.ClientSession,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    trace = story(5)
    expected, owners = played(trace, name, monkeypatch)
    polls = [reported(trace, step, owned) for step, owned in enumerate(owners)]
    dry = Executor(http, lambda: START, ExecutorOptions(execute=False))

    inline, state = journal_of(tmp_path / "inline"), FoldState.empty()
    made_inline = []
    for rows in polls:
        state = fold(state, Batch.of(rows))
        made_inline.append(await Balancer(by(name), inline, dry, _quiet).step(merged([state])))
    history = journal_of(tmp_path / "rounds")
    landed(tmp_path / "reports", polls)
    made_on_spark = [
        await Balancer(by(name), history, dry, _quiet).step(merged(shards))
        for _, shards in stream(spark, tmp_path / "reports")
    ]
    assert made_on_spark == made_inline
    inline_rounds = [one for one in made_inline if one]
    assert [what(one) for one in inline_rounds] == [what(one) for one in expected]
    # The play knows a broker's usage; a report says it in percent, which rounds it.
    for one, other in zip(inline_rounds, expected, strict=True):
        assert figures(one) == pytest.approx(figures(other), rel=1e-6)
    assert sum(len(one.moves) for one in expected) >= 4, "or this story says nothing"
    assert len({one.poll_id for one in expected if one.moves}) >= 2


def what(made: Round) -> tuple[object, ...]:
    """What a round decided and refused, and by which rule."""
    moves = [
        (m.id, m.decision.bundle, m.source, m.destination, m.decision.reason) for m in made.moves
    ]
    return made.poll_id, moves, [(r.subject, r.rule, r.setting) for r in made.rejections]


def figures(made: Round) -> list[float]:
    """The figures of its sentences, in order."""
    moved = [x for m in made.moves for x in m.decision.figures.values() if isinstance(x, float)]
    return moved + [x for r in made.rejections for x in (r.value, r.limit)]


def _quiet(sentence: str) -> None:
    del sentence
