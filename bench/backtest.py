"""How long a backtest takes: a day of 100 brokers and 10,000 bundles under eight strategies."""

import time
from pathlib import Path

from bench.figures import Figure
from counterpoise.app.strategies import strategy_from
from counterpoise.names.properties import Properties
from counterpoise.pipeline.backtest.run import play_on_spark, tasks_of
from counterpoise.pipeline.backtest.simulate import BacktestCandidate, simulate
from counterpoise.pipeline.backtest.synthetic import SyntheticTrace
from counterpoise.pipeline.stream.session import start_session, stop_session

BAR_S = 120.0
SHEDDERS = ("ThresholdShedder", "OverloadShedder", "UniformLoadShedder", "AvgShedder")
PLACEMENTS = ("LeastUsage", "LeastLongTermMessageRate")
QUICK_HOURS = 1.0


def run(*, quick: bool, out: Path) -> list[Figure]:
    del out
    hours = QUICK_HOURS if quick else 24.0
    trace = SyntheticTrace("diurnal", hours=hours)
    candidates = [
        BacktestCandidate(f"{shedder}/{placement}", strategy_from(Properties({}), shedder=shedder,
                                                          placement=placement))
        for shedder in SHEDDERS
        for placement in PLACEMENTS
    ]  # fmt: skip
    began = time.perf_counter()
    simulate(candidates[0], trace, 0, 30, move_s=1.0, seed=1)
    step_s = (time.perf_counter() - began) / 30
    spark = start_session("local[2]", partitions=2)
    try:
        began = time.perf_counter()
        tasks = tasks_of(candidates, trace, parts=1, move_s=1.0, seed=1)
        play_on_spark(spark, tasks, lambda done, result: None)
        took = time.perf_counter() - began
    finally:
        stop_session(spark)
    note = f"{hours:g} hours, 100 brokers, 10,000 bundles, {len(candidates)} strategies"
    return [
        Figure("a step of a play in the process", step_s * 1000, "ms", note=note),
        Figure(
            "backtest on Spark, two cores",
            took,
            "s",
            # An hour is mostly the start of Spark's Python processes: it has no bar.
            bar="" if quick else f"<= {BAR_S:g} s",
            holds=None if quick else took <= BAR_S,
            note=note,
        ),
    ]
