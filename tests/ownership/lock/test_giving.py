"""Releasing a bundle: the owner's side of a move, and a split."""

from __future__ import annotations

import pytest

from counterpoise.ownership.events import (
    Acquire,
    CommandFailed,
    NodeFound,
    NodeRemoved,
    NodeWritten,
    Prepare,
    ReadNode,
    Release,
    RemoveNode,
    SessionChanged,
    SplitCompleted,
    StartTimer,
    SuccessorReady,
    TimerFired,
    TopicsClosed,
    VersionDiffers,
    WriteNode,
)
from counterpoise.ownership.lock.table import DRAIN_TRIES
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
    drain,
    leaving,
    owned,
    quietly,
    run,
    yielding,
)

WHAT_HAPPENS = {
    "a hand-over, the owner's side": (
        owned(),
        (Release(OTHER), P.ANNOUNCING, (WriteNode(HAND_OVER, FROM_ME),)),
        (NodeWritten(), P.AWAITING, (StartTimer(1),)),
        (SuccessorReady(), P.YIELDING, (RemoveNode(LOCK, 0),)),
        (VANISHED, P.YIELDING, ()),
        (NodeRemoved(), P.YIELDED, (StartTimer(5),)),
        (APPEARED, P.DRAINING, (drain(OTHER),)),
        (TopicsClosed(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (NodeFound(FROM_ME, 0, mine=True), P.WITHDRAWING, (RemoveNode(HAND_OVER, 0),)),
        (NodeRemoved(), P.FREE, ()),
    ),
    "a successor that is heard of before our own lock is known to be gone": (
        yielding(),
        (APPEARED, P.YIELDING, ()),
        (NodeRemoved(), P.DRAINING, (drain(OTHER),)),
        (TopicsClosed(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
    ),
    "a successor that was ready, and never comes": (
        quietly(yielding(), NodeRemoved()),
        (TimerFired(), P.DRAINING, (drain(None),)),
        (TopicsClosed(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (NodeFound(FROM_ME, 0, mine=True), P.WITHDRAWING, (RemoveNode(HAND_OVER, 0),)),
        (NodeRemoved(), P.FREE, ()),
    ),
    "a session that is lost while the lock is given away": (
        yielding(),
        (SessionChanged(), P.YIELDING, ()),
        (NodeRemoved(), P.DRAINING, (drain(OTHER),)),
        (TopicsClosed(), P.DELETING, (ReadNode(LOCK),)),
    ),
    "a lock that was written over before it could be given away": (
        yielding(),
        (VersionDiffers(), P.DRAINING, (drain(OTHER),)),
        (TopicsClosed(), P.DELETING, (ReadNode(LOCK),)),
    ),
    "a lock of which it is unknown whether it was given away": (
        yielding(),
        (CommandFailed("away"), P.DRAINING, (drain(OTHER),)),
        (TopicsClosed(), P.DELETING, (ReadNode(LOCK),)),
        (OTHERS, P.WITHDRAWING, (ReadNode(HAND_OVER),)),
    ),
    "a session that is lost when the lock is given away": (
        quietly(yielding(), NodeRemoved()),
        (SessionChanged(), P.DRAINING, (drain(OTHER),)),
        (TopicsClosed(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
    ),
    "an owner whose successor was late": (
        quietly(owned(), Release(OTHER), NodeWritten()),
        (TimerFired(), P.DRAINING, (drain(OTHER),)),
        (TopicsClosed(), P.DELETING, (RemoveNode(LOCK, 0),)),
        (NodeRemoved(), P.AWAITING_TAKEOVER, (StartTimer(5),)),
        (APPEARED, P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (NodeFound(FROM_ME, 0, mine=True), P.WITHDRAWING, (RemoveNode(HAND_OVER, 0),)),
        (NodeRemoved(), P.FREE, ()),
    ),
    "a successor that is never ready": (
        quietly(owned(), Release(OTHER), NodeWritten()),
        (TimerFired(), P.DRAINING, (drain(OTHER),)),
        (SuccessorReady(), P.DRAINING, ()),
    ),
    "a lock that goes while its successor gets ready": (
        quietly(owned(), Release(OTHER), NodeWritten()),
        (VANISHED, P.DRAINING, (drain(OTHER),)),
        (TopicsClosed(), P.DELETING, (ReadNode(LOCK),)),
    ),
    "a session that is lost while the successor gets ready": (
        quietly(owned(), Release(OTHER), NodeWritten()),
        (SessionChanged(), P.DRAINING, (drain(OTHER),)),
        (TopicsClosed(), P.DELETING, (ReadNode(LOCK),)),
    ),
    "a session that is lost before the hand-over is announced": (
        quietly(owned(), Release(OTHER), SessionChanged()),
        (NodeWritten(), P.DRAINING, (drain(OTHER),)),
        (TopicsClosed(), P.DELETING, (ReadNode(LOCK),)),
    ),
    "a successor that was heard of before our own lock was known to be gone": (
        quietly(leaving(OTHER), TopicsClosed()),
        (APPEARED, P.DELETING, ()),
        (NodeRemoved(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (NodeFound(FROM_ME, 0, mine=True), P.WITHDRAWING, (RemoveNode(HAND_OVER, 0),)),
        (NodeRemoved(), P.FREE, ()),
    ),
    "a successor that never comes": (
        quietly(leaving(OTHER), TopicsClosed(), NodeRemoved()),
        (TimerFired(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (NO_NODE, P.FREE, ()),
    ),
    "a hand-over that the successor has handed on already": (
        quietly(leaving(OTHER), TopicsClosed(), NodeRemoved(), APPEARED),
        (ANNOUNCED, P.WITHDRAWING, ()),
        (NodeFound(TO_ME, 1, mine=True), P.READING_HAND_OVER, (ReadNode(HAND_OVER),)),
        (NodeFound(TO_ME, 1, mine=True), P.CHECKING, (ReadNode(LOCK),)),
        (OTHERS, P.EXPECTED, (StartTimer(5), Prepare())),
    ),
    "a hand-over without a successor": (
        leaving(None),
        (TopicsClosed(), P.DELETING, (RemoveNode(LOCK, 0),)),
        (NodeRemoved(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
    ),
    "a hand-over to itself keeps the lock and is not announced": (
        owned(),
        (Release(ME), P.DRAINING, (drain(ME),)),
        (TopicsClosed(), P.OWNED, ()),
    ),
    "a session that is lost while the bundle drains to its own broker": (
        quietly(owned(), Release(ME)),
        (SessionChanged(), P.DRAINING, ()),
        (TopicsClosed(), P.DOUBTED, (ReadNode(LOCK),)),
        (MINE, P.OWNED, ()),
    ),
    "a session that is lost while the bundle drains to another": (
        leaving(OTHER),
        (SessionChanged(), P.DRAINING, ()),
        # A version may be the same in a lock that is another broker's by now.
        (TopicsClosed(), P.DELETING, (ReadNode(LOCK),)),
        (OTHERS, P.WITHDRAWING, (ReadNode(HAND_OVER),)),
    ),
    "a release that could not be announced has no successor to wait for": (
        quietly(
            owned(),
            Release(OTHER),
            CommandFailed("1"),
            TimerFired(),
            CommandFailed("2"),
            TimerFired(),
        ),
        (CommandFailed("3"), P.DRAINING, (drain(None),)),
        (TopicsClosed(), P.DELETING, (RemoveNode(LOCK, 0),)),
        (NodeRemoved(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
    ),
    "a lock whose deletion was not answered is looked at": (
        quietly(leaving(OTHER), TopicsClosed()),
        (CommandFailed("away"), P.DELETING, (StartTimer(0.05),)),
        (TimerFired(), P.DELETING, (ReadNode(LOCK),)),
        (MINE, P.DELETING, (RemoveNode(LOCK, 0),)),
    ),
    "a lookup that chose a broker which still waits for the successor": (
        quietly(leaving(OTHER), TopicsClosed(), NodeRemoved()),
        (Acquire(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (NO_NODE, P.ACQUIRING, (CREATE,)),
    ),
    "a split": (
        owned(),
        (SplitCompleted(), P.DELETING, (RemoveNode(LOCK, 0),)),
        (NodeRemoved(), P.FREE, ()),
    ),
}


@pytest.mark.parametrize("story", WHAT_HAPPENS)
def test_what_happens_to(story: str) -> None:
    start, *steps = WHAT_HAPPENS[story]
    run(start, *steps)


def test_an_owner_goes_on_with_open_topics_until_its_successor_has_the_lock() -> None:
    state = yielding()
    for record in (NodeRemoved(), APPEARED):
        assert state.holds
        assert not state.serves
        state = quietly(state, record)
    assert state.phase is P.DRAINING
    assert not state.holds


def test_topics_that_never_close_do_not_keep_a_bundle() -> None:
    state = leaving(OTHER)
    for _ in range(DRAIN_TRIES - 1):
        state = run(
            quietly(state, CommandFailed("no")), (TimerFired(), P.DRAINING, (drain(OTHER),))
        )
    run(state, (CommandFailed("no"), P.DELETING, (RemoveNode(LOCK, 0),)))


def test_topics_that_take_all_the_time_there_is_get_no_more() -> None:
    late = CommandFailed("no answer within 70 s", late=True)
    run(leaving(OTHER), (late, P.DELETING, (RemoveNode(LOCK, 0),)))


@pytest.mark.parametrize(
    ("destination", "waits"), [(ME, True), (OTHER, False), ("b0:8080", False), (None, False)]
)
def test_clients_wait_while_topics_close_only_for_a_bundle_that_stays(
    destination: str | None, waits: bool
) -> None:
    state = quietly(owned(), Release(destination))
    if destination != ME:
        state = leaving(destination)
    assert state.phase is P.DRAINING
    assert state.settling is waits
