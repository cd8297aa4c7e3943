from dataclasses import replace

from counterpoise.names.bundle import BundleName
from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData
from counterpoise.ownership.channel.protocol import StateChannel
from counterpoise.ownership.channel.repairs import examine, override
from counterpoise.ownership.channel.sense import read_record
from counterpoise.ownership.channel.transitions import Storage, refusal
from counterpoise.ownership.port import OwnershipOptions, Repair
from counterpoise.ownership.records import NamespaceEphemeralData
from tests.ownership.channel.records import A, B, C, record

ME = NamespaceEphemeralData("pulsar://a:6650", "http://a:8080")
TERMS = OwnershipOptions(ME, in_flight_ms=100, tombstone_ms=1000)
NOW = 5000


def named(number: int, namespace: str = "public/default") -> BundleName:
    return BundleName.parse(f"{namespace}/0x{number:08x}_0x{number + 1:08x}")


def test_the_monitor_finds_the_gone_the_stuck_and_what_can_be_buried() -> None:
    system = named(9, "pulsar/system")
    records = {
        named(1): record(ServiceUnitState.OWNED, C),
        named(2): record(ServiceUnitState.RELEASING, B, A, at_ms=NOW - 101),
        named(3): record(ServiceUnitState.RELEASING, B, A, at_ms=NOW - 100),
        named(4): record(ServiceUnitState.FREE, None, A, at_ms=NOW - 1001),
        named(5): record(ServiceUnitState.FREE, None, A, at_ms=NOW - 1000),
        named(6): record(ServiceUnitState.OWNED, A, C, at_ms=0),
        named(7): record(ServiceUnitState.ASSIGNING, "d:1", A, at_ms=NOW),
        named(8): record(ServiceUnitState.DELETED, None, C, at_ms=NOW),
        system: record(ServiceUnitState.OWNED, C),
        named(1, "zoo/last"): record(ServiceUnitState.OWNED, C),
    }
    assert examine(records, (A, B), NOW, TERMS) == (
        Repair(str(named(1)), f"{C}, which owns it, is no active broker"),
        Repair(str(named(2)), "it has been Releasing for 101 ms"),
        Repair(str(named(4)), "it has been Free for 1001 ms", remove=True),
        Repair(str(named(7)), "d:1, which was to own it, is no active broker"),
        Repair(
            str(named(8)), f"{C}, which was to delete its record, is no active broker", remove=True
        ),
        Repair(str(named(1, "zoo/last")), f"{C}, which owns it, is no active broker"),
        Repair(str(system), f"{C}, which owns it, is no active broker"),
    )


def test_every_broker_that_takes_part_in_a_change_is_missed() -> None:
    gone = record(ServiceUnitState.RELEASING, B, C, at_ms=NOW)
    (found,) = examine({named(1): gone}, (A, B), NOW, TERMS)
    assert found.why == f"{C}, which was releasing it, is no active broker"


def repair_all(before: ServiceUnitStateData, successor: str | None) -> ServiceUnitStateData:
    return override(before, successor, NOW)


def test_an_orphan_goes_to_the_successor_by_force_and_every_reader_accepts_it() -> None:
    whole, parts = "0x00000000_0x80000000", ("0x00000000_0x40000000", "0x40000000_0x80000000")
    split = record(ServiceUnitState.SPLITTING, None, C, version=4)
    for before in (
        record(ServiceUnitState.OWNED, C, version=4),
        record(ServiceUnitState.ASSIGNING, C, version=4),
        record(ServiceUnitState.RELEASING, C, A, version=4),
        split,
        replace(split, children=dict.fromkeys(parts)),
    ):
        for successor in (B, None):
            after = repair_all(before, successor)
            assert after.force
            assert (after.version, after.timestamp_ms) == (5, NOW)
            assert read_record(f"public/default/{whole}", after.to_json()) == after
            for storage in Storage:
                assert refusal(before, after, storage) is None


def test_who_had_an_orphan_is_remembered_so_that_it_closes_what_it_has_left() -> None:
    owned = repair_all(record(ServiceUnitState.OWNED, C, A, version=4), B)
    assert (owned.state, owned.destination, owned.source) == (ServiceUnitState.OWNED, B, C)
    released = repair_all(record(ServiceUnitState.RELEASING, C, A, version=4), B)
    assert (released.state, released.destination, released.source) == (ServiceUnitState.OWNED, B, A)
    parts = replace(record(ServiceUnitState.OWNED, C, A, version=4), children={"x": None})
    assert repair_all(parts, B).children == repair_all(parts, None).children == {}
    back = repair_all(record(ServiceUnitState.RELEASING, C, A, version=4), A)
    assert (back.state, back.destination, back.source) == (ServiceUnitState.OWNED, A, None)


def test_a_split_goes_on_at_the_successor() -> None:
    before = ServiceUnitStateData(ServiceUnitState.SPLITTING, None, C, {"x": None}, version=2)
    after = repair_all(before, B)
    assert (after.state, after.source, after.children) == (
        ServiceUnitState.SPLITTING,
        B,
        {"x": None},
    )


def test_without_a_successor_a_bundle_is_free() -> None:
    after = repair_all(record(ServiceUnitState.OWNED, C, A, version=4), None)
    assert (after.state, after.destination, after.source) == (ServiceUnitState.FREE, None, C)


def test_what_is_no_bundle_or_no_record_is_left_alone() -> None:
    lost = record(ServiceUnitState.OWNED, C).to_json()
    values = {str(named(1)): lost, "public/default/everything": lost, str(named(2)): b"["}
    channel = StateChannel(TERMS, lambda: NOW)
    assert [each.bundle for each in channel.repairs(values, (A, B), NOW)] == [str(named(1))]
