"""What the log says about limits: one sentence when one is reached, one when it no longer is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from counterpoise.broker.limits.ports import Reached
from counterpoise.quota import SECOND_NS, Bucket

log = logging.getLogger(__name__)

QUIET_S: Final = 10.0
"""A limit that nobody had to wait at for so long is no longer reached."""


@dataclass(slots=True)
class _Episode:
    began_ns: int
    count: int
    waited_ns: int
    last_count: int
    timer: asyncio.TimerHandle


class Episodes:
    """From the first who has to wait at a limit until nobody had to for a while."""

    def __init__(self, clock_ns: Callable[[], int], quiet_s: float = QUIET_S) -> None:
        self._now = clock_ns
        self._quiet_s = quiet_s
        self._open: dict[Reached, _Episode] = {}

    def began(self, limit: Reached, who: str) -> None:
        """Somebody waits at a limit; harmless if that is known."""
        if limit in self._open:
            return
        rates = rates_text(limit)
        log.info("%s of %s (%s) is reached: %s waits", limit.level, limit.subject, rates, who)
        self._open[limit] = _Episode(
            self._now(),
            limit.throttled_count - 1,
            limit.throttled_ns,
            limit.throttled_count,
            self._timer(limit),
        )

    def _timer(self, limit: Reached) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._quiet_s, self._look, limit)

    def _look(self, limit: Reached) -> None:
        episode = self._open[limit]
        if limit.waiting or limit.throttled_count != episode.last_count:
            episode.last_count = limit.throttled_count
            episode.timer = self._timer(limit)
            return
        del self._open[limit]
        log.info(
            "%s of %s is no longer reached: in %.0f s somebody waited %d times, %.1f s altogether",
            limit.level,
            limit.subject,
            max(0.0, (self._now() - episode.began_ns) / SECOND_NS - self._quiet_s),
            limit.throttled_count - episode.count,
            (limit.throttled_ns - episode.waited_ns) / SECOND_NS,
        )

    def stop(self) -> None:
        """Watch no longer."""
        for episode in self._open.values():
            episode.timer.cancel()
        self._open.clear()


def rates_text(limit: Reached) -> str:
    """A limit's rates for a person."""
    found = (_rate_text(limit.messages, "messages"), _rate_text(limit.bytes, "bytes"))
    return ", ".join(each for each in found if each) or "no limit"


def _rate_text(bucket: Bucket | None, what: str) -> str:
    if bucket is None:
        return ""
    seconds = bucket.period_ns // SECOND_NS
    return f"{bucket.rate:,} {what}" + ("/s" if seconds == 1 else f" in {seconds} s")
