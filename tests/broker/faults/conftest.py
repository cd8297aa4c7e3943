"""Brokers that share a directory of ledgers, each by a disk and a session that a test can spoil."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from counterpoise.broker.broker import Broker
from counterpoise.broker.bundles.options import IN_STORE, ON_TOPIC
from counterpoise.names.bundle import BundleName
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR
from counterpoise.names.topic import TopicName
from counterpoise.storage.files.store import FileLedgerStore
from tests.broker.conftest import NAMESPACE, BrokersOfTest, eventually, topic_in
from tests.broker.faults.clients import Publisher, stored
from tests.broker.misbehaving_store import MisbehavingStore
from tests.storage.faults import FaultyDisk, Hanging


class FaultyBrokers(BrokersOfTest):
    """Everything that they need can fail, for each of them alone."""

    def __init__(self, root: Path, manager: str, table_view: str) -> None:
        super().__init__("memory:", manager, table_view)
        self.root = root
        self.disks: dict[str, FaultyDisk] = {}
        self.hanging: list[Hanging] = []
        self.publishers: list[Publisher] = []

    async def session(self) -> MisbehavingStore:
        return MisbehavingStore(self.tree)

    async def start(self, **changes: Any) -> Broker:
        disk = FaultyDisk()
        self.ledgers = FileLedgerStore(self.root, disk=disk)  # type: ignore[assignment]
        broker = await super().start(**changes)
        self.disks[broker.id] = disk
        return broker

    def disk_of(self, broker: Broker) -> FaultyDisk:
        return self.disks[broker.id]

    def store_of(self, broker: Broker) -> MisbehavingStore:
        assert isinstance(broker.metadata, MisbehavingStore)
        return broker.metadata

    def publish(self, topic: TopicName, start: int = 0) -> Publisher:
        self.publishers.append(Publisher(self, topic, start))
        return self.publishers[-1]

    async def hang(self, broker: Broker, what: str = "sync", suffix: str = ".ledger") -> Hanging:
        """Let a broker's disk hang from its next write on; returns when something waits for it."""
        fault = self.hang_from_now(broker, what, suffix)
        await eventually(fault.reached.is_set, "the disk is waited for")
        return fault

    def hang_from_now(self, broker: Broker, what: str, suffix: str) -> Hanging:
        self.disk_of(broker).before = fault = Hanging(what, suffix)
        self.hanging.append(fault)
        return fault

    async def owned_bundle(self, owner: Broker) -> tuple[BundleName, TopicName]:
        """A bundle that a broker owns, and a topic in it."""
        bundle = (await owner.bundles.get(NAMESPACE)).bundles[0]
        await owner.ownership.acquire(bundle)
        assert self.owner(bundle) is owner
        return bundle, topic_in(bundle)

    async def lost_nothing(self, publisher: Publisher) -> None:
        """Whatever the publisher was told is there: it goes on, and all is stored in order."""
        await publisher.more()
        sent = range(publisher.start, await publisher.stop())
        numbers = await stored(self, publisher.topic, sent[-1])
        # What was not acknowledged was sent again, and may be there twice.
        found = list(dict.fromkeys(number for number in numbers if number in sent))
        assert found == list(sent), "lost, or out of order"


def descriptors() -> list[str]:
    """What this process has open, by name."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one by which they are listed
            found.append(str(each.readlink()))
    return sorted(found)


async def nothing_of(left: Callable[[], Collection[object]]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(10):
            while left():  # noqa: ASYNC110 - tasks and sockets end when they do
                await asyncio.sleep(0.005)
    assert not left()


@pytest.fixture
async def may_be_told(caplog: pytest.LogCaptureFixture) -> AsyncIterator[list[str]]:
    """After the test no task runs, nothing is open, and the log tells of no bug.

    Of errors it may tell that have one of the words in the list: of a disk that is full.
    """
    opened, expected = descriptors(), list[str]()
    yield expected
    await nothing_of(lambda: asyncio.all_tasks() - {asyncio.current_task()})
    await nothing_of(lambda: Counter(descriptors()) - Counter(opened))
    gc.collect()  # of a task that failed unseen nothing is told before
    for record in [*caplog.get_records("setup"), *caplog.get_records("call"), *caplog.records]:
        told = record.getMessage()
        assert record.levelno < logging.ERROR or any(each in told for each in expected), told
        assert not record.exc_info, f"a traceback: {record.getMessage()}"


@pytest.fixture(
    params=[
        pytest.param((MODULAR, IN_STORE), id="modular"),
        pytest.param((EXTENSIBLE, IN_STORE), id="channel"),
        pytest.param((EXTENSIBLE, ON_TOPIC), id="topic"),
    ]
)
async def brokers(
    request: pytest.FixtureRequest, tmp_path: Path, may_be_told: list[str]
) -> AsyncIterator[FaultyBrokers]:
    """Under each load manager."""
    del may_be_told  # it looks at what is left when these have stopped
    made = FaultyBrokers(tmp_path / "ledgers", *request.param)
    yield made
    for fault in made.hanging:
        fault.released.set()
    for publisher in made.publishers:
        await publisher.kill()
    for broker in list(made.all):
        await made.stop(broker)
