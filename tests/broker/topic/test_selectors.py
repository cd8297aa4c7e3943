"""Key_Shared's selectors and Failover's choice, against slow twins and known answers."""

import sys
from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.broker.topic.dispatch import selectors
from counterpoise.broker.topic.dispatch.failover_order import FailoverOrder
from counterpoise.broker.topic.dispatch.selectors import (
    LAST_SLOT,
    HalvedRanges,
    HashRing,
    RangesRefusedError,
    StickyRanges,
)
from counterpoise.names.hashing import murmur3_32

SLOTS = [1, 2, 77, 20_000, 30_001, 65_534, 65_535]
names = st.sampled_from(["a", "b", "consumer", ""])


def ring_twin(members: list[tuple[int, str, int]], slot: int) -> int | None:
    """(member, name, number) in order of joining; the owner found by looking at every point."""
    best: tuple[int, int] | None = None
    for order, (_, name, number) in enumerate(members):
        for n in range(100):
            point = murmur3_32(f"{name}\0{number}\0{n}".encode()) % 65535 + 1
            distance = (point - slot) % 65535
            if best is None or (distance, order) < best:
                best = (distance, order)
    return None if best is None else members[best[1]][0]


@pytest.mark.parametrize("selector", [HashRing, StickyRanges, HalvedRanges])
def test_no_large_key_is_kept(selector: type[selectors.Selector[int]]) -> None:
    """Sixty thousand of them were, until the broker stopped."""
    key = selector.__name__.encode() * 100
    references = sys.getrefcount(key)
    assert selector.slot(key) == selector.slot(bytes(bytearray(key)))
    assert sys.getrefcount(key) == references


@settings(deadline=None, max_examples=25)
@given(st.lists(st.one_of(names, st.integers(0, 5)), max_size=8))
def test_the_ring_agrees_with_looking_at_every_point(steps: list[str | int]) -> None:
    ring: HashRing[int] = HashRing()
    members: list[tuple[int, str, int]] = []
    for serial, step in enumerate(steps):
        if isinstance(step, str):
            used = {number for _, name, number in members if name == step}
            number = min(set(range(len(members) + 1)) - used)
            members.append((serial, step, number))
            ring.add(serial, step)
        elif members:
            gone = members.pop(step % len(members))
            ring.remove(gone[0])
        assert [ring.select(slot) for slot in SLOTS] == [ring_twin(members, s) for s in SLOTS]


def test_a_newcomer_only_takes_keys_for_itself() -> None:
    ring: HashRing[str] = HashRing()
    for name in "abc":
        ring.add(name, name)
    before = {slot: ring.select(slot) for slot in range(1, 65536, 13)}
    ring.add("d", "d")
    after = {slot: ring.select(slot) for slot in before}
    moved = {slot for slot in before if before[slot] != after[slot]}
    assert all(after[slot] == "d" for slot in moved)
    assert 0.1 < len(moved) / len(before) < 0.4
    ring.remove("d")
    assert {slot: ring.select(slot) for slot in before} == before


def test_a_number_that_is_free_again_is_taken_again() -> None:
    ring: HashRing[str] = HashRing()
    for member in ("first", "second"):
        ring.add(member, "name")
    before = [ring.select(slot) for slot in range(1, 65536, 97)]
    ring.remove("first")
    ring.add("third", "name")
    after = [ring.select(slot) for slot in range(1, 65536, 97)]
    assert after == [{"first": "third"}.get(each or "", each) for each in before]
    ring.add("stays", "name")
    after = [ring.select(slot) for slot in range(1, 65536, 97)]
    ring.remove("second")
    ring.remove("third")
    ring.add("last", "name")
    ring.add("next", "name")
    found = [ring.select(slot) for slot in range(1, 65536, 97)]
    # The lowest first, in whichever order they were given back.
    for gone, came in (("third", "last"), ("second", "next")):
        now = [new for old, new in zip(after, found, strict=True) if old == gone]
        # Where points meet, the slot is of whoever joined first.
        assert now.count(came) > 0.9 * len(now)


def test_slots_stay_in_their_ranges() -> None:
    keys = [str(n).encode() for n in range(20_000)]
    assert {1 <= HashRing.slot(k) <= LAST_SLOT for k in keys} == {True}
    assert {1 <= StickyRanges.slot(k) <= LAST_SLOT for k in keys} == {True}


def test_sticky_ranges_are_inclusive_and_leave_gaps() -> None:
    sticky: StickyRanges[str] = StickyRanges()
    sticky.add("low", "low", [(0, 99), (200, 299)])
    sticky.add("mid", "mid", [(100, 150)])
    sticky.add("one", "one", [(151, 151)])
    found = {slot: sticky.select(slot) for slot in (0, 99, 100, 150, 151, 199, 200, 299, 300)}
    assert found == {
        0: "low", 99: "low", 100: "mid", 150: "mid", 151: "one",
        199: None, 200: "low", 299: "low", 300: None,
    }  # fmt: skip
    sticky.remove("low")
    assert sticky.select(50) is None
    assert sticky.select(120) == "mid"


