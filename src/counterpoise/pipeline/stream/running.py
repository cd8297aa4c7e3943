"""A query that is started again when what ended it passes: a machine too busy, an executor lost.

Nothing is lost by that, since the stream goes on behind its states; but what ended it ten times in
a row is not passing. Spark gives each Python process that it starts ten seconds to connect back, so
a machine may be too busy for that for some minutes.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from counterpoise.pipeline.stream.jvm import ended
from counterpoise.pipeline.stream.trouble import sentence_of
from counterpoise.pipeline.tables.faults import fault_from_spark

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

TRIES = 10
_PASSING = re.compile(
    r"Python worker failed to connect back|Python worker exited unexpectedly"
    r"|ExecutorLostFailure|Worker died|Connection reset by peer"
)


class StreamFailedError(RuntimeError):
    """The streaming query ended by itself; the message is Spark's."""


@contextlib.contextmanager
def jvm_at_hand() -> Iterator[None]:
    """What is asked of Spark; raises `StreamFailedError` where its JVM has gone meanwhile."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        yield
    except (Py4JError, OSError) as error:
        if how := ended():
            raise StreamFailedError(how) from error
        raise


class Stream:
    """The query of a balancer, the one that runs now; `log` gets a sentence."""

    def __init__(self, start: "Callable[[], StreamingQuery]", log: Callable[[str], None]) -> None:
        self._start = start
        self._log = log
        self._failed = 0
        self.query = start()

    def mind(self) -> None:
        """Start it again if it has ended and may be.

        Raises `HistoryFaultError` or `StreamFailedError` when it may not.
        """
        if self.query.isActive:
            return
        message = str(self.query.exception())
        if fault := fault_from_spark(message):
            raise fault
        done = self.query.lastProgress
        # A query that made progress has all its attempts again.
        self._failed = 1 if done else self._failed + 1
        if self._failed >= TRIES or not _PASSING.search(message):
            raise StreamFailedError(message)
        self._log(f"the stream is started again: {sentence_of(message)}")
        self.query = self._start()

    def finish(self) -> None:
        """Fold all that has landed; raises as `mind` does."""
        while True:
            with contextlib.suppress(Exception):  # what ended the query is said in words below
                self.query.processAllAvailable()
            if self.query.isActive:
                return
            self.mind()
