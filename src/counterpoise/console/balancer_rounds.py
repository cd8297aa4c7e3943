"""Rounds and loads from the history of a balancer in another process, for all pages."""

import asyncio
import logging
import time

from counterpoise.console.history_reader import HistoryReader
from counterpoise.names.callbacks import MillisecondClock
from counterpoise.picture.recorded_load import RecordedLoad
from counterpoise.picture.round_summary import RoundSummary
from counterpoise.picture.treemap import TileKind
from counterpoise.pipeline.tables.faults import HistoryFaultError

log = logging.getLogger(__name__)

READ_EVERY_S = 3.0
WINDOW_MS = 6 * 3600 * 1000
"""How far back rounds are read, in milliseconds."""


class BalancerRounds:
    """Polls a balancer's history for its rounds, and writes operators' orders to it.

    Without a reader there is no history: there are no rounds, and orders are refused.
    """

    def __init__(self, reader: HistoryReader | None, clock_ms: MillisecondClock) -> None:
        self._reader = reader
        self._clock_ms = clock_ms
        self.summaries: tuple[RoundSummary, ...] = ()
        """The balancer's latest rounds, oldest first."""
        self.state = (
            ""
            if reader
            else (
                "Rounds of the cluster's own leader, where it publishes them. "
                "With --history, those of a balancer beside it, too."
            )
        )
        """A sentence on where the rounds come from, an order in force, or an error."""

    @property
    def accepts_control(self) -> bool:
        """Whether operators can pause, resume and stop a balancer here."""
        return self._reader is not None

    async def recorded(self, what: TileKind, key: str, span_ms: int) -> RecordedLoad:
        """Return what the history recorded in the last `span_ms` ms of the broker or bundle `key`.

        Raises `HistoryFaultError`.
        """
        if self._reader is None:
            return RecordedLoad()
        return await asyncio.to_thread(self._reader.recorded, what, key, self._clock_ms() - span_ms)

    async def say(self, wish: str, why: str) -> str:
        """Order the balancer to ``go``, ``pause`` or ``stop``, with the reason `why`.

        Returns the consequence, or why the order could not be given, as a sentence.
        """
        if self._reader is None:
            return "no balancer takes this order: the console was started without --history"
        try:
            await asyncio.to_thread(self._reader.say, wish, self._clock_ms(), why)
        except HistoryFaultError as error:
            return f"the order was not written to the history: {error}"
        return {
            "go": "moves go on",
            "pause": "no further move begins",
            "stop": "the balancer ends; no further move begins",
        }[wish]

    async def run(self) -> None:
        """Poll the history until cancelled."""
        while self._reader is not None:
            began = time.monotonic()
            try:
                after_ms = self._clock_ms() - WINDOW_MS
                self.summaries, self.state = await asyncio.to_thread(self._reader.read, after_ms)
            except HistoryFaultError as error:
                self.state = f"the balancer's rounds cannot be read: {error}"
            except Exception:
                log.exception("reading the balancer's rounds failed; it is tried again")
            await asyncio.sleep(max(READ_EVERY_S, 4 * (time.monotonic() - began)))
