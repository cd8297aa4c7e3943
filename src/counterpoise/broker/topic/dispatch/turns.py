"""Delivery takes turns: what one turn of the event loop may do of it, over all topics."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

_log = logging.getLogger(__name__)

TURN: Final = 4000
"""Work of one turn: entries looked at, and kilobytes sent. Some five milliseconds."""


class Turns:
    """One broker's delivery work: ``left`` is what the loop's current turn may still do.

    A dispatcher that finds nothing left, or leaves nothing, waits in line; so however much backlog
    meets however many permits, everything else that the loop serves is served in between.
    """

    __slots__ = ("_line", "_renews", "_turn", "left")

    def __init__(self, turn: int = TURN) -> None:
        self._turn = self.left = turn
        self._line: deque[Callable[[], None]] = deque()
        self._renews = False

    def spend(self, entries: int, size: int = 0) -> None:
        """Note work done: entries looked at, and bytes sent."""
        self.left -= 1 + entries + (size >> 10)
        if not self._renews:
            self._renews = True
            asyncio.get_running_loop().call_soon(self._renew)

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` when it is its turn; for those who find nothing left."""
        self._line.append(go_on)

    async def my(self) -> None:
        """Return once there is something left to spend."""
        while self.left <= 0:
            turn = asyncio.Event()
            self.wait(turn.set)
            await turn.wait()

    async def take(self, work: int) -> None:
        """Return once there is something left, and spend so much of it.

        However many do so at once, everybody else is served in between.
        """
        await self.my()
        self.spend(work)

    def _renew(self) -> None:
        self._renews = False
        self.left = self._turn
        line, self._line = self._line, deque()
        while line and self.left > 0:
            try:
                line.popleft()()
            except Exception:
                # Whoever fails here must not keep the others from their turn.
                _log.exception("A delivery failed in a way it must not")
        # Those who had no turn stand before those who want another.
        line.extend(self._line)
        self._line = line
