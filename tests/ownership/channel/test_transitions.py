import pytest

from counterpoise.ownership.channel.data import (
    INT64_MAX,
    INT64_MIN,
    ServiceUnitState,
    ServiceUnitStateData,
)
from counterpoise.ownership.channel.transitions import Storage, refusal
from tests.ownership.channel.records import A, B, C, record

TOPIC, STORE = Storage.SYSTEM_TOPIC, Storage.METADATA_STORE
S = ServiceUnitState

FOLLOWING = [
    (record(S.FREE, None, A), record(S.ASSIGNING, B, version=2)),
    (record(S.ASSIGNING, B, A), record(S.OWNED, B, A, version=2)),
    (record(S.OWNED, A), record(S.RELEASING, B, A, version=2)),
    (record(S.OWNED, A), record(S.RELEASING, None, A, version=2)),
    (record(S.OWNED, A), record(S.SPLITTING, None, A, version=2)),
    (record(S.RELEASING, B, A), record(S.ASSIGNING, B, A, version=2)),
    (record(S.RELEASING, None, A), record(S.FREE, None, A, version=2)),
    (record(S.SPLITTING, None, A), record(S.DELETED, None, A, version=2)),
]


@pytest.mark.parametrize("storage", Storage)
@pytest.mark.parametrize(("before", "after"), FOLLOWING)
def test_the_ways_of_a_bundle(
    before: ServiceUnitStateData, after: ServiceUnitStateData, storage: Storage
) -> None:
    assert refusal(before, after, storage) is None


@pytest.mark.parametrize("storage", Storage)
@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (record(S.OWNED, A), record(S.OWNED, B, version=2), "Owned may not follow Owned"),
        (record(S.OWNED, A), record(S.RELEASING, B, C, version=2), "other brokers"),
        (record(S.OWNED, A), record(S.RELEASING, A, A, version=2), "other brokers"),
        (record(S.OWNED, A), record(S.SPLITTING, B, A, version=2), "other brokers"),
        (record(S.ASSIGNING, A), record(S.OWNED, B, version=2), "other brokers"),
        (record(S.RELEASING, None, A), record(S.ASSIGNING, None, A, version=2), "other brokers"),
        (record(S.FREE, None, A), record(S.ASSIGNING, B, A, version=2), "other brokers"),
        (record(S.ASSIGNING, A, version=3), record(S.OWNED, A, version=3), "not above"),
        (record(S.ASSIGNING, A, version=3), record(S.OWNED, A, version=2, force=True), "not above"),
    ],
)
def test_what_every_reader_ignores(
    before: ServiceUnitStateData, after: ServiceUnitStateData, why: str, storage: Storage
) -> None:
    said = refusal(before, after, storage)
    assert said is not None
    assert why in said


def test_a_gap_was_compacted_away_on_the_topic_and_lost_in_the_store() -> None:
    before, after = record(S.OWNED, A, version=2), record(S.FREE, None, B, version=4)
    assert refusal(before, after, TOPIC) is None
    assert refusal(before, after, STORE) == "version 4 does not follow 2"


def test_the_first_record() -> None:
    assert refusal(None, record(S.OWNED, A, version=5), TOPIC) is None
    assert refusal(None, record(S.OWNED, A, version=1), STORE) is None
    assert refusal(None, record(S.OWNED, A, version=2), STORE) is not None


@pytest.mark.parametrize("storage", Storage)
def test_force_checks_no_transition_and_a_tombstone_nothing(storage: Storage) -> None:
    before = record(S.OWNED, A)
    assert refusal(before, record(S.OWNED, B, A, version=2, force=True), storage) is None
    assert refusal(before, None, storage) is None


def test_a_version_may_wrap() -> None:
    before, after = (
        record(S.ASSIGNING, A, version=INT64_MAX),
        record(S.OWNED, A, version=INT64_MIN),
    )
    assert refusal(before, after, STORE) is None
