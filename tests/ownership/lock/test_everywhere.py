"""Every state that the lock machine can reach: what must hold in all of them."""

from collections.abc import Callable, Iterable

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
    HAND_OVER,
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


LOCK_IS_GONE = {LockPhase.WITHDRAWING, LockPhase.AWAITING_TAKEOVER}
AFTER_A_RELEASE = {
    *(LockPhase.FREE, LockPhase.READING_HAND_OVER, LockPhase.CHECKING, LockPhase.EXPECTED),
    *(LockPhase.DELETING, LockPhase.DROPPING, *LOCK_IS_GONE),
}


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


@pytest.fixture(scope="module")
def plain(places: dict[Place, tuple[Place, object]]) -> list[Place]:
    """Those where at most one command has failed, and no request waits."""
    return [each for each in places if each.state.failures <= 1 and each.state.deferred is None]


def test_topics_whose_close_took_all_its_time_are_not_closed_again(
    places: dict[Place, tuple[Place, object]],
) -> None:
    closing = [each for each in places if isinstance(each.question, events.CloseTopics)]
    assert {each.state.phase for each in closing} == {LockPhase.CLOSING, LockPhase.DROPPING}
    for place in closing:
        after, effects = advance(place.state, events.CommandFailed("no", late=True))
        assert not after.pausing, place
        assert not any(isinstance(each, events.CloseTopics) for each in effects), place


@pytest.mark.parametrize("record", [events.SessionChanged(), VANISHED])
def test_no_lock_is_removed_by_a_version_of_before_it_may_have_gone(
    plain: list[Place], record: object
) -> None:
    """Another broker's lock has the same version: each is 0 when it is created."""
    for place in plain:
        if record == VANISHED and isinstance(place.question, events.RemoveNode):
            continue  # Its own deletion.
        after, _ = advance(place.state, record)
        assert after.version is None or after.phase in LOCK_IS_GONE, place
        state, question = _until_rest(place, record, _is_about_the_lock)
        assert question is None or isinstance(question, events.ReadNode | events.CreateNode), (
            place,
            state,
            question,
        )


def test_a_hand_over_that_another_announces_is_read_wherever_it_is_heard_of(
    plain: list[Place],
) -> None:
    """Otherwise its destination does not prepare itself, and the owner waits in vain."""
    for place in plain:
        if place.state.phase in AFTER_A_RELEASE:
            _, question = _until_rest(place, ANNOUNCED, _reads_what_is_announced)
            assert question is not None, place


@pytest.mark.parametrize("request_", [events.Acquire(), events.CheckOwnership()])
def test_a_request_that_comes_while_a_bundle_is_given_up_is_carried_out_afterwards(
    plain: list[Place], request_: object
) -> None:
    """A lookup waits for it: what is forgotten here leaves a client without an answer."""
    giving_up = {LockPhase.DELETING, LockPhase.DROPPING, *LOCK_IS_GONE}
    looked_at = [each for each in plain if each.state.phase in giving_up]
    assert {each.state.phase for each in looked_at} == giving_up
    for place in looked_at:
        _, question = _until_rest(place, request_, _begins_again)
        assert question is not None, place


def _begins_again(state: BundleLock, _: events.Command) -> bool:
    return state.phase in (LockPhase.ACQUIRING, LockPhase.READING_HAND_OVER)


def _is_about_the_lock(_: BundleLock, command: events.Command) -> bool:
    return getattr(command, "path", None) == LOCK


def _reads_what_is_announced(state: BundleLock, command: events.Command) -> bool:
    # While it withdraws its own announcement it reads the same node, and looks for nothing else.
    return state.phase is LockPhase.READING_HAND_OVER and command == events.ReadNode(HAND_OVER)


def _until_rest(
    place: Place, record: object, is_awaited: Callable[[BundleLock, events.Command], bool]
) -> tuple[BundleLock, object]:
    """Go on after a record until a certain command is issued, or nothing is left to do."""
    state, effects = advance(place.state, record)
    asked = place.question
    for _ in range(40):
        found = [each for each in effects if isinstance(each, events.Command)]
        if found and is_awaited(state, found[0]):
            return state, found[0]
        asked = found[0] if found else asked
        if asked is None and not state.in_progress:
            break
        answer = events.TimerFired() if asked is None else _by_another(asked)
        asked = None
        state, effects = advance(state, answer)
    return state, None


def _by_another(command: events.Command) -> object:
    """What a command results in while another broker owns the bundle."""
    results = list(answers(command))
    return results[1 if isinstance(command, events.CreateNode | events.ReadNode) else 0]


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
