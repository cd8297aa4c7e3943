"""A bundle as one broker sees it, under the state channel."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData
from counterpoise.ownership.channel.duties import comes_to, serves
from counterpoise.ownership.port import (
    Acquire,
    CheckOwnership,
    OwnershipOptions,
    Release,
    Split,
    SplitCompleted,
)

RECORDS: Final = "/service_unit_state"
"""Where Pulsar keeps the records."""


class ChannelPhase(enum.Enum):
    """What this broker is doing about a bundle."""

    RESTING = "at rest"
    READING = "being looked at"
    WRITING = "having its next record written"
    AWAITING = "served until its heir is ready"
    CLOSING = "having its topics closed"
    BURYING = "having its record deleted"
    PAUSING = "waiting until a question is put again"
    WAITING = "waiting for somebody else's record"


@dataclass(frozen=True, slots=True)
class ChannelContext:
    """What all bundles of one broker have in common."""

    terms: OwnershipOptions
    now_ms: Callable[[], int] = field(repr=False)
    """The wall clock, for the records' timestamps."""

    @property
    def me(self) -> str:
        """This broker's id."""
        return self.terms.me.broker_id


@dataclass(frozen=True, slots=True)
class ChannelBundle:
    """One bundle as one broker sees it."""

    terms: ChannelContext
    bundle: str
    phase: ChannelPhase = ChannelPhase.RESTING
    record: ServiceUnitStateData | None = None
    """The record as it was seen last."""
    version: int | None = None
    """Of the node that holds it; None: there is no such node."""
    writing: ServiceUnitStateData | None = None
    """What is being written."""
    order: Acquire | Release | SplitCompleted | Split | CheckOwnership | None = None
    """What this broker was asked to do, until it is done or makes no sense."""
    is_open: bool = False
    """Whether topics of the bundle may be open here."""
    successor_ready: bool = False
    """Whoever gets the bundle from us is prepared, or has had the time to be."""
    yields: bool = False
    """It is prepared: topics stay open here until the record says that it owns the bundle."""
    takes_over: bool = False
    """Whoever we have the bundle from may have topics of it open."""
    is_released: bool = False
    """Or has not: it said so while our record was being written."""
    prepared_for: int = 0
    """The version of the last record upon which this broker prepared itself."""
    waits_for: int | None = None
    """The version of the record upon which the alarm was set that is still to ring."""
    doubted: bool = False
    """The session was interrupted since the record was seen: others may have acted."""
    overtaken: bool = False
    """Something happened since the open question was put: look again."""
    failures: int = 0

    @property
    def me(self) -> str:
        """This broker's id."""
        return self.terms.me

    @property
    def path(self) -> str:
        """The node of the bundle's record."""
        return f"{RECORDS}/{self.bundle}"

    @property
    def serves(self) -> bool:
        """See `BundleState.serves`."""
        return (
            self.phase in (ChannelPhase.RESTING, ChannelPhase.READING)
            and not self.doubted
            and not self.takes_over
            and self.is_open
            and serves(self.record, self.me)
        )

    @property
    def holds(self) -> bool:
        """See `BundleState.holds`."""
        awaits = self.phase is ChannelPhase.AWAITING or (
            self.yields and self.phase is not ChannelPhase.CLOSING
        )
        return self.is_open and (awaits or serves(self.record, self.me))

    @property
    def settling(self) -> bool:
        """See `BundleState.settling`."""
        if self.serves:
            return False
        if self.takes_over or comes_to(self.record, self.me):
            return True
        return self.in_progress and (
            self.order is not None or self.doubted or serves(self.record, self.me)
        )

    @property
    def taking_over(self) -> bool:
        """See `BundleState.taking_over`."""
        knows = self.phase in (ChannelPhase.WAITING, ChannelPhase.READING) and not self.doubted
        return self.takes_over and knows and serves(self.record, self.me)

    @property
    def in_progress(self) -> bool:
        """See `BundleState.in_progress`."""
        return self.phase is not ChannelPhase.RESTING

    @property
    def cut_into(self) -> tuple[str, ...]:
        """See `BundleState.cut_into`."""
        record = self.record
        if (
            record is None
            or record.state is not ServiceUnitState.SPLITTING
            or record.source != self.me
        ):
            return ()
        return tuple(sorted(record.children))

    @property
    def forgettable(self) -> bool:
        """See `BundleState.forgettable`."""
        return (
            self.phase is ChannelPhase.RESTING
            and not self.is_open
            and self.order is None
            and not comes_to(self.record, self.me)
            and not self.cut_into
        )
