"""The transitions of the lock protocol's state table (`table`): what each event leads to.

A transition takes a bundle's state and an event, and returns the next state and the effects. The
*announcement* is the node by which an owner announces a hand-over (`HandOver`).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from counterpoise.ownership import events
from counterpoise.ownership.backoff import pause_s
from counterpoise.ownership.lock.nodes import read_hand_over, read_lock
from counterpoise.ownership.lock.state import BundleLock, LockPhase
from counterpoise.ownership.records import HandOver

Next: TypeAlias = tuple[BundleLock, events.Effects]
Transition: TypeAlias = Callable[[BundleLock, Any], Next]
P = LockPhase


def stay(state: BundleLock, _: object) -> Next:
    """Ignore the event."""
    return state, ()


def issue(state: BundleLock, command: events.Command) -> Next:
    """Issue a command. Its result is used unless another event comes first (`believing`)."""
    return replace(state, pausing=False, overtaken=False), (command,)


def enter(state: BundleLock, phase: LockPhase, **changes: Any) -> Next:
    """Enter a phase and issue its first command; ``changes`` are other fields to set."""
    return ask_again(replace(state, phase=phase, failures=0, **changes))


def entering(phase: LockPhase, **changes: Any) -> Transition:
    """Make a transition that enters a phase and sets ``changes``, whatever the event is."""
    return lambda state, _: enter(state, phase, **changes)


def ask_again(state: BundleLock) -> Next:
    """Issue the phase's first command again, since its last result may be outdated."""
    match state.phase:
        case P.READING_HAND_OVER | P.WITHDRAWING:
            return issue(state, events.ReadNode(state.hand_over))
        case P.CHECKING | P.DOUBTED:
            return issue(state, events.ReadNode(state.lock))
        case P.ACQUIRING:
            return issue(state, events.CreateNode(state.lock, state.options.me.to_json()))
        case P.ANNOUNCING:
            value = HandOver(state.me, state.destination).to_json()
            return issue(state, events.WriteNode(state.hand_over, value))
        case P.DELETING | P.YIELDING if state.version is not None:
            return issue(state, events.RemoveNode(state.lock, state.version))
        case P.DELETING:
            return issue(state, events.ReadNode(state.lock))
        case P.CLOSING:
            return issue(
                state, events.CloseTopics(state.destination, within_s=state.options.close_topics_s)
            )
        case P.DROPPING:
            return issue(state, events.CloseTopics(None, within_s=state.options.close_topics_s))
    raise AssertionError(f"no command begins {state.phase}")


def rest(state: BundleLock, phase: LockPhase, version: int | None = None) -> Next:
    """Enter a phase in which nothing is awaited (`REST`); then handle a deferred request."""
    after = BundleLock(state.options, state.bundle, phase, version=version, deferred=state.deferred)
    return after, ()


def pause(state: BundleLock) -> Next:
    """Wait before the failed command is issued again."""
    failures = state.failures + 1
    after = replace(state, pausing=True, overtaken=False, failures=failures, claimed=False)
    return after, (events.StartTimer(pause_s(failures)),)


def later(state: BundleLock, event: object) -> Next:
    """Defer a request until the phase is one in which nothing is awaited."""
    return replace(state, deferred=event), ()


# Taking a bundle.


acquire = entering(P.ACQUIRING)
"""Try to create the lock; as far as is known, no other broker has it."""
take_over = entering(P.ACQUIRING, is_released=True)
"""Create this broker's lock; the former owner released the bundle or is gone."""


def hear_withdrawal(state: BundleLock, _: object) -> Next:
    """Note that the former owner deleted its hand-over announcement: its topics are closed."""
    return replace(state, is_released=True), ()


hear = entering(P.READING_HAND_OVER, destination=None, is_released=False)
"""Read the hand-over's announcement, to find out which broker is the successor."""
check_ownership = entering(P.READING_HAND_OVER, thorough=True)
"""For a client's request, check if the bundle is handed over to, or owned by, this broker."""


def heard(state: BundleLock, answer: events.NodeFound) -> Next:
    """Act on the hand-over announcement just read: if this broker is named, read the lock."""
    hand_over = read_hand_over(answer.value)
    if hand_over is not None and hand_over.destination == state.me:
        return enter(state, P.CHECKING, destination=state.me)
    if hand_over is not None and hand_over.source == state.me:
        # Left by a release of this broker's that could not end.
        return enter(state, P.WITHDRAWING)
    return enter(state, P.CHECKING) if state.thorough else rest(state, P.FREE)


