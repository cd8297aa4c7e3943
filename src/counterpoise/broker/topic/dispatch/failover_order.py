"""The order in which consumers of a Failover subscription become active."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable
from typing import Generic, TypeVar

from counterpoise.names.hashing import murmur3_32

M = TypeVar("M", bound=Hashable)

_POINTS = 100
_RING = 1 << 31


class FailoverOrder(Generic[M]):
    """Decides which consumer of a Failover subscription is active.

    Source: ``AbstractDispatcherSingleActiveConsumer`` (``pickAndScheduleActiveConsumer``).

    Only consumers with the best priority (lowest number) are considered, sorted by name. A
    partition selects one by its number. An unpartitioned topic uses a hash ring with 100 points for
    each consumer. Only the point that follows the topic's own is needed, so only the nearest point
    of each consumer is stored, and consumers join and leave in logarithmic time.
    """

    def __init__(self, topic: str, partition: int) -> None:
        """``partition``: the partition's number, or -1 to use the hash ring."""
        self._topic_hash = murmur3_32(topic.encode())
        self._partition = partition
        self._levels: list[int] = []
        # By priority: (distance on the ring, name, member), sorted; equal ones as they joined.
        self._lines: dict[int, list[tuple[int, str, M]]] = {}
        self._distances: dict[M, int] = {}

    def add(self, member: M, name: str, priority: int) -> None:
        """Add a consumer (member) with its name and priority."""
        line = self._lines.get(priority)
        if line is None:
            line = self._lines[priority] = []
            insort(self._levels, priority)
        distance = self._distances[member] = self._distance(name)
        insort(line, (distance, name, member), key=lambda e: e[:2])

    def remove(self, member: M, name: str, priority: int) -> None:
        """Remove a consumer (member) that was added with this name and priority."""
        line = self._lines[priority]
        at = bisect_left(line, (self._distances.pop(member), name), key=lambda e: e[:2])
        while line[at][2] is not member:
            at += 1
        del line[at]
        if not line:
            del self._lines[priority]
            del self._levels[bisect_left(self._levels, priority)]

    def first(self) -> M:
        """The active member; raises `LookupError` if there is none."""
        line = self._lines[self._levels[0]]
        if self._partition >= 0:
            return line[self._partition % len(line)][2]
        # If points of several members collide, Pulsar's ring keeps the last one by name.
        return line[bisect_right(line, line[0][0], key=lambda e: e[0]) - 1][2]

    def _distance(self, name: str) -> int:
        """Distance from the topic's point to the member's nearest point; 0 without a ring."""
        if self._partition >= 0:
            return 0
        return min(
            (murmur3_32(f"{name}{n}".encode()) - self._topic_hash) % _RING for n in range(_POINTS)
        )
