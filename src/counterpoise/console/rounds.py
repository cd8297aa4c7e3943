"""The rounds of a balancer that runs elsewhere, and what it saw, from the history that it keeps."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from counterpoise.picture.decided import Decided
from counterpoise.picture.recorded import Recorded
from counterpoise.picture.treemap import What

log = logging.getLogger(__name__)

READ_EVERY_S = 3.0
WINDOW_MS = 6 * 3600 * 1000
"""How far back a page looks."""


class Reader(Protocol):
    """Where rounds are kept."""

    def read(self, after_ms: int) -> tuple[tuple[Decided, ...], str]:
        """The rounds after that, oldest first, and the balancer's state in a sentence.

        Raises OSError or ValueError, whose text says why there are none.
        """
        ...

    def recorded(self, what: What, key: str, after_ms: int) -> Recorded:
        """What was recorded of a bundle or a broker after that; raises OSError or ValueError."""
        ...

    def say(self, wish: str, now_ms: int, why: str) -> None:
        """Tell the balancer to ``go``, ``pause`` or ``stop``; raises OSError or ValueError."""
        ...


class Rounds:
    """Reads again and again what a balancer keeps, and tells it what an operator wants."""

    def __init__(self, reader: Reader | None, clock_ms: Callable[[], int]) -> None:
        self._reader = reader
        self._clock_ms = clock_ms
        self.told: tuple[Decided, ...] = ()
        """Oldest first."""
        self.state = (
            ""
            if reader
            else (
                "Rounds of the cluster's own leader, where it tells of them. "
                "With --history, those of a balancer beside it, too."
            )
        )

    @property
    def can_be_told(self) -> bool:
        """Whether there is a balancer that listens."""
        return self._reader is not None

    async def recorded(self, what: What, key: str, span_ms: int) -> Recorded:
        """What was recorded of a bundle or a broker; raises OSError or ValueError."""
        if self._reader is None:
            return Recorded()
        return await asyncio.to_thread(self._reader.recorded, what, key, self._clock_ms() - span_ms)

    async def say(self, wish: str, why: str) -> str:
        """Tell the balancer to ``go``, ``pause`` or ``stop``; says what came of it."""
        if self._reader is None:
            return "there is no balancer to be told"
        try:
            await asyncio.to_thread(self._reader.say, wish, self._clock_ms(), why)
        except (OSError, ValueError) as error:
            return f"the balancer could not be told: {error}"
        return {
            "go": "moves go on",
            "pause": "no further move begins",
            "stop": "the balancer ends; no further move begins",
        }[wish]

    async def run(self) -> None:
        """Read until cancelled."""
        while self._reader is not None:
            began = time.monotonic()
            try:
                after_ms = self._clock_ms() - WINDOW_MS
                self.told, self.state = await asyncio.to_thread(self._reader.read, after_ms)
            except (OSError, ValueError) as error:
                self.state = f"the balancer's rounds cannot be read: {error}"
            except Exception:
                log.exception("reading the balancer's rounds failed; it is tried again")
            await asyncio.sleep(max(READ_EVERY_S, 4 * (time.monotonic() - began)))