def checked(state: BundleLock, answer: events.NodeFound) -> Next:
    """Act on the lock just read of a bundle that this broker does not serve.

    If another broker has the lock and hands the bundle over to this one, prepare to serve it.
    """
    expected = state.destination == state.me
    holder = read_lock(answer.value)
    if holder is None:
        return acquire(state, answer) if expected else rest(state, P.FREE)
    if answer.mine or holder.broker_id == state.me:
        return found_lock(replace(state, phase=P.ACQUIRING), answer)
    if not expected:
        return rest(state, P.FREE)
    return replace(state, phase=P.EXPECTED), (
        events.StartTimer(state.options.successor_s),
        events.Prepare(),
    )


def created(state: BundleLock, answer: events.NodeCreated) -> Next:
    """Own the bundle, whose lock this broker has just created."""
    return own(state, answer.version)


def own(state: BundleLock, version: int) -> Next:
    """The next state once the lock node has this broker's value, at this ``version``.

    The broker owns the bundle; while the former owner may still be closing topics, it waits before
    it opens them.
    """
    if state.destination != state.me or state.is_released:
        return rest(state, P.OWNED, version)
    after = replace(state, phase=P.TAKING_OVER, version=version, failures=0, claimed=False)
    return after, (events.StartTimer(state.options.takeover_s),)


def inherit(state: BundleLock, _: object) -> Next:
    """Serve all topics of the bundle: the former owner has closed them or took too long."""
    return rest(state, P.OWNED, state.version)


def look(state: BundleLock, _: object) -> Next:
    """Read the lock, since its node no longer has the version known here."""
    return issue(replace(state, version=None), events.ReadNode(state.lock))


def found_lock(state: BundleLock, answer: events.NodeFound) -> Next:
    """Act on the lock just read of a bundle that this broker serves or tries to acquire."""
    holder = read_lock(answer.value)
    if holder is None:
        # No broker has it. If it vanished with this broker's session, the topics just stay open.
        return issue(state, events.CreateNode(state.lock, state.options.me.to_json()))
    if answer.mine:
        return own(state, answer.version)
    if holder.broker_id == state.me and not state.claimed:
        # This broker's node from before a restart, or of its former session, with which it
        # vanishes.
        claimed = replace(state, claimed=True)
        return issue(claimed, events.RemoveNode(state.lock, answer.version))
    # Another broker's, or by mistake another process's under this broker's id: if each removed the
    # other's, that would never end.
    if state.phase is P.DOUBTED:
        return enter(state, P.DROPPING)
    return rest(state, P.FREE)


def create(state: BundleLock, _: object) -> Next:
    """Create this broker's lock; no other broker has one."""
    return issue(state, events.CreateNode(state.lock, state.options.me.to_json()))


# Releasing a bundle.


doubt = entering(P.DOUBTED, version=None)
"""Read the lock again before a further topic is opened, because it may be gone."""
lose = entering(P.DOUBTED, version=None, claimed=True)
"""Read the lock again, which vanished; another process may have removed it."""


def release(state: BundleLock, request: events.Release) -> Next:
    """Write the announcement that this broker is to release the bundle."""
    if request.destination == state.me:
        # The lock stays, so no other broker has to know.
        return enter(state, P.CLOSING, destination=state.me)
    return enter(state, P.ANNOUNCING, destination=request.destination, announced=True)


def announced(state: BundleLock, _: object) -> Next:
    """Once the announcement is written, wait for the successor, or close the topics.

    It waits if there is a successor and this broker certainly has the lock.
    """
    if state.destination is None or state.version is None:
        return enter(state, P.CLOSING)
    return replace(state, phase=P.AWAITING), (events.StartTimer(state.options.prepare_s),)


give = entering(P.YIELDING)
"""Delete the lock, since the successor is ready. Topics stay open until it has a lock."""


def given(state: BundleLock, answer: object) -> Next:
    """Once this broker's lock is deleted, wait for the successor's lock; then close the topics."""
    if state.version is None:
        return close_topics(state, answer)
    if state.overtaken:
        return close_yielded(state, answer)
    after = replace(state, phase=P.YIELDED, version=None, yielded=True)
    return after, (events.StartTimer(state.options.successor_s),)


close_yielded = entering(P.CLOSING, version=None, yielded=True)
"""Close the topics, since the successor has the lock; then delete the announcement."""
close_topics = entering(P.CLOSING)
"""Close the topics, since the successor took too long to prepare; then delete the lock."""
close_in_doubt = entering(P.CLOSING, version=None)
"""Close the topics at once: the lock may be gone, and another broker may own the bundle."""
close_without_successor = entering(P.CLOSING, destination=None)
"""Close the topics and leave the bundle to the next lookup.

The successor could not be notified, or it has not created a lock."""


