"""The way to a topic's owner, by way of brokers that answer what a test has them answer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from counterpoise.broker.peers.connection import PeerError
from counterpoise.broker.peers.system_topic import SystemTopicLink, SystemTopicListener
from counterpoise.broker.peers.topic_owner import connect_to_owner
from counterpoise.wire import encode
from counterpoise.wire.errors import ServerError
from counterpoise.wire.frames import frames_in
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto import values_pb2 as values
from counterpoise.wire.proto.base_pb2 import BaseCommand
from tests.quota.jumping import on_jumping_loop
from tests.waiting import WITHIN_S

TOPIC = "persistent://t/n/x"
Reply = Callable[[BaseCommand], bytes]
CONNECT, LOOKUP = BaseCommand.CONNECT, BaseCommand.LOOKUP


def accepted(_: BaseCommand) -> bytes:
    return encode.frame(commands.CommandConnected(server_version="fake", protocol_version=21))


def found(number: int, url: str, how: str = "Connect") -> bytes:
    """The answer to a lookup that names a broker, authoritatively."""
    return encode.frame(
        commands.CommandLookupTopicResponse(
            request_id=number, broker_service_url=url, response=how, authoritative=True
        )
    )


class Peer:
    """A broker at ``url``; ``left`` is set once its client has disconnected."""

    def __init__(self, replies: Mapping[int, Reply]) -> None:
        self.url = ""
        self.left = asyncio.Event()
        self._replies = replies

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = bytearray()
        try:
            while data := await reader.read(65536):
                received += data
                for command, _ in frames_in(received):
                    writer.write(self._replies[command.type](command))
        except ConnectionError:
            pass
        finally:
            self.left.set()
            writer.close()


@asynccontextmanager
async def serving(
    lookup: Reply, connect: Reply = accepted, more: Mapping[int, Reply] | None = None
) -> AsyncIterator[Peer]:
    peer = Peer({CONNECT: connect, LOOKUP: lookup, **(more or {})})
    async with await asyncio.start_server(peer.talk, "127.0.0.1", 0) as server:
        peer.url = f"pulsar://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield peer


def refused(command: BaseCommand) -> bytes:
    return encode.refuse(command.lookup_topic, ServerError.ServiceNotReady, "not now")


def not_let_in(_: BaseCommand) -> bytes:
    return encode.error(0, ServerError.AuthenticationError, "no such role")


@pytest.mark.parametrize(
    ("connect", "why"), [(accepted, "does not know who serves .*: not now"), (not_let_in, "role")]
)
async def test_a_broker_that_refuses_is_left(connect: Reply, why: str) -> None:
    async with serving(refused, connect) as peer, asyncio.timeout(WITHIN_S):
        with pytest.raises(PeerError, match=why):
            await connect_to_owner(TOPIC, peer.url, 10)
        await peer.left.wait()


async def test_a_broker_that_sends_on_is_left_for_the_one_it_names() -> None:
    asked: list[bool] = []

    def here(command: BaseCommand) -> bytes:
        asked.append(command.lookup_topic.authoritative)
        return found(command.lookup_topic.request_id, owner.url)

    def there(command: BaseCommand) -> bytes:
        return found(command.lookup_topic.request_id, owner.url, "Redirect")

    async with serving(here) as owner, serving(there) as other, asyncio.timeout(WITHIN_S):
        connection = await connect_to_owner(TOPIC, other.url, 10)
        await other.left.wait()
        assert (connection.url, asked) == (owner.url, [True])
        connection.close()
        await owner.left.wait()


async def test_a_broker_that_asks_for_credentials_again_is_answered() -> None:
    asked: list[int] = []

    def challenges(command: BaseCommand) -> bytes:
        asked.append(command.lookup_topic.request_id)
        challenge = values.AuthData(auth_method_name="none", auth_data=b"PulsarAuthRefresh")
        return encode.frame(commands.CommandAuthChallenge(challenge=challenge))

    def goes_on(_: BaseCommand) -> bytes:
        return found(asked[0], peer.url)

    more = {BaseCommand.AUTH_RESPONSE: goes_on}
    async with serving(challenges, more=more) as peer, asyncio.timeout(WITHIN_S):
        connection = await connect_to_owner(TOPIC, peer.url, 10)
        connection.close()
        await peer.left.wait()


@on_jumping_loop
async def test_a_link_waits_longer_after_each_failure_and_not_after_a_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    listener = SystemTopicListener(lambda: None, lambda _: None, lambda: None)
    link = SystemTopicLink(TOPIC, listener, producer_name="b", timeout_s=1)
    begun, last = list[float](), asyncio.Event()

    async def run(_: str) -> str:
        begun.append(loop.time())
        if len(begun) == 10:
            return "the topic moved"
        if len(begun) == 12:
            last.set()
            await loop.create_future()
        raise PeerError("not there")

    monkeypatch.setattr(link, "run", run)
    keeping = asyncio.create_task(link.keep("pulsar://b"))
    await last.wait()
    keeping.cancel()
    pauses = [round(later - earlier, 3) for earlier, later in pairwise(begun)]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0, 0.05, 0.1]
