"""A streaming source's offset is a poll's number: nothing is remembered for each file.

Spark's file source keeps every name it has seen for ever. Here the names are the order, so one
number says how far a stream is, and what comes next is a listing of the newest days.
"""

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles

from counterpoise.pipeline.history.layout import files, newest_poll
from counterpoise.pipeline.history.names import span
from counterpoise.pipeline.history.store import Store, open_store

FILES_MOST = 500


class PollOffsets(DataSourceStreamReader):
    """The offsets of a history's reports; `partitions` and `read` are left to what is read."""

    def __init__(self, uri: str, after: int, most: int, every_ms: int = 0) -> None:
        self.uri = uri
        self._every_ms = every_ms
        self._after = after
        self._most = most

    @property
    def store(self) -> Store:
        """The history."""
        return open_store(self.uri)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Where a new stream begins."""
        return {"poll": self._after}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """How much a micro-batch takes."""
        return ReadMaxFiles(self._most)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """The poll up to which the next micro-batch goes."""
        found = self.files(start)
        if not isinstance(limit, ReadAllAvailable):
            most = limit.max_files if isinstance(limit, ReadMaxFiles) else self._most
            found = found[:most]
        ends = [spanned[1] for name in found if (spanned := span(name))]
        if not ends or ends[-1] < start["poll"] + self._every_ms:
            return start
        return {"poll": ends[-1]}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        """The newest poll there is."""
        return {"poll": newest_poll(self.store)}

    def files(self, start: dict[str, int], end: dict[str, int] | None = None) -> list[str]:
        """The files with polls behind `start` and up to `end`."""
        found = files(self.store, "reports", after=start["poll"])
        if end is None:
            return found
        return [name for name in found if (spanned := span(name)) and spanned[0] <= end["poll"]]
