"""Credentials at CONNECT and when they expire, on a clock that jumps."""

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from counterpoise.broker.connection.client_link import ClientLink
from counterpoise.broker.connection.handshake import Admission, Handshake
from counterpoise.quota import SECOND_NS
from counterpoise.security.authentication import Authentication
from counterpoise.security.authorization import Authorization, AuthorizationPolicies, Caller
from counterpoise.security.gate import Security
from counterpoise.security.identity import AuthenticationError, Credentials, Principal
from counterpoise.security.options import AuthenticationOptions, AuthorizationOptions
from counterpoise.wire.events import AuthResponse, Connect
from tests.quota.jumping import now_ns, on_jumping_loop, pass_time

CHALLENGE = "challenge by word"
REFUSED = "Failed to authenticate"
NO_POLICIES = cast("AuthorizationPolicies", None)
"""No handshake reads any."""


class Words:
    """Authenticates ``role@end``, whose credentials expire at that second; ``role`` does not."""

    method = "word"

    def __init__(self) -> None:
        self.hangs = asyncio.Event()
        self.hangs.set()

    async def authenticate(self, shown: Credentials) -> Principal:
        await self.hangs.wait()
        role, _, end = shown.data.decode().partition("@")
        if role == "bug":
            raise ZeroDivisionError
        if role == "mallory":
            raise AuthenticationError("mallory")
        return Principal(role, float(end) if end else None)


