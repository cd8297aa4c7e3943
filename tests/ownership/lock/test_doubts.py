"""An owner that can't be sure of its lock, and a store that doesn't answer."""

from __future__ import annotations

import pytest

from counterpoise.ownership.events import (
    Acquire,
    CommandFailed,
    NodeCreated,
    NodeExists,
    NodeFound,
    NodeRemoved,
    ReadNode,
    Release,
    RemoveNode,
    SessionChanged,
    SplitCompleted,
    StartTimer,
    TimerFired,
    TopicsClosed,
)
from counterpoise.ownership.lock.state import BundleLock
from counterpoise.ownership.lock.table import advance
from tests.ownership.lock.machine import (
    CREATE,
    FORMER,
    FREE,
    LOCK,
    MINE,
    MY_LOCK,
    NO_NODE,
    OTHER,
    OTHERS,
    VANISHED,
    P,
    drain,
    owned,
    quietly,
    run,
)

WHAT_HAPPENS = {
    "a session that was only interrupted": (
        owned(),
        (SessionChanged(), P.DOUBTED, (ReadNode(LOCK),)),
        (MINE, P.OWNED, ()),
    ),
    "a session that was lost": (
        owned(),
        (SessionChanged(), P.DOUBTED, (ReadNode(LOCK),)),
        (NO_NODE, P.DOUBTED, (CREATE,)),
        (NodeCreated(0), P.OWNED, ()),
    ),
    "a lock that our lost session still holds": (
        owned(),
        (SessionChanged(), P.DOUBTED, (ReadNode(LOCK),)),
        (FORMER, P.DOUBTED, (RemoveNode(LOCK, 4),)),
        (NodeRemoved(), P.DOUBTED, (CREATE,)),
    ),
    "another broker has it": (
        owned(),
        (VANISHED, P.DOUBTED, (ReadNode(LOCK),)),
        (OTHERS, P.DROPPING, (drain(None),)),
        (TopicsClosed(), P.FREE, ()),
    ),
    "an answer from before the session was lost is not believed": (
        owned(),
        (SessionChanged(), P.DOUBTED, (ReadNode(LOCK),)),
        (SessionChanged(), P.DOUBTED, ()),
        (MINE, P.DOUBTED, (ReadNode(LOCK),)),
        (OTHERS, P.DROPPING, (drain(None),)),
    ),
    "nor is a lock that a lost session created": (
        FREE,
        (Acquire(), P.ACQUIRING, (CREATE,)),
        (SessionChanged(), P.ACQUIRING, ()),
        (NodeCreated(0), P.ACQUIRING, (CREATE,)),
        (NodeExists(), P.ACQUIRING, (ReadNode(LOCK),)),
        (FORMER, P.ACQUIRING, (RemoveNode(LOCK, 4),)),
    ),
    "a store that is away while there is doubt is asked when it is back": (
        owned(),
        (SessionChanged(), P.DOUBTED, (ReadNode(LOCK),)),
        (CommandFailed("away"), P.DOUBTED, (StartTimer(0.05),)),
        (TimerFired(), P.DOUBTED, (ReadNode(LOCK),)),
        (CommandFailed("away"), P.DOUBTED, (StartTimer(0.1),)),
        (SessionChanged(), P.DOUBTED, (ReadNode(LOCK),)),
    ),
    "a split that ends while there is doubt": (
        quietly(owned(), SessionChanged()),
        (SplitCompleted(), P.DOUBTED, ()),
        (NodeFound(MY_LOCK, 7, mine=True), P.DELETING, (RemoveNode(LOCK, 7),)),
    ),
}


@pytest.mark.parametrize("story", WHAT_HAPPENS)
def test_what_happens_to(story: str) -> None:
    start, *steps = WHAT_HAPPENS[story]
    run(start, *steps)


def test_pauses_grow_and_are_bounded() -> None:
    state, pauses = quietly(owned(), SessionChanged()), []
    for _ in range(40):
        state, (alarm,) = advance(state, CommandFailed("away"))
        pauses.append(alarm.after_s)
        state = quietly(state, TimerFired())
    assert pauses == sorted(pauses)
    assert pauses[0] < 0.1
    assert pauses[-1] == pauses[-2] <= 5


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (FREE, "not owned here"),
        (quietly(owned(), Release(OTHER)), "about to be handed over, towards b2:8080"),
        (
            quietly(
                owned(), SessionChanged(), CommandFailed("1"), TimerFired(), CommandFailed("2")
            ),
            "owned, unless the lock is gone, pausing after 2 failures",
        ),
        (
            quietly(owned(), SessionChanged(), Release(None), SessionChanged()),
            "owned, unless the lock is gone, overtaken, then Release",
        ),
    ],
)
def test_what_a_log_says_of_it(state: BundleLock, said: str) -> None:
    assert str(state) == said
