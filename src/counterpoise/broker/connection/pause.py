"""Why a connection is not being read: a set of reasons, of which one is enough."""

import asyncio
from collections import Counter
from enum import StrEnum

from counterpoise.names.callbacks import Clock, Notify


class PauseReason(StrEnum):
    """A reason to stop reading from a client; the value is its name in logs and metrics."""

    PENDING_PUBLISHES = "pending publishes"
    PUBLISH_RATE = "publish rate limit"
    PUBLISH_BUFFER = "publish buffer full"
    UNREAD_ANSWERS = "answers not read"
    REQUESTS = "requests under way"
    HANDSHAKE = "being authenticated"
    TURNS = "taking turns"
    """The client sent more than fits into its turn: other clients are served before it goes on."""
    FROZEN = "frozen"
    """A test has frozen the broker: it neither reads nor writes."""


class ReadingPause:
    """Pauses reading from one connection's transport as long as there is any reason to.

    Each reason has one place that holds and releases it, so that none undoes another's pause. While
    nothing is read, the kernel's buffers fill and the client's writes block, which slows it down.
    """

    __slots__ = ("_clock", "_on_release", "_reasons", "_transport", "pauses", "times")

    def __init__(
        self, transport: asyncio.Transport, clock: Clock, on_release: Notify = lambda: None
    ) -> None:
        """``clock`` is in seconds; ``on_release`` is called whenever a reason is released."""
        self._transport = transport
        self._clock = clock
        self._on_release = on_release
        self._reasons: dict[PauseReason, float] = {}
        self.pauses = 0
        """How often reading stopped."""
        self.times: Counter[PauseReason] = Counter()
        """How often each reason began."""

    def __bool__(self) -> bool:
        """Whether reading is paused."""
        return bool(self._reasons)

    def hold(self, reason: PauseReason) -> None:
        """Pause reading until this reason is released. Idempotent."""
        if reason in self._reasons:
            return
        self.times[reason] += 1
        self._reasons[reason] = self._clock()
        if len(self._reasons) == 1:
            self.pauses += 1
            if not self._transport.is_closing():
                self._transport.pause_reading()

    def release(self, reason: PauseReason) -> None:
        """Release a reason; reading resumes if no other is left. Ignored if it is not held."""
        # Called after every read and every receipt, mostly while there is no reason to pause.
        if not self._reasons or self._reasons.pop(reason, None) is None:
            return
        if self._transport.is_closing():
            return
        if not self._reasons:
            self._transport.resume_reading()
        self._on_release()

    def holds(self, reason: PauseReason) -> bool:
        """Whether reading is paused for this reason."""
        return reason in self._reasons

    def other_than(self, reason: PauseReason) -> bool:
        """Whether reading is paused for any reason besides this one."""
        return len(self._reasons) > (reason in self._reasons)

    def since(self) -> dict[PauseReason, float]:
        """When each present reason began, in seconds of the clock."""
        return dict(self._reasons)
