"""What the tests of the pipeline share: one Spark for the whole room, a cluster that is its API."""

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import aiohttp
import pytest

from counterpoise.pipeline.stream.session import start_session, stop_session
from tests.pipeline.fake_cluster import FakeCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="package", autouse=True)
def _left_by_spark() -> Iterator[None]:
    """PySpark leaves sockets in threads that end: found here, no other test is blamed."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="package")
def spark() -> "Iterator[SparkSession]":
    """Ends with the room: finalisers that run later would connect again, and leave a socket."""
    # A stream that has everything says so at its next look at the source.
    conf = {"spark.sql.streaming.pollingDelay": "20"}
    session = start_session("local[2]", partitions=2, conf=conf)
    yield session
    stop_session(session)


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster() as made:
        yield made


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    timeout = aiohttp.ClientTimeout(total=10)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        yield session
    await asyncio.sleep(0)
