"""Streaming sources whose offset is a poll's number: nothing is remembered for each file.

Spark's file source keeps every name it has seen for ever. Here the names are the order, so one
number says how far a stream is, and what comes next is a listing of the newest days.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles

from counterpoise.pipeline.history.layout import files, newest_poll, span
from counterpoise.pipeline.history.store import Store, open_store

FILES_MOST = 500


class PollOffsets(DataSourceStreamReader):
    """The offsets of a history's reports; `partitions` and `read` are left to what is read."""

    def __init__(self, uri: str, after: int, most: int) -> None:
        self.uri = uri
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
        return {"poll": ends[-1]} if ends else start

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        """The newest poll there is."""
        return {"poll": newest_poll(self.store)}

    def files(self, start: dict[str, int], end: dict[str, int] | None = None) -> list[str]:
        """The files with polls behind `start` and up to `end`."""
        found = files(self.store, "reports", after=start["poll"])
        if end is None:
            return found
        return [name for name in found if (spanned := span(name)) and spanned[0] <= end["poll"]]


@dataclass
class Shard(InputPartition):
    """One shard's part of a micro-batch: the polls behind `after`, up to `up_to`."""

    shard: int
    after: int
    up_to: int
    names: tuple[str, ...]


class ShardReader(PollOffsets):
    """A row for each shard, which says what there is to fold; the fold itself reads the files."""

    def __init__(self, uri: str, after: int, most: int, shards: int) -> None:
        super().__init__(uri, after, most)
        self._shards = shards

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Every shard sees every file, and so tells its state after each micro-batch."""
        names = tuple(self.files(start, end))
        if not names:
            return []
        return [Shard(s, start["poll"], end["poll"], names) for s in range(self._shards)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """The shard's row."""
        part = cast("Shard", partition)
        yield part.shard, part.after, part.up_to, json.dumps(part.names)


class ShardSource(DataSource):
    """What `fold.py` streams: `history`, `after`, `files` and `shards` are its options."""

    SCHEMA = "shard int, after long, up_to long, files string"

    @classmethod
    def name(cls) -> str:
        """As Spark calls it."""
        return "counterpoise-shards"

    def schema(self) -> str:
        """A row for each shard and micro-batch."""
        return self.SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """The reader, in a process beside the driver."""
        options = self.options
        return ShardReader(
            options["history"],
            int(options.get("after", 0)),
            int(options.get("files", FILES_MOST)),
            int(options["shards"]),
        )
