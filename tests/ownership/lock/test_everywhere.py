"""Every state that the lock machine can reach: what must hold in all of them."""

from collections.abc import Iterable

import pytest

from counterpoise.ownership import events
from counterpoise.ownership.lock.state import BundleLock, LockPhase
from counterpoise.ownership.lock.table import advance
from counterpoise.ownership.records import HandOver
from tests.ownership.exploring import Place, explore
from tests.ownership.lock.machine import (
    ANNOUNCED,
    APPEARED,
    FORMER,
    FREE,
    FROM_ME,
    LOCK,
    ME,
    MINE,
    NO_NODE,
    OTHER,
    OTHERS,
    TO_ME,
    VANISHED,
    WITHDRAWN,
    leaving,
    owned,
)


def answers(question: events.Command) -> Iterable[object]:
    match question:
        case events.CreateNode():
            return events.NodeCreated(0), events.NodeExists()
        case events.WriteNode():
            return (events.NodeWritten(),)
        case events.ReadNode(path) if path == LOCK:
            return NO_NODE, OTHERS, MINE, FORMER, events.NodeFound(b"[")
        case events.ReadNode():
            return (
                NO_NODE,
                events.NodeFound(TO_ME),
                events.NodeFound(FROM_ME),
                events.NodeFound(HandOver(OTHER, None).to_json()),
            )
        case events.RemoveNode():
            return events.NodeRemoved(), events.VersionDiffers()
        case events.CloseTopics():
            return (events.TopicsClosed(),)
    raise AssertionError(question)


OUTSIDE = [
    events.Acquire(), events.Release(OTHER), events.Release(ME), events.Release(None),
    events.SplitCompleted(), events.CheckOwnership(), VANISHED, APPEARED, ANNOUNCED, WITHDRAWN,
    events.SessionChanged(), events.SuccessorReady(), events.BundleReleased(),
]  # fmt: skip


@pytest.fixture(scope="module")
def places() -> dict[Place, tuple[Place, object]]:
    return explore(FREE, advance, OUTSIDE, answers, lambda state: state.in_progress)


def test_wherever_it_is_anything_may_come_and_it_never_waits_for_nothing(
    places: dict[Place, tuple[Place, object]],
) -> None:
    assert {place.state.phase for place in places} == set(LockPhase)


def test_what_it_says_of_itself(places: dict[Place, tuple[Place, object]]) -> None:
    for place in places:
        state = place.state
        assert state.holds or not state.serves
        assert not (state.serves and (state.in_progress or state.version is None)), place
        assert not (state.forgettable and (state.in_progress or place.question)), place


def test_it_serves_only_upon_the_word_of_the_store(
    places: dict[Place, tuple[Place, object]],
) -> None:
    for place, (before, record) in places.items():
        if place.state.serves and not before.state.serves and before is not place:
            draining_to_itself = isinstance(record, events.TopicsClosed | events.CommandFailed)
            assert (
                isinstance(record, events.NodeCreated | events.NodeFound) or draining_to_itself
            ), (before, record)
            assert not before.state.overtaken, (before, record)


@pytest.mark.parametrize(
    ("state", "record"),
    [
        (FREE, events.TopicsClosed()),
        (owned(), events.NodeRemoved()),
        (leaving(OTHER), events.NodeCreated(0)),
    ],
)
def test_an_answer_to_nothing_is_a_protocol_error(state: BundleLock, record: object) -> None:
    with pytest.raises(events.UnexpectedEvent, match=type(record).__name__):
        advance(state, record)
