"""Replays of Pulsar's own leader, beside what leaders of Apache Pulsar 4.0.7 did.

In `leaders/` is what `make real ARGS="--record 26 --statistics 60 --seed 11"` recorded: three
brokers whose own shedder was on, and whose busiest topics changed every four minutes. The averages
of the extensible one's brokers were taken from what they published at the time.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from counterpoise.app.arguments.backtest import add_arguments
from counterpoise.app.conf import read_conf
from counterpoise.app.strategies import as_pulsar
from counterpoise.app.verbs.backtest_source import plain_source
from counterpoise.pipeline.backtest.measure import BacktestResult
from counterpoise.pipeline.backtest.recorded import RecordedTrace, trace_of
from counterpoise.pipeline.backtest.run import followed_steps, joined, replay, tasks_of
from counterpoise.pipeline.backtest.simulate import AS_RECORDED, BacktestCandidate

LEADERS = Path(__file__).parent / "leaders"
STILL = BacktestCandidate("no moves", None)
MANAGERS = ("modular", "extensible")


@dataclass(frozen=True)
class Leader:
    """The recording of a leader, from so many seconds after its beginning."""

    manager: str
    cut_s: int = 0

    def open(self) -> RecordedTrace:
        return _opened(self)


@cache
def _opened(leader: Leader) -> RecordedTrace:
    reports = pq.read_table(LEADERS / f"{leader.manager}.parquet")
    polls = reports.column("poll_id")
    kept = pc.greater_equal(polls, pc.min(polls).as_py() + 1000 * leader.cut_s)
    return trace_of(reports.filter(kept), leader.manager)


def plays_of(leader: Leader, move_s: float = 1.0) -> Sequence[BacktestResult]:
    """Of the leader by its settings, of the recording itself, and of a cluster at rest."""
    by = as_pulsar(read_conf(str(LEADERS / f"{leader.manager}.conf")))
    tried = [BacktestCandidate("leader", by), AS_RECORDED, STILL]
    followed = followed_steps(tried, leader.open())
    tasks = tasks_of(tried, leader, parts=1, move_s=move_s, seed=0, followed=followed)
    return joined([replay(task) for task in tasks])


def is_near(found: float, wanted: float) -> bool:
    return found == pytest.approx(wanted, rel=0.1)


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_play_of_a_leader_is_within_a_tenth_of_what_it_did(manager: str) -> None:
    replayed, did, still = plays_of(Leader(manager))
    assert is_near(replayed.imbalance, did.imbalance)
    assert is_near(replayed.moves, did.moves)
    assert replayed.moves_least <= replayed.moves <= replayed.moves_most
    assert replayed.imbalance_least <= replayed.imbalance <= replayed.imbalance_most
    assert replayed.beginnings > did.beginnings == 1
    assert did.moves > 0 == still.moves
    nearer, far = abs(replayed.imbalance - did.imbalance), abs(still.imbalance - did.imbalance)
    assert nearer < far / 4, "it made a difference"


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("cut_s", [5, 45, 65, 90, 145, 240, 330, 480])
def test_so_it_is_from_whichever_second_on_or_the_plays_say_how_far_apart_they_are(
    manager: str, cut_s: int
) -> None:
    replayed, did, _ = plays_of(Leader(manager, cut_s))
    assert is_near(replayed.imbalance, did.imbalance) or (
        replayed.imbalance_least <= did.imbalance <= replayed.imbalance_most
    )
    assert is_near(replayed.moves, did.moves) or (
        replayed.moves_least <= did.moves <= replayed.moves_most
    )


def test_no_step_that_is_asked_for_makes_another_play_of_a_recording() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    steps = ["0.1", *map(str, range(1, 121))]
    assert len({plain_source(parser.parse_args(["history", "--step", s])) for s in steps}) == 1
    assert len(
        {plain_source(parser.parse_args(["synthetic:bursty", "--step", s])) for s in steps}
    ) == len(steps)
