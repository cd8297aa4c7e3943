"""An owner that can't be sure of its lock, and a store that doesn't answer."""

import pytest

from counterpoise.ownership import events
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
    close_topics,
    owned,
    quietly,
    run,
)

WHAT_HAPPENS = {
    "a session that was only interrupted": (
        owned(),
        (events.SessionChanged(), P.DOUBTED, (events.ReadNode(LOCK),)),
        (MINE, P.OWNED, ()),
    ),
    "a session that was lost": (
        owned(),
        (events.SessionChanged(), P.DOUBTED, (events.ReadNode(LOCK),)),
        (NO_NODE, P.DOUBTED, (CREATE,)),
        (events.NodeCreated(0), P.OWNED, ()),
    ),
    "a lock that our lost session still holds": (
        owned(),
        (events.SessionChanged(), P.DOUBTED, (events.ReadNode(LOCK),)),
        (FORMER, P.DOUBTED, (events.RemoveNode(LOCK, 4),)),
        (events.NodeRemoved(), P.DOUBTED, (CREATE,)),
    ),
    "a lock of another process with this broker's id": (
        owned(),
        (VANISHED, P.DOUBTED, (events.ReadNode(LOCK),)),
        (FORMER, P.DROPPING, (close_topics(None),)),
    ),
    "a lock that named another process, and names this broker's last session since": (
        owned(),
        (VANISHED, P.DOUBTED, (events.ReadNode(LOCK),)),
        (events.SessionChanged(), P.DOUBTED, ()),
        (FORMER, P.DOUBTED, (events.ReadNode(LOCK),)),
        (FORMER, P.DOUBTED, (events.RemoveNode(LOCK, 4),)),
    ),
    "a lock that it removed itself before its session changed": (
        quietly(FREE, events.Acquire(), events.NodeExists(), FORMER, events.NodeRemoved()),
        (events.SessionChanged(), P.ACQUIRING, ()),
        (events.NodeExists(), P.ACQUIRING, (events.ReadNode(LOCK),)),
        (FORMER, P.ACQUIRING, (events.RemoveNode(LOCK, 4),)),
    ),
    "it removes one that may be its own, and no other": (
        quietly(FREE, events.Acquire(), events.NodeExists(), FORMER, events.NodeRemoved()),
        (events.NodeExists(), P.ACQUIRING, (events.ReadNode(LOCK),)),
        (FORMER, P.FREE, ()),
    ),
    "unless the removal may have failed": (
        quietly(FREE, events.Acquire(), events.NodeExists(), FORMER),
        (events.CommandFailed("away"), P.ACQUIRING, (events.StartTimer(0.05),)),
        (events.TimerFired(), P.ACQUIRING, (CREATE,)),
        (events.NodeExists(), P.ACQUIRING, (events.ReadNode(LOCK),)),
        (FORMER, P.ACQUIRING, (events.RemoveNode(LOCK, 4),)),
    ),
    "another broker has it": (
        owned(),
        (VANISHED, P.DOUBTED, (events.ReadNode(LOCK),)),
        (OTHERS, P.DROPPING, (close_topics(None),)),
        (events.TopicsClosed(), P.FREE, ()),
    ),
    "an answer from before the session was lost is not believed": (
        owned(),
        (events.SessionChanged(), P.DOUBTED, (events.ReadNode(LOCK),)),
        (events.SessionChanged(), P.DOUBTED, ()),
        (MINE, P.DOUBTED, (events.ReadNode(LOCK),)),
        (OTHERS, P.DROPPING, (close_topics(None),)),
    ),
    "nor is a lock that a lost session created": (
        FREE,
        (events.Acquire(), P.ACQUIRING, (CREATE,)),
        (events.SessionChanged(), P.ACQUIRING, ()),
        (events.NodeCreated(0), P.ACQUIRING, (CREATE,)),
        (events.NodeExists(), P.ACQUIRING, (events.ReadNode(LOCK),)),
        (FORMER, P.ACQUIRING, (events.RemoveNode(LOCK, 4),)),
    ),
    "a store that is away while there is doubt is asked when it is back": (
        owned(),
        (events.SessionChanged(), P.DOUBTED, (events.ReadNode(LOCK),)),
        (events.CommandFailed("away"), P.DOUBTED, (events.StartTimer(0.05),)),
        (events.TimerFired(), P.DOUBTED, (events.ReadNode(LOCK),)),
        (events.CommandFailed("away"), P.DOUBTED, (events.StartTimer(0.1),)),
        (events.SessionChanged(), P.DOUBTED, (events.ReadNode(LOCK),)),
    ),
    "a split that ends while there is doubt": (
        quietly(owned(), events.SessionChanged()),
        (events.SplitCompleted(), P.DOUBTED, ()),
        (events.NodeFound(MY_LOCK, 7, mine=True), P.DELETING, (events.RemoveNode(LOCK, 7),)),
    ),
}


@pytest.mark.parametrize("story", WHAT_HAPPENS)
def test_what_happens_to(story: str) -> None:
    start, *steps = WHAT_HAPPENS[story]
    run(start, *steps)


def test_pauses_grow_and_are_bounded() -> None:
    state, pauses = quietly(owned(), events.SessionChanged()), []
    for _ in range(40):
        state, (alarm,) = advance(state, events.CommandFailed("away"))
        pauses.append(alarm.after_s)
        state = quietly(state, events.TimerFired())
    assert pauses == sorted(pauses)
    assert pauses[0] < 0.1
    assert pauses[-1] == pauses[-2] <= 5


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (FREE, "not owned here"),
        (quietly(owned(), events.Release(OTHER)), "about to be handed over, towards b2:8080"),
        (
            quietly(
                owned(),
                events.SessionChanged(),
                events.CommandFailed("1"),
                events.TimerFired(),
                events.CommandFailed("2"),
            ),
            "owned, unless the lock is gone, pausing after 2 failures",
        ),
        (
            quietly(
                owned(), events.SessionChanged(), events.Release(None), events.SessionChanged()
            ),
            "owned, unless the lock is gone, overtaken, then Release",
        ),
    ],
)
def test_what_a_log_says_of_it(state: BundleLock, said: str) -> None:
    assert str(state) == said
