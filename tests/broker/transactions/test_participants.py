"""Transactions are ended where their topics are: here, or at the broker that owns them."""

import asyncio

import pytest
from google.protobuf.message import Message

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.peers import topic_owner
from counterpoise.broker.peers.connection import PeerError
from counterpoise.broker.transactions.options import TransactionOptions
from counterpoise.broker.transactions.participants import ClusterParticipants
from counterpoise.security.client import ANONYMOUS
from counterpoise.wire.encode_transactions import end_on_participant
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import EndOnParticipant
from counterpoise.wire.values import TransactionId
from tests.quota.jumping import now_ns, on_jumping_loop

REQUEST = EndOnParticipant(0, TransactionId(1, 7), True, 5, "persistent://t/n/x", "s")
OPTIONS = TransactionOptions(enabled=True, requests_max=2, request_timeout_ms=3000)


class Here:
    """The topics of this broker: each request ends with this error, if it is one."""

    def __init__(self, code: ServerError | None) -> None:
        self._code = code

    async def end(self, request: EndOnParticipant) -> None:
        assert request == REQUEST
        if self._code is not None:
            raise BrokerError(self._code, "as this broker says")


class Owner:
    """Another broker; takes so long for an answer, which may be an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, takes_s: float, error: str = "") -> None:
        self._takes_s, self._error = takes_s, error
        self.asked: list[Message] = []
        self.open = self.most_open = 0

        async def connect(topic: str, *_: object) -> Owner:
            assert topic == REQUEST.topic
            self.open += 1
            self.most_open = max(self.most_open, self.open)
            return self

        monkeypatch.setattr(topic_owner, "connect_to_owner", connect)

    async def request(self, command: Message) -> None:
        self.asked.append(command)
        await asyncio.sleep(self._takes_s)
        if self._error:
            raise PeerError(self._error)

    def close(self) -> None:
        self.open -= 1


def participants(code: ServerError | None) -> ClusterParticipants:
    return ClusterParticipants(Here(code), "pulsar://b:1", ANONYMOUS, lambda: OPTIONS)


@pytest.mark.parametrize("code", [None, ServerError.MetadataError, ServerError.NotAllowedError])
async def test_what_is_here_is_ended_here_and_a_refusal_is_no_other_brokers(
    monkeypatch: pytest.MonkeyPatch, code: ServerError | None
) -> None:
    owner = Owner(monkeypatch, 0.0)
    if code is None:
        await participants(code).end(REQUEST)
    else:
        with pytest.raises(BrokerError) as refusal:
            await participants(code).end(REQUEST)
        assert refusal.value.code is code
    assert owner.asked == []


@pytest.mark.parametrize(
    ("takes_s", "error", "reason"),
    [
        (2.9, "", ""),
        (0.0, "b:2 refuses", "b:2 refuses"),
        (3.1, "", "the owner of persistent://t/n/x did not answer in time"),
    ],
)
def test_an_owner_has_so_long_to_answer_and_its_connection_is_closed(
    monkeypatch: pytest.MonkeyPatch, takes_s: float, error: str, reason: str
) -> None:
    owner = Owner(monkeypatch, takes_s, error)

    @on_jumping_loop
    async def ended() -> None:
        if reason:
            with pytest.raises(BrokerError, match=reason) as refusal:
                await participants(ServerError.ServiceNotReady).end(REQUEST)
            assert refusal.value.code is ServerError.ServiceNotReady
        else:
            await participants(ServerError.ServiceNotReady).end(REQUEST)
        assert now_ns() == min(takes_s, 3.0) * 10**9

    ended()
    assert owner.asked == [end_on_participant(REQUEST)]
    assert owner.open == 0, "no connection is left"


def test_no_more_owners_are_asked_at_once_than_the_setting_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner = Owner(monkeypatch, 1.0)

    @on_jumping_loop
    async def ended() -> None:
        all_of_them = participants(ServerError.ServiceNotReady)
        await asyncio.gather(*(all_of_them.end(REQUEST) for _ in range(5)))

    ended()
    assert (len(owner.asked), owner.most_open) == (5, 2)
