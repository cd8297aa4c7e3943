"""Keeping a history tidy while it grows: in a thread of its own, never inside a micro-batch."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from counterpoise.pipeline.history.compaction import compact, retain
from counterpoise.pipeline.history.names import TABLES
from counterpoise.pipeline.history.store import Store


@dataclass(frozen=True, slots=True)
class KeepingOptions:
    """When files are compacted, and for how long they stay."""

    compact_from: int = 720
    """How many small files of a table are made few."""
    look_every: int = 60
    """How many micro-batches lie between two looks at what there is to do."""
    retain_days: int = 0
    """How many days stay; 0: all of them."""
    rounds_at_hand: int = 20
    """Small files of rounds that stay, for a round that is taken up again."""


class Keeping:
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
