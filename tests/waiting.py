"""How tests wait for what no event announces: asked again and again, for a bounded time.

Whatever can be awaited is awaited instead; virtual time passes by `tests.quota.jumping.pass_time`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

WITHIN_S: Final = 100.0
"""Far longer than anything takes on a busy machine."""
_PAUSE_S: Final = 0.005


async def until(condition: Callable[[], object], what: str = "it") -> None:
    """Run the event loop until a condition holds."""

    async def holds() -> object:
        return condition()

    await found(holds, what)


async def found(look: Callable[[], Awaitable[T | None]], what: str = "it") -> T:
    """The first answer that is true."""
    deadline = time.monotonic() + WITHIN_S
    while not (answer := await look()):
        assert time.monotonic() < deadline, f"never happened: {what}"
        await asyncio.sleep(_PAUSE_S)
    return answer


def found_soon(look: Callable[[], T | None], what: str = "it") -> T:
    """The first answer that is true, of a cluster that runs in a thread or process of its own."""
    answer = answer_within(look, WITHIN_S, _PAUSE_S)
    assert answer, f"never happened: {what}"
    return answer


def answer_within(look: Callable[[], T | None], seconds: float, every_s: float = 0.5) -> T | None:
    """The first answer that is true, or the last one there is time for."""
    deadline = time.monotonic() + seconds
    while not (answer := look()) and time.monotonic() < deadline:
        time.sleep(every_s)  # what another process does announces itself by no event here
    return answer


async def turns(count: int = 50) -> None:
    """Let everything run that can, and that waits for no time to pass."""
    for _ in range(count):
        await asyncio.sleep(0)


async def pause() -> None:
    """Let a moment of real time pass before something is tried again."""
    await asyncio.sleep(_PAUSE_S)
