"""Maps a message's key to a consumer of a Key_Shared subscription, as Pulsar's selectors do."""

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from typing import Generic, TypeVar

from counterpoise.names.hashing import murmur3_32
from counterpoise.wire.entry import NO_KEY, BadEntry, metadata_of, sticky_key

M = TypeVar("M", bound=Hashable)

REPLICA_POINTS = 100
"""Points of each consumer on the ring (``subscriptionKeySharedConsistentHashingReplicaPoints``)."""

LAST_SLOT = 65535

KEY_CACHED_MAX = 256
"""The largest key, in bytes, whose hash is remembered."""


class RangesRefusedError(ValueError):
    """The hash ranges that a sticky consumer asks for are malformed or taken."""


def key_of(entry: bytes) -> bytes:
    """The key that decides the consumer of an entry."""
    try:
        return sticky_key(metadata_of(entry))
    except (BadEntry, ValueError):
        return NO_KEY


_murmur_of_short = lru_cache(maxsize=1 << 16)(murmur3_32)


def _murmur(key: bytes) -> int:
    # A key may have megabytes, and what is cached is kept for as long as the process lives.
    return _murmur_of_short(key) if len(key) <= KEY_CACHED_MAX else murmur3_32(key)


class Selector(ABC, Generic[M]):
    """Maps keys, by their hash slot, to the consumers (members) of a Key_Shared subscription."""

    @staticmethod
    @abstractmethod
    def slot(key: bytes) -> int:
        """The hash slot of a message's key; never 0, which Pulsar reserves for "not set"."""

    @abstractmethod
    def add(self, member: M, name: str, ranges: Sequence[tuple[int, int]] | None) -> None:
        """Assign slots to a new member; ``ranges`` are those that a sticky one asks for."""

    @abstractmethod
    def remove(self, member: M) -> None:
        """Assign a leaving member's slots to others."""

    @abstractmethod
    def select(self, slot: int) -> M | None:
        """The member to which a slot is assigned; None if there is none."""


class HashRing(Selector[M]):
    """AUTO_SPLIT by consistent hashing (``ConsistentHashingStickyKeyConsumerSelector``).

    Slots are numbered from 1 to 65535. A member has 100 points, hashed from its name, its number
    among members of the same name, and the point's number; a slot belongs to the next point
    upwards, around the end. If points collide, the member that joined first has the slot until it
    leaves.
    """

    def __init__(self) -> None:
        self._sorted: list[int] = []
        """The occupied points, ascending; each is added or removed alone, since with many members
        few points are new when one joins, or free when one leaves."""
        self._owners: dict[int, list[M]] = {}
        self._members: dict[M, tuple[str, int, list[int]]] = {}
        self._numbers: dict[str, _Numbers] = {}

    @staticmethod
    def slot(key: bytes) -> int:
        """The slot of a key, 1 to 65535."""
        return _murmur(key) % LAST_SLOT + 1

    def add(self, member: M, name: str, ranges: Sequence[tuple[int, int]] | None = None) -> None:
        """Put the member's points on the ring."""
        number = self._numbers.setdefault(name, _Numbers()).take()
        points = [self.slot(f"{name}\0{number}\0{n}".encode()) for n in range(REPLICA_POINTS)]
        self._members[member] = (name, number, points)
        for point in points:
            if point not in self._owners:
                insort(self._sorted, point)
            # If two points of a member collide, it is listed twice, and removed twice.
            self._owners.setdefault(point, []).append(member)

    def remove(self, member: M) -> None:
        """Take the member's points off the ring."""
        name, number, points = self._members.pop(member)
        if self._numbers[name].free(number):
            del self._numbers[name]
        for point in points:
            owners = self._owners[point]
            owners.remove(member)
            if not owners:
                del self._owners[point]
                del self._sorted[bisect_left(self._sorted, point)]

    def select(self, slot: int) -> M | None:
        """The member that owns the next point at or above the slot; None if there is none."""
        points = self._sorted
        if not points:
            return None
        return self._owners[points[bisect_left(points, slot) % len(points)]][0]


