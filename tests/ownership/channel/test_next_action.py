"""What a broker does next, by the bundle's record and by what it has open."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.ownership.channel.data import INT64_MAX, ServiceUnitState, ServiceUnitStateData
from counterpoise.ownership.channel.next_action import (
    AwaitOthers,
    AwaitSuccessor,
    CloseOpenTopics,
    DeleteRecord,
    LocalBundle,
    OpenTopics,
    Rest,
    WriteNext,
    assigning,
    next_action,
    releasing,
    serves,
    splitting,
    topics_by,
)
from counterpoise.ownership.channel.transitions import Storage, refusal
from counterpoise.ownership.events import (
    Acquire,
    Assign,
    Release,
    ReleaseFrom,
    Split,
    SplitCompleted,
)
from tests.ownership.channel.records import BUNDLE, A, B, record

BROKERS = st.sampled_from([None, "", A, B])
RECORDS = st.builds(
    lambda state, brokers, version, force, children: ServiceUnitStateData(
        state, *brokers, children, force, 0, version
    ),
    st.sampled_from([*ServiceUnitState]),
    st.tuples(BROKERS, BROKERS).filter(any),
    st.integers(1, 9) | st.just(INT64_MAX),
    st.booleans(),
    st.sampled_from([{}, {"0x00000000_0x40000000": None, "0x40000000_0x80000000": None}]),
)
REQUESTS = st.sampled_from(
    [
        None,
        Acquire(),
        Acquire(as_split_part=True),
        Release(None),
        Release(A),
        Release(B),
        Assign(A),
        Assign(B),
        ReleaseFrom(A, None),
        ReleaseFrom(A, B),
        ReleaseFrom(B, A),
        SplitCompleted(),
        Split(("0x00000000_0x40000000", "0x40000000_0x80000000")),
    ]
)


def test_the_records_that_a_broker_writes_may_follow_everywhere() -> None:
    owned = record(ServiceUnitState.OWNED, A, version=2)
    for storage in Storage:
        assert refusal(None, assigning(None, A, 1), storage) is None
        assert refusal(owned, releasing(owned, None, 1), storage) is None
        assert refusal(owned, releasing(owned, B, 1), storage) is None
        assert refusal(owned, splitting(owned, {"x": None, "y": None}, 1), storage) is None
    free = record(ServiceUnitState.FREE, None, A, version=2)
    assert refusal(free, assigning(free, B, 1), Storage.METADATA_STORE) is None


def test_of_two_assignments_the_second_is_ignored() -> None:
    first, second = assigning(None, A, 1), assigning(None, B, 1)
    for storage in Storage:
        assert refusal(first, second, storage) is not None


@given(st.none() | RECORDS, st.sampled_from([*OpenTopics]), REQUESTS)
def test_every_step_leads_to_rest_with_topics_where_the_record_says(
    found: ServiceUnitStateData | None, topics: OpenTopics, request: object
) -> None:
    """One broker alone, every command succeeds at once, others do nothing."""
    local = LocalBundle(A, topics, request, now_ms=7)  # type: ignore[arg-type]
    for _ in range(12):
        local = replace(local, topics=topics_by(found, A, local.topics))
        match next_action(found, local):
            case WriteNext(after, keeps_topics):
                assert refusal(found, after, Storage.METADATA_STORE) is None
                found = after
                local = replace(
                    local,
                    topics=local.topics if keeps_topics else OpenTopics.NONE,
                    request=None if isinstance(request, Release | Split) else local.request,
                )
            case CloseOpenTopics():
                local = replace(local, topics=OpenTopics.NONE, request=None)
            case DeleteRecord():
                found, local = None, replace(local, request=None)
            case Rest() | AwaitOthers():
                assert local.topics is OpenTopics.NONE or (
                    serves(found, A) or local.topics is OpenTopics.HANDING_OVER
                )
                return
            case _:
                local = replace(local, topics=OpenTopics.CLOSE_FIRST)
    raise AssertionError(f"it never rests: {found} {local}")


@pytest.mark.parametrize("me", [A, B])
def test_a_split_that_was_announced_ends_by_its_owners_request(me: str) -> None:
    silent = record(ServiceUnitState.SPLITTING, by=A)
    announced = replace(silent, children={str(BUNDLE.range): None})
    local = LocalBundle(me, OpenTopics.SERVED if me == A else OpenTopics.NONE, None, 7)
    assert isinstance(next_action(silent, local), WriteNext if me == A else Rest)
    assert isinstance(next_action(announced, local), Rest)
    asked = replace(local, request=SplitCompleted())
    for before in (announced, record(ServiceUnitState.OWNED, A)):
        match next_action(before, asked):
            case WriteNext(_, keeps_topics):
                assert (me, keeps_topics) == (A, False), (
                    "its parts serve the topics, open as they are"
                )
            case action:
                assert (me, action) == (B, Rest())


@pytest.mark.parametrize("force", [False, True])
def test_a_forced_release_does_not_wait_for_the_successor(force: bool) -> None:
    released = record(ServiceUnitState.RELEASING, B, A, force=force)
    expected = CloseOpenTopics(B) if force else AwaitSuccessor()
    assert next_action(released, LocalBundle(A, OpenTopics.SERVED, None, 7)) == expected


def test_clients_are_sent_to_no_broker_that_does_not_own_the_bundle_yet() -> None:
    """It has topics open although the bundle is only on its way to it."""
    coming = record(ServiceUnitState.RELEASING, A, B)
    assert next_action(coming, LocalBundle(A, OpenTopics.SERVED, None, 7)) == CloseOpenTopics(None)
    elsewhere = record(ServiceUnitState.OWNED, B, A)
    assert next_action(elsewhere, LocalBundle(A, OpenTopics.SERVED, None, 7)) == CloseOpenTopics(B)


def test_an_owner_is_not_ordered_to_release_a_bundle_to_itself() -> None:
    owned = record(ServiceUnitState.OWNED, A)
    for me, topics in ((A, OpenTopics.SERVED), (B, OpenTopics.NONE)):
        request = ReleaseFrom(A, A)
        assert next_action(owned, LocalBundle(me, topics, request, 0)) == next_action(
            owned, LocalBundle(me, topics, None, 0)
        )
