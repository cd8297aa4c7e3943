"""Taking a bundle that no broker owns, and finding the broker that owns one."""

from __future__ import annotations

import pytest

from counterpoise.ownership.events import (
    Acquire,
    CheckOwnership,
    CommandFailed,
    NodeCreated,
    NodeExists,
    NodeFound,
    NodeRemoved,
    ReadNode,
    RemoveNode,
    StartTimer,
    TimerFired,
    VersionDiffers,
)
from counterpoise.ownership.lock.table import TRIES, advance
from tests.ownership.lock.machine import (
    ANNOUNCED,
    CREATE,
    FORMER,
    FREE,
    FROM_ME,
    HAND_OVER,
    LOCK,
    MINE,
    NO_NODE,
    OTHERS,
    P,
    quietly,
    run,
)

WHAT_HAPPENS = {
    "a bundle that no broker owns": (
        FREE,
        (Acquire(), P.ACQUIRING, (CREATE,)),
        (NodeCreated(0), P.OWNED, ()),
    ),
    "a bundle that another broker owns": (
        FREE,
        (Acquire(), P.ACQUIRING, (CREATE,)),
        (NodeExists(), P.ACQUIRING, (ReadNode(LOCK),)),
        (OTHERS, P.FREE, ()),
    ),
    "a lock of a former life": (
        FREE,
        (Acquire(), P.ACQUIRING, (CREATE,)),
        (NodeExists(), P.ACQUIRING, (ReadNode(LOCK),)),
        (FORMER, P.ACQUIRING, (RemoveNode(LOCK, 4),)),
        (NodeRemoved(), P.ACQUIRING, (CREATE,)),
        (NodeCreated(0), P.OWNED, ()),
    ),
    "a lock that was created, though the answer was lost": (
        FREE,
        (Acquire(), P.ACQUIRING, (CREATE,)),
        (CommandFailed("away"), P.ACQUIRING, (StartTimer(0.05),)),
        (TimerFired(), P.ACQUIRING, (CREATE,)),
        (NodeExists(), P.ACQUIRING, (ReadNode(LOCK),)),
        (MINE, P.OWNED, ()),
    ),
    "a client that comes for nothing": (
        FREE,
        (CheckOwnership(), P.READING_HAND_OVER, (ReadNode(HAND_OVER),)),
        (NO_NODE, P.CHECKING, (ReadNode(LOCK),)),
        (OTHERS, P.FREE, ()),
    ),
    "a client that knows more than the broker": (
        FREE,
        (CheckOwnership(), P.READING_HAND_OVER, (ReadNode(HAND_OVER),)),
        (NO_NODE, P.CHECKING, (ReadNode(LOCK),)),
        (MINE, P.OWNED, ()),
    ),
    "an announcement that a release of ours left behind": (
        FREE,
        (CheckOwnership(), P.READING_HAND_OVER, (ReadNode(HAND_OVER),)),
        (NodeFound(FROM_ME, 2), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (NodeFound(FROM_ME, 2), P.WITHDRAWING, (RemoveNode(HAND_OVER, 2),)),
        (VersionDiffers(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (NO_NODE, P.FREE, ()),
    ),
    "a hand-over that is no record": (
        FREE,
        (ANNOUNCED, P.READING_HAND_OVER, (ReadNode(HAND_OVER),)),
        (NodeFound(b"[", 1), P.FREE, ()),
    ),
    "a lock that is no record": (
        FREE,
        (Acquire(), P.ACQUIRING, (CREATE,)),
        (NodeExists(), P.ACQUIRING, (ReadNode(LOCK),)),
        (NodeFound(b"[", 1), P.FREE, ()),
    ),
}


@pytest.mark.parametrize("story", WHAT_HAPPENS)
def test_what_happens_to(story: str) -> None:
    start, *steps = WHAT_HAPPENS[story]
    run(start, *steps)


def test_a_bundle_that_cannot_be_taken_is_left_to_the_next_lookup() -> None:
    state = quietly(FREE, Acquire())
    for _ in range(TRIES - 1):
        state = quietly(state, CommandFailed("away"), TimerFired())
    assert advance(state, CommandFailed("away")) == (FREE, ())