class _Numbers:
    """The numbers of members with the same name; each gets the lowest free one."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._next = 0

    def take(self) -> int:
        if self._free:
            return heappop(self._free)
        self._next += 1
        return self._next - 1

    def free(self, number: int) -> bool:
        """Free a number; returns whether no number is taken any more."""
        heappush(self._free, number)
        return len(self._free) == self._next


class StickyRanges(Selector[M]):
    """STICKY: each member asks for its slots (``HashRangeExclusiveStickyKeyConsumerSelector``).

    Ranges are inclusive, within 0 to 65535, and disjoint. A key in no member's range waits.
    """

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int, M]] = []
        self._held: dict[M, list[int]] = {}

    @staticmethod
    def slot(key: bytes) -> int:
        """The slot of a key, 1 to 65535."""
        return _murmur(key) % (LAST_SLOT + 1) or 1

    def add(self, member: M, name: str, ranges: Sequence[tuple[int, int]] | None) -> None:
        """Assign ``ranges`` to the member; raises `RangesRefusedError` if they are not free."""
        if not ranges:
            raise RangesRefusedError("Ranges for KeyShared policy must not be empty")
        before = (-1, -1)
        for start, end in sorted(ranges):
            if not 0 <= start <= end <= LAST_SLOT:
                raise RangesRefusedError(
                    f"Range [{start}, {end}] must lie inside [0, {LAST_SLOT}] in ascending order"
                )
            if start <= before[1]:
                raise RangesRefusedError(
                    f"Ranges for KeyShared policy with overlap between "
                    f"[{before[0]}, {before[1]}] and [{start}, {end}]"
                )
            before = (start, end)
            # Present ranges are disjoint: only the last that begins before the end can overlap.
            at = bisect_right(self._ranges, end, key=lambda held: held[0]) - 1
            if at >= 0 and start <= self._ranges[at][1]:
                low, high, _ = self._ranges[at]
                raise RangesRefusedError(
                    f"Range [{start}, {end}] conflicts with [{low}, {high}] of a consumer "
                    "that is attached"
                )
        self._held[member] = [start for start, _ in ranges]
        for start, end in ranges:
            insort(self._ranges, (start, end, member), key=lambda held: held[0])

    def remove(self, member: M) -> None:
        """Free the ranges of a member that leaves."""
        for start in self._held.pop(member):
            del self._ranges[bisect_left(self._ranges, start, key=lambda held: held[0])]

    def select(self, slot: int) -> M | None:
        """The member whose range has the slot."""
        at = bisect_left(self._ranges, slot + 1, key=lambda held: held[0]) - 1
        if at >= 0 and slot <= self._ranges[at][1]:
            return self._ranges[at][2]
        return None


class HalvedRanges(Selector[M]):
    """AUTO_SPLIT by ranges (``HashRangeAutoSplitStickyKeyConsumerSelector``).

    The first member has all slots; each newcomer takes the lower half of the largest range, the
    lowest of equals. A member that leaves gives its range to the member above it; the highest range
    goes to the member below.
    """

    def __init__(self) -> None:
        self._ends: list[int] = []
        """The upper ends of the ranges, ascending."""
        self._owners: dict[int, M] = {}
        """By upper end: the member that has the range."""
        self._end_of: dict[M, int] = {}

    @staticmethod
    def slot(key: bytes) -> int:
        """The slot of a key, 1 to 65535."""
        return _murmur(key) % (LAST_SLOT + 1) or 1

    def add(self, member: M, name: str, ranges: Sequence[tuple[int, int]] | None = None) -> None:
        """Halve the largest range; raises `RangesRefusedError` if it cannot be halved."""
        end = LAST_SLOT + 1
        if self._ends:
            begins = [0, *self._ends]
            size, at = max((upper - begins[i], -i) for i, upper in enumerate(self._ends))
            if size <= 1:
                raise RangesRefusedError(f"No range is left for one more of {len(self._ends)}")
            end = self._ends[-at] - size // 2
        insort(self._ends, end)
        self._owners[end] = member
        self._end_of[member] = end

    def remove(self, member: M) -> None:
        """Give the range of a member that leaves to its neighbour."""
        end = self._end_of.pop(member)
        if end == LAST_SLOT + 1 and len(self._ends) > 1:
            below = self._ends[-2]
            neighbour = self._owners[end] = self._owners.pop(below)
            self._end_of[neighbour] = end
            end = below
        else:
            del self._owners[end]
        del self._ends[bisect_left(self._ends, end)]

    def select(self, slot: int) -> M | None:
        """The member of the first range that ends at or above the slot."""
        if not self._ends:
            return None
        return self._owners[self._ends[bisect_left(self._ends, slot)]]
