"""Rounds of a balancer for tests, with one bundle that moves from one broker to the other."""

from counterpoise.decide.balancing.moves import Move, MoveOutcome, MoveStatus, Round, RoundMemory
from counterpoise.decide.plan import Decision, DecisionKind, Rejection

BUNDLE = "public/default/0x00000000_0x80000000"


def move(poll: int = 5) -> Move:
    decision = Decision(
        DecisionKind.TRANSFER,
        BUNDLE,
        "a:1",
        "b:1",
        "load",
        "{source} is {load:.0f}% used",
        {"load": 90.0},
    )
    return Move(f"{poll}-0000000a", poll, decision, "the least used")


def stays(subject: str = "a:1", value: float = 40.0) -> Rejection:
    return Rejection(subject, "low", value, 85.0, "someSetting", "{subject} uses {value:.0f}%")


def made(poll: int, moves: tuple[Move, ...] = (), reasons: tuple[Rejection, ...] = ()) -> Round:
    return Round(poll, "OverloadShedder", 1.0, 2, 2, moves, reasons, RoundMemory())


def outcome(status: MoveStatus, error: str = "") -> MoveOutcome:
    return MoveOutcome("5-0000000a", 5, BUNDLE, "a:1", "b:1", status, "b:1", 1_000, 1_400, error)
