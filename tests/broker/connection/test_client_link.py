"""How many requests of one client run at once, and what becomes of those whose client goes."""

import asyncio
import gc
from typing import cast

import pytest

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.connection.client_link import REQUESTS_MAX, ClientLink
from counterpoise.broker.connection.pause import ReadingPause
from counterpoise.broker.connection.permissions import ClientPermissions
from counterpoise.names.errors import InvalidName
from counterpoise.wire.errors import ServerError
from counterpoise.wire.protocol import ServerProtocol
from tests.broker.connection.test_pause import StrictTransport

NO_NAME = InvalidName("a//b", "it has an empty part")


class Frames:
    """An outbox that keeps what is written."""

    writable = True

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.write = self.written.append

    async def room(self) -> None:
        """There is room."""

    def write_burst(self, frames: list[bytes], size: int) -> None:
        self.written += frames


class Linked:
    """A connection's link; its requests are answered when the test says so."""

    def __init__(self) -> None:
        self.transport, self.frames = StrictTransport(), Frames()
        pause = ReadingPause(cast("asyncio.Transport", self.transport), lambda: 0.0)
        permits = cast("ClientPermissions", None)
        self.background = BackgroundTasks()
        self.link = ClientLink(
            self.background, ServerProtocol(), self.frames, pause, "/10.0.0.1:1", permits
        )
        self.waiting: list[asyncio.Future[bytes]] = []
        self.started = 0

    def ask(self) -> None:
        answer = asyncio.get_running_loop().create_future()
        self.waiting.append(answer)

        async def work() -> bytes:
            self.started += 1
            return await answer

        self.link.answer(work(), lambda code, why: f"{code.name}: {why}".encode())

    async def settled(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


async def test_with_a_thousand_requests_under_way_a_client_is_not_read_until_half_are_left() -> (
    None
):
    linked = Linked()
    for number in range(1, REQUESTS_MAX + 1):
        assert linked.transport.reading
        linked.ask()
        await asyncio.sleep(0)
        assert linked.transport.reading is (number < REQUESTS_MAX)
    for left in range(REQUESTS_MAX - 1, -1, -1):
        linked.waiting.pop().set_result(b"")
        await linked.settled()
        assert linked.transport.reading is (left <= REQUESTS_MAX // 2)
    await linked.background.stop()


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (BrokerError(ServerError.TopicNotFound, "none"), b"TopicNotFound: none"),
        (NO_NAME, f"InvalidTopicName: {NO_NAME}".encode()),
        (ValueError("a bug"), b"UnknownError: The broker failed; its log says how"),
    ],
    ids=["refused", "no name", "a bug"],
)
@pytest.mark.parametrize("is_gone", [False, True])
async def test_each_request_has_its_answer_unless_its_client_has_gone(
    error: Exception, answer: bytes, is_gone: bool
) -> None:
    linked = Linked()
    linked.ask()
    linked.ask()
    await linked.settled()
    leaving = linked.link.round_trips.begin()
    linked.frames.written.clear()
    if is_gone:
        linked.link.close()
        assert leaving.done(), "it was waited for"
    linked.waiting[0].set_result(b"answer")
    linked.waiting[1].set_exception(error)
    await linked.settled()
    assert linked.frames.written == ([] if is_gone else [b"answer", answer])
    linked.ask()
    await linked.settled()
    assert linked.frames.written == ([] if is_gone else [b"answer", answer])
    assert linked.started == (2 if is_gone else 3)
    await linked.background.stop()


@pytest.mark.filterwarnings("error")
async def test_a_request_that_ends_with_its_broker_before_it_begins_is_forgotten() -> None:
    linked = Linked()
    for _ in range(REQUESTS_MAX):
        linked.ask()
    await linked.background.stop()
    gc.collect()  # whatever was never awaited says so when it is collected
    assert linked.started == 0
    assert linked.transport.reading
