"""Logs one sentence when a limit is reached, and one when it no longer is."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from counterpoise.names.callbacks import NanosecondClock
from counterpoise.quota import SECOND_NS, Bucket, RateLimit

log = logging.getLogger(__name__)

QUIET_S: Final = 10.0
"""A limit on which no flow has waited for this long is no longer reached."""


@dataclass(slots=True)
class _Episode:
    began_ns: int
    count: int
    waited_ns: int
    timer: asyncio.TimerHandle


class LimitEpisodes:
    """Logs when a limit is reached, and when no flow has waited for it for `QUIET_S` any more."""

    def __init__(self, clock_ns: NanosecondClock, quiet_s: float = QUIET_S) -> None:
        self._now = clock_ns
        self._quiet_s = quiet_s
        self._open: dict[RateLimit, _Episode] = {}

    def began(self, limit: RateLimit, label: str) -> None:
        """A flow waits for a limit: log that, unless it is logged already."""
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
        """Log nothing more."""
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
