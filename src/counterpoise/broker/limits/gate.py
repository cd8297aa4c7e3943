"""What one subscription may deliver, under its own limit and those it shares with others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from counterpoise.broker.limits.dispatch_limit import NO_LIMIT, DispatchLevel, DispatchLimit

BACKLOGGED: Final = 1000
"""A subscription lags with more entries to deliver (``managedLedgerCursorBackloggedThreshold``)."""


@dataclass(slots=True)
class Terms:
    """What counts towards the limits of one broker; shared by all of its gates."""

    whole_batches: bool = False
    """Whether a batch counts as one message."""
    caught_up: bool = True
    """Whether they hold for subscriptions that do not lag, too."""


class Gate:
    """The place of one subscription among the limits, as long as its dispatcher lives."""

    __slots__ = (
        "_behind",
        "_exempt",
        "_go_on",
        "_its_turn",
        "_terms",
        "limits",
        "subscription",
        "throttled",
        "throttled_since",
        "topic",
        "waits_at",
    )

    def __init__(
        self,
        limits: tuple[DispatchLimit, ...],
        go_on: Callable[[], None],
        terms: Terms | None = None,
        behind: Callable[[], int] = lambda: 0,
        subscription: tuple[str, str] = ("", ""),
    ) -> None:
        """``go_on`` is called when it may deliver again; ``behind`` gives how far it lags.

        ``subscription`` is its topic and its name, for those who ask who waits.
        """
        self.limits = limits
        self.topic, self.subscription = subscription
        self._terms = terms or Terms()
        self._behind = behind
        self._exempt = False
        self._go_on = go_on
        #: The limit that it waits for; since when (ns) it has waited for one or the other.
        self.waits_at: DispatchLimit | None = None
        self.throttled_since: int | None = None
        #: How often it had to wait, by limit and by what was lacking there ("messages", "bytes").
        self.throttled: Counter[tuple[DispatchLevel, str]] = Counter()
        self._its_turn = False

    @property
    def behind(self) -> int:
        """Entries that it has not delivered yet."""
        return self._behind()

    @property
    def times(self) -> int:
        """How often it had to wait."""
        return self.throttled.total()

    def budget(self) -> tuple[int, int]:
        """Messages and bytes that may be delivered now; with none, ``go_on`` follows."""
        messages = size = NO_LIMIT
        if self.waits_at is not None:
            return 0, 0
        self._exempt = not self._terms.caught_up and self._behind() <= BACKLOGGED
        if self._exempt:
            return messages, size
        for limit in self.limits:
            free, room = limit.left()
            if free <= 0 or room <= 0 or (not self._its_turn and limit.has_others(self)):
                self._wait(limit, free, room)
                return 0, 0
            messages, size = min(messages, free), min(size, room)
        return messages, size

    def _wait(self, limit: DispatchLimit, free: int, room: int) -> None:
        lacks_bytes = room <= 0 or (free > 0 and limit.messages is None)
        if free <= 0 or not lacks_bytes:
            self.throttled[limit.level, "messages"] += 1
        if lacks_bytes:
            self.throttled[limit.level, "bytes"] += 1
        self.waits_at = limit
        limit.wait(self)

    def took(self, messages: int, entries: int, size: int) -> None:
        """So much was delivered, on what `budget` said last."""
        if self._exempt:
            return
        count = entries if self._terms.whole_batches else messages
        for limit in self.limits:
            limit.took(count, size)

    def turn(self) -> None:
        """It has its turn where it waited (`DispatchLimit` calls this)."""
        self.waits_at = None
        self._its_turn = True
        try:
            self._go_on()
        finally:
            self._its_turn = False
            if self.waits_at is None:
                self.throttled_since = None

    def change(self, limits: tuple[DispatchLimit, ...]) -> None:
        """Other limits apply, or the same on other terms."""
        self.limits = limits
        if self.waits_at is not None:
            self.waits_at.leave(self)
            self.turn()

    def close(self) -> None:
        """Nothing more is delivered."""
        if self.waits_at is not None:
            self.waits_at.leave(self)
            self.waits_at = None
            self.throttled_since = None
