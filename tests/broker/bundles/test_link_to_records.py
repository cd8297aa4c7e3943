"""What a broker believes of the records on a topic, by what its link to the topic does."""

import asyncio
from collections.abc import Mapping
from typing import NoReturn

import pytest

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.bundles.topic_records import TopicRecords
from counterpoise.broker.peers import PeerError, SystemTopicListener, SystemTopicMessage
from counterpoise.metadata import Notification, NotificationKind, SessionEvent, StoreUnavailable
from counterpoise.metadata.memory import MemoryTree
from counterpoise.ownership.channel.state import RECORDS
from tests.broker.bundles.test_topic_records import free, path_of, said_again
from tests.waiting import WITHIN_S


class LinkOfTest:
    """A link that reads what the test lets it."""

    def __init__(self) -> None:
        self.listener: SystemTopicListener | None = None
        self.dropped: list[str] = []

    def of(self, listener: SystemTopicListener) -> "LinkOfTest":
        self.listener = listener
        return self

    def read(self, *heard: SystemTopicMessage) -> None:
        self.listener.on_begin()
        for each in heard:
            self.listener.on_message(each)
        self.listener.on_caught_up()

    async def keep(self, broker_url: str) -> NoReturn:
        raise AssertionError(broker_url)

    linked = True

    async def publish(
        self, key: str, value: bytes | None, properties: Mapping[str, str] | None = None
    ) -> None:
        raise PeerError("the connection broke")

    def drop(self, why: str) -> None:
        self.dropped.append(why)

    def close(self) -> None: ...


async def test_a_topic_out_of_reach_is_a_store_that_does_not_answer() -> None:
    store = MemoryTree().open()
    read = TopicRecords(store, "b1:1", BackgroundTasks(), LinkOfTest().of, within_s=0.01)
    with pytest.raises(StoreUnavailable, match="not within reach"):
        await read.get(path_of())


async def test_after_a_write_whose_end_is_unknown_only_what_is_read_again_counts() -> None:
    """It may have been taken up, and others may have written over it before we hear of either."""
    link = LinkOfTest()
    read = TopicRecords(MemoryTree().open(), "b1:1", BackgroundTasks(), link.of, within_s=0.01)
    bundle = path_of().removeprefix(f"{RECORDS}/")
    link.read(SystemTopicMessage(bundle, free(1)))
    with pytest.raises(StoreUnavailable, match="the connection broke"):
        await read.put(path_of(), said_again(2), expected_version=1)
    assert len(link.dropped) == 1
    with pytest.raises(StoreUnavailable, match="not within reach"):
        await read.get(path_of())
    link.read(SystemTopicMessage(bundle, said_again(3)))
    stored = await read.get(path_of())
    assert stored.version == 3


async def test_of_two_readings_every_difference_is_notified() -> None:
    link, others = LinkOfTest(), ["public/x", "public/y", "public/z"]
    read = TopicRecords(MemoryTree().open(), "b1:1", BackgroundTasks(), link.of, within_s=0.01)
    gone, changed, new, same = (f"{each}/0x00000000_0xffffffff" for each in [*others, "public/w"])
    first = [SystemTopicMessage(each, free(1)) for each in (gone, changed, same)]
    link.read(*first)
    heard: set[Notification] = set()
    read.subscribe(heard.add)
    link.read(
        SystemTopicMessage(changed, said_again(2)), first[2], SystemTopicMessage(new, free(1))
    )
    assert heard == {
        Notification(NotificationKind.DELETED, f"{RECORDS}/{gone}"),
        Notification(NotificationKind.MODIFIED, f"{RECORDS}/{changed}"),
        Notification(NotificationKind.CREATED, f"{RECORDS}/{new}"),
    }


async def test_without_a_link_nothing_is_written_and_what_was_read_stands() -> None:
    link = LinkOfTest()
    read = TopicRecords(MemoryTree().open(), "b1:1", BackgroundTasks(), link.of, within_s=0.01)
    link.read(SystemTopicMessage(path_of().removeprefix(f"{RECORDS}/"), free(1)))
    link.linked = False
    with pytest.raises(StoreUnavailable, match="not linked"):
        await read.put(path_of(), said_again(2), expected_version=1)
    stored = await read.get(path_of())
    assert stored is not None
    assert link.dropped == []


async def test_a_broker_that_lost_its_session_believes_only_what_it_reads_again() -> None:
    """A broker wakes from a freeze: others have its bundles, and its link has news unread."""
    store, link = MemoryTree().open(), LinkOfTest()
    read = TopicRecords(store, "b1:1", BackgroundTasks(), link.of, within_s=0.01)
    bundle = path_of().removeprefix(f"{RECORDS}/")
    link.read(SystemTopicMessage(bundle, free(1)))
    seen: list[object] = []

    async def look() -> None:
        try:
            stored = await read.get(path_of())
            seen.append(None if stored is None else stored.version)
        except StoreUnavailable:
            seen.append("not known")

    looks: list[asyncio.Task[None]] = []
    lost = asyncio.Event()

    def on_session(_: SessionEvent) -> None:
        # As ownership does: it listens after the records, and looks as soon as it is notified.
        looks.append(asyncio.create_task(look()))
        lost.set()

    store.subscribe_session(on_session)
    await look()
    store.expire()
    async with asyncio.timeout(WITHIN_S):
        await lost.wait()
    await asyncio.gather(*looks)
    assert link.dropped == ["this broker's session was lost"]
    assert seen == [1, *["not known"] * len(looks)]
    link.read(SystemTopicMessage(bundle, said_again(2)))
    await look()
    assert seen[-1] == 2
