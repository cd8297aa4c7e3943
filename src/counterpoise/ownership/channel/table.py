"""The state machine by which one broker follows a bundle's record on the state channel.

Every step begins with the record: it is read, `next_action` decides what to do, and a command does
it. A write is a compare-and-set on the record that was read. So if two brokers write at once, one
gets `VersionDiffers` and reads again. After a failure the record is read again, too, after pauses
that grow to seconds.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from counterpoise.ownership import events
from counterpoise.ownership.backoff import pause_s
from counterpoise.ownership.channel.data import (
    ServiceUnitState,
    ServiceUnitStateData,
    blank,
    state_of,
)
from counterpoise.ownership.channel.next_action import (
    AwaitOthers,
    AwaitSuccessor,
    CloseOpenTopics,
    DeleteRecord,
    OpenTopics,
    Rest,
    WriteNext,
    comes_to,
    gave,
    goes_from,
    has_successor,
    next_action,
    serves,
    topics_by,
)
from counterpoise.ownership.channel.sense import read_record
from counterpoise.ownership.channel.state import ChannelBundle, ChannelPhase, RecordTrust
from counterpoise.ownership.records import InvalidRecord

Next: TypeAlias = tuple[ChannelBundle, events.Effects]
Transition: TypeAlias = Callable[[ChannelBundle, Any], Next]
P = ChannelPhase

TRIES: Final = 6
"""After this many failed commands in a row a broker drops the request that it was carrying out."""
CLOSE_TRIES: Final = 3
"""After this many failures to close its topics a bundle is released with topics still open."""


def advance(state: ChannelBundle, event: object) -> Next:
    """The next state and the effects of one event; raises `UnexpectedEvent`."""
    return events.step(TABLE, state.phase, "bundle ownership", state, event)


# Steps.


def read(state: ChannelBundle, _: object = None) -> Next:
    """Issue the command that reads the bundle's record; returns the next state with it."""
    after = replace(state, phase=P.READING, writing=None, trust=_without_change(state.trust))
    return after, (events.ReadNode(state.path),)


def act(state: ChannelBundle) -> Next:
    """Decide by the record just read or written (`next_action`), and begin that action."""
    topics = topics_by(state.record, state.me, state.topics)
    if state.early_report and has_successor(state.record, state.me):
        topics = _handing_over(topics)
    state = replace(state, topics=topics, early_report=False, trust=RecordTrust.CURRENT)
    match next_action(state.record, state.local):
        case WriteNext(record, keeps_topics):
            topics = topics if keeps_topics else OpenTopics.NONE
            after = replace(state, phase=P.WRITING, writing=record, topics=topics)
            return after, (events.WriteRecord(state.path, record.to_json(), state.version),)
        case AwaitSuccessor():
            after = replace(state, phase=P.AWAITING_SUCCESSOR, timer_for=None)
            return after, (events.StartTimer(state.context.options.prepare_s),)
        case CloseOpenTopics(destination):
            within_s = state.context.options.close_topics_s
            return replace(state, phase=P.CLOSING), (
                events.CloseTopics(destination, within_s=within_s),
            )
        case DeleteRecord():
            after = replace(state, phase=P.DELETING)
            return after, (events.RemoveNode(state.path, state.version or 0),)
        case AwaitOthers():
            return _wait(_at_rest(state, P.WAITING))
        case Rest():
            return replace(_at_rest(state, P.RESTING), timer_for=None), ()


def _at_rest(state: ChannelBundle, phase: ChannelPhase) -> ChannelBundle:
    prepared = state.prepared_for if comes_to(state.record, state.me) else 0
    return replace(
        state, phase=phase, writing=None, request=None, prepared_for=prepared, failures=0
    )


def _wait(state: ChannelBundle) -> Next:
    """Wait for the other broker of a transfer. Prepare if the bundle is coming here.

    The timer and the preparation start once for each record: clients that arrive meanwhile cause
    more reads, which must neither repeat the preparation nor extend the wait.
    """
    options, effects = state.context.options, list[events.StartTimer | events.Prepare]()
    number = 0 if state.record is None else state.record.version
    if number != state.timer_for:
        takes_over = state.topics is OpenTopics.TAKING_OVER
        effects.append(events.StartTimer(options.takeover_s if takes_over else options.successor_s))
    prepared_for = state.prepared_for
    if comes_to(state.record, state.me) and number != prepared_for:
        prepared_for = number
        effects.append(events.Prepare())
    return replace(state, timer_for=number, prepared_for=prepared_for), tuple(effects)


