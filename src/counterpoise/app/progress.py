"""Prints a line on stderr every few seconds while a verb waits for a cluster."""

import asyncio
import sys
from collections.abc import Awaitable
from typing import Final, TypeVar

T = TypeVar("T")
EVERY_S: Final = 5.0


async def while_waiting(work: Awaitable[T], what: object, every_s: float | None = None) -> T:
    """Return the result of ``work``; meanwhile print ``what`` on stderr every ``every_s`` seconds.

    ``what`` is converted to text each time, so that an object can show the progress.
    """
    task = asyncio.ensure_future(work)
    every_s = every_s or EVERY_S
    waited = 0.0
    try:
        while not (await asyncio.wait({task}, timeout=every_s))[0]:
            waited += every_s
            sys.stderr.write(f"counterpoise: {what}, {waited:g} s so far\n")
            sys.stderr.flush()
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
