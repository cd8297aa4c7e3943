"""The judge of a soak notices what it is for."""

import json

import pytest

from tests.real import soak_judgement

AWAY = soak_judgement.Outage("b1:80", "SIGKILL", 10_000, 10_100, 40_000, 60_000)
MOVE = soak_judgement.SoakMove("t/n/1", "b1:80", "b2:80", 100_000, 101_000)
SETTLE_MS = 20_000


@pytest.mark.parametrize(("after_ms", "early"), [(0, True), (29_999, True), (30_000, False)])
def test_a_move_within_the_grace_period_of_the_last_ones_end_is_early(
    after_ms: int, early: bool
) -> None:
    start = MOVE.ended_ms + after_ms
    again = replace_move(start)
    other = soak_judgement.SoakMove("t/n/2", "b2:80", "b3:80", MOVE.ended_ms, MOVE.ended_ms + 1)
    found = soak_judgement.early_returns([again, other, MOVE], 30_000)
    assert found == ([(MOVE, again)] if early else [])


def replace_move(started_ms: int) -> soak_judgement.SoakMove:
    return soak_judgement.SoakMove(MOVE.bundle, "b2:80", "b3:80", started_ms, started_ms + 900)


@pytest.mark.parametrize(
    ("at_ms", "kind", "text", "false"),
    [
        (50_000, "not-serving", "b1:80 owns 8 bundles and does not answer", False),
        (50_000, "not-serving", "b2:80 owns 8 bundles and does not answer", True),
        (9_000, "not-serving", "b1:80 owns 8 bundles and does not answer", True),
        (120_000, "not-serving", "b1:80 owns 8 bundles and does not answer", True),
        (75_000, "no-owner", "no broker owns t/n/1", False),
        (81_000, "no-owner", "no broker owns t/n/1", True),
    ],
)
def test_an_alarm_is_held_against_which_broker_was_away_when(
    at_ms: int, kind: str, text: str, false: bool
) -> None:
    alert = soak_judgement.Alert(at_ms, kind, text)
    assert soak_judgement.alerts_in(
        [(at_ms, f"12:00:00 ALERT {kind}: {text}"), (1, "over: x")]
    ) == [alert]
    assert bool(soak_judgement.false_alarms([alert], [AWAY], SETTLE_MS)) is false


@pytest.mark.parametrize(
    ("change", "known"),
    [
        (soak_judgement.OwnerChange("t/n/1", "b1:80", "b2:80", 115_000), True),
        (soak_judgement.OwnerChange("t/n/1", "b1:80", "b2:80", 130_000), False),
        (soak_judgement.OwnerChange("t/n/2", "b1:80", "b2:80", 115_000), False),
        (soak_judgement.OwnerChange("t/n/2", "b1:80", "b2:80", 70_000), True),
        (soak_judgement.OwnerChange("t/n/2", "b2:80", "b1:80", 70_000), False),
    ],
)
def test_a_change_of_owner_is_a_move_or_follows_the_end_of_its_broker(
    change: soak_judgement.OwnerChange, known: bool
) -> None:
    assert soak_judgement.unexplained_changes([change], [MOVE], [AWAY], SETTLE_MS) == (
        [] if known else [change]
    )


@pytest.mark.parametrize(("said", "off"), [(100.0, False), (120.0, False), (121.0, True)])
def test_a_figure_of_a_decision_is_held_against_the_last_report_before_it(
    said: float, off: bool
) -> None:
    def report(poll: int, kind: str, name: str, throughput: float) -> dict[str, str]:
        row = {"poll_id": str(poll), "kind": kind, "broker": "b1:80", "bundle": "", kind: name}
        return {**row, "msg_throughput_in": str(throughput), "msg_throughput_out": "40.0"}

    reports = [
        report(1, "bundle", "t/n/1", 900.0),
        report(2, "bundle", "t/n/1", 60.0),
        report(2, "broker", "b1:80", 960.0),
        report(4, "bundle", "t/n/1", 900.0),
    ]
    basis = {"basis": {"measured": [said, 0.0], "source": [1000.0, 0.0]}}
    decision = {"id": "d", "poll_id": "3", "bundle": "t/n/1", "source": "b1:80",
                "destination": "b2:80"}  # fmt: skip
    found = soak_judgement.figures_of([{**decision, "figures": json.dumps(basis)}], reports)
    assert [(each.subject, each.is_off) for each in found] == [("t/n/1", off), ("b1:80", False)]
