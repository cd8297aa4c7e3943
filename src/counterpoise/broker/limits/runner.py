"""Runs a broker's rate limits on the event loop: their clock, timers and log lines."""

import asyncio
from typing import Final

from counterpoise.broker.limits.episodes import LimitEpisodes
from counterpoise.names.callbacks import NanosecondClock
from counterpoise.quota import SECOND_NS, LimitedFlow, PublishFlow, RateLimit, Throttle

TIMER_S: Final = 0.001
"""The shortest timer: event loops count in milliseconds."""

SETTLE_S: Final = 0.008
"""How long a producer may keep what was set aside for it: half of a resolution step."""


class LimitRunner:
    """Applies rate limits to flows of one broker: queues and releases them, sets timers, logs.

    There is one timer for each limit that flows wait for, and none otherwise.
    """

    def __init__(self, clock_ns: NanosecondClock) -> None:
        self.now = clock_ns
        self.throttle = Throttle()
        self.episodes = LimitEpisodes(clock_ns)
        self._timers: dict[RateLimit, asyncio.TimerHandle] = {}
        self._settles = False

    def offer(self, flow: PublishFlow, messages: int, size: int, item: object) -> bool:
        """Whether an entry may pass now; if not it is throttled, and released in its turn."""
        if not self._settles:
            self._settles = True
            asyncio.get_running_loop().call_later(SETTLE_S, self._settle)
        return self.throttle.offer(flow, messages, size, item, self.now())

    def _settle(self) -> None:
        self._settles = False
        self.throttle.settle()

    def throttled(self, flow: LimitedFlow) -> None:
        """Log once that a flow waits for a limit, and set the limits' timers."""
        if self.throttle.alarms:
            if flow.waits_at is not None:
                self.episodes.began(flow.waits_at, flow.label)
            self.set_timers()

    def wait(self, flow: LimitedFlow, limit: RateLimit) -> None:
        """Put a flow into a limit's queue."""
        self.throttle.wait(flow, limit, self.now())
        self.throttled(flow)

    def set_limits(self, flow: LimitedFlow, limits: tuple[RateLimit, ...]) -> None:
        """Replace the limits of a flow."""
        self.throttle.set_limits(flow, limits, self.now())
        self.set_timers()

    def retry(self, flow: LimitedFlow) -> None:
        """Let a waiting flow try its limits again."""
        if flow.waits_at is not None:
            self.throttle.retry(flow, self.now())
            self.set_timers()

    def set_rate(self, limit: RateLimit, messages: int, size: int, period_s: int = 1) -> None:
        """Change a limit's rate."""
        self.throttle.set_rate(limit, messages, size, self.now(), period_s)
        self.set_timers()

    def end(self, flow: LimitedFlow) -> None:
        """End a flow, and drop its throttled entries."""
        self.throttle.end(flow, self.now())
        self.set_timers()

    def set_timers(self) -> None:
        """Set a timer for each limit whose next turn has changed."""
        alarms = self.throttle.alarms
        if not alarms:
            return
        now = self.now()
        for limit in alarms:
            timer = self._timers.pop(limit, None)
            if timer is not None:
                timer.cancel()
            if limit.resume_at is not None:
                delay_s = max(TIMER_S, (limit.resume_at - now) / SECOND_NS)
                loop = asyncio.get_running_loop()
                self._timers[limit] = loop.call_later(delay_s, self._release, limit)
        alarms.clear()

    def _release(self, limit: RateLimit) -> None:
        self._timers.pop(limit, None)
        try:
            self.throttle.release(limit, self.now())
        finally:
            self.set_timers()

    def stop(self) -> None:
        """Set no more timers: the broker stops."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.episodes.stop()
