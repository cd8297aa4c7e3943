"""How long a backtest takes: a day of 100 brokers and 10,000 bundles under eight strategies."""

import time
from pathlib import Path

from tests.pipeline.spark_cluster import standalone_spark

from bench.figures import Figure
from counterpoise.app.strategies import strategy_from
from counterpoise.names.properties import Properties
from counterpoise.pipeline.backtest.run import Task, replay_on_spark, tasks_of
from counterpoise.pipeline.backtest.simulate import BacktestCandidate, simulate
from counterpoise.pipeline.backtest.synthetic import SyntheticTrace
from counterpoise.pipeline.stream.session import start_session, stop_spark

BAR_S = 30.0
SHEDDERS = ("ThresholdShedder", "OverloadShedder", "UniformLoadShedder", "AvgShedder")
PLACEMENTS = ("LeastUsage", "LeastLongTermMessageRate")
QUICK_HOURS, CLUSTER_HOURS = 0.25, 6.0


def run(*, quick: bool, out: Path) -> list[Figure]:
    hours = QUICK_HOURS if quick else 24.0
    trace = SyntheticTrace("diurnal", hours=hours)
    candidates = [
        BacktestCandidate(
            f"{shedder}/{placement}",
            strategy_from(Properties({}), shedder=shedder, placement=placement),
        )
        for shedder in SHEDDERS
        for placement in PLACEMENTS
    ]
    began = time.perf_counter()
    simulate(candidates[0], trace, 0, 30, move_s=1.0, seed=1)
    step_s = (time.perf_counter() - began) / 30
    tasks = tasks_of(candidates, trace, parts=1, move_s=1.0, seed=1)
    took = _on_spark("local[2]", {}, tasks)
    print(f"   on two cores: {took:.1f} s", flush=True)
    note = f"{hours:g} hours, 100 brokers, 10,000 bundles, {len(candidates)} strategies"
    return [
        Figure("a step of a replay in the process", step_s * 1000, "ms", note=note),
        Figure(
            "backtest on Spark, two cores",
            took,
            "s",
            # An hour is mostly the start of Spark's Python processes: it has no bar.
            bar="" if quick else f"<= {BAR_S:g} s",
            holds=None if quick else took <= BAR_S,
            note=note,
        ),
        *([] if quick else [_on_workers(candidates, out)]),
    ]


def _on_workers(candidates: list[BacktestCandidate], out: Path) -> Figure:
    trace = SyntheticTrace("diurnal", hours=CLUSTER_HOURS)
    tasks = tasks_of(candidates, trace, parts=1, move_s=1.0, seed=1)
    took = {}
    for workers in (1, 2):
        with standalone_spark((out / f"workers-{workers}").resolve(), workers) as on:
            conf = {"spark.pyspark.python": str(on.python), "spark.executor.memory": "512m"}
            took[workers] = _on_spark(on.master, conf, tasks)
        print(f"   on a cluster of {workers}: {took[workers]:.1f} s", flush=True)
    return Figure(
        "backtest on a cluster, two workers of one core",
        took[2],
        "s",
        anchor="one worker",
        anchor_value=took[1],
        note=f"{CLUSTER_HOURS:g} hours of the same",
    )


class _Unseen:
    """Shows nothing of what replays do."""

    def replayed(self, done: int) -> None:
        del done

    def waits(self, why: str) -> None:
        raise RuntimeError(why)


def _on_spark(master: str, conf: dict[str, str], tasks: list[Task]) -> float:
    """Seconds that replays take in a session of their own, without its start."""
    spark = start_session(master, partitions=2, conf=conf)
    try:
        began = time.perf_counter()
        replay_on_spark(spark, tasks, _Unseen())
        return time.perf_counter() - began
    finally:
        stop_spark(spark)
