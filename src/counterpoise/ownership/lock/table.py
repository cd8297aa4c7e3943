"""Ownership of one bundle by lock and redirect (Pulsar's ``OwnershipCache``), as a state table.

The owner has an ephemeral node at ``/namespace/<bundle>``. To release the bundle it first announces
that, with its successor if there is one (`HandOver`), and serves the bundle until the successor is
ready. Then it deletes the node, and still serves until the successor has the lock, so no client
waits for the store while no broker serves the bundle. Then it closes its topics and withdraws the
announcement; from then on the successor serves them all. A topic that is closed according to its
log may be served by the successor before that.

The successor reads the announcement, prepares, waits for the node to vanish and acquires the lock
at once, so that clients redirected to it need no new lookup. If it is not ready in time, or there
is none, topics are closed before the node is deleted. Pulsar's own protocol has no announcement and
leaves the bundle to the next lookup; the lock itself is the same.

Failed commands are repeated, after pauses that grow to seconds. Reads of the lock and the
announcement are repeated for ever, since nothing else can be done without them. Others are repeated
a few times: if topics cannot be closed, the successor fences their logs, and if a bundle cannot be
acquired, the next lookup tries again.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from counterpoise.ownership import events
from counterpoise.ownership.lock import steps as do
from counterpoise.ownership.lock.state import BundleLock, LockPhase
from counterpoise.ownership.lock.steps import Next, Transition

TRIES: Final = 6
"""Commands in a row that may fail before a broker no longer tries to take a bundle."""
ANNOUNCE_TRIES: Final = 3
"""Announcements in a row that may fail before a bundle is released without a successor."""
CLOSE_TRIES: Final = 3
"""Closings in a row that may fail before a bundle is released with topics that would not close."""

P = LockPhase


def advance(state: BundleLock, event: object) -> Next:
    """The next state and the effects of one event; raises `UnexpectedEvent`."""
    after, effects = events.step(TABLE, state.phase, "bundle ownership", state, event)
    if after.in_progress or after.deferred is None:
        return after, effects
    # At rest now: handle the request that was deferred until then.
    rested, more = advance(replace(after, deferred=None), after.deferred)
    return rested, (*effects, *more)


_ANY_PHASE: Final[Mapping[type, Transition]] = dict.fromkeys(
    (
        events.Acquire,
        events.Release,
        events.SplitCompleted,
        events.CheckOwnership,
        events.SuccessorReady,
        events.BundleReleased,
        events.NodeChanged,
        events.SessionChanged,
        events.TimerFired,
    ),
    do.stay,
)
"""Events that a phase does not name change nothing."""
_ABOUT_THE_LOCK: Final[Mapping[type, Transition]] = {
    events.NodeCreated: do.believing(do.created),
    events.NodeExists: do.look,
    events.NodeFound: do.believing(do.found_lock),
    events.NodeRemoved: do.create,
    events.VersionDiffers: do.create,
}
_ROWS: Final[Mapping[LockPhase, Mapping[type, Transition]]] = {
    P.FREE: {
        events.Acquire: do.acquire,
        events.CheckOwnership: do.check_ownership,
        events.NodeChanged: do.on_node(announced=do.hear),
    },
    P.READING_HAND_OVER: {
        events.Acquire: do.later,
        events.CheckOwnership: do.also_look_at_the_lock,
        events.NodeChanged: do.on_node(announced=do.distrust, withdrawn=do.distrust),
        events.SessionChanged: do.distrust,
        events.TimerFired: do.end_pause,
        events.NodeFound: do.believing(do.heard),
        events.CommandFailed: do.trying(TRIES, do.free),
    },
    P.CHECKING: {
        events.Acquire: do.later,
        events.Release: do.later,
        events.SplitCompleted: do.later,
        events.NodeChanged: do.on_node(
            lock_vanished=do.distrust,
            lock_appeared=do.distrust,
            announced=do.later,
            withdrawn=do.hear_withdrawal,
        ),
        events.SessionChanged: do.distrust,
        events.TimerFired: do.end_pause,
        events.NodeFound: do.believing(do.checked),
        events.CommandFailed: do.trying(TRIES, do.free),
    },
    P.EXPECTED: {
        # A notification may have been missed: it tries to acquire before it gives up.
        events.NodeChanged: do.on_node(
            lock_vanished=do.acquire, announced=do.hear, withdrawn=do.take_over
        ),
        events.SessionChanged: do.entering(P.CHECKING),
        events.TimerFired: do.acquire,
    },
    P.ACQUIRING: {
        events.Release: do.later,
        events.SplitCompleted: do.later,
        # Notifications may overtake results: a lock may be gone before the result of its creation
        # comes.
        events.NodeChanged: do.on_node(lock_vanished=do.distrust, withdrawn=do.hear_withdrawal),
        events.SessionChanged: do.distrust,
        events.TimerFired: do.end_pause,
        **_ABOUT_THE_LOCK,
        events.CommandFailed: do.trying(TRIES, do.free),
    },
    P.TAKING_OVER: {
        events.Release: do.later,
        events.SplitCompleted: do.later,
        events.NodeChanged: do.on_node(lock_vanished=do.lose, withdrawn=do.inherit),
        events.SessionChanged: do.doubt,
        # Topics that the former owner still has open will be fenced.
        events.TimerFired: do.inherit,
    },
    P.OWNED: {
        events.Release: do.release,
        events.SplitCompleted: do.replaced,
        events.NodeChanged: do.on_node(lock_vanished=do.lose),
        events.SessionChanged: do.doubt,
    },
    P.DOUBTED: {
        events.Release: do.later,
        events.SplitCompleted: do.later,
        events.NodeChanged: do.on_node(lock_vanished=do.distrust, withdrawn=do.hear_withdrawal),
        events.SessionChanged: do.distrust,
        events.TimerFired: do.end_pause,
        **_ABOUT_THE_LOCK,
        events.CommandFailed: do.trying(None, do.stay),
    },
    P.ANNOUNCING: {
        events.NodeChanged: do.on_node(lock_vanished=do.unsure),
        events.SessionChanged: do.unsure,
        events.TimerFired: do.end_pause,
        # A successor that was not notified is not waited for, and does not keep the bundle here.
        events.NodeWritten: do.announced,
        events.CommandFailed: do.trying(ANNOUNCE_TRIES, do.close_without_successor),
    },
    P.AWAITING: {
        events.SuccessorReady: do.give,
        events.NodeChanged: do.on_node(lock_vanished=do.close_in_doubt),
        events.SessionChanged: do.close_in_doubt,
        events.TimerFired: do.close_topics,
    },
    P.YIELDING: {
        events.NodeChanged: do.on_node(lock_appeared=do.taken),
        events.SessionChanged: do.unsure,
        events.NodeRemoved: do.given,
        events.VersionDiffers: do.close_in_doubt,
        events.CommandFailed: do.close_in_doubt,
    },
    P.YIELDED: {
        events.NodeChanged: do.on_node(lock_appeared=do.close_yielded),
        events.SessionChanged: do.close_yielded,
        events.TimerFired: do.close_without_successor,
    },
    P.CLOSING: {
        events.NodeChanged: do.on_node(lock_vanished=do.unsure),
        events.SessionChanged: do.unsure,
        events.TimerFired: do.end_pause,
        events.TopicsClosed: do.topics_closed,
        events.CommandFailed: do.trying(CLOSE_TRIES, do.topics_closed),
    },
    P.DELETING: {
        events.Acquire: do.later,
        events.CheckOwnership: do.later,
        events.NodeChanged: do.on_node(lock_appeared=do.taken, announced=do.later),
        events.SessionChanged: do.distrust,
        events.TimerFired: do.end_pause,
        events.NodeFound: do.believing(do.found_own),
        events.NodeRemoved: do.deleted,
        events.VersionDiffers: do.look,
        events.CommandFailed: do.trying(None, do.stay),
    },
    P.AWAITING_TAKEOVER: {
        events.Acquire: do.stop_waiting,
        events.CheckOwnership: do.stop_waiting,
        events.NodeChanged: do.on_node(lock_appeared=do.withdraw, announced=do.later),
        events.SessionChanged: do.withdraw,
        events.TimerFired: do.withdraw,
    },
    P.WITHDRAWING: {
        events.Acquire: do.later,
        events.CheckOwnership: do.later,
        events.NodeChanged: do.on_node(announced=do.later),
        events.SessionChanged: do.distrust,
        events.TimerFired: do.end_pause,
        events.NodeFound: do.believing(do.found_hand_over),
        events.NodeRemoved: do.free,
        events.VersionDiffers: lambda state, _: do.ask_again(state),
        events.CommandFailed: do.trying(None, do.stay),
    },
    P.DROPPING: {
        events.Acquire: do.later,
        events.CheckOwnership: do.later,
        events.NodeChanged: do.on_node(announced=do.later),
        events.TimerFired: do.end_pause,
        events.TopicsClosed: do.free,
        events.CommandFailed: do.trying(CLOSE_TRIES, do.free),
    },
}
TABLE: Final = events.table_of(_ROWS, _ANY_PHASE)
