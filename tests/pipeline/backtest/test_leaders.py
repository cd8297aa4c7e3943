"""Plays of Pulsar's own leader, beside what leaders of Apache Pulsar 4.0.7 did.

In `leaders/` is what `make real ARGS="--record 26 --statistics 60 --seed 11"` recorded: three
brokers whose own shedder was on, and whose busiest topics changed every four minutes. The averages
of the extensible one's brokers were taken from what they published at the time.
"""

from functools import cache
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from counterpoise.app.conf import read_conf
from counterpoise.app.strategies import as_pulsar
from counterpoise.pipeline.backtest.recorded import RecordedTrace, Recording, trace_of
from counterpoise.pipeline.backtest.simulate import AS_RECORDED, BacktestCandidate, simulate

LEADERS = Path(__file__).parent / "leaders"
STILL = BacktestCandidate("no moves", None)


@cache
def recorded(manager: str, step_s: int) -> RecordedTrace:
    table = pq.read_table(LEADERS / f"{manager}.parquet")
    return trace_of(table, Recording(manager, step_s * 1000))


@pytest.mark.parametrize("step_s", [5, 15, 60])
@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_a_play_of_a_leader_is_within_a_tenth_of_what_it_did(manager: str, step_s: int) -> None:
    trace = recorded(manager, step_s)
    strategy = as_pulsar(read_conf(str(LEADERS / f"{manager}.conf")))
    played, did, still = (
        simulate(candidate, trace, 0, trace.steps, move_s=1.0, seed=0)
        for candidate in (BacktestCandidate("leader", strategy), AS_RECORDED, STILL)
    )
    assert played.imbalance == pytest.approx(did.imbalance, rel=0.1)
    assert played.moves == pytest.approx(did.moves, rel=0.1)
    assert abs(still.imbalance - did.imbalance) > 0.1 * did.imbalance, "it made a difference"