def topics_closed(state: BundleLock, _: object) -> Next:
    """With the topics closed, delete the lock, or serve again if this broker is the destination."""
    if state.yielded:
        return enter(state, P.WITHDRAWING)
    if state.destination != state.me:
        return enter(state, P.DELETING)
    if state.version is None:
        return enter(state, P.DOUBTED, destination=None)
    return rest(state, P.OWNED, state.version)


replaced = entering(P.DELETING, destination=None)
"""Only delete the lock: the bundle was split and this broker owns its parts."""


def found_own(state: BundleLock, answer: events.NodeFound) -> Next:
    """Delete the lock just read, if it is this broker's."""
    if answer.value is None:
        return deleted(state, answer)
    if answer.mine:
        return issue(state, events.RemoveNode(state.lock, answer.version))
    return withdraw(state, answer) if state.announced else rest(state, P.FREE)


def deleted(state: BundleLock, answer: object) -> Next:
    """Once this broker's lock is deleted, wait for the lock of an announced successor, if any."""
    if not state.announced:
        return rest(state, P.FREE)
    if state.destination is None or state.overtaken:
        # No successor, or it had the lock before this broker was notified of the deletion.
        return withdraw(state, answer)
    return replace(state, phase=P.AWAITING_TAKEOVER), (
        events.StartTimer(state.options.successor_s),
    )


def taken(state: BundleLock, _: object) -> Next:
    """Note that a lock appeared while this broker's was being deleted."""
    return replace(state, overtaken=True), ()


withdraw = entering(P.WITHDRAWING)
"""Delete the announcement of a hand-over that has ended."""


def stop_waiting(state: BundleLock, request: object) -> Next:
    """Stop waiting for the successor's lock, since a lookup chose this broker again."""
    return enter(replace(state, deferred=request), P.WITHDRAWING)


def found_hand_over(state: BundleLock, answer: events.NodeFound) -> Next:
    """Delete the hand-over announcement just read, if it is this broker's."""
    hand_over = read_hand_over(answer.value)
    if hand_over is None or hand_over.source != state.me:
        return rest(state, P.FREE)
    # Whose session made the node does not matter: the next owner may have written into ours.
    return issue(state, events.RemoveNode(state.hand_over, answer.version))


def free(state: BundleLock, _: object) -> Next:
    """Enter the phase `FREE`, in which nothing is awaited: this broker does not own the bundle."""
    return rest(state, P.FREE)


# Events that may come in any phase.


def believing(transition: Transition) -> Transition:
    """Wrap a transition: if another event came since the command, issue it again instead."""

    def answered(state: BundleLock, answer: Any) -> Next:
        return ask_again(state) if state.overtaken else transition(state, answer)

    return answered


def trying(tries: int | None, then: Transition) -> Transition:
    """Make the transition for a failed command: issue it again, and after ``tries`` failures do
    ``then``.

    ``tries`` None: it is issued again for ever.
    """

    def failed(state: BundleLock, event: events.CommandFailed) -> Next:
        closing = state.phase in (P.CLOSING, P.DROPPING)
        if tries is not None and (state.failures + 1 >= tries or (closing and event.late)):
            return then(state, event)
        # The command may have succeeded nevertheless.
        return pause(replace(state, version=None) if state.phase is P.DELETING else state)

    return failed


def end_pause(state: BundleLock, _: events.TimerFired) -> Next:
    """Issue a failed command again, since the pause after its failure is over."""
    return ask_again(state) if state.pausing else (state, ())


def distrust(state: BundleLock, event: object) -> Next:
    """Read the lock again before it is relied on, and ignore the current command's result."""
    claimed = state.claimed and not isinstance(event, events.SessionChanged)
    state = replace(state, version=None, claimed=claimed)
    return ask_again(state) if state.pausing else (replace(state, overtaken=True), ())


def unsure(state: BundleLock, _: object) -> Next:
    """Note that this broker's lock may be gone; it is read after the topics are closed."""
    return replace(state, version=None), ()


def on_node(
    lock_vanished: Transition = stay,
    lock_appeared: Transition = stay,
    announced: Transition = stay,
    withdrawn: Transition = stay,
) -> Transition:
    """Make the transition for a changed node from four: for the lock's node and for the
    announcement's, that appeared or vanished.
    """

    def changed(state: BundleLock, event: events.NodeChanged) -> Next:
        vanished = event.change is events.NodeChange.VANISHED
        if event.path == state.lock:
            return (lock_vanished if vanished else lock_appeared)(state, event)
        return (withdrawn if vanished else announced)(state, event)

    return changed


def also_look_at_the_lock(state: BundleLock, _: events.CheckOwnership) -> Next:
    """Also read the lock once the announcement is read, because a client asked for the bundle."""
    return replace(state, thorough=True), ()