# Requests.


def _take_request(state: ChannelBundle, request: events.Request) -> Next:
    state = replace(state, request=request)
    return act(state) if serves(state.record, state.me) else read(state)


def _keep_request(state: ChannelBundle, request: events.Request) -> Next:
    """Keep a request until the current command has ended."""
    return replace(state, request=request), ()


# Results.


def _found(state: ChannelBundle, result: events.NodeFound) -> Next:
    record: ServiceUnitStateData | None = None
    if result.value is not None:
        try:
            record = read_record(state.bundle, result.value)
        except InvalidRecord:
            # An invalid record counts as none: the leader, a lookup or an operator overwrites it.
            record = None
    version = None if result.value is None else result.version
    after, effects = act(replace(state, record=record, version=version))
    # If the topics were closed before the successor owned the bundle, it is notified only now.
    closed_first = state.topics is OpenTopics.NONE and goes_from(state.record, state.me)
    if closed_first and gave(record, state.me):
        return after, (*effects, events.ReportRelease())
    return after, effects


def _written(state: ChannelBundle, result: events.NodeCreated) -> Next:
    done = isinstance(
        state.request,
        events.Assign | events.Release | events.ReleaseFrom | events.SplitCompleted | events.Split,
    )
    return _act_or_read(
        replace(
            state,
            record=state.writing,
            version=result.version,
            request=None if done else state.request,
            # Set now, because the record may be read once more before `act`.
            topics=_topics_once_written(state),
        )
    )


def _topics_once_written(state: ChannelBundle) -> OpenTopics:
    if state_of(state.writing) is not ServiceUnitState.OWNED:
        return _without_takeover(state.topics)
    record = state.record
    former = record.source if record is not None and comes_to(record, state.me) else None
    if blank(former) or former == state.me or state.early_report:
        return OpenTopics.SERVED
    return OpenTopics.TAKING_OVER


def _closed(state: ChannelBundle, _: object) -> Next:
    if serves(state.record, state.me):
        # The bundle was released to this broker itself, which serves it again.
        after = replace(state, request=None)
    else:
        after = replace(state, topics=OpenTopics.NONE)
    after, effects = _act_or_read(after)
    return after, (*effects, events.ReportRelease()) if gave(state.record, state.me) else effects


def _deleted(state: ChannelBundle, _: events.NodeRemoved) -> Next:
    return _act_or_read(replace(state, record=None, version=None))


def _failed(state: ChannelBundle, event: events.CommandFailed) -> Next:
    failures = state.failures + 1
    if state.phase is P.CLOSING and (failures >= CLOSE_TRIES or event.late):
        return _closed(replace(state, failures=0), event)
    after = replace(
        state,
        phase=P.PAUSING,
        failures=failures,
        request=None if failures >= TRIES else state.request,
        writing=None,
        trust=_without_change(state.trust),
        timer_for=None,
    )
    return after, (events.StartTimer(pause_s(failures)),)


def _act_or_read(state: ChannelBundle) -> Next:
    """Do what the record requires, or read the record again if it has changed meanwhile."""
    return act(state) if state.trust is RecordTrust.CURRENT else read(state)


# The other broker of a transfer.


def _successor_ready(state: ChannelBundle, _: events.SuccessorReady) -> Next:
    return act(replace(state, topics=OpenTopics.HANDING_OVER))


def _successor_late(state: ChannelBundle, _: events.TimerFired) -> Next:
    return act(replace(state, topics=OpenTopics.CLOSE_FIRST))


def _note_successor_ready(state: ChannelBundle, _: events.SuccessorReady) -> Next:
    """Note that the successor is ready, for when the current command has ended."""
    if state.phase is P.WRITING:
        early = state.early_report or has_successor(state.writing, state.me)
        return replace(state, early_report=early), ()
    if has_successor(state.record, state.me):
        return replace(state, topics=_handing_over(state.topics)), ()
    if serves(state.record, state.me):
        # Another broker ordered the release, and the successor has read the order before us.
        return replace(state, early_report=True), ()
    return state, ()


def _former_owner_done(state: ChannelBundle, _: events.BundleReleased) -> Next:
    if state.topics is not OpenTopics.TAKING_OVER:
        return state, ()
    return act(replace(state, topics=OpenTopics.SERVED))


def _note_former_owner_done(state: ChannelBundle, _: events.BundleReleased) -> Next:
    """Note that the former owner has closed its topics, for when the current command has ended."""
    takes = state.phase is P.WRITING and comes_to(state.record, state.me)
    early = state.early_report or takes
    return replace(state, topics=_without_takeover(state.topics), early_report=early), ()


