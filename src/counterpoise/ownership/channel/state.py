"""The state of one bundle at one broker, under the state channel."""

import enum
from dataclasses import dataclass, field
from typing import Final

from counterpoise.names.callbacks import MillisecondClock
from counterpoise.ownership.channel.data import ServiceUnitStateData
from counterpoise.ownership.channel.next_action import (
    LocalBundle,
    OpenTopics,
    comes_to,
    serves,
    splits,
)
from counterpoise.ownership.events import Request
from counterpoise.ownership.port import OwnershipOptions

RECORDS: Final = "/service_unit_state"
"""The path below which Pulsar keeps the records."""


class ChannelPhase(enum.Enum):
    """The step of the state channel's protocol at which this broker is with a bundle."""

    RESTING = "at rest"
    READING = "having its record read"
    REREADING = "having its record read, which has changed since"
    WRITING = "having its next record written"
    AWAITING_SUCCESSOR = "served until its successor is ready"
    CLOSING = "having its topics closed"
    DELETING = "having its record deleted"
    PAUSING = "waiting until a command is tried again"
    WAITING = "waiting for another broker's record"


class RecordTrust(enum.Enum):
    """Whether the record that was read last may be acted on, or must be read again first."""

    CURRENT = "nothing else is known"
    CHANGED = "it has changed since: it is read when the command under way has ended"
    DOUBTED = "the session was interrupted: no topic is opened until it is read"


@dataclass(frozen=True, slots=True)
class ChannelContext:
    """The settings and the clock that all bundles of one broker share."""

    options: OwnershipOptions
    now_ms: MillisecondClock = field(repr=False)
    """The wall clock, for the records' timestamps."""

    @property
    def me(self) -> str:
        """This broker's id."""
        return self.options.me.broker_id


@dataclass(frozen=True, slots=True)
class ChannelBundle:
    """The state of one bundle at one broker, under the state channel (PIP-192)."""

    context: ChannelContext
    bundle: str
    phase: ChannelPhase = ChannelPhase.RESTING
    topics: OpenTopics = OpenTopics.NONE
    record: ServiceUnitStateData | None = None
    """The record as it was read last."""
    version: int | None = None
    """The version of the record's node; None: there is no such node."""
    trust: RecordTrust = RecordTrust.CURRENT
    writing: ServiceUnitStateData | None = None
    """The record that is being written."""
    early_report: bool = False
    """Whether the other broker of a transfer reported too early: before this broker knew the new
    record.

    If the record is `Releasing`, the report was the successor's, which is ready. If this broker is
    writing `Owned`, it was the former owner's, which has closed its topics."""
    request: Request | None = None
    """The request to this broker that is not done yet; dropped if it has become impossible."""
    prepared_for: int = 0
    """The version of the record for which this broker issued `Prepare`; 0: none."""
    timer_for: int | None = None
    """The version of the record for which a timer limits the wait; None: no timer runs."""
    failures: int = 0
    """How many commands in a row have failed; the pause before the next depends on it."""

    @property
    def me(self) -> str:
        """This broker's id."""
        return self.context.me

    @property
    def path(self) -> str:
        """The path of the bundle's record."""
        return f"{RECORDS}/{self.bundle}"

    @property
    def local(self) -> LocalBundle:
        """What `next_action` needs besides the record: open topics, the request, the time."""
        return LocalBundle(self.me, self.topics, self.request, self.context.now_ms())

    @property
    def serves(self) -> bool:
        """Whether topics of the bundle may be opened here now."""
        return (
            self.phase in (ChannelPhase.RESTING, ChannelPhase.READING, ChannelPhase.REREADING)
            and self.trust is not RecordTrust.DOUBTED
            and self.topics not in (OpenTopics.NONE, OpenTopics.TAKING_OVER)
            and serves(self.record, self.me)
        )

    @property
    def holds(self) -> bool:
        """Whether open topics stay open: this broker serves the bundle, or that is uncertain."""
        if self.topics is OpenTopics.NONE:
            return False
        hands_over = self.topics is OpenTopics.HANDING_OVER
        return (
            self.phase is ChannelPhase.AWAITING_SUCCESSOR
            or (hands_over and self.phase is not ChannelPhase.CLOSING)
            or serves(self.record, self.me)
        )

    @property
    def undecided(self) -> bool:
        """Whether a client should wait: which broker serves the bundle is about to be decided."""
        if self.serves:
            return False
        if self.topics is OpenTopics.TAKING_OVER or comes_to(self.record, self.me):
            return True
        doubted = self.trust is RecordTrust.DOUBTED
        return self.in_progress and (
            self.request is not None or doubted or serves(self.record, self.me)
        )

    @property
    def taking_over(self) -> bool:
        """Whether this broker owns the bundle while the former owner may still have open topics."""
        return (
            self.topics is OpenTopics.TAKING_OVER
            and self.phase in (ChannelPhase.WAITING, ChannelPhase.READING, ChannelPhase.REREADING)
            and self.trust is not RecordTrust.DOUBTED
            and serves(self.record, self.me)
        )

    @property
    def in_progress(self) -> bool:
        """Whether a command's result or a timer is awaited."""
        return self.phase is not ChannelPhase.RESTING

    @property
    def split_into(self) -> tuple[str, ...]:
        """The ranges of a split that this broker has announced; empty without one."""
        if self.record is None or not splits(self.record, self.me):
            return ()
        return tuple(sorted(self.record.children))

    @property
    def forgettable(self) -> bool:
        """Whether this state is equivalent to the initial one, so that the broker can drop it."""
        return (
            self.phase is ChannelPhase.RESTING
            and self.topics is OpenTopics.NONE
            and self.request is None
            and not comes_to(self.record, self.me)
            and not self.split_into
        )
