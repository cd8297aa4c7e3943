"""Forged records: which are refused as they are read, and which the leader repairs at once."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from counterpoise.names.bundle import BundleRange
from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData
from counterpoise.ownership.channel.protocol import StateChannel
from counterpoise.ownership.channel.sense import AHEAD_MAX_MS, PARTS_MAX, VALUE_MAX, tiles
from counterpoise.ownership.channel.state import RECORDS
from counterpoise.ownership.channel.view import ChannelMessage, ChannelView
from counterpoise.ownership.events import CheckOwnership, NodeChange, NodeChanged
from counterpoise.ownership.port import BundleLocation, OwnershipOptions
from counterpoise.ownership.records import NamespaceEphemeralData
from tests.ownership.channel.records import A, B, record
from tests.ownership.channel.world import NAME, World

NOW = 1_700_000_000_000
HALVES = {"0x00000000_0x40000000": None, "0x40000000_0x80000000": None}


def forged(state: str, **fields: Any) -> dict[str, Any]:
    return {"state": state, "force": True, "timestamp": NOW, "versionId": 2, **fields}


SENSELESS = {
    "a split into what is no range": forged(
        "Splitting", sourceBroker=A, splitServiceUnitToDestBroker={"x": None, "y": None}
    ),
    "a split into 100,000 parts": forged(
        "Splitting",
        sourceBroker=A,
        splitServiceUnitToDestBroker={f"0x{n:08x}_0x{n + 1:08x}": None for n in range(100_000)},
    ),
    "a split that leaves a gap": forged(
        "Splitting",
        sourceBroker=A,
        splitServiceUnitToDestBroker={"0x00000000_0x30000000": None, "0x40000000_0x80000000": None},
    ),
    "a split of another bundle": forged(
        "Splitting", sourceBroker=A, splitServiceUnitToDestBroker={"0x80000000_0xffffffff": None}
    ),
    "an owned bundle that names parts": forged(
        "Owned", dstBroker=A, splitServiceUnitToDestBroker=HALVES
    ),
    "a release of no broker": forged("Releasing", dstBroker=A),
    "an assignment to no broker": forged("Assigning", sourceBroker=A),
    "a removal by no broker": forged("Deleted", dstBroker=A),
    "a broker's id with a line break": forged("Owned", dstBroker="a:8080\nb:8080"),
    "a broker's id without an end": forged("Owned", dstBroker="a" * 300),
    "a megabyte of nothing": forged("Owned", dstBroker=A, note="x" * (1 << 20)),
}


@pytest.mark.parametrize("fields", SENSELESS.values(), ids=SENSELESS)
def test_a_record_that_makes_no_sense_changes_nothing(fields: dict[str, Any]) -> None:
    value = json.dumps(fields).encode()
    view = ChannelView()
    assert view.hear(ChannelMessage(NAME, record(ServiceUnitState.OWNED, A).to_json())) is None
    assert view.hear(ChannelMessage(NAME, value))
    assert view.version(NAME) == 1, "what stood before stands"
    channel = StateChannel(OwnershipOptions(NamespaceEphemeralData("", f"http://{A}")), lambda: NOW)
    assert channel.locate({f"{RECORDS}/{NAME}": value}) == BundleLocation(None)
    state = channel.new(NAME)
    state, _ = channel.advance(state, CheckOwnership())
    assert not state.serves


def test_a_record_may_be_as_long_as_the_longest_split_and_no_longer() -> None:
    longest = record(ServiceUnitState.OWNED, A).to_json().ljust(VALUE_MAX)
    assert ChannelView().hear(ChannelMessage(NAME, longest)) is None
    assert ChannelView().hear(ChannelMessage(NAME, longest + b" "))


@pytest.mark.parametrize("key", ["nonsense", "t/ns/0x0_0x80000000", "t/ns/0x1_0x1", "", "a" * 5000])
def test_a_key_that_is_no_bundles_name_takes_no_memory(key: str) -> None:
    view = ChannelView()
    assert view.hear(ChannelMessage(key, record(ServiceUnitState.OWNED, A).to_json()))
    assert not view.values


def test_a_senseless_record_in_the_store_is_written_over_by_the_next_lookup() -> None:
    world = World(record(ServiceUnitState.ASSIGNING, B), 4, garbled=True)
    world.feed(NodeChanged(f"{RECORDS}/{NAME}", NodeChange.APPEARED))
    world.settle()
    assert not world.state.serves


UNBELIEVABLE = {
    "a release dated in the year 5000": record(
        ServiceUnitState.RELEASING, B, A, 9, force=True, at_ms=95_617_584_000_000
    ),
    "a minute ahead of the clock": record(
        ServiceUnitState.ASSIGNING, B, None, 9, at_ms=NOW + AHEAD_MAX_MS + 1
    ),
    "an owner that does not exist": record(ServiceUnitState.OWNED, "no:1", A, 9, at_ms=NOW),
    "a successor that does not exist": record(ServiceUnitState.RELEASING, "no:1", A, 9, at_ms=NOW),
    "a source that does not exist": record(ServiceUnitState.RELEASING, A, "no:1", 9, at_ms=NOW),
    "a splitting broker that does not exist": ServiceUnitStateData(
        ServiceUnitState.SPLITTING, None, "no:1", HALVES, True, NOW, 9
    ),
    "a removal by a broker that does not exist": record(
        ServiceUnitState.DELETED, None, "no:1", 9, force=True, at_ms=NOW
    ),
    "a removal dated in the year 5000": record(
        ServiceUnitState.DELETED, None, A, 9, force=True, at_ms=95_617_584_000_000
    ),
}


@pytest.mark.parametrize("found", UNBELIEVABLE.values(), ids=UNBELIEVABLE)
def test_the_leader_repairs_at_once_what_is_not_to_be_believed(found: ServiceUnitStateData) -> None:
    options = OwnershipOptions(NamespaceEphemeralData("", f"http://{A}"))
    channel, value = StateChannel(options, lambda: NOW), found.to_json()
    assert channel.is_unbelievable(NAME, value, (A, B), NOW)
    (repair,) = channel.repairs({NAME: value}, (A, B), NOW)
    assert repair.bundle == NAME
    if not repair.remove:
        after = channel.repaired(value, B, NOW)
        assert not channel.is_unbelievable(NAME, after, (A, B), NOW)


@given(
    st.tuples(
        st.sampled_from([each for each in ServiceUnitState if each.in_flight]),
        st.integers(-10_000, AHEAD_MAX_MS),
    )
    # Who owns a bundle at rest need not give it up for its clock of then.
    | st.tuples(st.just(ServiceUnitState.OWNED), st.integers(-10_000, 10**14))
)
@example((ServiceUnitState.ASSIGNING, AHEAD_MAX_MS))
def test_what_brokers_write_with_clocks_that_differ_is_believed(
    written: tuple[ServiceUnitState, int],
) -> None:
    state, ahead_ms = written
    options = OwnershipOptions(NamespaceEphemeralData("", f"http://{A}"))
    found = record(state, B, A, at_ms=NOW + ahead_ms).to_json()
    channel = StateChannel(options, lambda: NOW)
    assert not channel.is_unbelievable(NAME, found, (A, B), NOW)
    assert channel.repairs({NAME: found}, (A, B), NOW) == ()


@given(st.sets(st.integers(1, 0x7FFFFFFF), min_size=0, max_size=20), st.data())
def test_only_ranges_without_gap_or_overlap_are_a_split(
    cuts: set[int], data: st.DataObject
) -> None:
    parent = BundleRange(0, 0x80000000)
    edges = [0, *sorted(cuts), 0x80000000]
    parts = [str(BundleRange(a, b)) for a, b in pairwise(edges)]
    assert tiles(parent, data.draw(st.permutations(parts)))
    without = data.draw(st.sampled_from(parts))
    assert not tiles(parent, [each for each in parts if each != without])
    assert not tiles(parent, [*parts, parts[0]])


def test_the_largest_split_fits_into_a_record() -> None:
    step = 0x80000000 // PARTS_MAX
    edges = [*range(0, PARTS_MAX * step, step), 0x80000000]
    ranges = [str(BundleRange(a, b)) for a, b in pairwise(edges)]
    largest = ServiceUnitStateData(
        ServiceUnitState.SPLITTING, None, "x" * 255, dict.fromkeys(ranges), True, NOW, 1 << 62
    )
    assert len(largest.to_json()) <= VALUE_MAX
    assert ChannelView().hear(ChannelMessage(NAME, largest.to_json())) is None
