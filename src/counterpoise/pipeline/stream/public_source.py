"""`pulsar-load`: what a live cluster carries now, as a Spark table for jobs of any kind.

    from counterpoise.pipeline.stream.public_source import PulsarLoad
    spark.dataSource.register(PulsarLoad)
    spark.read.format("pulsar-load").load("http://broker:8080")

Its columns are those of the table `reports` (`load/rows.py`). There is one partition for each
broker, which the executor asks by itself: several admin URLs are separated by commas, and the
options `authPlugin`, `authParams`, `tlsTrustCertsFilePath`, `tlsAllowInsecureConnection` and
`tlsEnableHostnameVerification` mean what they mean to Pulsar's clients. What was recorded is in the
history's Delta tables, which need no source of ours.

Spark's Python has to be one that has `counterpoise`: `PYSPARK_PYTHON`, or `spark.pyspark.python`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from counterpoise.names.options import from_conf
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.spark.frames import spark_schema, spark_type
from counterpoise.pipeline.tables.schema import REPORTS_SCHEMA, rows_to_arrow
from counterpoise.security.client import ClientSecurity, Names, http_session
from counterpoise.security.options import ClientOptions

T = TypeVar("T")

_WEB = ("http://", "https://")
_CLIENT = MappingProxyType(
    {
        "authPlugin": "brokerClientAuthenticationPlugin",
        "authParams": "brokerClientAuthenticationParameters",
        "tlsTrustCertsFilePath": "brokerClientTrustCertsFilePath",
        "tlsAllowInsecureConnection": "tlsAllowInsecureConnection",
        "tlsEnableHostnameVerification": "tlsHostnameVerificationEnabled",
    }
)
"""By option of Pulsar's clients, the setting of a broker.conf that means the same."""
SCHEMA = spark_schema(REPORTS_SCHEMA)


@dataclass
class BrokerPartition(InputPartition):
    """The Spark partition that reads one broker of a live cluster."""

    name: str


class PulsarLoad(DataSource):
    """The Spark data source `pulsar-load`: a cluster's load now; `path` is its admin URLs."""

    @classmethod
    def name(cls) -> str:
        """The name of the source in `spark.read.format`."""
        return "pulsar-load"

    def schema(self) -> Any:
        """The columns, which are those of a history's table `reports`."""
        return spark_type(SCHEMA)

    def reader(self, schema: Any) -> DataSourceReader:
        """A reader of the cluster's load as it is now."""
        path = str(self.options.get("path") or "")
        if not path.startswith(_WEB):
            raise ValueError(
                f"pulsar-load: load({path!r}) is no admin URL; what was recorded is in a history's "
                "Delta tables, such as HISTORY/reports"
            )
        known = {name.lower() for name in _CLIENT}
        if odd := sorted({name.lower() for name in self.options} - known - {"path"}):
            raise ValueError(
                f"pulsar-load: no option of {path} is {odd[0]!r}: there are {', '.join(_CLIENT)}"
            )
        client = {name: self.options[name] for name in _CLIENT if name in self.options}
        return _Live(path, client)


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
            return  # if no broker is listed, Spark passes an empty partition of its own
        name = partition.name
        rows = asyncio.run(self._asked(lambda collector: collector.look_at(name)))
        yield from rows_to_arrow(rows).cast(SCHEMA).to_batches()

    async def _asked(self, read: Callable[[Collector], Awaitable[T]]) -> T:
        async with http_session(_security(self._client)) as session:
            return await read(Collector(session, self._urls, wall_clock_ms))


def _security(options: Mapping[str, str]) -> ClientSecurity:
    """A cluster's credentials and TLS, from options of Pulsar's clients; raises `ConfigError`."""
    given = {_CLIENT[name]: value for name, value in options.items()}
    names = Names("authPlugin", "authParams", "tlsTrustCertsFilePath")
    return ClientSecurity(from_conf(ClientOptions, given), names)
