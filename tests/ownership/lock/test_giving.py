"""Releasing a bundle: the owner's side of a move, and a split."""

import pytest

from counterpoise.ownership import events
from counterpoise.ownership.lock.table import CLOSE_TRIES
from tests.ownership.lock.machine import (
    ANNOUNCED,
    APPEARED,
    CREATE,
    FROM_ME,
    HAND_OVER,
    LOCK,
    ME,
    MINE,
    NO_NODE,
    OTHER,
    OTHERS,
    TO_ME,
    VANISHED,
    P,
    close_topics,
    leaving,
    owned,
    quietly,
    run,
    yielding,
)

ITS_END = (
    (events.NodeFound(FROM_ME, 0, mine=True), P.WITHDRAWING, (events.RemoveNode(HAND_OVER, 0),)),
    (events.NodeRemoved(), P.FREE, ()),
)
"""The announcement is found, as we wrote it, and deleted."""
WHAT_HAPPENS = {
    "a hand-over, the owner's side": (
        owned(),
        (events.Release(OTHER), P.ANNOUNCING, (events.WriteNode(HAND_OVER, FROM_ME),)),
        (events.NodeWritten(), P.AWAITING, (events.StartTimer(1),)),
        (events.SuccessorReady(), P.YIELDING, (events.RemoveNode(LOCK, 0),)),
        (VANISHED, P.YIELDING, ()),
        (events.NodeRemoved(), P.YIELDED, (events.StartTimer(5),)),
        (APPEARED, P.CLOSING, (close_topics(OTHER),)),
        (events.TopicsClosed(), P.WITHDRAWING, (events.ReadNode(HAND_OVER),)),
        *ITS_END,
    ),
    "a successor that is heard of before our own lock is known to be gone": (
        yielding(),
        (APPEARED, P.YIELDING, ()),
        (events.NodeRemoved(), P.CLOSING, (close_topics(OTHER),)),
        (events.TopicsClosed(), P.WITHDRAWING, (events.ReadNode(HAND_OVER),)),
    ),
    "a successor that was ready, and never comes": (
        quietly(yielding(), events.NodeRemoved()),
        (events.TimerFired(), P.CLOSING, (close_topics(None),)),
        (events.TopicsClosed(), P.WITHDRAWING, (events.ReadNode(HAND_OVER),)),
        *ITS_END,
    ),
    "a session that is lost while the lock is given away": (
        yielding(),
        (events.SessionChanged(), P.YIELDING, ()),
        (events.NodeRemoved(), P.CLOSING, (close_topics(OTHER),)),
        (events.TopicsClosed(), P.DELETING, (events.ReadNode(LOCK),)),
    ),
    "a lock that was written over before it could be given away": (
        yielding(),
        (events.VersionDiffers(), P.CLOSING, (close_topics(OTHER),)),
        (events.TopicsClosed(), P.DELETING, (events.ReadNode(LOCK),)),
    ),
    "a lock of which it is unknown whether it was given away": (
        yielding(),
        (events.CommandFailed("away"), P.CLOSING, (close_topics(OTHER),)),
        (events.TopicsClosed(), P.DELETING, (events.ReadNode(LOCK),)),
        (OTHERS, P.WITHDRAWING, (events.ReadNode(HAND_OVER),)),
    ),
    "a session that is lost when the lock is given away": (
        quietly(yielding(), events.NodeRemoved()),
        (events.SessionChanged(), P.CLOSING, (close_topics(OTHER),)),
        (events.TopicsClosed(), P.WITHDRAWING, (events.ReadNode(HAND_OVER),)),
    ),
    "an owner whose successor was late": (
        quietly(owned(), events.Release(OTHER), events.NodeWritten()),
        (events.TimerFired(), P.CLOSING, (close_topics(OTHER),)),
        (events.TopicsClosed(), P.DELETING, (events.RemoveNode(LOCK, 0),)),
        (events.NodeRemoved(), P.AWAITING_TAKEOVER, (events.StartTimer(5),)),
        (APPEARED, P.WITHDRAWING, (events.ReadNode(HAND_OVER),)),
        *ITS_END,
    ),
    "a successor that is never ready": (
        quietly(owned(), events.Release(OTHER), events.NodeWritten()),
        (events.TimerFired(), P.CLOSING, (close_topics(OTHER),)),
        (events.SuccessorReady(), P.CLOSING, ()),
    ),
    "a lock that goes while its successor gets ready": (
        quietly(owned(), events.Release(OTHER), events.NodeWritten()),
        (VANISHED, P.CLOSING, (close_topics(OTHER),)),
        (events.TopicsClosed(), P.DELETING, (events.ReadNode(LOCK),)),
    ),
    "a session that is lost while the successor gets ready": (
        quietly(owned(), events.Release(OTHER), events.NodeWritten()),
        (events.SessionChanged(), P.CLOSING, (close_topics(OTHER),)),
        (events.TopicsClosed(), P.DELETING, (events.ReadNode(LOCK),)),
    ),
    "a session that is lost before the hand-over is announced": (
        quietly(owned(), events.Release(OTHER), events.SessionChanged()),
        (events.NodeWritten(), P.CLOSING, (close_topics(OTHER),)),
        (events.TopicsClosed(), P.DELETING, (events.ReadNode(LOCK),)),
    ),
    "a successor that was heard of before our own lock was known to be gone": (
        quietly(leaving(OTHER), events.TopicsClosed()),
        (APPEARED, P.DELETING, ()),
        (events.NodeRemoved(), P.WITHDRAWING, (events.ReadNode(HAND_OVER),)),
        *ITS_END,
    ),
    "a successor that never comes": (
        quietly(leaving(OTHER), events.TopicsClosed(), events.NodeRemoved()),
        (events.TimerFired(), P.WITHDRAWING, (events.ReadNode(HAND_OVER),)),
        (NO_NODE, P.FREE, ()),
    ),
    "a hand-over that the successor has handed on already": (
        quietly(leaving(OTHER), events.TopicsClosed(), events.NodeRemoved(), APPEARED),
        (ANNOUNCED, P.WITHDRAWING, ()),
        (events.NodeFound(TO_ME, 1, mine=True), P.READING_HAND_OVER, (events.ReadNode(HAND_OVER),)),
        (events.NodeFound(TO_ME, 1, mine=True), P.CHECKING, (events.ReadNode(LOCK),)),
        (OTHERS, P.EXPECTED, (events.StartTimer(5), events.Prepare())),
    ),
    "a hand-over without a successor": (
        leaving(None),
        (events.TopicsClosed(), P.DELETING, (events.RemoveNode(LOCK, 0),)),
        (events.NodeRemoved(), P.WITHDRAWING, (events.ReadNode(HAND_OVER),)),
    ),
    "a hand-over to itself keeps the lock and is not announced": (
        owned(),
        (events.Release(ME), P.CLOSING, (close_topics(ME),)),
        (events.TopicsClosed(), P.OWNED, ()),
    ),
    "a session that is lost while the bundle drains to its own broker": (
        quietly(owned(), events.Release(ME)),
        (events.SessionChanged(), P.CLOSING, ()),
        (events.TopicsClosed(), P.DOUBTED, (events.ReadNode(LOCK),)),
        (MINE, P.OWNED, ()),
    ),
    "a session that is lost while the bundle drains to another": (
        leaving(OTHER),
        (events.SessionChanged(), P.CLOSING, ()),
        # A version may be the same in a lock that is another broker's by now.
        (events.TopicsClosed(), P.DELETING, (events.ReadNode(LOCK),)),
        (OTHERS, P.WITHDRAWING, (events.ReadNode(HAND_OVER),)),
    ),
    "a release that could not be announced has no successor to wait for": (
        quietly(
            owned(),
            events.Release(OTHER),
            events.CommandFailed("1"),
            events.TimerFired(),
            events.CommandFailed("2"),
            events.TimerFired(),
        ),
        (events.CommandFailed("3"), P.CLOSING, (close_topics(None),)),
        (events.TopicsClosed(), P.DELETING, (events.RemoveNode(LOCK, 0),)),
        (events.NodeRemoved(), P.WITHDRAWING, (events.ReadNode(HAND_OVER),)),
    ),
    "a lock whose deletion was not answered is looked at": (
        quietly(leaving(OTHER), events.TopicsClosed()),
        (events.CommandFailed("away"), P.DELETING, (events.StartTimer(0.05),)),
        (events.TimerFired(), P.DELETING, (events.ReadNode(LOCK),)),
        (MINE, P.DELETING, (events.RemoveNode(LOCK, 0),)),
    ),
    "a lookup that chose a broker which still waits for the successor": (
        quietly(leaving(OTHER), events.TopicsClosed(), events.NodeRemoved()),
        (events.Acquire(), P.WITHDRAWING, (events.ReadNode(HAND_OVER),)),
        (NO_NODE, P.ACQUIRING, (CREATE,)),
    ),
    "a split": (
        owned(),
        (events.SplitCompleted(), P.DELETING, (events.RemoveNode(LOCK, 0),)),
        (events.NodeRemoved(), P.FREE, ()),
    ),
}


