"""Keeping a history tidy while it grows: in a thread of its own, never inside a micro-batch."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from counterpoise.pipeline.history.compaction import compact, retain
from counterpoise.pipeline.history.names import TABLES
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.tables.keeping import KeepingOptions

__all__ = ["FileKeeping", "Keeping", "KeepingOptions"]


class FileKeeping:
    """Compacts and retains one history, at most one of both at a time.

    `tell` gets a sentence when that fails, once for each reason: it is tried again later.
    """

    def __init__(self, store: Store, options: KeepingOptions, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._failed = ""
        self._store = store
        self._options = options
        self._batches = 0
        self._thread = ThreadPoolExecutor(1, "keep-history")
        self._running: Future[None] | None = None

    def folded(self, up_to_poll: int) -> None:
        """The stream has taken everything in up to this poll; returns at once."""
        self._batches += 1
        busy = self._running is not None and not self._running.done()
        if not busy and self._batches % self._options.look_every == 0:
            self._running = self._thread.submit(self._keep, up_to_poll)

    def _keep(self, up_to_poll: int) -> None:
        options = self._options
        try:
            for table in TABLES:
                keep = 0 if table == "reports" else options.rounds_at_hand
                compact(
                    self._store,
                    table,
                    up_to_poll=up_to_poll,
                    at_least=options.compact_from,
                    keep=keep,
                )
            if options.retain_days:
                retain(self._store, options.retain_days, time.time_ns() // 1_000_000)
            self._failed = ""
        except Exception as error:
            # Whatever it is, the balancer runs into it itself where it matters, and ends there.
            reason = str(error) or type(error).__name__
            if reason != self._failed:
                self._tell(
                    f"{self._store.address} could not be compacted, it is tried again later: "
                    f"{reason}"
                )
            self._failed = reason


Keeping = FileKeeping
