"""Continues after an outage of the service that stores a history."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Final, Protocol

from counterpoise.names.callbacks import SentenceSink
from counterpoise.pipeline.tables.faults import OutageError

PAUSES_S: Final = (5.0, 10.0, 20.0, 40.0, 60.0)
"""Seconds before each further attempt; the last value is repeated."""


class Keeper(Protocol):
    """A program that writes a history: a watcher or a balancer."""

    @property
    def is_under_way(self) -> bool:
        """Whether it has written anything since it started."""

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set; raises `OutageError` if the history's storage fails."""


async def through_outages(
    first: Keeper,
    again: Callable[[], Keeper],
    stop: asyncio.Event,
    report: SentenceSink,
    pauses_s: tuple[float, ...] = PAUSES_S,
) -> None:
    """Run `first`; after each outage of the storage, wait and run a new one, until `stop` is set.

    The new one continues from the history as after a kill. An outage before anything was written is
    raised: the address may be wrong.
    """
    keeper, was_there, pauses = first, False, _each(pauses_s)
    while not stop.is_set():
        try:
            await keeper.run(stop)
        except OutageError as outage:
            was_there |= keeper.is_under_way
            if not was_there:
                raise
            if keeper.is_under_way:
                pauses = _each(pauses_s)
            pause_s = next(pauses)
            report(f"an outage: {outage} (by itself it is tried again in {pause_s:g} s)")
        else:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause_s)
        keeper = again()


def _each(pauses_s: tuple[float, ...]) -> Iterator[float]:
    return chain(pauses_s, repeat(pauses_s[-1]))
