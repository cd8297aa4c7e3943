"""How long a connection keeps the loop before the others have their turn."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

TURN_S: Final = 0.005
"""How long one connection is served before the others have their turn, in processor time.

On a busy machine, time in which this thread did not run would cut turns, and commits, into pieces
without anybody being served sooner."""


def one_by_one(leaving: deque[T], let_go: Callable[[T], None]) -> None:
    """Let each go, a turn's worth at a time: what one connection opened may take seconds to close.

    Whoever cannot be let go keeps nobody else from it.
    """
    ends = time.thread_time() + TURN_S
    try:
        while leaving and time.thread_time() < ends:
            let_go(leaving.popleft())
    finally:
        if leaving:
            asyncio.get_running_loop().call_soon(one_by_one, leaving, let_go)
