"""The attack on the binary protocol in short, and each of its judges seen to find a violation."""

import pytest

from tests.attack.wire.judges import Seen, problems
from tests.attack.wire.planted import FAULTS
from tests.attack.wire.run import attack

SEED = 20261122


def test_a_broker_stands_a_short_attack() -> None:
    # The suite shares its processors and disks: `make attack` is where a gap is held to a second.
    verdict = attack(frames=10_000, seconds=60, seed=SEED, gap_max_s=10)
    assert verdict.problems == [], str(verdict)
    assert verdict.tally.frames > 3_000


@pytest.mark.parametrize("fault", FAULTS)
def test_a_judge_finds_the_planted_fault(fault: str) -> None:
    # A dead broker's attackers get no answers: they go on until their time is up.
    seconds = 4 if fault == "dead" else 60
    verdict = attack(frames=2_000, seconds=seconds, seed=SEED, fault=fault, gap_max_s=1)
    assert any(fault in problem for problem in verdict.problems), str(verdict)


STOOD = Seen(
    worst_gap_s=0.9,
    machine_late_s=0.0,
    rounds=10,
    bystander_problem="",
    memory_mb=299,
    log="2026-11-22 ERROR Closing the connection of /127.0.0.1:1: a frame",
    still_serves="",
    exit_status=None,
)


def test_a_broker_that_stood_has_no_problems() -> None:
    assert problems(STOOD) == []