@pytest.mark.parametrize("story", WHAT_HAPPENS)
def test_what_happens_to(story: str) -> None:
    start, *steps = WHAT_HAPPENS[story]
    run(start, *steps)


def test_an_owner_goes_on_with_open_topics_until_its_successor_has_the_lock() -> None:
    state = yielding()
    for record in (events.NodeRemoved(), APPEARED):
        assert state.holds
        assert not state.serves
        state = quietly(state, record)
    assert state.phase is P.CLOSING
    assert not state.holds


def test_topics_that_never_close_do_not_keep_a_bundle() -> None:
    state = leaving(OTHER)
    for _ in range(CLOSE_TRIES - 1):
        state = run(
            quietly(state, events.CommandFailed("no")),
            (events.TimerFired(), P.CLOSING, (close_topics(OTHER),)),
        )
    run(state, (events.CommandFailed("no"), P.DELETING, (events.RemoveNode(LOCK, 0),)))


def test_topics_that_take_all_the_time_there_is_get_no_more() -> None:
    late = events.CommandFailed("no answer within 70 s", late=True)
    run(leaving(OTHER), (late, P.DELETING, (events.RemoveNode(LOCK, 0),)))


@pytest.mark.parametrize(
    ("destination", "waits"), [(ME, True), (OTHER, False), ("b0:8080", False), (None, False)]
)
def test_clients_wait_while_topics_close_only_for_a_bundle_that_stays(
    destination: str | None, waits: bool
) -> None:
    state = quietly(owned(), events.Release(destination))
    if destination != ME:
        state = leaving(destination)
    assert state.phase is P.CLOSING
    assert state.undecided is waits