class Client:
    """One connection: what its handshake made of it."""

    def __init__(self, *, authenticate_original: bool = False, proxies: tuple[str, ...] = ()):
        self.words = Words()
        self.wrote: list[str] = []
        self.reading = True
        self.accepted = False
        self.background = SimpleNamespace(start=self._start)
        self.pause = SimpleNamespace(hold=self._pause(False), release=self._pause(True))
        self.permits = SimpleNamespace(caller=None)
        self.protocol = SimpleNamespace(admit=lambda: None)
        self.outbox = SimpleNamespace(write=self._write)
        self.closed, self.address = False, "10.0.0.1:1"
        authentication = Authentication(AuthenticationOptions(enabled=True), [self.words])
        rules = AuthorizationOptions(enabled=True, proxies=proxies)
        self.handshake = Handshake(
            cast("ClientLink", self),
            Security(authentication, Authorization(lambda: rules, NO_POLICIES)),
            None,
            Admission(
                accept=self._accept,
                close=self.go,
                clock=lambda: now_ns() / SECOND_NS,
                challenge=lambda method: f"challenge by {method}".encode(),
            ),
            refresh_check_s=10,
            authenticate_original=authenticate_original,
        )
        self._tasks: list[asyncio.Task[None]] = []

    def _start(self, _: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    def _pause(self, reads: bool) -> Any:
        return lambda _: setattr(self, "reading", reads)

    def _write(self, frame: bytes) -> None:
        self.wrote.append(
            REFUSED if REFUSED.encode() in frame else frame.decode("utf-8", "replace")
        )

    def _accept(self, _: Connect) -> None:
        self.accepted = True

    def answer(self, work: Coroutine[Any, Any, None], _: object) -> None:
        self._start("", work)

    def go(self) -> None:
        """It is closed, by either end."""
        self.closed = True
        self.handshake.stop()

    async def connect(self, word: str, **fields: Any) -> None:
        shown: dict[str, Any] = {"auth_method": "word", "supports_auth_refresh": True, **fields}
        self.handshake.connect(Connect("c", 21, auth_data=word.encode(), **shown))
        await pass_time(0.1)

    async def show(self, word: str) -> None:
        self.handshake.respond(AuthResponse("word", word.encode()))
        await pass_time(0.1)

    @property
    def caller(self) -> Caller | None:
        return cast("Caller | None", self.permits.caller)


@pytest.mark.parametrize("word", ["mallory", "bug"])
@on_jumping_loop
async def test_no_client_is_admitted_whose_credentials_cannot_be_checked(word: str) -> None:
    client = Client()
    await client.connect(word)
    assert (client.wrote, client.closed) == ([REFUSED], True)
    assert (client.accepted, client.reading, client.caller) == (False, False, None)


@on_jumping_loop
async def test_a_client_that_goes_while_it_is_authenticated_leaves_nothing() -> None:
    client = Client()
    client.words.hangs.clear()
    await client.connect("alice@5")
    client.go()
    client.words.hangs.set()
    await pass_time(100)
    assert (client.accepted, client.caller, client.wrote) == (False, None, [])


@on_jumping_loop
async def test_newer_credentials_are_asked_for_whenever_the_last_have_expired() -> None:
    client = Client()
    await client.connect("alice@9")
    await pass_time(9)
    assert client.wrote == []
    for asked, end in ((1, 60), (2, 90)):
        await pass_time(1)
        assert client.wrote == [CHALLENGE] * asked
        await client.show(f"alice@{end}")
        await pass_time(end - now_ns() / SECOND_NS)
        assert client.wrote == [CHALLENGE] * asked
    await pass_time(5)
    assert not client.closed
    await pass_time(10)
    assert client.closed, "it showed nothing newer"
    await pass_time(100)
    assert len(client.wrote) == 3, "a closed connection is looked at no longer"


@on_jumping_loop
async def test_a_client_that_can_show_nothing_newer_goes_when_its_credentials_end() -> None:
    client = Client()
    await client.connect("alice@9", supports_auth_refresh=False)
    await pass_time(9)
    assert not client.closed
    await pass_time(2)
    assert (client.closed, client.wrote) == (True, [])


@pytest.mark.parametrize("proxied", [False, True])
@on_jumping_loop
async def test_only_a_proxy_names_another_client_and_has_to(proxied: bool) -> None:
    client = Client(proxies=("proxy",))
    role, named = ("alice", "root") if not proxied else ("proxy", None)
    await client.connect(role, original_principal=named)
    assert (client.accepted, client.closed) == (False, True)


@on_jumping_loop
async def test_at_the_very_moment_of_their_end_credentials_are_good() -> None:
    client = Client()
    client.handshake.connect(
        Connect("c", 21, auth_method="word", auth_data=b"alice@10", supports_auth_refresh=True)
    )
    await pass_time(10)
    await pass_time(1)
    assert client.wrote == []
    await pass_time(10)
    assert client.wrote == [CHALLENGE]


@pytest.mark.parametrize(
    ("word", "wrote"), [("bob", []), ("", []), ("mallory", [REFUSED]), ("bug", None)], ids=str
)
@on_jumping_loop
async def test_newer_credentials_have_to_be_good_and_of_the_same_role(
    word: str, wrote: list[str] | None
) -> None:
    client = Client()
    await client.connect("alice")
    await client.show(word)
    if wrote is not None:
        assert (client.wrote, client.closed) == (wrote, True)
    assert client.caller == Caller("alice")


@on_jumping_loop
async def test_of_a_proxy_that_hands_on_credentials_the_clients_are_what_counts() -> None:
    client = Client(authenticate_original=True, proxies=("proxy",))
    handed_on = {"original_principal": "root", "original_auth_data": "alice@5"}
    await client.connect("proxy", proxy_version="1", **handed_on)
    assert client.caller == Caller("proxy", "alice"), "not who it says it is"
    await pass_time(20)
    assert client.wrote == [CHALLENGE]


@pytest.mark.parametrize(("method", "accepted"), [(None, True), ("word", True), ("token", False)])
@on_jumping_loop
async def test_credentials_that_are_handed_on_may_be_of_another_method(
    method: str | None, accepted: bool
) -> None:
    client = Client(authenticate_original=True, proxies=("proxy",))
    await client.connect(
        "proxy",
        proxy_version="1",
        original_principal="alice",
        original_auth_data="alice",
        original_auth_method=method,
    )
    assert (client.accepted, client.wrote) == (accepted, [REFUSED] * (not accepted))


@on_jumping_loop
async def test_a_proxy_that_hands_on_no_credentials_is_cut_off_when_its_own_end() -> None:
    client = Client(proxies=("proxy",))
    await client.connect("proxy@5", proxy_version="1", original_principal="alice")
    assert client.caller == Caller("proxy", "alice")
    await pass_time(20)
    assert (client.wrote, client.closed) == ([], True)


@pytest.mark.parametrize("version", ["", "1"])
@on_jumping_loop
async def test_only_a_proxy_has_a_proxys_version(version: str) -> None:
    client = Client(proxies=("proxy",))
    await client.connect("alice", proxy_version=version)
    assert client.closed
    assert not client.accepted
