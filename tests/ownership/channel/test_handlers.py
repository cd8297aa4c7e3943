from counterpoise.ownership.channel.data import State, StateData
from counterpoise.ownership.channel.handlers import (
    Bury,
    CloseTopics,
    Effect,
    Gone,
    Prepare,
    Publish,
    Reader,
    Settled,
    Split,
    reactions,
)
from tests.ownership.channel.records import BUNDLE, A, B, C, record

NOW = 7


def at(me: str, data: StateData | None, **how: bool) -> tuple[Effect, ...]:
    return reactions(Reader(me, **how), BUNDLE, data, NOW)


def written(state: State, to: str | None, by: str | None, version: int) -> StateData:
    return StateData(state, to, by, timestamp_ms=NOW, version=version)


def test_who_is_assigned_a_bundle_owns_it_and_nobody_else_acts() -> None:
    data = record(State.ASSIGNING, A, version=4)
    assert at(A, data) == (Publish(BUNDLE, written(State.OWNED, A, None, 5)),)
    assert at(B, data) == ()


def test_a_transfer_closes_at_the_source_and_prepares_at_the_heir() -> None:
    data = record(State.RELEASING, B, A, version=2)
    then = written(State.ASSIGNING, B, A, 3)
    assert at(A, data) == (CloseTopics(BUNDLE, disconnect=False, destination=B, then=then),)
    assert at(B, data) == (Prepare(BUNDLE),)
    assert at(C, data) == ()


def test_clients_are_sent_on_once_the_heir_owns_the_bundle() -> None:
    data = record(State.OWNED, B, A, version=4)
    sent_on = CloseTopics(BUNDLE, disconnect=True, destination=B)
    assert at(A, data) == (Settled(BUNDLE, B), sent_on)
    assert at(B, data) == (Settled(BUNDLE, B),)
    assert at(C, data) == (Settled(BUNDLE, B),)


def test_without_phases_clients_leave_before_the_heir_is_ready() -> None:
    then = written(State.ASSIGNING, B, A, 3)
    releasing = at(A, record(State.RELEASING, B, A, version=2), multi_phase=False)
    assert releasing == (CloseTopics(BUNDLE, disconnect=True, destination=B, then=then),)
    assert at(A, record(State.OWNED, B, A, version=4), multi_phase=False) == (Settled(BUNDLE, B),)


def test_an_unload_without_a_destination_frees_the_bundle() -> None:
    then = written(State.FREE, None, A, 3)
    assert at(A, record(State.RELEASING, None, A, version=2)) == (
        CloseTopics(BUNDLE, disconnect=True, then=then),
    )


def test_a_bundle_taken_by_force_is_closed_by_who_had_it() -> None:
    data = record(State.OWNED, B, A, version=9, force=True)
    assert CloseTopics(BUNDLE, disconnect=True, destination=B) in at(A, data, multi_phase=False)


def test_a_split_is_done_by_the_owner_who_then_deletes_the_parent() -> None:
    data = StateData(State.SPLITTING, None, A, {"x": None, "y": B}, version=5)
    then = written(State.DELETED, None, A, 6)
    assert at(A, data) == (Split(BUNDLE, {"x": None, "y": B}, then),)
    assert at(B, data) == ()


def test_a_deleted_bundle_fails_lookups_and_is_buried_by_its_last_owner() -> None:
    data = record(State.DELETED, None, A, version=6)
    assert at(A, data) == (Gone(BUNDLE), Bury(BUNDLE))
    assert at(B, data) == (Gone(BUNDLE),)


def test_a_free_bundle_answers_lookups_and_is_buried_when_forced() -> None:
    assert at(A, record(State.FREE, None, A)) == (Settled(BUNDLE, None),)
    assert at(A, record(State.FREE, None, A, force=True)) == (
        Settled(BUNDLE, None),
        CloseTopics(BUNDLE, disconnect=True, bury=True),
    )
    assert at(B, None) == (Settled(BUNDLE, None),)


def test_a_broker_that_leaves_acts_only_on_what_is_forced() -> None:
    assigned = record(State.ASSIGNING, A)
    assert at(A, assigned, disabled=True) == (Settled(BUNDLE, None),)
    handed_on = record(State.RELEASING, B, A, version=2, force=True)
    assert any(isinstance(each, CloseTopics) for each in at(A, handed_on, disabled=True))
