"""Brokers that share a directory of ledgers, each by a disk and a session that a test can spoil."""

import asyncio
import contextlib
import gc
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from counterpoise.broker.base import paths
from counterpoise.broker.broker import Broker
from counterpoise.broker.bundles.options import IN_STORE, ON_TOPIC
from counterpoise.metadata import MemoryTree
from counterpoise.names.bundle import BundleName
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR
from counterpoise.names.topic import TopicName
from counterpoise.storage.files.store import FileLedgerStore
from tests.broker.conftest import NAMESPACE, BrokersOfTest, holds, topic_in
from tests.broker.faults.clients import Publisher, stored
from tests.broker.misbehaving_store import MisbehavingStore
from tests.storage.faults import FaultyDisk, Hanging
from tests.waiting import until


class Session(MisbehavingStore):
    """It can also keep all who ask waiting, from now on or from the so manieth question on."""

    def __init__(self, tree: MemoryTree) -> None:
        super().__init__(tree)
        self.answers = asyncio.Event()
        self.answers.set()
        self.waiting = 0
        self.stopped = asyncio.Event()
        self._left = 0

    def stop_at(self, question: int) -> None:
        """Answer nothing from this question on, not counting those about load."""
        self.stopped.clear()
        self._left = question

    def go_on(self) -> None:
        """Answer all."""
        self._left = 0
        self.answers.set()

    async def reach(self, operation: str, path: str) -> None:
        await super().reach(operation, path)
        if self._left and not path.startswith("/loadbalance/"):
            self._left -= 1
            if not self._left:
                self.answers.clear()
                self.stopped.set()
        self.waiting += 1
        try:
            await self.answers.wait()
        finally:
            self.waiting -= 1


class Frozen(Hanging):
    """Whatever is written or synced hangs."""

    def __init__(self) -> None:
        super().__init__("write", "")

    def __call__(self, what: str, path: Path) -> None:
        if what in {"write", "sync"}:
            super().__call__(self.what, path)


class FaultyBrokers(BrokersOfTest):
    """Everything that they need can fail, for each of them alone."""

    def __init__(self, root: Path, manager: str, table_view: str) -> None:
        super().__init__("memory:", manager, table_view)
        self.root = root
        self.offset = [MODULAR, EXTENSIBLE].index(manager) + (table_view == ON_TOPIC)
        """Another one under each load manager, for tests that cannot do all under each."""
        self.disks: dict[str, FaultyDisk] = {}
        self.hanging: list[Hanging] = []
        self.publishers: list[Publisher] = []

    async def session(self) -> Session:
        return Session(self.tree)

    async def start(self, **changes: Any) -> Broker:
        disk = FaultyDisk()
        self.ledgers = FileLedgerStore(self.root, disk=disk)  # type: ignore[assignment]
        broker = await super().start(**changes)
        self.disks[broker.id] = disk
        return broker

    def disk_of(self, broker: Broker) -> FaultyDisk:
        return self.disks[broker.id]

    def store_of(self, broker: Broker) -> Session:
        assert isinstance(broker.metadata, Session)
        return broker.metadata

    def publish(self, topic: TopicName, start: int = 0) -> Publisher:
        self.publishers.append(Publisher(self, topic, start))
        return self.publishers[-1]

    async def hang(self, broker: Broker, what: str = "sync", suffix: str = ".ledger") -> Hanging:
        """Let a broker's disk hang from its next write on; returns when something waits for it."""
        fault = self._spoil(broker, Hanging(what, suffix))
        await until(fault.reached.is_set, "the disk is waited for")
        return fault

    def freeze(self, broker: Broker) -> Hanging:
        """Let everything hang that a broker writes from now on."""
        return self._spoil(broker, Frozen())

    def _spoil(self, broker: Broker, fault: Hanging) -> Hanging:
        self.disk_of(broker).before = fault
        self.hanging.append(fault)
        return fault

    async def moves_on(self, bundle: BundleName) -> list[bool]:
        """Move a bundle from the one broker that serves it: whether each of both serves it then."""

        def served_once() -> bool:
            return sum(each.parts.ownership.bundles.serves(bundle) for each in self.all) == 1

        await until(served_once, f"{bundle} is served by one")
        owner = self.owner(bundle)
        successor = next(each for each in self.all if each is not owner)
        await holds(successor, paths.broker(successor.id))
        await owner.namespaces.moves.unload(bundle, successor.id)
        await until(
            lambda: successor.parts.ownership.bundles.serves(bundle), f"{bundle} is moved on"
        )
        return [each.parts.ownership.bundles.serves(bundle) for each in (owner, successor)]

    async def owned_bundle(self, owner: Broker) -> tuple[BundleName, TopicName]:
        """A bundle that a broker owns, and a topic in it."""
        bundle = (await owner.namespaces.bundles(NAMESPACE)).bundles[0]
        await owner.parts.ownership.bundles.acquire(bundle)
        assert self.owner(bundle) is owner
        return bundle, topic_in(bundle)

    async def lost_nothing(self, publisher: Publisher) -> None:
        """Whatever was acknowledged is there: it goes on, and all is stored in order."""
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
    with contextlib.suppress(AssertionError):
        await until(lambda: not left())
    assert not left()


@pytest.fixture
async def expected_errors(caplog: pytest.LogCaptureFixture) -> AsyncIterator[list[str]]:
    """After the test no task runs, nothing is open, and the log shows no bug.

    Errors are allowed that have one of the words in the list, such as of a full disk.
    """
    opened, expected = descriptors(), list[str]()
    yield expected
    await nothing_of(lambda: asyncio.all_tasks() - {asyncio.current_task()})
    await nothing_of(lambda: Counter(descriptors()) - Counter(opened))
    gc.collect()  # a task that failed unseen is logged when it is collected
    for record in [*caplog.get_records("setup"), *caplog.get_records("call"), *caplog.records]:
        message = record.getMessage()
        assert record.levelno < logging.ERROR or any(each in message for each in expected), message
        assert not record.exc_info, f"a traceback: {record.getMessage()}"


@pytest.fixture(
    params=[
        pytest.param((MODULAR, IN_STORE), id="modular"),
        pytest.param((EXTENSIBLE, IN_STORE), id="channel"),
        pytest.param((EXTENSIBLE, ON_TOPIC), id="topic"),
    ]
)
async def brokers(
    request: pytest.FixtureRequest, tmp_path: Path, expected_errors: list[str]
) -> AsyncIterator[FaultyBrokers]:
    """Under each load manager."""
    del expected_errors  # it looks at what is left when these have stopped
    made = FaultyBrokers(tmp_path / "ledgers", *request.param)
    yield made
    for fault in made.hanging:
        fault.released.set()
    for broker in made.all:
        made.store_of(broker).go_on()
    for publisher in made.publishers:
        await publisher.kill()
    for broker in list(made.all):
        await made.stop(broker)
