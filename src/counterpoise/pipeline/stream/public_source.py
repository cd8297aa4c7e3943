"""`pulsar-load`: a cluster's load as a Spark table or stream, for anybody's own jobs.

    from counterpoise.pipeline.stream.public_source import PulsarLoad
    spark.dataSource.register(PulsarLoad)
    spark.read.format("pulsar-load").load("s3a://bucket/history")             # what was recorded
    spark.read.format("pulsar-load").load("http://broker:8080")               # what is there now
    spark.readStream.format("pulsar-load").option("after", 0).load("./history")

Its columns are those of the `reports` table (`load/rows.py`). A live cluster has one partition for
each broker, which the executor asks by itself: several admin URLs are separated by commas, and the
options `authPlugin`, `authParams`, `tlsTrustCertsFilePath`, `tlsAllowInsecureConnection` and
`tlsEnableHostnameVerification` mean what they mean to Pulsar's clients. A stream of a history
begins behind the poll `after` (0: all) and takes as many files at a time as `files` says (500).

Spark's Python has to be one that has `counterpoise`: `PYSPARK_PYTHON`, or `spark.pyspark.python`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema

from counterpoise.names.options import from_conf
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.history.layout import files
from counterpoise.pipeline.history.names import EVER, is_archive
from counterpoise.pipeline.history.store import open_store
from counterpoise.pipeline.stream.source import FILES_MOST, PollOffsets
from counterpoise.pipeline.tables.parquet import read_rows
from counterpoise.pipeline.tables.rows_codec import MOMENTS, REPORTS_SCHEMA, rows_to_arrow
from counterpoise.security.client import ClientSecurity, Names, http_session
from counterpoise.security.options import ClientOptions

T = TypeVar("T")

SMALL_TOGETHER = 64
"""So many files of a poll each are one partition."""
_WEB = ("http://", "https://")
_STREAM = ("after", "files")
_CLIENT = MappingProxyType(
    {
        "authPlugin": "brokerClientAuthenticationPlugin",
        "authParams": "brokerClientAuthenticationParameters",
        "tlsTrustCertsFilePath": "brokerClientTrustCertsFilePath",
        "tlsAllowInsecureConnection": "tlsAllowInsecureConnection",
        "tlsEnableHostnameVerification": "tlsHostnameVerificationEnabled",
    }
)
"""Options as Pulsar's clients call them, and the settings that they are."""
_MOMENT = pa.timestamp("us", tz="UTC")
"""Spark's own resolution."""
SCHEMA = pa.schema(
    [field.with_type(_MOMENT) if field.name in MOMENTS else field for field in REPORTS_SCHEMA]
)


@dataclass
class FilePartition(InputPartition):
    """The rows of some files of a history, behind a poll and up to another."""

    names: tuple[str, ...]
    after: int
    up_to: int


@dataclass
class BrokerPartition(InputPartition):
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
        if not path.startswith(_WEB):
            self._expect(())
            return _Recorded(path)
        self._expect(tuple(_CLIENT))
        client = {name: self.options[name] for name in _CLIENT if name in self.options}
        return _Live(path, client)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """What lands in a history, poll by poll."""
        path = self._path()
        if path.startswith(_WEB):
            raise ValueError(
                f"{path}: a live cluster cannot be read again, so it is no stream; let "
                "`counterpoise watch --history` record it, and stream the history"
            )
        self._expect(_STREAM)
        return _Landing(path, self._whole("after", 0, 0), self._whole("files", FILES_MOST, 1))

    def _path(self) -> str:
        path = self.options.get("path")
        if not path:
            raise ValueError("pulsar-load: give load() a history's URI or an admin URL")
        return str(path)

    def _expect(self, names: Sequence[str]) -> None:
        """Refuse an option that would change nothing."""
        known = {name.lower() for name in names}
        odd = sorted(name for name in self.options if name.lower() not in {"path", *known})
        if odd:
            there = f"there are {', '.join(names)}" if names else "there are none"
            raise ValueError(f"pulsar-load: no option of {self._path()} is {odd[0]!r}: {there}")

    def _whole(self, name: str, otherwise: int, least: int) -> int:
        text = self.options.get(name, str(otherwise))
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise ValueError(f"pulsar-load: {name}={text}: expected a whole number from {least} on")
        return value


class _Recorded(DataSourceReader):
    def __init__(self, uri: str) -> None:
        self._uri = uri

    def partitions(self) -> Sequence[InputPartition]:
        store = open_store(self._uri)
        if store.local is not None and not store.local.is_dir():
            raise ValueError(f"{store.address} is no history: there is no such directory")
        return _together(files(store, "reports"), -1, EVER)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _rows_of(self._uri, partition)


class _Landing(PollOffsets):
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return _together(self.files(start, end), start["poll"], end["poll"])

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _rows_of(self.uri, partition)


class _Live(DataSourceReader):
    def __init__(self, urls: str, client: Mapping[str, str]) -> None:
        self._urls = [each.strip() for each in urls.split(",")]
        self._client = dict(client)
        _security(self._client)  # a wrong option is reported before any broker is asked

    def partitions(self) -> Sequence[InputPartition]:
        names = asyncio.run(self._asked(lambda collector: collector.brokers()))
        return [BrokerPartition(name) for name in names]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, BrokerPartition):
            return  # no broker is listed: Spark reads one partition all the same, of its own making
        name = partition.name
        rows = asyncio.run(self._asked(lambda collector: collector.look_at(name)))
        yield from rows_to_arrow(rows).cast(SCHEMA).to_batches()

    async def _asked(self, question: Callable[[Collector], Awaitable[T]]) -> T:
        async with http_session(_security(self._client)) as session:
            return await question(Collector(session, self._urls, wall_clock_ms))


def _security(options: Mapping[str, str]) -> ClientSecurity:
    """Who we are to a cluster, by the options of Pulsar's own clients; raises `ConfigError`."""
    given = {_CLIENT[name]: value for name, value in options.items()}
    names = Names("authPlugin", "authParams", "tlsTrustCertsFilePath")
    return ClientSecurity(from_conf(ClientOptions, given), names)


def _together(names: Sequence[str], after: int, up_to: int) -> list[InputPartition]:
    """Files as partitions: a large one is one, and of small ones many are.

    A task costs more than a small file.
    """
    found: list[InputPartition] = []
    for large, those in groupby(names, key=is_archive):
        some, size = tuple(those), 1 if large else SMALL_TOGETHER
        found += [
            FilePartition(some[i : i + size], after, up_to) for i in range(0, len(some), size)
        ]
    return found


def _rows_of(uri: str, part: InputPartition) -> Iterator[Any]:
    if not isinstance(part, FilePartition):
        return  # nothing has landed: Spark reads one partition all the same, of its own making
    store = open_store(uri)
    for name in part.names:
        table = store.read(name, read_rows)
        polls = table.column("poll_id")
        chosen = pc.and_(pc.greater(polls, part.after), pc.less_equal(polls, part.up_to))
        yield from table.filter(chosen).select(SCHEMA.names).cast(SCHEMA).to_batches()
