from counterpoise.names.bundle import BundleName
from counterpoise.ownership.channel.data import State, StateData
from counterpoise.ownership.channel.orphans import (
    Findings,
    Patience,
    examine,
    orphans_of,
    override,
)
from counterpoise.ownership.channel.transitions import Storage, refusal
from tests.ownership.channel.records import A, B, C, record

PATIENCE = Patience(in_flight_ms=100, tombstone_ms=1000, jittery_ms=0)
NOW = 5000


def named(number: int, namespace: str = "public/default") -> BundleName:
    return BundleName.parse(f"{namespace}/0x{number:08x}_0x{number + 1:08x}")


def test_the_monitor_finds_the_gone_the_stuck_and_what_can_be_buried() -> None:
    records = {
        named(1): record(State.OWNED, C),
        named(2): record(State.RELEASING, B, A, at_ms=NOW - 101),
        named(3): record(State.RELEASING, B, A, at_ms=NOW - 100),
        named(4): record(State.FREE, None, A, at_ms=NOW - 1001),
        named(5): record(State.FREE, None, A, at_ms=NOW - 1000),
        named(6): record(State.OWNED, A, C, at_ms=0),
        named(7): record(State.ASSIGNING, "d:1", A, at_ms=NOW),
    }
    found = examine(records, (A, B), NOW, PATIENCE)
    assert found == Findings((C, "d:1"), (named(2),), (named(4),))


def test_a_broker_leaves_what_it_had_and_what_it_was_changing_system_bundles_last() -> None:
    system = named(9, "pulsar/system")
    records = {
        named(1): record(State.OWNED, C, A),
        named(2): record(State.OWNED, A, C),
        named(3): record(State.RELEASING, B, C),
        named(4): record(State.ASSIGNING, C),
        named(5): record(State.FREE, None, C),
        system: record(State.OWNED, C),
    }
    assert orphans_of(C, records) == ((named(1), named(3), named(4)), (system,))


def mend(before: StateData, heir: str | None, leaving: str | None = None) -> StateData:
    return override(before, lambda: heir, NOW, leaving=leaving)


def test_an_orphan_goes_to_the_heir_by_force_and_every_reader_accepts_it() -> None:
    for before in (
        record(State.OWNED, C, version=4),
        record(State.ASSIGNING, C, version=4),
        record(State.RELEASING, C, A, version=4),
        record(State.SPLITTING, None, C, version=4),
    ):
        for heir in (B, None):
            after = mend(before, heir)
            assert after.force
            assert (after.version, after.timestamp_ms) == (5, NOW)
            for storage in Storage:
                assert refusal(before, after, storage) is None


def test_who_had_an_orphan_is_remembered_so_that_it_closes_what_it_has_left() -> None:
    owned = mend(record(State.OWNED, C, A, version=4), B)
    assert (owned.state, owned.destination, owned.source) == (State.OWNED, B, C)
    released = mend(record(State.RELEASING, C, A, version=4), B)
    assert (released.state, released.destination, released.source) == (State.OWNED, B, A)
    back = mend(record(State.RELEASING, C, A, version=4), A)
    assert (back.state, back.destination, back.source) == (State.OWNED, A, None)


def test_a_split_goes_on_at_the_heir() -> None:
    before = StateData(State.SPLITTING, None, C, {"x": None}, version=2)
    after = mend(before, B)
    assert (after.state, after.source, after.children) == (State.SPLITTING, B, {"x": None})


def test_without_an_heir_a_bundle_is_free() -> None:
    after = mend(record(State.OWNED, C, A, version=4), None)
    assert (after.state, after.destination, after.source) == (State.FREE, None, C)


def test_a_broker_that_leaves_hands_over_in_order() -> None:
    after = mend(record(State.OWNED, C, A, version=4), B, leaving=C)
    assert (after.state, after.destination, after.source) == (State.RELEASING, B, C)
