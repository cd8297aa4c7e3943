"""Compacts a growing history and removes its old days, in a thread and never during a batch."""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from counterpoise.names.callbacks import SentenceSink
from counterpoise.pipeline.tables.compaction import PER_LEVEL, compact, retain
from counterpoise.pipeline.tables.delta_table import TIME_TRAVEL_DAYS
from counterpoise.pipeline.tables.faults import SupersededError
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.schema import FOLD_STATE, REPORTS, TABLES


@dataclass(frozen=True, slots=True)
class KeepingOptions:
    """How often a history is compacted and vacuumed, and how many days stay."""

    compact_from: int = PER_LEVEL
    """A table is compacted once it has this many small files."""
    look_every: int = 60
    """The tables are checked for files to compact each time that this many batches have been
    folded."""
    retain_days: int = 0
    """How many days of rows are kept; 0: all of them."""
    time_travel_days: int = TIME_TRAVEL_DAYS
    """How many days back a table can be read; the more, the longer each commit takes."""
    rounds_at_hand: int = 20
    """How many of the newest small files of a table other than `reports` are not compacted, so that
    an interrupted round is found quickly."""
    vacuum_every: int = 60
    """One in this many compactions also deletes the files that no readable version needs."""


class Keeping:
    """Compacts a history, drops old days and deletes unneeded files, in the background.

    `log` gets a sentence when that fails, once for each reason; it is retried later.
    """

    def __init__(self, writer: TablesWriter, options: KeepingOptions, log: SentenceSink) -> None:
        self._log = log
        self._failed = ""
        self._writer = writer
        self._options = options
        self._batches = self._looks = 0
        self._thread = ThreadPoolExecutor(1, "keep-history")
        self._running: Future[None] | None = None

    def folded(self, up_to_poll: int) -> None:
        """Note that polls up to this one were folded; start maintenance if it is due, and do not
        wait for it.
        """
        self._batches += 1
        busy = self._running is not None and not self._running.done()
        if not busy and self._batches % self._options.look_every == 0:
            self._running = self._thread.submit(self._keep, up_to_poll)

    def _keep(self, up_to_poll: int) -> None:
        options = self._options
        try:
            if not self._looks:
                self._writer.keep_versions(options.time_travel_days)
            for table in TABLES:
                self._writer.forget_versions(table)
                if table != FOLD_STATE:
                    compact(
                        self._writer,
                        table,
                        up_to_poll=up_to_poll,
                        at_least=options.compact_from,
                        keep=0 if table == REPORTS else options.rounds_at_hand,
                    )
            if options.retain_days:
                retain(self._writer, options.retain_days, time.time_ns() // 1_000_000)
            if self._looks % options.vacuum_every == 0:
                for table in TABLES:
                    self._writer.vacuum(table)
            self._looks += 1
            self._failed = ""
        except SupersededError:
            return  # the balancer's next commit is refused as well, and ends it
        except Exception as error:
            # An error that matters will also end the balancer's own next commit.
            reason = str(error) or type(error).__name__
            if reason != self._failed:
                self._log(
                    f"{self._writer.location.address} could not be compacted, it is tried again "
                    f"later: {reason}"
                )
            self._failed = reason
