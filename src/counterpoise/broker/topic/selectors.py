"""Which Key_Shared consumer a key belongs to: pure choice, as Pulsar's selectors make it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Generic, TypeVar

from counterpoise.names.hashing import murmur3_32

M = TypeVar("M", bound=Hashable)

REPLICA_POINTS = 100
"""Ring points a consumer (``subscriptionKeySharedConsistentHashingReplicaPoints``)."""

LAST_SLOT = 65535


class RangesRefusedError(ValueError):
    """The slots a sticky consumer asks for are malformed or taken."""


@lru_cache(maxsize=1 << 16)
def _murmur(key: bytes) -> int:
    return murmur3_32(key)


class Selector(ABC, Generic[M]):
    """Maps the slot of a key to a member."""

    @staticmethod
    @abstractmethod
    def slot(key: bytes) -> int:
        """The slot of a sticky key; never 0, which Pulsar keeps for "not set"."""

    @abstractmethod
    def add(self, member: M, name: str, ranges: Sequence[tuple[int, int]] | None) -> None:
        """Let a member take its share."""

    @abstractmethod
    def remove(self, member: M) -> None:
        """Give the member's share to others."""

    @abstractmethod
    def select(self, slot: int) -> M | None:
        """Whose slot this is; None when it is nobody's."""


class HashRing(Selector[M]):
    """AUTO_SPLIT by consistent hashing (``ConsistentHashingStickyKeyConsumerSelector``).

    Slots 1 to 65535. A member has 100 points, hashed from its name, its number among members of
    the same name, and the point's number; a slot belongs to the next point upwards, around the
    end. Where points collide the earliest member has the slot and the others wait for it.
    """

    def __init__(self) -> None:
        self._points: list[int] = []
        self._owners: dict[int, list[M]] = {}
        self._members: dict[M, tuple[str, int]] = {}

    @staticmethod
    def slot(key: bytes) -> int:
        """Slot 1 to 65535."""
        return _murmur(key) % LAST_SLOT + 1

    def add(self, member: M, name: str, ranges: Sequence[tuple[int, int]] | None = None) -> None:
        """Put the member's points on the ring."""
        taken = {number for other, number in self._members.values() if other == name}
        number = next(n for n in range(len(taken) + 1) if n not in taken)
        self._members[member] = (name, number)
        for point in self._points_of(name, number):
            owners = self._owners.setdefault(point, [])
            if not owners:
                insort(self._points, point)
            # A member that meets itself holds the point twice, and gives it up twice.
            owners.append(member)

    def remove(self, member: M) -> None:
        """Take the member's points off the ring."""
        for point in self._points_of(*self._members.pop(member)):
            owners = self._owners[point]
            owners.remove(member)
            if not owners:
                del self._owners[point]
                del self._points[bisect_left(self._points, point)]

    def select(self, slot: int) -> M | None:
        """The first owner of the next point at or above the slot."""
        points = self._points
        if not points:
            return None
        return self._owners[points[bisect_left(points, slot) % len(points)]][0]

    def _points_of(self, name: str, number: int) -> list[int]:
        return [self.slot(f"{name}\0{number}\0{n}".encode()) for n in range(REPLICA_POINTS)]


class StickyRanges(Selector[M]):
    """STICKY: each member names its slots (``HashRangeExclusiveStickyKeyConsumerSelector``).

    Inclusive ranges inside 0 to 65535 that meet nobody else's. A key in nobody's range waits.
    """

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int, M]] = []

    @staticmethod
    def slot(key: bytes) -> int:
        """Slot 1 to 65535."""
        return _murmur(key) % (LAST_SLOT + 1) or 1

    def add(self, member: M, name: str, ranges: Sequence[tuple[int, int]] | None) -> None:
        """Give the member its ranges; raise `RangesRefusedError` if that cannot be."""
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
            for low, high, _ in self._ranges:
                if start <= high and low <= end:
                    raise RangesRefusedError(
                        f"Range [{start}, {end}] conflicts with [{low}, {high}] of a consumer "
                        "that is attached"
                    )
        for start, end in ranges:
            insort(self._ranges, (start, end, member), key=lambda held: held[0])

    def remove(self, member: M) -> None:
        """Free the member's ranges."""
        self._ranges = [held for held in self._ranges if held[2] is not member]

    def select(self, slot: int) -> M | None:
        """The member whose range has the slot."""
        at = bisect_left(self._ranges, slot + 1, key=lambda held: held[0]) - 1
        if at >= 0 and slot <= self._ranges[at][1]:
            return self._ranges[at][2]
        return None
