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
"""Drains in a row that may fail before a bundle is released with topics that would not close."""

P = LockPhase


def advance(state: BundleLock, event: object) -> Next:
    """The next state and the effects of one event; raises `UnexpectedEvent`."""
    after, effects = events.step(TABLE, state.phase, "bundle ownership", state, event)
    if after.in_progress or after.deferred is None:
        return after, effects
    # At rest now: handle the request that was deferred until then.
    rested, more = advance(replace(after, deferred=None), after.deferred)
    return rested, (*effects, *more)


def _row(
    phase: LockPhase,
    *,
    results: dict[type, Transition],
    acquire: Transition = do.stay,
    release: Transition = do.stay,
    replaced: Transition = do.stay,
    check: Transition = do.stay,
    successor_ready: Transition = do.stay,
    node: Transition = do.stay,
    session: Transition = do.stay,
    timer: Transition = do.stay,
) -> dict[tuple[LockPhase, type], Transition]:
    """The entries of one phase. Events that are not named here change nothing."""
    row: dict[type, Transition] = {
        events.Acquire: acquire,
        events.Release: release,
        events.SplitCompleted: replaced,
        events.CheckOwnership: check,
        events.SuccessorReady: successor_ready,
        events.BundleReleased: do.stay,
        events.NodeChanged: node,
        events.SessionChanged: session,
        events.TimerFired: timer,
        **results,
    }
    return {(phase, kind): transition for kind, transition in row.items()}


_ABOUT_THE_LOCK: Final[dict[type, Transition]] = {
    events.NodeCreated: do.believing(do.created),
    events.NodeExists: do.look,
    events.NodeFound: do.believing(do.found_lock),
    events.NodeRemoved: do.create,
    events.VersionDiffers: do.create,
}
_ROWS: Final = (
    _row(
        P.FREE,
        acquire=do.acquire,
        check=do.check_ownership,
        node=do.on_node(announced=do.hear),
        results={},
    ),
    _row(
        P.READING_HAND_OVER,
        acquire=do.later,
        check=do.also_look_at_the_lock,
        node=do.on_node(announced=do.distrust, withdrawn=do.distrust),
        session=do.distrust,
        timer=do.end_pause,
        results={
            events.NodeFound: do.believing(do.heard),
            events.CommandFailed: do.trying(TRIES, do.free),
        },
    ),
    _row(
        P.CHECKING,
        acquire=do.later,
        release=do.later,
        replaced=do.later,
        node=do.on_node(
            lock_vanished=do.distrust,
            lock_appeared=do.distrust,
            announced=do.later,
            withdrawn=do.hear_withdrawal,
        ),
        session=do.distrust,
        timer=do.end_pause,
        results={
            events.NodeFound: do.believing(do.checked),
            events.CommandFailed: do.trying(TRIES, do.free),
        },
    ),
    _row(
        P.EXPECTED,
        # A notification may have been missed: it tries to acquire before it gives up.
        node=do.on_node(lock_vanished=do.acquire, announced=do.hear, withdrawn=do.take_over),
        session=do.entering(P.CHECKING),
        timer=do.acquire,
        results={},
    ),
    _row(
        P.ACQUIRING,
        release=do.later,
        replaced=do.later,
        # Notifications may overtake results: a lock may be gone before the result of its creation
        # comes.
        node=do.on_node(lock_vanished=do.distrust, withdrawn=do.hear_withdrawal),
        session=do.distrust,
        timer=do.end_pause,
        results={**_ABOUT_THE_LOCK, events.CommandFailed: do.trying(TRIES, do.free)},
    ),
    _row(
        P.TAKING_OVER,
        release=do.later,
        replaced=do.later,
        node=do.on_node(lock_vanished=do.lose, withdrawn=do.inherit),
        session=do.doubt,
        # Topics that the former owner still has open will be fenced.
        timer=do.inherit,
        results={},
    ),
    _row(
        P.OWNED,
        release=do.release,
        replaced=do.replaced,
        node=do.on_node(lock_vanished=do.lose),
        session=do.doubt,
        results={},
    ),
    _row(
        P.DOUBTED,
        release=do.later,
        replaced=do.later,
        node=do.on_node(lock_vanished=do.distrust, withdrawn=do.hear_withdrawal),
        session=do.distrust,
        timer=do.end_pause,
        results={**_ABOUT_THE_LOCK, events.CommandFailed: do.trying(None, do.stay)},
    ),
    _row(
        P.ANNOUNCING,
        node=do.on_node(lock_vanished=do.unsure),
        session=do.unsure,
        timer=do.end_pause,
        # A successor that was not notified is not waited for, and does not keep the bundle here.
        results={
            events.NodeWritten: do.announced,
            events.CommandFailed: do.trying(ANNOUNCE_TRIES, do.close_without_successor),
        },
    ),
    _row(
        P.AWAITING,
        successor_ready=do.give,
        node=do.on_node(lock_vanished=do.close_in_doubt),
        session=do.close_in_doubt,
        timer=do.close_topics,
        results={},
    ),
    _row(
        P.YIELDING,
        node=do.on_node(lock_appeared=do.taken),
        session=do.unsure,
        results={
            events.NodeRemoved: do.given,
            events.VersionDiffers: do.close_in_doubt,
            events.CommandFailed: do.close_in_doubt,
        },
    ),
    _row(
        P.YIELDED,
        node=do.on_node(lock_appeared=do.close_yielded),
        session=do.close_yielded,
        timer=do.close_without_successor,
        results={},
    ),
    _row(
        P.CLOSING,
        node=do.on_node(lock_vanished=do.unsure),
        session=do.unsure,
        timer=do.end_pause,
        results={
            events.TopicsClosed: do.topics_closed,
            events.CommandFailed: do.trying(CLOSE_TRIES, do.topics_closed),
        },
    ),
    _row(
        P.DELETING,
        acquire=do.later,
        check=do.later,
        node=do.on_node(lock_appeared=do.taken, announced=do.later),
        session=do.distrust,
        timer=do.end_pause,
        results={
            events.NodeFound: do.believing(do.found_own),
            events.NodeRemoved: do.deleted,
            events.VersionDiffers: do.look,
            events.CommandFailed: do.trying(None, do.stay),
        },
    ),
    _row(
        P.AWAITING_TAKEOVER,
        acquire=do.stop_waiting,
        check=do.stop_waiting,
        node=do.on_node(lock_appeared=do.withdraw, announced=do.later),
        session=do.withdraw,
        timer=do.withdraw,
        results={},
    ),
    _row(
        P.WITHDRAWING,
        acquire=do.later,
        check=do.later,
        node=do.on_node(announced=do.later),
        session=do.distrust,
        timer=do.end_pause,
        results={
            events.NodeFound: do.believing(do.found_hand_over),
            events.NodeRemoved: do.free,
            events.VersionDiffers: lambda state, _: do.ask_again(state),
            events.CommandFailed: do.trying(None, do.stay),
        },
    ),
    _row(
        P.DROPPING,
        acquire=do.later,
        check=do.later,
        node=do.on_node(announced=do.later),
        timer=do.end_pause,
        results={
            events.TopicsClosed: do.free,
            events.CommandFailed: do.trying(CLOSE_TRIES, do.free),
        },
    ),
)
TABLE: Final[dict[tuple[LockPhase, type], Transition]] = {
    key: transition for row in _ROWS for key, transition in row.items()
}
