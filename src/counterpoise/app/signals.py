"""Runs verbs until a signal stops them."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until_signal(run: Callable[[asyncio.Event], Awaitable[T]]) -> T:
    """Return the result of `run`, whose event is set by SIGTERM or Ctrl-C.

    On another thread than the main one, signals are not handled.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
    return await run(stop)
