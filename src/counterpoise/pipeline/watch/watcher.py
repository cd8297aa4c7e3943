"""Watches a cluster: polls and stores, decides nothing, moves nothing. It needs no Spark."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from counterpoise.load.rows import ReportRows
from counterpoise.names.callbacks import SentenceSink
from counterpoise.pipeline.collect.poll_log import trouble
from counterpoise.pipeline.watch import history_keeper


class ClusterWatcher(history_keeper.HistoryKeeper):
    """Polls a cluster into one history; decides and moves nothing."""

    def __init__(
        self,
        settings: history_keeper.WatchSettings,
        log: SentenceSink,
        after_poll: Callable[[ReportRows], Awaitable[None]] | None = None,
    ) -> None:
        """`after_poll` is called with each stored poll."""
        super().__init__(settings, log)
        self._after_poll = after_poll

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop` is set.

        Raises `HistoryInUseError`, `HistoryFaultError`, `CannotListenError`, and, with the setting
        `once`, `NothingSeenError` if the poll found nothing.
        """
        async with self._opened() as history:
            while not stop.is_set():
                rows = await history.polling.poll()
                if self._after_poll is not None:
                    await self._after_poll(rows)
                self.is_under_way = True
                history.keeping.folded(int(rows["poll_id"][0]))
                if self._settings.once:
                    if reason := trouble(rows):
                        raise history_keeper.NothingSeenError(reason)
                    return
                if await self._has_ended():
                    return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), self._settings.poll_every_s)
