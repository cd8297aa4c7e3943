"""What is said of a cluster of a fleet: its balancer, what needs an operator, and its figures."""

from dataclasses import replace

import pytest

from counterpoise.pipeline.fleet.cluster_state import (
    LATE_AFTER_MS,
    BalancerState,
    ClusterState,
    PolledCluster,
    one_line,
)
from counterpoise.pipeline.tables.control import Control, Wish
from counterpoise.pipeline.tables.status import BalancerStatus, LastPoll, LastRound

NOW = 1_700_000_000_000
POLL = LastPoll(NOW - 1000, 3, {}, "")
ROUND = LastRound(NOW - 90_500, "ThresholdShedder", 0.75, 4, (), True)
POLLED = PolledCluster(3, {"b4:80": "HTTP 503", "b5:80": "no\nanswer"}, 0.25, 1500.0)


def status(**changes: object) -> BalancerStatus:
    made = BalancerStatus("h", NOW, Control(), POLL, ROUND, {}, ())
    return replace(made, **changes)  # type: ignore[arg-type]


PAUSED = status(control=Control(Wish.PAUSE, NOW, "an incident"))


@pytest.mark.parametrize(
    ("ago_ms", "expected"),
    [(LATE_AFTER_MS, BalancerState.RUNNING), (LATE_AFTER_MS + 1, BalancerState.LATE)],
)
def test_a_balancer_is_late_after_a_minute_and_held_only_while_it_looks(
    ago_ms: int, expected: BalancerState
) -> None:
    looked = replace(POLL, at=NOW - ago_ms)
    state = ClusterState("east", NOW, status=status(poll=looked))
    assert state.balancer is expected
    assert state.to_json()["balancer"] == expected.name.lower()
    held = replace(PAUSED, poll=looked)
    expected = BalancerState.HELD if expected is BalancerState.RUNNING else expected
    assert ClusterState("east", NOW, status=held).balancer is expected


def test_a_line_says_all_that_is_known_and_what_needs_an_operator() -> None:
    failed = replace(PAUSED, failures=(("t/n/1", "HTTP 500"),))
    state = ClusterState("east", NOW + 7000, polled=POLLED, status=failed)
    assert state.findings == (
        "no load report from b4:80: HTTP 503",
        "no load report from b5:80: no answer",
        "paused since 2023-11-14 22:13:20 UTC: an incident (counterpoise control)",
        "failed t/n/1: HTTP 500",
    )
    assert state.line() == (
        "east: balancer: held, 3 brokers, imbalance 0.25, last round 90 s ago: 4 moves by "
        f"ThresholdShedder, 4 to look at: {' | '.join(state.findings)}"
    )
    behind = replace(state, status=replace(failed, now_ms=ROUND.at - 7000))
    assert "last round 0 s ago" in behind.line(), "its clock is behind the balancer's"
    assert state.to_json()["balancer"] == "held"
    assert replace(state, at_ms=0).findings == (), "it was not looked at yet"


def test_figures_are_those_that_are_known_in_their_units() -> None:
    state = ClusterState("east", NOW, polled=POLLED, status=status())
    assert state.figures() == {
        "reachable": 1,
        "brokers": 3,
        "silent_brokers": 2,
        "imbalance": 0.25,
        "bytes_per_second": 1500,
        "balancer_running": 1,
        "last_round_timestamp_seconds": ROUND.at / 1000,
        "findings": 2,
    }
    away = replace(state, polled=None, unreachable="cannot connect", status=PAUSED)
    assert away.figures() == {
        "reachable": 0,
        "imbalance": 0.75,  # as the last round found it
        "balancer_running": 0,
        "last_round_timestamp_seconds": ROUND.at / 1000,
        "findings": 2,
    }


def test_what_others_said_is_one_line_without_control_characters() -> None:
    assert one_line(" a\r\n b\x1b[31m\tc ") == "a b [31m c"
