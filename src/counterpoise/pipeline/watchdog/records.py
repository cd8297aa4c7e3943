"""A record of the bundle state channel, and whether it is valid.

Two brokers may assign a bundle at once. Both records are in the topic, and the second is invalid:
Pulsar's readers skip it, and so does its compaction (`ServiceUnitStateDataConflictResolver`,
4.0.7). A reader that used every bundle's last record would report `Assigning` for ever for a bundle
that has long been `Owned`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from counterpoise.decide.watchdog.observation import ChannelRecord

INIT = "Init"
FOLLOWS: Mapping[str, frozenset[str]] = {
    INIT: frozenset({"Free", "Owned", "Assigning", "Releasing", "Splitting", "Deleted"}),
    "Free": frozenset({INIT, "Assigning"}),
    "Owned": frozenset({"Releasing", "Splitting"}),
    "Assigning": frozenset({"Owned"}),
    "Releasing": frozenset({"Free", "Assigning"}),
    "Splitting": frozenset({"Deleted"}),
    "Deleted": frozenset({INIT}),
}
"""The states that may follow each state without being forced."""
_MOST = (1 << 63) - 1
"""The version after which they begin again below zero."""


@dataclass(frozen=True, slots=True)
class Written:
    """A record of the bundle state channel as a broker wrote it."""

    state: str
    destination: str = ""
    source: str = ""
    version: int = 0
    force: bool = False
    at_ms: int = 0

    @property
    def seen(self) -> ChannelRecord:
        """The part of the record that the watchdog judges."""
        return ChannelRecord(self.state, self.destination or self.source, self.at_ms)


def written(data: bytes) -> Written | None:
    """Parse a record's JSON; None for a tombstone and for other content."""
    try:
        value = json.loads(data)
        return Written(
            str(value["state"]),
            str(value.get("dstBroker") or "").strip(),
            str(value.get("sourceBroker") or "").strip(),
            int(value.get("versionId") or 0),
            value.get("force") is True,
            int(value.get("timestamp") or 0),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def holds_after(before: Written | None, record: Written) -> bool:
    """Whether brokers would accept a record as a bundle's next one after `before` (None: first).

    By the state channel's rules for versions and states (PIP-192).
    """
    if before is not None:
        if before.version != _MOST and before.version >= record.version:
            return False
        if before.version != _MOST and record.version > before.version + 1:
            return True  # those in between were compacted away
    if record.force:
        return True
    state = before.state if before is not None else INIT
    if record.state not in FOLLOWS.get(state, frozenset()):
        return False
    return before is None or _of_the_same_brokers(before, record)


def _of_the_same_brokers(before: Written, record: Written) -> bool:
    same = (before.destination, before.source) == (record.destination, record.source)
    match before.state, record.state:
        case "Owned", "Splitting":
            return not record.destination and record.source == before.destination
        case "Owned", "Releasing":
            return record.source == before.destination != record.destination
        case ("Assigning", "Owned") | ("Releasing", "Free") | ("Splitting", "Deleted"):
            return same
        case "Releasing", "Assigning":
            return same and bool(record.destination)
        case "Free", "Assigning":
            return bool(record.destination) and not record.source
        case _:
            return True
