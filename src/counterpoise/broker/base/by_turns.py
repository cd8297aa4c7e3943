"""Splits long work into small parts, with other tasks served in between."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

PIECE: Final = 500
"""How many items one part of `in_pieces` has: some two milliseconds of work."""


class WorkBudget:
    """Lets a long task yield to other tasks each time it has done a fixed amount of work."""

    __slots__ = ("_left", "_most")

    def __init__(self, most: int) -> None:
        """``most``: the work between two pauses, in the unit that `did` counts."""
        self._most = self._left = most

    async def did(self, work: int = 1) -> None:
        """Count work; yield to other tasks if the budget is spent."""
        self._left -= work
        if self._left <= 0:
            self._left = self._most
            await asyncio.sleep(0)


class OnePerTurn:
    """Lets one caller begin long work in each turn of the event loop, in the order of calls."""

    __slots__ = ("_one",)

    def __init__(self) -> None:
        self._one = asyncio.Lock()

    async def mine(self) -> None:
        """Wait for a turn of the event loop in which no other caller begins its work."""
        async with self._one:
            await asyncio.sleep(0)


async def in_pieces(names: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    """Yield the names in parts of `PIECE`, and let other tasks run between two parts."""
    for begin in range(0, len(names), PIECE):
        yield names[begin : begin + PIECE]
        await asyncio.sleep(0)