@pytest.mark.parametrize(
    ("ranges", "why"),
    [
        ([], "must not be empty"),
        (None, "must not be empty"),
        ([(5, 4)], "ascending"),
        ([(-1, 4)], "inside"),
        ([(0, 65536)], "inside"),
        ([(10, 20), (20, 30)], "overlap"),
        ([(99, 100)], "conflicts"),
        ([(0, 1000)], "conflicts"),
    ],
)
def test_ranges_that_are_refused(ranges: list[tuple[int, int]] | None, why: str) -> None:
    sticky: StickyRanges[str] = StickyRanges()
    sticky.add("first", "first", [(100, 200)])
    with pytest.raises(RangesRefusedError, match=why):
        sticky.add("second", "second", ranges)
    assert sticky.select(150) == "first"
    assert sticky.select(15) is None


def test_a_partition_takes_its_turn_among_the_best_priority() -> None:
    chosen = []
    for partition in range(4):
        order: FailoverOrder[str] = FailoverOrder("t", partition)
        for priority, name in [(1, "a"), (0, "c"), (0, "b")]:
            order.add(name, name, priority)
        chosen.append(order.first())
    assert chosen == ["b", "c", "b", "c"]


members = st.tuples(st.integers(0, 2), st.text("abc", min_size=1, max_size=3))


def active_twin(consumers: list[tuple[int, str, int]], topic: str, partition: int) -> int:
    """(priority, name, member) in order of joining; the active one by Pulsar's own steps."""
    best = min(priority for priority, _, _ in consumers)
    group = sorted((c for c in consumers if c[0] == best), key=lambda c: c[1])
    if partition >= 0:
        return group[partition % len(group)][2]
    ring: dict[int, int] = {}
    for _, name, member in group:
        ring |= {murmur3_32(f"{name}{n}".encode()): member for n in range(100)}
    points = sorted(ring)
    return ring[points[bisect_left(points, murmur3_32(topic.encode())) % len(points)]]


@given(
    st.lists(st.one_of(members, st.integers(0, 5)), min_size=1, max_size=10),
    st.text(min_size=1),
    st.sampled_from([-1, 0, 1, 5]),
)
@settings(deadline=None, max_examples=80)
def test_the_active_one_is_whom_pulsar_would_pick(
    steps: list[tuple[int, str] | int], topic: str, partition: int
) -> None:
    order: FailoverOrder[int] = FailoverOrder(topic, partition)
    consumers: list[tuple[int, str, int]] = []
    for member, step in enumerate(steps):
        if isinstance(step, tuple):
            priority, name = step
            consumers.append((priority, name, member))
            order.add(member, name, priority)
        elif consumers:
            priority, name, gone = consumers.pop(step % len(consumers))
            order.remove(gone, name, priority)
        if consumers:
            assert order.first() == active_twin(consumers, topic, partition)


def test_halving_takes_the_lower_half_of_the_largest_range() -> None:
    halved: HalvedRanges[str] = HalvedRanges()
    assert halved.select(1) is None
    shares = []
    for name in "abcde":
        halved.add(name, name)
        shares.append([halved.select(slot) for slot in (1, 16_384, 16_385, 32_768, 32_769, 65_535)])
    # Of equal ranges the lowest: e halves c's, the first of four quarters.
    assert ["".join(map(str, each)) for each in shares] == [
        "aaaaaa",
        "bbbbaa",
        "ccbbaa",
        "ccbbda",
        "ecbbda",
    ]
    halved.remove("a")
    assert halved.select(65_535) == "d", "the highest range goes to the one below"
    halved.remove("c")
    assert halved.select(16_384) == "b", "any other to the one above"


class JavaHalves:
    """The same by Pulsar's own steps: a sorted map from the upper end of a range to its owner."""

    def __init__(self) -> None:
        self.map: dict[int, int] = {}

    def _below(self, key: int) -> int:
        return max((each for each in self.map if each < key), default=0)

    def add(self, member: int) -> None:
        if not self.map:
            self.map[65536] = member
            return
        slots, busiest = 0, 65536
        for key in sorted(self.map):
            if key - self._below(key) > slots:
                slots, busiest = key - self._below(key), key
        self.map[busiest - ((busiest - self._below(busiest)) >> 1)] = member

    def remove(self, member: int) -> None:
        key = next(k for k, v in self.map.items() if v == member)
        del self.map[key]
        if key == 65536 and self.map:
            below = max(self.map)
            self.map[65536] = self.map.pop(below)

    def select(self, slot: int) -> int | None:
        return self.map[min(k for k in self.map if k >= slot)] if self.map else None


def test_halving_ends_at_single_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "LAST_SLOT", 3)
    halves: HalvedRanges[str] = HalvedRanges()
    for name in "abcd":
        halves.add(name, name)
    with pytest.raises(RangesRefusedError, match="for one more of 4"):
        halves.add("e", "e")
    assert sorted(str(halves.select(slot)) for slot in range(1, 5)) == list("abcd")


@given(st.lists(st.integers(-1, 20), max_size=60))
def test_halving_agrees_with_pulsars_own_steps(steps: list[int]) -> None:
    ours: HalvedRanges[int] = HalvedRanges()
    java, here = JavaHalves(), []
    for member, step in enumerate(steps):
        if step < 0 and here:
            gone = here.pop(-step % len(here))
            ours.remove(gone)
            java.remove(gone)
        elif step >= 0:
            here.append(member)
            ours.add(member, "name")
            java.add(member)
            if step % 3 == 0:
                gone = here.pop(step % len(here))
                ours.remove(gone)
                java.remove(gone)
        assert [ours.select(s) for s in SLOTS] == [java.select(s) for s in SLOTS]
