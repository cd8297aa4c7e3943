"""Plays of Pulsar's own leader, beside what leaders of Apache Pulsar 4.0.7 did.

In `leaders/` is what `make real ARGS="--record 26 --statistics 60 --seed 11"` recorded: three
brokers whose own shedder was on, and whose busiest topics changed every four minutes. The averages
of the extensible one's brokers were taken from what they published at the time.
"""

import argparse
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from counterpoise.app.arguments.backtest import add_arguments
from counterpoise.app.conf import read_conf
from counterpoise.app.strategies import as_pulsar
from counterpoise.app.verbs.backtest_source import plain_source
from counterpoise.pipeline.backtest.recorded import trace_of
from counterpoise.pipeline.backtest.simulate import AS_RECORDED, BacktestCandidate, simulate

LEADERS = Path(__file__).parent / "leaders"
STILL = BacktestCandidate("no moves", None)


@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_a_play_of_a_leader_is_within_a_tenth_of_what_it_did(manager: str) -> None:
    trace = trace_of(pq.read_table(LEADERS / f"{manager}.parquet"), manager)
    strategy = as_pulsar(read_conf(str(LEADERS / f"{manager}.conf")))
    played, did, still = (
        simulate(candidate, trace, 0, trace.steps, move_s=1.0, seed=0)
        for candidate in (BacktestCandidate("leader", strategy), AS_RECORDED, STILL)
    )
    assert played.imbalance == pytest.approx(did.imbalance, rel=0.1)
    assert played.moves == pytest.approx(did.moves, rel=0.1)
    assert abs(still.imbalance - did.imbalance) > 0.1 * did.imbalance, "it made a difference"


def test_no_step_that_is_asked_for_makes_another_play_of_a_recording() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    steps = ["0.1", *map(str, range(1, 121))]
    assert len({plain_source(parser.parse_args(["history", "--step", s])) for s in steps}) == 1
    assert len(
        {plain_source(parser.parse_args(["synthetic:bursty", "--step", s])) for s in steps}
    ) == len(steps)
