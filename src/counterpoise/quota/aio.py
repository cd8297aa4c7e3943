"""A rate limiter for asyncio: ``async with limiter`` waits for its turn.

The only file of this room that knows a clock or an event loop.
"""

import asyncio
import time
from collections import deque
from types import TracebackType

from counterpoise.names.callbacks import NanosecondClock
from counterpoise.quota.bucket import SECOND_NS, Bucket


class RateLimiter:
    """Grants at most ``rate`` permits in ``per_s`` seconds, first come, first served.

    ``burst`` permits (by default those of a period) are granted at once after a rest. In any ``t``
    seconds at most ``burst + rate * (t + 0.016) / per_s + n`` are, ``n`` being the largest number
    that was requested at once: `Bucket` has the exact statement. For a strict "never more than N in
    a second", ``rate`` and ``burst`` together have to stay below N.

    Any number of tasks may wait; they cost one timer together, and a task that is cancelled loses
    its place and nothing else. Use it from one event loop at a time::

        limiter = RateLimiter(100)
        async with limiter:
            await call()
        await limiter.acquire(10)  # ten at once
    """

    def __init__(
        self,
        rate: int,
        per_s: float = 1.0,
        *,
        burst: int | None = None,
        clock: NanosecondClock = time.monotonic_ns,
    ) -> None:
        self._clock = clock
        self._bucket = Bucket(
            rate, clock(), period_ns=round(per_s * SECOND_NS), capacity=burst, target=1
        )
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def try_acquire(self, n: int = 1) -> bool:
        """Take ``n`` permits if they are available now, and return whether they were.

        Never overtakes a waiting task.
        """
        return not self._waiting and self._bucket.try_take(n, self._clock())

    async def acquire(self, n: int = 1) -> None:
        """Wait until ``n`` permits are available, and use them."""
        if self.try_acquire(n):
            return
        turn = asyncio.get_running_loop().create_future()
        place = (n, turn)
        self._waiting.append(place)
        self._arm()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                # Its turn came at the same moment: the next task gets its unused permits.
                self._bucket.balance += n
            elif place in self._waiting:
                self._waiting.remove(place)
            self._arm()
            raise

    def set_rate(self, rate: int, per_s: float = 1.0, *, burst: int | None = None) -> None:
        """Grant ``rate`` permits in ``per_s`` seconds from now on, also to tasks that wait."""
        self._bucket.change(
            self._clock(), rate=rate, period_ns=round(per_s * SECOND_NS), capacity=burst, target=1
        )
        self._arm()

    @property
    def waiting(self) -> int:
        """The number of waiting tasks."""
        return len(self._waiting)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            delay_s = self._bucket.wait_ns(self._clock()) / SECOND_NS
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._release)

    def _release(self) -> None:
        self._timer = None
        while self._waiting and self._bucket.update_balance(self._clock(), consistent=True) > 0:
            n, turn = self._waiting.popleft()
            if not turn.done():
                self._bucket.balance -= n
                turn.set_result(None)
        self._arm()

    async def __aenter__(self) -> "RateLimiter":
        await self.acquire()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Does nothing: tokens that were taken are not returned."""
