"""Runs a broker's rate limits on the event loop: their clock, timers and log lines."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from counterpoise.names.callbacks import NanosecondClock
from counterpoise.quota import SECOND_NS, Bucket, LimitedFlow, PublishFlow, RateLimit, Throttle

log = logging.getLogger(__name__)

QUIET_S: Final = 10.0
"""A limit for which nothing has waited for this long counts as no longer reached."""


@dataclass(slots=True)
class _Episode:
    began_ns: int
    count: int
    waited_ns: int
    timer: asyncio.TimerHandle


class LimitEpisodes:
    """Logs when a limit is reached, and when it is over: nothing has waited for `QUIET_S`."""

    def __init__(self, clock_ns: NanosecondClock, quiet_s: float = QUIET_S) -> None:
        self._now = clock_ns
        self._quiet_s = quiet_s
        self._open: dict[RateLimit, _Episode] = {}

    def began(self, limit: RateLimit, label: str) -> None:
        """Log once that a limit is reached; ``label`` names what waits for it."""
        if limit in self._open:
            return
        rates = rates_text(limit)
        log.info("%s of %s (%s) is reached: %s waits", limit.level, limit.subject, rates, label)
        self._open[limit] = _Episode(
            self._now(),
            limit.throttled_count - 1,
            limit.throttled_ns,
            self._timer(limit, self._quiet_s),
        )

    def _timer(self, limit: RateLimit, delay_s: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(delay_s, self._look, limit)

    def _look(self, limit: RateLimit) -> None:
        episode = self._open[limit]
        quiet_s = (self._now() - limit.rested_at) / SECOND_NS
        if limit.waiting or quiet_s < self._quiet_s:
            left_s = self._quiet_s if limit.waiting else self._quiet_s - quiet_s
            episode.timer = self._timer(limit, left_s)
            return
        del self._open[limit]
        log.info(
            "%s of %s is no longer reached: in %.1f s it throttled %d times, %.1f s altogether",
            limit.level,
            limit.subject,
            (limit.rested_at - episode.began_ns) / SECOND_NS,
            limit.throttled_count - episode.count,
            (limit.throttled_ns - episode.waited_ns) / SECOND_NS,
        )

    def stop(self) -> None:
        """Log no more limits that were reached: the broker stops."""
        for episode in self._open.values():
            episode.timer.cancel()
        self._open.clear()


def rates_text(limit: RateLimit) -> str:
    """A limit's rates as text for a person."""
    found = (_rate_text(limit.messages, "messages"), _rate_text(limit.bytes, "bytes"))
    return ", ".join(each for each in found if each) or "no limit"


def _rate_text(bucket: Bucket | None, what: str) -> str:
    if bucket is None:
        return ""
    seconds = bucket.period_ns // SECOND_NS
    return f"{bucket.rate:,} {what}" + ("/s" if seconds == 1 else f" in {seconds} s")


TIMER_S: Final = 0.001
"""The shortest time for which a timer is set, in seconds: event loops count in milliseconds."""

RETURN_AFTER_S: Final = 0.008
"""Seconds after which unused tokens that were set aside for producers are returned.

It is half of a bucket's resolution."""


class LimitRunner:
    """Applies the rate limits of one broker: queues and releases flows, sets timers, logs.

    A flow is what a producer publishes, or what a subscription delivers. Each limit that flows wait
    for has one timer.
    """

    def __init__(self, clock_ns: NanosecondClock) -> None:
        self.now = clock_ns
        self.throttle = Throttle()
        self.episodes = LimitEpisodes(clock_ns)
        self._timers: dict[RateLimit, asyncio.TimerHandle] = {}
        self._returns = False

    def offer(self, flow: PublishFlow, messages: int, size: int, item: object) -> bool:
        """Whether an entry may pass now; if not it is throttled, and released in its turn."""
        if not self._returns:
            self._returns = True
            asyncio.get_running_loop().call_later(RETURN_AFTER_S, self._return_reserved)
        return self.throttle.offer(flow, messages, size, item, self.now())

    def _return_reserved(self) -> None:
        self._returns = False
        self.throttle.return_reserved()

    def throttled(self, flow: LimitedFlow) -> None:
        """Log once that a flow waits for a limit, and set the limits' timers."""
        if self.throttle.alarms:
            if flow.waits_at is not None:
                self.episodes.began(flow.waits_at, flow.label)
            self.set_timers()

    def wait(self, flow: LimitedFlow, limit: RateLimit) -> None:
        """Put a flow into the queue of a limit that it exceeds."""
        self.throttle.wait(flow, limit, self.now())
        self.throttled(flow)

    def set_limits(self, flow: LimitedFlow, limits: tuple[RateLimit, ...]) -> None:
        """Replace the limits that apply to a flow."""
        self.throttle.set_limits(flow, limits, self.now())
        self.set_timers()

    def retry(self, flow: LimitedFlow) -> None:
        """Let a waiting flow try its limits again."""
        if flow.waits_at is not None:
            self.throttle.retry(flow, self.now())
            self.set_timers()

    def set_rate(self, limit: RateLimit, messages: int, size: int, period_s: int = 1) -> None:
        """Change a limit's messages and bytes per ``period_s`` seconds."""
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
