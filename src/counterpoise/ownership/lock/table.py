"""Ownership of one bundle by lock and redirect (Pulsar's ``OwnershipCache``), as a table.

The owner holds an ephemeral node at ``/namespace/<bundle>``. To let go it first announces that,
naming its heir if it has one (`HandOver`), and goes on until that is ready. Then it deletes the
node, and still goes on until the heir has the lock: nobody waits for the store while the bundle is
served nowhere. Only then it drains its topics, and withdraws the announcement, which tells the heir
that it may serve. A topic whose log its former owner has closed the heir may serve before that, by
the log's word.
The heir sees the announcement, prepares itself, waits for the node to vanish and takes the lock at
once, so that clients sent on to it need no new lookup. If it is not ready in time, or there is
none, topics are drained before the node is deleted.
Pulsar's own protocol has no announcement and leaves the bundle to the next lookup; the lock itself
is the same.

What fails is tried again, after pauses that grow to seconds: forever where the store's word is
needed (is the lock still ours, is it gone, is the announcement), since without the store nothing
else can be done either; a few times where it is not (closing topics: the heir fences their logs;
taking a bundle: the next lookup tries again).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from counterpoise.ownership.lock import steps as do
from counterpoise.ownership.lock.state import BundleLock, LockPhase
from counterpoise.ownership.lock.steps import Next, Transition
from counterpoise.ownership.machine import step
from counterpoise.ownership.port import (
    Acquire,
    BundleReleased,
    CheckOwnership,
    CommandFailed,
    NodeChanged,
    NodeCreated,
    NodeExists,
    NodeFound,
    NodeRemoved,
    NodeWritten,
    Release,
    SessionChanged,
    SplitCompleted,
    SuccessorReady,
    TimerFired,
    TopicsClosed,
    VersionDiffers,
)

TRIES: Final = 6
"""Questions in a row that may fail before a broker no longer tries to take a bundle."""
ANNOUNCE_TRIES: Final = 3
"""Announcements in a row that may fail before a bundle is let go without an heir."""
DRAIN_TRIES: Final = 3
"""Drains in a row that may fail before a bundle is let go with topics that would not close."""

P = LockPhase


def advance(state: BundleLock, record: object) -> Next:
    """The next state and the effects of one record; raises `ProtocolError`."""
    after, effects = step(TABLE, state.phase, "bundle ownership", state, record)
    if after.in_progress or after.order is None:
        return after, effects
    # At rest, it takes the order that waited for that.
    rested, more = advance(replace(after, order=None), after.order)
    return rested, (*effects, *more)


def _row(phase: LockPhase, *, answers: dict[type, Transition], **records: Transition) -> None:
    """Enter a phase: what is not named here changes nothing."""
    row: dict[type, Transition] = {
        Acquire: records.get("acquire", do.stay),
        Release: records.get("release", do.stay),
        SplitCompleted: records.get("replaced", do.stay),
        CheckOwnership: records.get("check", do.stay),
        SuccessorReady: records.get("successor_ready", do.stay),
        BundleReleased: do.stay,
        NodeChanged: records.get("node", do.stay),
        SessionChanged: records.get("session", do.stay),
        TimerFired: records.get("woken", do.stay),
        **answers,
    }
    TABLE.update({(phase, kind): transition for kind, transition in row.items()})


TABLE: Final[dict[tuple[LockPhase, type], Transition]] = {}
_row(
    P.FREE,
    acquire=do.acquire,
    check=do.check_ownership,
    node=do.on_node(announced=do.hear),
    answers={},
)
_row(
    P.READING_HAND_OVER,
    acquire=do.later,
    check=do.also_look_at_the_lock,
    node=do.on_node(announced=do.unsettle, withdrawn=do.unsettle),
    session=do.unsettle,
    woken=do.woken,
    answers={NodeFound: do.believing(do.heard), CommandFailed: do.trying(TRIES, do.free)},
)
_row(
    P.CHECKING,
    acquire=do.later,
    release=do.later,
    replaced=do.later,
    node=do.on_node(
        lock_vanished=do.unsettle,
        lock_appeared=do.unsettle,
        announced=do.later,
        withdrawn=do.hear_withdrawal,
    ),
    session=do.unsettle,
    woken=do.woken,
    answers={NodeFound: do.believing(do.checked), CommandFailed: do.trying(TRIES, do.free)},
)
_row(
    P.EXPECTED,
    # A notification may have been missed: before it gives up, it tries.
    node=do.on_node(lock_vanished=do.take, announced=do.hear, withdrawn=do.take_over),
    session=lambda state, _: do.enter(state, P.CHECKING),
    woken=do.acquire,
    answers={},
)
_ABOUT_THE_LOCK: Final[dict[type, Transition]] = {
    NodeCreated: do.believing(do.created),
    NodeExists: do.look,
    NodeFound: do.believing(do.found_lock),
    NodeRemoved: do.create,
    VersionDiffers: do.create,
}
_row(
    P.ACQUIRING,
    release=do.later,
    replaced=do.later,
    # News may overtake answers: a lock that was created may be gone before we hear that it was.
    node=do.on_node(lock_vanished=do.unsettle, withdrawn=do.hear_withdrawal),
    session=do.unsettle,
    woken=do.woken,
    answers={**_ABOUT_THE_LOCK, CommandFailed: do.trying(TRIES, do.free)},
)
_row(
    P.TAKING_OVER,
    release=do.later,
    replaced=do.later,
    node=do.on_node(lock_vanished=do.doubt, withdrawn=do.inherit),
    session=do.doubt,
    # Whoever takes longer has its logs fenced.
    woken=do.inherit,
    answers={},
)
_row(
    P.OWNED,
    release=do.release,
    replaced=do.replaced,
    node=do.on_node(lock_vanished=do.doubt),
    session=do.doubt,
    answers={},
)
_row(
    P.DOUBTED,
    release=do.later,
    replaced=do.later,
    node=do.on_node(lock_vanished=do.unsettle, withdrawn=do.hear_withdrawal),
    session=do.unsettle,
    woken=do.woken,
    answers={**_ABOUT_THE_LOCK, CommandFailed: do.trying(None, do.stay)},
)
_row(
    P.ANNOUNCING,
    node=do.on_node(lock_vanished=do.unsure),
    session=do.unsure,
    woken=do.woken,
    # A heir that does not know must not be waited for, nor keep a bundle here.
    answers={
        NodeWritten: do.announced,
        CommandFailed: do.trying(ANNOUNCE_TRIES, do.drain_without_successor),
    },
)
_row(
    P.AWAITING,
    successor_ready=do.give,
    node=do.on_node(lock_vanished=do.drain_in_doubt),
    session=do.drain_in_doubt,
    woken=do.drain,
    answers={},
)
_row(
    P.YIELDING,
    node=do.on_node(lock_appeared=do.taken),
    session=do.unsure,
    answers={
        NodeRemoved: do.given,
        VersionDiffers: do.drain_in_doubt,
        CommandFailed: do.drain_in_doubt,
    },
)
_row(
    P.YIELDED,
    node=do.on_node(lock_appeared=do.drain_yielded),
    session=do.drain_yielded,
    woken=do.drain_yielded_without_successor,
    answers={},
)
_row(
    P.DRAINING,
    node=do.on_node(lock_vanished=do.unsure),
    session=do.unsure,
    woken=do.woken,
    answers={TopicsClosed: do.drained, CommandFailed: do.trying(DRAIN_TRIES, do.drained)},
)
_row(
    P.DELETING,
    acquire=do.later,
    check=do.later,
    node=do.on_node(lock_appeared=do.taken, announced=do.later),
    session=do.unsettle,
    woken=do.woken,
    answers={
        NodeFound: do.believing(do.found_own),
        NodeRemoved: do.deleted,
        VersionDiffers: do.look,
        CommandFailed: do.trying(None, do.stay),
    },
)
_row(
    P.AWAITING_TAKEOVER,
    acquire=do.stop_waiting,
    check=do.stop_waiting,
    node=do.on_node(lock_appeared=do.withdraw, announced=do.later),
    session=do.withdraw,
    woken=do.withdraw,
    answers={},
)
_row(
    P.WITHDRAWING,
    acquire=do.later,
    check=do.later,
    node=do.on_node(announced=do.later),
    session=do.unsettle,
    woken=do.woken,
    answers={
        NodeFound: do.believing(do.found_hand_over),
        NodeRemoved: do.free,
        VersionDiffers: lambda state, _: do.ask_again(state),
        CommandFailed: do.trying(None, do.stay),
    },
)
_row(
    P.DROPPING,
    acquire=do.later,
    check=do.later,
    node=do.on_node(announced=do.later),
    woken=do.woken,
    answers={TopicsClosed: do.free, CommandFailed: do.trying(DRAIN_TRIES, do.free)},
)
