"""Long work, a little of it in each turn of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

PIECE: Final = 500
"""How many names are looked at before others have their turn: some two milliseconds."""


class WorkBudget:
    """Counts what was done, and lets others have their turn whenever it is enough."""

    __slots__ = ("_left", "_most")

    def __init__(self, most: int) -> None:
        """``most``: how much may be done without a pause, in whatever `did` counts."""
        self._most = self._left = most

    async def did(self, work: int = 1) -> None:
        """Note work; returns in a later turn of the loop once there was enough in this one."""
        self._left -= work
        if self._left <= 0:
            self._left = self._most
            await asyncio.sleep(0)


class OnePerTurn:
    """Lets one of those who want to do long work begin it in each turn of the event loop."""

    __slots__ = ("_one",)

    def __init__(self) -> None:
        self._one = asyncio.Lock()

    async def mine(self) -> None:
        """Return in a turn in which nobody else does; first come, first served."""
        async with self._one:
            await asyncio.sleep(0)


async def in_pieces(names: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    """The names, a few at a time, with room for others in between."""
    for begin in range(0, len(names), PIECE):
        yield names[begin : begin + PIECE]
        await asyncio.sleep(0)
