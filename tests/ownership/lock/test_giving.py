"""Letting go of a bundle: the owner's side of a move, and a split."""

from __future__ import annotations

import pytest

from counterpoise.ownership.lock.table import DRAIN_TRIES
from counterpoise.ownership.port import (
    Acquire,
    Differs,
    Drained,
    Failed,
    Found,
    HeirReady,
    Prepare,
    ReadNode,
    Release,
    Removed,
    RemoveNode,
    Replaced,
    SessionChanged,
    WakeMe,
    Woken,
    WriteNode,
    Written,
)
from tests.ownership.lock.machine import (
    ANNOUNCED,
    APPEARED,
    CREATE,
    FROM_ME,
    HAND_OVER,
    LOCK,
    ME,
    MINE,
    NOBODY,
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
        (Written(), P.AWAITING, (WakeMe(1),)),
        (HeirReady(), P.YIELDING, (RemoveNode(LOCK, 0),)),
        (VANISHED, P.YIELDING, ()),
        (Removed(), P.YIELDED, (WakeMe(5),)),
        (APPEARED, P.DRAINING, (drain(OTHER),)),
        (Drained(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (Found(FROM_ME, 0, mine=True), P.WITHDRAWING, (RemoveNode(HAND_OVER, 0),)),
        (Removed(), P.FREE, ()),
    ),
    "an heir that is heard of before our own lock is known to be gone": (
        yielding(),
        (APPEARED, P.YIELDING, ()),
        (Removed(), P.DRAINING, (drain(OTHER),)),
        (Drained(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
    ),
    "an heir that was ready, and never comes": (
        quietly(yielding(), Removed()),
        (Woken(), P.DRAINING, (drain(None),)),
        (Drained(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (Found(FROM_ME, 0, mine=True), P.WITHDRAWING, (RemoveNode(HAND_OVER, 0),)),
        (Removed(), P.FREE, ()),
    ),
    "a session that is lost while the lock is given away": (
        yielding(),
        (SessionChanged(), P.YIELDING, ()),
        (Removed(), P.DRAINING, (drain(OTHER),)),
        (Drained(), P.DELETING, (ReadNode(LOCK),)),
    ),
    "a lock that was written over before it could be given away": (
        yielding(),
        (Differs(), P.DRAINING, (drain(OTHER),)),
        (Drained(), P.DELETING, (ReadNode(LOCK),)),
    ),
    "a lock of which nobody knows whether it was given away": (
        yielding(),
        (Failed("away"), P.DRAINING, (drain(OTHER),)),
        (Drained(), P.DELETING, (ReadNode(LOCK),)),
        (OTHERS, P.WITHDRAWING, (ReadNode(HAND_OVER),)),
    ),
    "a session that is lost when the lock is given away": (
        quietly(yielding(), Removed()),
        (SessionChanged(), P.DRAINING, (drain(OTHER),)),
        (Drained(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
    ),
    "an owner whose heir was late": (
        quietly(owned(), Release(OTHER), Written()),
        (Woken(), P.DRAINING, (drain(OTHER),)),
        (Drained(), P.DELETING, (RemoveNode(LOCK, 0),)),
        (Removed(), P.HANDING_ON, (WakeMe(5),)),
        (APPEARED, P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (Found(FROM_ME, 0, mine=True), P.WITHDRAWING, (RemoveNode(HAND_OVER, 0),)),
        (Removed(), P.FREE, ()),
    ),
    "an heir that is never ready": (
        quietly(owned(), Release(OTHER), Written()),
        (Woken(), P.DRAINING, (drain(OTHER),)),
        (HeirReady(), P.DRAINING, ()),
    ),
    "a lock that goes while its heir gets ready": (
        quietly(owned(), Release(OTHER), Written()),
        (VANISHED, P.DRAINING, (drain(OTHER),)),
        (Drained(), P.DELETING, (ReadNode(LOCK),)),
    ),
    "a session that is lost while the heir gets ready": (
        quietly(owned(), Release(OTHER), Written()),
        (SessionChanged(), P.DRAINING, (drain(OTHER),)),
        (Drained(), P.DELETING, (ReadNode(LOCK),)),
    ),
    "a session that is lost before the heir is told": (
        quietly(owned(), Release(OTHER), SessionChanged()),
        (Written(), P.DRAINING, (drain(OTHER),)),
        (Drained(), P.DELETING, (ReadNode(LOCK),)),
    ),
    "an heir that was heard of before our own lock was known to be gone": (
        quietly(leaving(OTHER), Drained()),
        (APPEARED, P.DELETING, ()),
        (Removed(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (Found(FROM_ME, 0, mine=True), P.WITHDRAWING, (RemoveNode(HAND_OVER, 0),)),
        (Removed(), P.FREE, ()),
    ),
    "an heir that never comes": (
        quietly(leaving(OTHER), Drained(), Removed()),
        (Woken(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (NOBODY, P.FREE, ()),
    ),
    "a hand-over that the heir has handed on already": (
        quietly(leaving(OTHER), Drained(), Removed(), APPEARED),
        (ANNOUNCED, P.WITHDRAWING, ()),
        (Found(TO_ME, 1, mine=True), P.HEARING, (ReadNode(HAND_OVER),)),
        (Found(TO_ME, 1, mine=True), P.CHECKING, (ReadNode(LOCK),)),
        (OTHERS, P.EXPECTED, (WakeMe(5), Prepare())),
    ),
    "a hand-over to nobody": (
        leaving(None),
        (Drained(), P.DELETING, (RemoveNode(LOCK, 0),)),
        (Removed(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
    ),
    "a hand-over to itself keeps the lock and is nobody's business": (
        owned(),
        (Release(ME), P.DRAINING, (drain(ME),)),
        (Drained(), P.OWNED, ()),
    ),
    "a session that is lost while the bundle drains to its own broker": (
        quietly(owned(), Release(ME)),
        (SessionChanged(), P.DRAINING, ()),
        (Drained(), P.DOUBTED, (ReadNode(LOCK),)),
        (MINE, P.OWNED, ()),
    ),
    "a session that is lost while the bundle drains to another": (
        leaving(OTHER),
        (SessionChanged(), P.DRAINING, ()),
        # A version may be the same in a lock that is somebody else's by now.
        (Drained(), P.DELETING, (ReadNode(LOCK),)),
        (OTHERS, P.WITHDRAWING, (ReadNode(HAND_OVER),)),
    ),
    "a release that nobody could be told of has no heir to wait for": (
        quietly(owned(), Release(OTHER), Failed("1"), Woken(), Failed("2"), Woken()),
        (Failed("3"), P.DRAINING, (drain(None),)),
        (Drained(), P.DELETING, (RemoveNode(LOCK, 0),)),
        (Removed(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
    ),
    "a lock whose deletion was not answered is looked at": (
        quietly(leaving(OTHER), Drained()),
        (Failed("away"), P.DELETING, (WakeMe(0.05),)),
        (Woken(), P.DELETING, (ReadNode(LOCK),)),
        (MINE, P.DELETING, (RemoveNode(LOCK, 0),)),
    ),
    "a lookup that chose a broker which still waits for the heir": (
        quietly(leaving(OTHER), Drained(), Removed()),
        (Acquire(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (NOBODY, P.ACQUIRING, (CREATE,)),
    ),
    "a split": (
        owned(),
        (Replaced(), P.DELETING, (RemoveNode(LOCK, 0),)),
        (Removed(), P.FREE, ()),
    ),
}


@pytest.mark.parametrize("story", WHAT_HAPPENS)
def test_what_happens_to(story: str) -> None:
    start, *steps = WHAT_HAPPENS[story]
    run(start, *steps)


def test_an_owner_goes_on_with_open_topics_until_its_heir_has_the_lock() -> None:
    state = yielding()
    for record in (Removed(), APPEARED):
        assert state.holds
        assert not state.serves
        state = quietly(state, record)
    assert state.phase is P.DRAINING
    assert not state.holds


def test_topics_that_never_close_do_not_keep_a_bundle() -> None:
    state = leaving(OTHER)
    for _ in range(DRAIN_TRIES - 1):
        state = run(quietly(state, Failed("no")), (Woken(), P.DRAINING, (drain(OTHER),)))
    run(state, (Failed("no"), P.DELETING, (RemoveNode(LOCK, 0),)))


def test_topics_that_take_all_the_time_there_is_get_no_more() -> None:
    late = Failed("no answer within 70 s", late=True)
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
