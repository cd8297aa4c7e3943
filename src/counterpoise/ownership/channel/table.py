"""How one broker follows the record of one bundle on the state channel, as a table.

Every step begins with the record: it is read, what it obliges this broker to is done, what it was
asked for is ordered by writing the record that follows, and when nothing is left it rests. A
record is only ever written over the very one that it follows, so of two brokers that write at once
one gets `VersionDiffers`, and reads again. A failure is followed by another read, too, after pauses
that grow to seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeAlias

from counterpoise.ownership.backoff import pause_s
from counterpoise.ownership.channel import orders
from counterpoise.ownership.channel.data import (
    ServiceUnitState,
    ServiceUnitStateData,
    blank,
    state_of,
)
from counterpoise.ownership.channel.duties import (
    Bury,
    Close,
    Write,
    comes_to,
    duty,
    gave,
    goes_from,
    has_successor,
)
from counterpoise.ownership.channel.duties import serves as serves_by
from counterpoise.ownership.channel.state import ChannelBundle, ChannelPhase
from counterpoise.ownership.channel.transitions import Storage, refusal
from counterpoise.ownership.machine import Effects, step
from counterpoise.ownership.port import (
    Acquire,
    BundleReleased,
    CheckOwnership,
    CloseTopics,
    CommandFailed,
    NodeChanged,
    NodeCreated,
    NodeFound,
    NodeRemoved,
    Prepare,
    ReadNode,
    Release,
    RemoveNode,
    ReportRelease,
    SessionChanged,
    Split,
    SplitCompleted,
    StartTimer,
    SuccessorReady,
    TimerFired,
    TopicsClosed,
    VersionDiffers,
    WriteRecord,
)
from counterpoise.ownership.records import InvalidRecord

Next: TypeAlias = tuple[ChannelBundle, Effects]
Transition: TypeAlias = Callable[[ChannelBundle, Any], Next]

TRIES: Final = 6
"""Failures in a row after which a broker no longer tries what it was asked for."""
CLOSE_TRIES: Final = 3
"""Failures in a row after which a bundle is let go with topics that would not close."""


def advance(state: ChannelBundle, record: object) -> Next:
    """The next state and the effects of one record; raises `ProtocolError`."""
    return step(TABLE, state.phase, "bundle ownership", state, record)


# Steps.


def look(state: ChannelBundle, _: object = None) -> Next:
    """Read the record."""
    after = replace(state, phase=ChannelPhase.READING, writing=None, overtaken=False)
    return after, (ReadNode(state.path),)


def go_on(state: ChannelBundle) -> Next:
    """Do what the record, and then what somebody asked for, leaves to be done."""
    if serves_by(state.record, state.me):
        is_open = state.is_open or state_of(state.record) is ServiceUnitState.OWNED
        state = replace(state, is_open=is_open, successor_ready=False, yields=False)
    else:
        state = replace(state, takes_over=False)
    owed = duty(state.record, state.me, state.terms.now_ms(), is_open=state.is_open)
    match owed:
        case Write(record):
            return _write(state, record)
        case Close(destination):
            if has_successor(state.record, state.me) and not state.successor_ready:
                return _await_successor(state)
            return _yield(state) or _close(state, destination)
        case Bury():
            after = replace(state, phase=ChannelPhase.BURYING, overtaken=False)
            return after, (RemoveNode(state.path, state.version or 0),)
    return _obey(state)


def _obey(state: ChannelBundle) -> Next:
    now_ms = state.terms.now_ms()
    owned = state_of(state.record) is ServiceUnitState.OWNED and serves_by(state.record, state.me)
    match state.order:
        case Acquire(as_split_part=True) if state.record is None:
            return _write(state, orders.inherit(state.me, now_ms))
        case Acquire() if state_of(state.record) in (ServiceUnitState.INIT, ServiceUnitState.FREE):
            return _write(state, orders.assign(state.record, state.me, now_ms))
        case Release(destination) if owned and destination == state.me:
            return _close(state, destination)
        case Release(destination) if owned:
            return _write(state, orders.unload(state.record, now_ms, destination=destination))
        case Split(ranges) if owned:
            return _write(state, orders.split(state.record, dict.fromkeys(ranges), now_ms))
        case SplitCompleted() if state.cut_into and state.record is not None:
            after = replace(state, is_open=False)
            return _write(after, orders.split_done(state.record, now_ms))
        case SplitCompleted() if owned:
            return _write(replace(state, is_open=False), orders.split(state.record, {}, now_ms))
    return _rest(state)


def _write(state: ChannelBundle, record: ServiceUnitStateData) -> Next:
    if refusal(state.record, record, Storage.METADATA_STORE) is not None:
        # What stands there is not of our making, and no reader would accept what we make of it.
        return _rest(state)
    after = replace(
        state, phase=ChannelPhase.WRITING, writing=record, overtaken=False, is_released=False
    )
    return after, (WriteRecord(state.path, record.to_json(), state.version),)


def _await_successor(state: ChannelBundle) -> Next:
    after = replace(state, phase=ChannelPhase.AWAITING, overtaken=False, waits_for=None)
    return after, (StartTimer(state.terms.terms.prepare_s),)


def _yield(state: ChannelBundle) -> Next | None:
    """Let an heir that is ready own the bundle first; None if it does, or is not."""
    if state.yields and goes_from(state.record, state.me):
        return _rest(state)
    owed = duty(state.record, state.me, state.terms.now_ms(), is_open=False)
    if state.yields and has_successor(state.record, state.me) and isinstance(owed, Write):
        return _write(state, owed.record)
    return None


def _close(state: ChannelBundle, destination: str | None) -> Next:
    after = replace(state, phase=ChannelPhase.CLOSING, overtaken=False)
    return after, (CloseTopics(destination, within_s=state.terms.terms.drain_s),)


def _rest(state: ChannelBundle) -> Next:
    comes = comes_to(state.record, state.me)
    waits = comes or state.takes_over or goes_from(state.record, state.me)
    number = state.record.version if state.record is not None else 0
    after = replace(
        state,
        phase=ChannelPhase.WAITING if waits else ChannelPhase.RESTING,
        writing=None,
        order=None,
        prepared_for=number if comes else 0,
        waits_for=number if waits else None,
        failures=0,
    )
    # Both once for each record: clients that come meanwhile make it look again and again, and must
    # neither have it prepared anew nor put off the end of its patience.
    effects: Effects = ()
    if waits and number != state.waits_for:
        terms = state.terms.terms
        effects += (StartTimer(terms.takeover_s if state.takes_over else terms.successor_s),)
    if comes and number != state.prepared_for:
        effects += (Prepare(),)
    return after, effects


def _rang(state: ChannelBundle, _: TimerFired) -> Next:
    """Whoever waits next sets the alarm anew."""
    return replace(state, waits_for=None), ()


def _stop_waiting(state: ChannelBundle, record: TimerFired) -> Next:
    state, _ = _rang(state, record)
    if state.takes_over or (state.yields and state.is_open):
        # Whoever takes longer to close has its logs fenced, and no heir is waited for for ever.
        return go_on(replace(state, takes_over=False, yields=False))
    # The leader looks after what takes too long.
    return replace(state, phase=ChannelPhase.RESTING), ()


def _successor_ready(state: ChannelBundle, _: SuccessorReady) -> Next:
    return go_on(replace(state, successor_ready=True, yields=True))


def _successor_is_late(state: ChannelBundle, _: TimerFired) -> Next:
    """It has had its time."""
    return go_on(replace(state, successor_ready=True))


def _ready_early(state: ChannelBundle, _: SuccessorReady) -> Next:
    """The heir is faster than what is being asked."""
    ready = has_successor(state.writing or state.record, state.me)
    return replace(state, successor_ready=ready, yields=ready or state.yields), ()


def _inherited(state: ChannelBundle, _: BundleReleased) -> Next:
    """Whoever had the bundle before us has closed all of it."""
    return go_on(replace(state, takes_over=False)) if state.takes_over else (state, ())


def _released_early(state: ChannelBundle, _: BundleReleased) -> Next:
    """It is faster than the answer to our question."""
    return replace(state, takes_over=False, is_released=True), ()


# Orders.


def _ordered(state: ChannelBundle, order: Any) -> Next:
    state = replace(state, order=order)
    known = serves_by(state.record, state.me) and not state.doubted
    return go_on(state) if known else look(state)


def _later(state: ChannelBundle, order: Any) -> Next:
    """It is looked at when the present step is over."""
    return replace(state, order=order), ()


def _stay(state: ChannelBundle, _: object) -> Next:
    return state, ()


# Answers.


def _found(state: ChannelBundle, answer: NodeFound) -> Next:
    if state.overtaken:
        return look(state)
    record: ServiceUnitStateData | None = None
    if answer.value is not None:
        try:
            record = ServiceUnitStateData.from_json(answer.value)
        except InvalidRecord:
            # Nobody can follow it: the leader, or an operator, writes over it.
            record = None
    version = None if answer.value is None else answer.version
    return go_on(replace(state, record=record, version=version, doubted=False))


def _written(state: ChannelBundle, answer: NodeCreated) -> Next:
    done = isinstance(state.order, Release | SplitCompleted | Split)
    had = state.record.source if state.record is not None else None
    serves = serves_by(state.writing, state.me)
    taken = serves and comes_to(state.record, state.me)
    after = replace(
        state,
        record=state.writing,
        version=answer.version,
        order=None if done else state.order,
        # From now on, whether or not the record is looked at once more.
        is_open=state.is_open or (serves and state_of(state.writing) is ServiceUnitState.OWNED),
        takes_over=taken and not blank(had) and had != state.me and not state.is_released,
    )
    return look(after) if state.overtaken else go_on(after)


def _closed(state: ChannelBundle, _: object) -> Next:
    if serves_by(state.record, state.me):
        # It was let go towards this very broker.
        after = replace(state, order=None)
    else:
        after = replace(state, is_open=False, yields=False)
    again = look(after) if state.overtaken or state.doubted else go_on(after)
    if not gave(state.record, state.me):
        return again
    return again[0], (*again[1], ReportRelease())


def _buried(state: ChannelBundle, _: NodeRemoved) -> Next:
    after = replace(state, record=None, version=None)
    return look(after) if state.overtaken else go_on(after)


def _failed(state: ChannelBundle, record: CommandFailed) -> Next:
    failures = state.failures + 1
    if state.phase is ChannelPhase.CLOSING and (failures >= CLOSE_TRIES or record.late):
        return _closed(replace(state, failures=0), record)
    order = None if failures >= TRIES else state.order
    after = replace(
        state,
        phase=ChannelPhase.PAUSING,
        failures=failures,
        order=order,
        writing=None,
        overtaken=False,
        waits_for=None,
    )
    return after, (StartTimer(pause_s(failures)),)


# What comes at any time.


def _overtaken(state: ChannelBundle, _: object) -> Next:
    return replace(state, overtaken=True), ()


def _doubt(state: ChannelBundle, _: SessionChanged) -> Next:
    return look(replace(state, doubted=True))


def _doubt_later(state: ChannelBundle, _: SessionChanged) -> Next:
    return replace(state, doubted=True, overtaken=True), ()


def _row(phase: ChannelPhase, **records: Transition) -> dict[tuple[ChannelPhase, type], Transition]:
    order = records.pop("order", _later)
    at_any_time = {
        Acquire: order,
        Release: order,
        SplitCompleted: order,
        Split: order,
        CheckOwnership: order,
        SuccessorReady: records.pop("successor_ready", _ready_early),
        BundleReleased: records.pop("is_released", _released_early),
        NodeChanged: records.pop("node", _overtaken),
        SessionChanged: records.pop("session", _doubt_later),
        TimerFired: records.pop("woken", _rang),
    }
    answers = {_ANSWERS[name]: transition for name, transition in records.items()}
    return {(phase, kind): step for kind, step in {**at_any_time, **answers}.items()}


_ANSWERS: Final[dict[str, type]] = {
    "found": NodeFound,
    "created": NodeCreated,
    "differs": VersionDiffers,
    "drained": TopicsClosed,
    "removed": NodeRemoved,
    "failed": CommandFailed,
}

TABLE: Final[dict[tuple[ChannelPhase, type], Transition]] = {
    **_row(ChannelPhase.RESTING, order=_ordered, node=look, session=_doubt),
    **_row(ChannelPhase.READING, found=_found, failed=_failed),
    **_row(ChannelPhase.WRITING, created=_written, differs=look, failed=_failed),
    **_row(
        ChannelPhase.AWAITING,
        successor_ready=_successor_ready,
        node=look,
        session=_doubt,
        woken=_successor_is_late,
    ),
    **_row(ChannelPhase.CLOSING, drained=_closed, failed=_failed),
    **_row(ChannelPhase.BURYING, removed=_buried, differs=look, failed=_failed),
    **_row(ChannelPhase.PAUSING, node=_stay, woken=look),
    **_row(
        ChannelPhase.WAITING,
        order=_ordered,
        is_released=_inherited,
        node=look,
        session=_doubt,
        woken=_stop_waiting,
    ),
}
