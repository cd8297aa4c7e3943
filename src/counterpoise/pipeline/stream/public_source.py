"""`pulsar-load`: a cluster's load as a Spark table or stream, for anybody's own jobs.

    from counterpoise.pipeline.stream.public_source import PulsarLoad
    spark.dataSource.register(PulsarLoad)
    spark.read.format("pulsar-load").load("s3a://bucket/history")             # what was recorded
    spark.read.format("pulsar-load").load("http://broker:8080")               # what is there now
    spark.readStream.format("pulsar-load").option("after", 0).load("./history")

Its columns are those of the `reports` table (`load/rows.py`). A history has one partition for each
file; a live cluster one for each broker, which the executor asks by itself.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema

from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.history.layout import files
from counterpoise.pipeline.history.parquet import read_rows
from counterpoise.pipeline.history.rows_codec import MOMENTS, REPORTS_SCHEMA, rows_to_arrow
from counterpoise.pipeline.history.store import open_store
from counterpoise.pipeline.stream.source import FILES_MOST, PollOffsets

_MOMENT = pa.timestamp("us", tz="UTC")
"""Spark's own resolution."""
SCHEMA = pa.schema(
    [field.with_type(_MOMENT) if field.name in MOMENTS else field for field in REPORTS_SCHEMA]
)


@dataclass
class File(InputPartition):
    """The rows of a file of a history, behind a poll and up to another."""

    name: str
    after: int
    up_to: int


@dataclass
class Broker(InputPartition):
    """One broker of a live cluster."""

    name: str


class PulsarLoad(DataSource):
    """The data source; `path` is a history's URI or an admin URL."""

    @classmethod
    def name(cls) -> str:
        """As Spark calls it."""
        return "pulsar-load"

    def schema(self) -> Any:
        """The columns of the `reports` table."""
        return from_arrow_schema(SCHEMA)

    def reader(self, schema: Any) -> DataSourceReader:
        """What is there, once."""
        path = self._path()
        return _Live(path) if path.startswith(("http://", "https://")) else _Recorded(path)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """What lands in a history, poll by poll."""
        path = self._path()
        if path.startswith(("http://", "https://")):
            raise ValueError(
                f"{path}: a live cluster cannot be read again, so it is no stream; let "
                "`counterpoise balance --history` record it, and stream the history"
            )
        most = int(self.options.get("files", FILES_MOST))
        return _Landing(path, int(self.options.get("after", 0)), most)

    def _path(self) -> str:
        path = self.options.get("path")
        if not path:
            raise ValueError("pulsar-load: give load() a history's URI or an admin URL")
        return str(path)


class _Recorded(DataSourceReader):
    def __init__(self, uri: str) -> None:
        self._uri = uri

    def partitions(self) -> Sequence[InputPartition]:
        return [File(name, -1, 2**62) for name in files(open_store(self._uri), "reports")]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _rows_of(self._uri, partition)


class _Landing(PollOffsets):
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        names = self.files(start, end)
        return [File(name, start["poll"], end["poll"]) for name in names]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _rows_of(self.uri, partition)


class _Live(DataSourceReader):
    def __init__(self, url: str) -> None:
        self._url = url

    def partitions(self) -> Sequence[InputPartition]:
        async def listed() -> tuple[str, ...]:
            async with aiohttp.ClientSession() as session:
                return await Collector(session, [self._url], _now_ms).brokers()

        return [Broker(name) for name in asyncio.run(listed())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, Broker):
            return  # no broker is listed: Spark reads one partition all the same, of its own making

        async def looked() -> ReportRows:
            async with aiohttp.ClientSession() as session:
                return await Collector(session, [self._url], _now_ms).look_at(partition.name)

        yield from rows_to_arrow(asyncio.run(looked())).cast(SCHEMA).to_batches()


def _rows_of(uri: str, part: InputPartition) -> Iterator[Any]:
    if not isinstance(part, File):
        return  # nothing has landed: Spark reads one partition all the same, of its own making
    table = open_store(uri).read(part.name, read_rows)
    polls = table.column("poll_id")
    chosen = pc.and_(pc.greater(polls, part.after), pc.less_equal(polls, part.up_to))
    yield from table.filter(chosen).select(SCHEMA.names).cast(SCHEMA).to_batches()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
