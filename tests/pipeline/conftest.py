"""What the tests of the pipeline share: one Spark for the whole room, a cluster that is its API."""

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest

from counterpoise.pipeline.stream.session import start_session, stop_spark
from counterpoise.pipeline.tables.journal import JournalWriter
from tests.pipeline.fake_cluster import FakeCluster, bundle_name
from tests.pipeline.histories import journal_of
from tests.pipeline.s3_server import Bucket, bucket

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
    session = start_session("local[2]", partitions=2)
    yield session
    stop_spark(session)


@pytest.fixture(scope="module")
def s3() -> Iterator[Bucket]:
    with bucket() as made:
        yield made


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster() as made:
        yield made


@pytest.fixture
async def uneven(cluster: FakeCluster) -> FakeCluster:
    """Three brokers, and all that there is on the first."""
    first, _, _ = [await cluster.add_broker() for _ in range(3)]
    for index in range(10):
        cluster.carry(first, bundle_name(index), 9000.0 + index)
    return cluster


@pytest.fixture
def history(tmp_path: Path) -> JournalWriter:
    return journal_of(tmp_path)


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        yield session
    await asyncio.sleep(0)
