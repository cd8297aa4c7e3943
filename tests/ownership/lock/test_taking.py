"""Taking a bundle that no broker owns, and finding the broker that owns one."""

import pytest

from counterpoise.ownership import events
from counterpoise.ownership.lock.nodes import bundle_of, hand_over_of, lock_of
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
        (events.Acquire(), P.ACQUIRING, (CREATE,)),
        (events.NodeCreated(0), P.OWNED, ()),
    ),
    "a bundle that another broker owns": (
        FREE,
        (events.Acquire(), P.ACQUIRING, (CREATE,)),
        (events.NodeExists(), P.ACQUIRING, (events.ReadNode(LOCK),)),
        (OTHERS, P.FREE, ()),
    ),
    "a lock of a former life": (
        FREE,
        (events.Acquire(), P.ACQUIRING, (CREATE,)),
        (events.NodeExists(), P.ACQUIRING, (events.ReadNode(LOCK),)),
        (FORMER, P.ACQUIRING, (events.RemoveNode(LOCK, 4),)),
        (events.NodeRemoved(), P.ACQUIRING, (CREATE,)),
        (events.NodeCreated(0), P.OWNED, ()),
    ),
    "a lock that was created, though the answer was lost": (
        FREE,
        (events.Acquire(), P.ACQUIRING, (CREATE,)),
        (events.CommandFailed("away"), P.ACQUIRING, (events.StartTimer(0.05),)),
        (events.TimerFired(), P.ACQUIRING, (CREATE,)),
        (events.NodeExists(), P.ACQUIRING, (events.ReadNode(LOCK),)),
        (MINE, P.OWNED, ()),
    ),
    "a client that comes for nothing": (
        FREE,
        (events.CheckOwnership(), P.READING_HAND_OVER, (events.ReadNode(HAND_OVER),)),
        (NO_NODE, P.CHECKING, (events.ReadNode(LOCK),)),
        (OTHERS, P.FREE, ()),
    ),
    "a client that knows more than the broker": (
        FREE,
        (events.CheckOwnership(), P.READING_HAND_OVER, (events.ReadNode(HAND_OVER),)),
        (NO_NODE, P.CHECKING, (events.ReadNode(LOCK),)),
        (MINE, P.OWNED, ()),
    ),
    "an announcement that a release of ours left behind": (
        FREE,
        (events.CheckOwnership(), P.READING_HAND_OVER, (events.ReadNode(HAND_OVER),)),
        (events.NodeFound(FROM_ME, 2), P.WITHDRAWING, (events.ReadNode(HAND_OVER),)),
        (events.NodeFound(FROM_ME, 2), P.WITHDRAWING, (events.RemoveNode(HAND_OVER, 2),)),
        (events.VersionDiffers(), P.WITHDRAWING, (events.ReadNode(HAND_OVER),)),
        (NO_NODE, P.FREE, ()),
    ),
    "a hand-over that is no record": (
        FREE,
        (ANNOUNCED, P.READING_HAND_OVER, (events.ReadNode(HAND_OVER),)),
        (events.NodeFound(b"[", 1), P.FREE, ()),
    ),
    "a lock that is no record": (
        FREE,
        (events.Acquire(), P.ACQUIRING, (CREATE,)),
        (events.NodeExists(), P.ACQUIRING, (events.ReadNode(LOCK),)),
        (events.NodeFound(b"[", 1), P.FREE, ()),
    ),
}


@pytest.mark.parametrize("story", WHAT_HAPPENS)
def test_what_happens_to(story: str) -> None:
    start, *steps = WHAT_HAPPENS[story]
    run(start, *steps)


def test_a_bundle_that_cannot_be_taken_is_left_to_the_next_lookup() -> None:
    state = quietly(FREE, events.Acquire())
    for _ in range(TRIES - 1):
        state = quietly(state, events.CommandFailed("away"), events.TimerFired())
    assert advance(state, events.CommandFailed("away")) == (FREE, ())


@pytest.mark.parametrize(
    ("path", "bundle"),
    [
        ("/namespace/t/n/0x00000000_0xffffffff", "t/n/0x00000000_0xffffffff"),
        ("/counterpoise/hand-overs/t/n/0x0_0x1", "t/n/0x0_0x1"),
        ("/namespace/t/n", None),
        ("/namespace/t/n/0x0_0x1/more", None),
        ("/namespaces/t/n/0x0_0x1", None),
        ("/counterpoise/other/t/n/0x0_0x1", None),
    ],
)
def test_a_node_is_of_the_bundle_in_its_path(path: str, bundle: str | None) -> None:
    assert bundle_of(path) == bundle
    if bundle is not None:
        assert path in (lock_of(bundle), hand_over_of(bundle))
