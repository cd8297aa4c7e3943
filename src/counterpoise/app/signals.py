"""Runs verbs until a signal stops them."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable


async def until_signal(run: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run until it ends; SIGTERM or Ctrl-C sets its event. Call it on the main thread."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
    await run(stop)
