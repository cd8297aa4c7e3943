"""The one who looks at the cluster for every open page."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import aiohttp

from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.rows import GAP, ReportRows
from counterpoise.picture.scene import Scene
from counterpoise.pipeline.collect.admin import AdminOptions
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.told import trouble

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How a cluster is looked at."""

    addresses: Sequence[str]
    """Admin URLs, tried in turn."""
    every_s: float = 2.0
    """Seconds between the end of a look and the next."""
    patience_s: float = 4.0
    """Seconds a broker may take for one answer: a page does not wait for who hangs."""


class Watch:
    """Looks again and again, and keeps the latest scene; pages read it when they want."""

    def __init__(
        self, session: aiohttp.ClientSession, options: WatchOptions, clock_ms: Callable[[], int]
    ) -> None:
        self.options = options
        self.scene = Scene.nothing()
        self._state = FoldState.empty()
        self._collector = Collector(
            session,
            options.addresses,
            clock_ms,
            options=AdminOptions(timeout_s=options.patience_s),
        )

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                await self.look()
            except Exception:
                # A page that stands still and says so is worth more than none.
                log.exception("a look at the cluster failed; the next one follows")
            await asyncio.sleep(self.options.every_s)

    async def look(self) -> None:
        """Look once."""
        rows = await self._collector.poll()
        # In a thread: a large cluster takes a while, and pages want to be answered meanwhile.
        self._state, self.scene = await asyncio.to_thread(seen, self._state, rows)


def seen(state: FoldState, rows: ReportRows) -> tuple[FoldState, Scene]:
    """The state after a poll, and the scene that it shows."""
    state = fold(state, Batch.of(rows))
    at_ms = int(rows["poll_id"][0])
    gaps = rows["kind"] == GAP
    silent = zip(rows["broker"][gaps].tolist(), rows["note"][gaps].tolist(), strict=True)
    return state, Scene(at_ms, cluster_view(state, at_ms), dict(silent), trouble(rows))