def _stop_waiting(state: ChannelBundle, _: events.TimerFired) -> Next:
    state = replace(state, timer_for=None)
    match state.topics:
        case OpenTopics.TAKING_OVER:
            # Topics that the former owner still has open will be fenced.
            return act(replace(state, topics=OpenTopics.SERVED))
        case OpenTopics.HANDING_OVER:
            return act(replace(state, topics=OpenTopics.CLOSE_FIRST))
    # The leader repairs what takes too long.
    return replace(state, phase=P.RESTING), ()


# Events that may come in any phase.


def _stay(state: ChannelBundle, _: object) -> Next:
    return state, ()


def _timer_fired(state: ChannelBundle, _: events.TimerFired) -> Next:
    """Note that no timer runs any more; the next phase that waits starts its own."""
    return replace(state, timer_for=None), ()


def _note_change(state: ChannelBundle, _: events.NodeChanged) -> Next:
    doubted = state.trust is RecordTrust.DOUBTED
    return (state if doubted else replace(state, trust=RecordTrust.CHANGED)), ()


def _note_doubt(state: ChannelBundle, _: events.SessionChanged) -> Next:
    return replace(state, trust=RecordTrust.DOUBTED), ()


def _doubt(state: ChannelBundle, _: events.SessionChanged) -> Next:
    return read(replace(state, trust=RecordTrust.DOUBTED))


def _reread(state: ChannelBundle, _: object) -> Next:
    return replace(state, phase=P.REREADING), ()


def _reread_in_doubt(state: ChannelBundle, _: events.SessionChanged) -> Next:
    return replace(state, phase=P.REREADING, trust=RecordTrust.DOUBTED), ()


def _without_change(trust: RecordTrust) -> RecordTrust:
    return RecordTrust.CURRENT if trust is RecordTrust.CHANGED else trust


def _without_takeover(topics: OpenTopics) -> OpenTopics:
    return OpenTopics.SERVED if topics is OpenTopics.TAKING_OVER else topics


def _handing_over(topics: OpenTopics) -> OpenTopics:
    return topics if topics is OpenTopics.NONE else OpenTopics.HANDING_OVER


_REQUESTS: Final = (
    events.Acquire,
    events.Assign,
    events.Release,
    events.ReleaseFrom,
    events.Split,
    events.SplitCompleted,
    events.CheckOwnership,
)
_ANY_PHASE: Final[Mapping[type, Transition]] = {
    **dict.fromkeys(_REQUESTS, _keep_request),
    events.SuccessorReady: _note_successor_ready,
    events.BundleReleased: _note_former_owner_done,
    events.NodeChanged: _note_change,
    events.SessionChanged: _note_doubt,
    events.TimerFired: _timer_fired,
}
_NO_COMMAND: Final[Mapping[type, Transition]] = {
    events.NodeChanged: read,
    events.SessionChanged: _doubt,
}
_ROWS: Final[Mapping[ChannelPhase, Mapping[type, Transition]]] = {
    P.RESTING: {**dict.fromkeys(_REQUESTS, _take_request), **_NO_COMMAND},
    P.READING: {
        events.NodeChanged: _reread,
        events.SessionChanged: _reread_in_doubt,
        events.NodeFound: _found,
        events.CommandFailed: _failed,
    },
    P.REREADING: {events.NodeChanged: _stay, events.NodeFound: read, events.CommandFailed: _failed},
    P.WRITING: {
        events.NodeCreated: _written,
        events.VersionDiffers: read,
        events.CommandFailed: _failed,
    },
    P.AWAITING_SUCCESSOR: {
        **_NO_COMMAND,
        events.SuccessorReady: _successor_ready,
        events.TimerFired: _successor_late,
    },
    P.CLOSING: {events.TopicsClosed: _closed, events.CommandFailed: _failed},
    P.DELETING: {
        events.NodeRemoved: _deleted,
        events.VersionDiffers: read,
        events.CommandFailed: _failed,
    },
    P.PAUSING: {events.NodeChanged: _stay, events.TimerFired: read},
    P.WAITING: {
        **dict.fromkeys(_REQUESTS, _take_request),
        **_NO_COMMAND,
        events.BundleReleased: _former_owner_done,
        events.TimerFired: _stop_waiting,
    },
}
TABLE: Final = events.table_of(_ROWS, _ANY_PHASE)
