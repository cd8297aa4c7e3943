"""Waits for conditions about bundles, checked when something happens to a bundle."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from counterpoise.names.bundle import BundleName


class BundleWaiters:
    """Waits for conditions about bundles, which are checked again at each call of `wake`."""

    def __init__(self) -> None:
        self._waiting: Final[dict[BundleName, list[asyncio.Future[None]]]] = {}

    async def until(
        self, bundle: BundleName, condition: Callable[[], Awaitable[bool]], timeout_s: float
    ) -> bool:
        """Wait until the condition holds; returns True then, or False after ``timeout_s``."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout_s
        while True:
            # Registered before the check, so that a wake during the check is not missed.
            future = asyncio.get_running_loop().create_future()
            waiting = self._waiting.setdefault(bundle, [])
            waiting.append(future)
            try:
                if await condition():
                    return True
                if clock() >= deadline:
                    return False
                await asyncio.wait([future], timeout=deadline - clock())
            finally:
                if future in waiting:
                    waiting.remove(future)
                if not waiting and self._waiting.get(bundle) is waiting:
                    del self._waiting[bundle]

    def wake(self, bundle: BundleName) -> None:
        """Check all conditions about a bundle again."""
        for future in self._waiting.pop(bundle, ()):
            if not future.done():
                future.set_result(None)
