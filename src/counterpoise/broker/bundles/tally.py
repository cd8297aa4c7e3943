"""Counts of what happened to bundles on this broker since it started, for its metrics."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData
from counterpoise.ownership.channel.state import ChannelBundle
from counterpoise.ownership.port import BundleLocation
from counterpoise.ownership.records import InvalidRecord

TOTAL: Final = "Total"
FAILURE: Final = "Failure"
SUCCESS: Final = "Success"
SKIP: Final = "Skip"

_EVENTS: Final = {
    ServiceUnitState.ASSIGNING: "Assign",
    ServiceUnitState.RELEASING: "Unload",
    ServiceUnitState.SPLITTING: "Split",
}
"""By state of a record: the ``ServiceUnitStateChannelImpl.EventType`` that it begins."""


@dataclass(slots=True)
class CountedResult:
    """The label under which `counted` counts an operation; settable until the operation ends."""

    result: str = SUCCESS


@contextlib.contextmanager
def counted(counts: Counter[str]) -> Iterator[CountedResult]:
    """Count the ``with`` block in ``counts`` under its `CountedResult`; as Failure if it raises."""
    outcome = CountedResult()
    try:
        yield outcome
    except BaseException:
        outcome.result = FAILURE
        raise
    finally:
        counts[outcome.result] += 1


class BundleTally:
    """Counts what happens to bundles at one broker, under the labels of Pulsar's metrics.

    Under the modular load manager, which has no state channel, no records are counted.
    """

    def __init__(self) -> None:
        self.assigned: Counter[str] = Counter()
        """Placements of bundles: Success, Failure (no broker), Skip (another was faster)."""
        self.unloaded: Counter[str] = Counter()
        """Unloads requested from this broker, by result."""
        self.ordered = 0
        """How many of these unloads the leader ordered, to shed load."""
        self.shed: Counter[tuple[str, str]] = Counter()
        """Bundles that this broker shed as the leader, or rejected, by result and reason."""
        self.shed_brokers = 0
        """From how many brokers this one, as the leader, moved bundles away, summed over rounds."""
        self.split: Counter[str] = Counter()
        """Splits requested from this broker, by result; Skip where the algorithm saw no need."""
        self.split_for: Counter[str] = Counter()
        """How many of these splits were automatic, by the limit that was exceeded."""
        self.lookups: Counter[tuple[str, str]] = Counter()
        """Lookups of the owner of a bundle, by the state it was found in and the result."""
        self.published: Counter[tuple[str, str]] = Counter()
        """Records that this broker wrote because of an order or a repair, by event and result."""
        self.records_read: Counter[str] = Counter()
        """Records that this broker's state machines read, its own included, by their state."""
        self.cleanups: Counter[str] = Counter()
        """Checks of all records after a broker came or went, by result; Skip if not the leader."""
        self.orphans = 0
        """Records that this broker, as the leader, overwrote."""
        self.tombstones = 0
        """Records that this broker, as the leader, removed."""

    def looked_up(self, where: BundleLocation | None) -> None:
        """Count a lookup of a bundle's owner; None: the metadata store did not answer."""
        state = ServiceUnitState.INIT
        if where is not None and where.changing:
            state = (
                ServiceUnitState.RELEASING
                if where.successor is None
                else ServiceUnitState.ASSIGNING
            )
        elif where is not None and where.owner is not None:
            state = ServiceUnitState.OWNED
        self.lookups[state.value, TOTAL] += 1
        if where is None:
            self.lookups[state.value, FAILURE] += 1

    def found_owner(self) -> None:
        """Count a lookup of a bundle that this broker owns, answered without the store."""
        self.lookups[ServiceUnitState.OWNED.value, TOTAL] += 1

    def wrote(self, record: bytes, *, failed: bool) -> None:
        """Count a bundle's record (JSON) that this broker wrote, or failed to write."""
        try:
            event = _EVENTS.get(ServiceUnitStateData.from_json(record).state)
        except InvalidRecord:
            return
        if event is not None:
            self._publish(event, failed=failed)

    def repaired(self, *, removed: bool) -> None:
        """Count a record that the leader repaired, by overwriting or removing it."""
        if removed:
            self.tombstones += 1
        else:
            self.orphans += 1
            self._publish("Override", failed=False)

    def _publish(self, event: str, *, failed: bool) -> None:
        self.published[event, TOTAL] += 1
        if failed:
            self.published[event, FAILURE] += 1

    def moved_on(self, before: object, after: object) -> None:
        """Count the record that a bundle's state machine has just read.

        The arguments are the machine's states before and after; the same record is not counted
        twice.
        """
        if not isinstance(before, ChannelBundle) or not isinstance(after, ChannelBundle):
            return
        if after.record is not None and after.record != before.record:
            self.records_read[after.record.state.value] += 1
