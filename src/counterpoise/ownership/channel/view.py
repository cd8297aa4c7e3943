"""The current record of every bundle, as a reader of the state channel's topic maintains it.

All brokers read the same messages in the same order and check each alike (`transitions.refusal`).
So they agree, even if records were written concurrently, twice or too late. A writer reads the
topic to learn whether its record was accepted.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from counterpoise.ownership.channel.data import ServiceUnitStateData
from counterpoise.ownership.channel.sense import read_record
from counterpoise.ownership.channel.transitions import Storage, refusal
from counterpoise.ownership.records import InvalidRecord


@dataclass(frozen=True, slots=True)
class ChannelMessage:
    """One message of the state channel's topic: a bundle's new record, or None to delete it."""

    bundle: str
    value: bytes | None
    """The record as JSON; None is a tombstone."""
    removes: int | None = None
    """The only version of the record that this tombstone deletes; None, as in Pulsar's: any
    version."""


class ChannelView:
    """The current record of every bundle, by the messages of the topic read so far."""

    def __init__(self) -> None:
        self._records: dict[str, tuple[ServiceUnitStateData, bytes]] = {}

    @property
    def values(self) -> Mapping[str, bytes]:
        """The current record of each bundle, as bytes."""
        return {bundle: value for bundle, (_, value) in self._records.items()}

    def value(self, bundle: str) -> bytes | None:
        """A bundle's current record, as bytes."""
        found = self._records.get(bundle)
        return None if found is None else found[1]

    def version(self, bundle: str) -> int | None:
        """The version of a bundle's record; None if it has none."""
        found = self._records.get(bundle)
        return None if found is None else found[0].version

    def hear(self, message: ChannelMessage) -> str | None:
        """Apply the topic's next message. Returns why it is ignored, or None if it was applied."""
        before = self._records.get(message.bundle)
        if message.value is None:
            return self._bury(message, before)
        try:
            after = read_record(message.bundle, message.value)
        except InvalidRecord:
            return "it is no record of this bundle, or makes no sense"
        why = refusal(None if before is None else before[0], after, Storage.SYSTEM_TOPIC)
        if why is None:
            self._records[message.bundle] = after, message.value
        return why

    def _bury(
        self, message: ChannelMessage, before: tuple[ServiceUnitStateData, bytes] | None
    ) -> str | None:
        if before is not None and message.removes not in (None, before[0].version):
            return f"version {message.removes} was to be removed, {before[0].version} stands"
        self._records.pop(message.bundle, None)
        return None
