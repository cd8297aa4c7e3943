"""What ``counterpoise status`` says to a person: the last look and round, and the last hour."""

from dataclasses import replace

import pytest

from counterpoise.app.verbs.status import actions_json, actions_text, sentences
from counterpoise.decide.balancing.approval import HOUR_MS
from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus
from counterpoise.pipeline.drive.action_trail import ActionKind, ActionMove, OperatorAction
from counterpoise.pipeline.tables.control import Control, Wish
from counterpoise.pipeline.tables.status import BalancerStatus, LastPoll, LastRound

NOW = 1_700_000_000_000


def ended(bundle: str, status: MoveStatus, owner: str) -> MoveOutcome:
    return MoveOutcome("1-a", 1, bundle, "b1:80", "b2:80", status, owner, NOW - 9, NOW)


FOUND = BalancerStatus(
    "file:///h",
    NOW,
    Control(Wish.PAUSE, NOW - 5000, "a release"),
    LastPoll(NOW - 119_000, 3, {"b4:80": "HTTP 503"}, "cannot connect"),
    LastRound(NOW - 120_000, "ThresholdShedder", 0.456, 2, tuple("abcde"), False),
    {"elsewhere": 1, "failed": 4, "moved": 3, "unowned": 4},
    (1.0, 2.0, 9.0),
    {"too many an hour": 7},
    tuple((f"t/n/{number}", "HTTP 500") for number in range(4)),
    (
        ended("t/n/7", MoveStatus.ELSEWHERE, "b3:80"),
        *(ended(f"t/n/{number}", MoveStatus.UNOWNED, "") for number in range(4)),
    ),
    {"b4:80": (6, "HTTP 503")},
)


def test_everything_that_is_known_is_a_line_in_its_order() -> None:
    assert sentences(FOUND) == [
        "history file:///h",
        "paused since 2023-11-14 22:13:15 UTC: a release (counterpoise control)",
        "last look 119 s ago (2023-11-14 22:11:21 UTC): 3 brokers reported their load",
        "  the cluster did not answer: cannot connect",
        "  no load report from b4:80: HTTP 503",
        "last round 2 min ago (2023-11-14 22:11:20 UTC): 2 moves by ThresholdShedder, "
        "imbalance 0.46, running or interrupted",
        "  not done: a",
        "  not done: b",
        "  not done: c",
        "  and 2 more (--json)",
        "moves of the last hour: 1 taken by another broker than the destination, 4 failed, "
        "3 moved, 4 unloaded and without an owner by then",
        "  each took 2.0 s in the median, 9.0 s at most",
        "  withheld 7: too many an hour",
        "  failed t/n/0: HTTP 500",
        "  failed t/n/1: HTTP 500",
        "  failed t/n/2: HTTP 500",
        "  t/n/7 was unloaded from b1:80 for b2:80, and b3:80 took it first. Nothing needs to be "
        "done: the next round goes by where the bundle is.",
        *(
            f"  t/n/{number} was unloaded from b1:80, and no broker, b2:80 included, had taken it "
            "by then; the next lookup of one of its topics places it. Nothing needs to be done: "
            "the next round goes by where the bundle is."
            for number in range(2)
        ),
        "  and 2 more such moves (--json)",
        "gaps of the last hour: b4:80, 6 polls, lately: HTTP 503",
    ]


def test_three_rejections_are_all_of_them() -> None:
    made = LastRound(NOW, "AvgShedder", 0.0, 0, tuple("abc"), True)
    lines = sentences(replace(FOUND, round=made, astray=FOUND.astray[:3]))
    assert [line for line in lines if line.startswith("  not done")] == [
        "  not done: a",
        "  not done: b",
        "  not done: c",
    ]
    assert not [line for line in lines if " more" in line]


def test_an_action_that_has_ended_without_a_move_is_not_running() -> None:
    split = OperatorAction(ActionKind.SPLIT, NOW, "eve", "hot", ended_ms=NOW)
    assert actions_text([split], NOW) == ["by hand: split by eve (hot): no move"]


def test_of_a_history_without_anything_that_is_said() -> None:
    assert sentences(BalancerStatus("h", NOW, Control(), None, None)) == [
        "history h",
        "no poll of the cluster yet",
        "no round of decisions yet",
        "moves of the last hour: none",
    ]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-3, "0 s ago"),
        (119, "119 s ago"),
        (120, "2 min ago"),
        (7199, "119 min ago"),
        (7200, "2 h ago"),
        (172_799, "47 h ago"),
        (172_800, "2 d ago"),
    ],
)
def test_how_long_ago_is_said_in_the_largest_unit_of_which_there_are_two(
    seconds: int, said: str
) -> None:
    poll = LastPoll(NOW - 1000 * seconds, 1, {}, "")
    assert sentences(replace(FOUND, poll=poll))[2].startswith(f"last look {said} (")


def test_what_was_done_by_hand_in_the_last_hour_is_said_and_what_is_cordoned_ever_since() -> None:
    def moved(status: str) -> ActionMove:
        return ActionMove("t/n/1", "b1:80", "b2:80", status, NOW, NOW)

    drain = OperatorAction(ActionKind.DRAIN, NOW - HOUR_MS - 1, "ann", "disks", "b1:80")
    moves = (moved("moved"), moved("failed"), moved("moved"))
    unload = OperatorAction(ActionKind.UNLOAD, NOW - HOUR_MS, "bob", moves=moves, ended_ms=NOW)
    strayed = replace(unload, who="joe", moves=(moved("elsewhere"),))
    split = OperatorAction(ActionKind.SPLIT, NOW, "eve", "hot", ended_ms=0)
    assert actions_text([drain, unload, strayed, split], NOW) == [
        "cordoned: b1:80, drained by ann: disks (counterpoise refill b1:80, or counterpoise drain "
        "b1:80 --release)",
        "by hand: unload by bob: 1 failed, 2 moved",
        "by hand: unload by joe: 1 taken by another broker than the destination",
        "  t/n/1 left b1:80, and b2:80 took it, not the broker that was asked for: where that "
        "matters, counterpoise unload t/n/1 --to BROKER",
        "by hand: split by eve (hot): no move, running or interrupted",
    ]
    figures = actions_json([drain, unload, split], NOW)
    assert figures == {"cordoned": ["b1:80"], "actions": [unload.to_json(), split.to_json()]}
