"""Taking a bundle that nobody holds, and looking who does."""

from __future__ import annotations

import pytest

from counterpoise.ownership.lock.table import TRIES, advance
from counterpoise.ownership.port import (
    Acquire,
    CatchUp,
    Created,
    Differs,
    Exists,
    Failed,
    Found,
    ReadNode,
    Removed,
    RemoveNode,
    WakeMe,
    Woken,
)
from tests.ownership.lock.machine import (
    ANNOUNCED,
    CREATE,
    FORMER,
    FREE,
    FROM_ME,
    HAND_OVER,
    LOCK,
    MINE,
    NOBODY,
    OTHERS,
    P,
    quietly,
    run,
)

WHAT_HAPPENS = {
    "a bundle that nobody owns": (
        FREE,
        (Acquire(), P.ACQUIRING, (CREATE,)),
        (Created(0), P.OWNED, ()),
    ),
    "a bundle that somebody owns": (
        FREE,
        (Acquire(), P.ACQUIRING, (CREATE,)),
        (Exists(), P.ACQUIRING, (ReadNode(LOCK),)),
        (OTHERS, P.FREE, ()),
    ),
    "a lock of a former life": (
        FREE,
        (Acquire(), P.ACQUIRING, (CREATE,)),
        (Exists(), P.ACQUIRING, (ReadNode(LOCK),)),
        (FORMER, P.ACQUIRING, (RemoveNode(LOCK, 4),)),
        (Removed(), P.ACQUIRING, (CREATE,)),
        (Created(0), P.OWNED, ()),
    ),
    "a lock that was created, though nobody said so": (
        FREE,
        (Acquire(), P.ACQUIRING, (CREATE,)),
        (Failed("away"), P.ACQUIRING, (WakeMe(0.05),)),
        (Woken(), P.ACQUIRING, (CREATE,)),
        (Exists(), P.ACQUIRING, (ReadNode(LOCK),)),
        (MINE, P.OWNED, ()),
    ),
    "a client that comes for nothing": (
        FREE,
        (CatchUp(), P.HEARING, (ReadNode(HAND_OVER),)),
        (NOBODY, P.CHECKING, (ReadNode(LOCK),)),
        (OTHERS, P.FREE, ()),
    ),
    "a client that knows more than the broker": (
        FREE,
        (CatchUp(), P.HEARING, (ReadNode(HAND_OVER),)),
        (NOBODY, P.CHECKING, (ReadNode(LOCK),)),
        (MINE, P.OWNED, ()),
    ),
    "an announcement that a release of ours left behind": (
        FREE,
        (CatchUp(), P.HEARING, (ReadNode(HAND_OVER),)),
        (Found(FROM_ME, 2), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (Found(FROM_ME, 2), P.WITHDRAWING, (RemoveNode(HAND_OVER, 2),)),
        (Differs(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (NOBODY, P.FREE, ()),
    ),
    "a hand-over that is no record": (
        FREE,
        (ANNOUNCED, P.HEARING, (ReadNode(HAND_OVER),)),
        (Found(b"[", 1), P.FREE, ()),
    ),
    "a lock that is no record": (
        FREE,
        (Acquire(), P.ACQUIRING, (CREATE,)),
        (Exists(), P.ACQUIRING, (ReadNode(LOCK),)),
        (Found(b"[", 1), P.FREE, ()),
    ),
}


@pytest.mark.parametrize("story", WHAT_HAPPENS)
def test_what_happens_to(story: str) -> None:
    start, *steps = WHAT_HAPPENS[story]
    run(start, *steps)


def test_a_bundle_that_cannot_be_taken_is_left_to_the_next_lookup() -> None:
    state = quietly(FREE, Acquire())
    for _ in range(TRIES - 1):
        state = quietly(state, Failed("away"), Woken())
    assert advance(state, Failed("away")) == (FREE, ())
