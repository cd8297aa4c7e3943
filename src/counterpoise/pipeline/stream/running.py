"""Runs the balancer's fold on Spark, and repeats a batch that failed for a passing reason.

A machine that is too busy and a lost executor are passing reasons; ten failures in a row are not. A
failure loses nothing, since only a completed batch is committed. Spark gives each Python process
that it starts ten seconds to connect back, so a machine may be too busy for that for some minutes.
"""

import re

from counterpoise.names.callbacks import SentenceSink
from counterpoise.pipeline.stream.fold import ReportFold
from counterpoise.pipeline.stream.jvm import ended
from counterpoise.pipeline.stream.trouble import sentence_of
from counterpoise.pipeline.tables.faults import HistoryFaultError, fault_from_spark
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.states import FoldedStates

TRIES = 10
_PASSING = re.compile(
    r"Python worker failed to connect back|Python worker exited unexpectedly"
    r"|ExecutorLostFailure|Worker died|Connection reset by peer"
)


class StreamFailedError(RuntimeError):
    """A batch of the fold failed; the message is Spark's."""


class PatientFold:
    """A `ReportFold` that repeats failed batches; `log` gets a sentence for each failure."""

    def __init__(self, fold: ReportFold, writer: TablesWriter, log: SentenceSink) -> None:
        self._fold = fold
        self._writer = writer
        self._log = log
        self._failed = 0

    @property
    def states(self) -> FoldedStates | None:
        """The newest committed states; None if nothing was folded yet."""
        return self._fold.states

    def next(self) -> FoldedStates | None:
        """Fold and commit the polls that landed since the last call, with retries; None if there
        are none.

        Raises `HistoryFaultError`, or `StreamFailedError` if a batch fails each time.
        """
        while True:
            try:
                folded = self._fold.next()
            except HistoryFaultError:
                raise
            except Exception as error:
                self._failed += 1
                self._expect_passing(error)
                self._log(f"a batch of the fold is run again: {sentence_of(str(error))}")
            else:
                self._failed = 0
                return folded

    def _expect_passing(self, error: Exception) -> None:
        if how := ended():
            raise StreamFailedError(how) from error
        # The batch also fails if another balancer took over and removed the states it began with.
        self._writer.expect_held()
        message = str(error)
        if fault := fault_from_spark(message):
            raise fault from error
        if self._failed >= TRIES or not _PASSING.search(message):
            raise StreamFailedError(message) from error
