"""What a client of brokers shows to whom: credentials follow redirects, and never leave TLS."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from counterpoise.app.clusters.throwaway import KeyPair, ThrowAwayAuthority
from counterpoise.names.options import ConfigError
from counterpoise.security.client import ClientSecurity, Names, http_session
from counterpoise.security.options import ClientOptions

BASIC = '{"userId": "alice", "password": "a:b"}'


class Site:
    """An HTTP server that redirects to another, and notes what it is shown."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self.to = ""
        self.shown: list[str | None] = []

    async def _answer(self, request: web.Request) -> web.Response:
        self.shown.append(request.headers.get("Authorization"))
        if self.to:
            raise web.HTTPTemporaryRedirect(self.to)
        return web.Response(text="here")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_get("/", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self.tls)
        await site.start()
        port = runner.addresses[0][1]
        yield f"{'https' if self.tls else 'http'}://127.0.0.1:{port}/"
        await runner.cleanup()


def secure_site(authority: ThrowAwayAuthority) -> Site:
    pair = authority.server()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    return Site(context)


@pytest.mark.parametrize(
    ("plugin", "parameters", "shown"),
    [("token", "token:t0ken", "Bearer t0ken"), ("basic", BASIC, "Basic YWxpY2U6YTpi")],
)
async def test_a_redirect_from_tls_to_plain_http_gets_no_credentials(
    tmp_path: Path, plugin: str, parameters: str, shown: str
) -> None:
    authority = ThrowAwayAuthority(tmp_path)
    secure, plain, other = secure_site(authority), Site(), secure_site(authority)
    options = ClientOptions(plugin=plugin, parameters=parameters, trust=str(authority.certificate))
    async with (
        secure.open() as first,
        plain.open() as second,
        other.open() as third,
        http_session(ClientSecurity(options)) as session,
    ):
        secure.to = third
        assert await (await session.get(first)).text() == "here"
        assert (secure.shown, other.shown) == ([shown], [shown]), "both are brokers, by TLS"
        secure.to = second
        await session.get(first)
        assert plain.shown == [None], "the credentials went over the wire in the clear"
        # Nor by a later request of the same session.
        await session.get(second)
        assert plain.shown == [None, None]


async def test_without_tls_each_broker_of_a_redirect_gets_the_credentials() -> None:
    first, second = Site(), Site()
    security = ClientSecurity(ClientOptions(plugin="token", parameters="token:t0ken"))
    async with first.open() as one, second.open() as two, http_session(security) as session:
        first.to = two
        await session.get(one)
    assert (first.shown, second.shown) == (["Bearer t0ken"], ["Bearer t0ken"])


def connects(client: ssl.SSLContext, pair: KeyPair, host: str = "localhost") -> str | None:
    """Shake hands with a broker that has this certificate; the role that the client shows it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    context.load_verify_locations(pair.certificate.parent / "authority.pem")
    context.verify_mode = ssl.CERT_OPTIONAL
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(there, back, server_side=True)
    ends = [server, client.wrap_bio(back, there, server_hostname=host)]
    for _ in range(4):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    shown = server.getpeercert()
    return dict(each[0] for each in shown["subject"])["commonName"] if shown else None  # type: ignore[misc]


@pytest.mark.parametrize("verify_host", [True, False])
@pytest.mark.parametrize("insecure", [True, False])
@pytest.mark.parametrize("trusted", ["this", "another", ""])
@pytest.mark.parametrize("host", ["localhost", "elsewhere"])
def test_which_brokers_a_client_trusts(
    tmp_path: Path, verify_host: bool, insecure: bool, trusted: str, host: str
) -> None:
    for name in ("this", "another"):
        (tmp_path / name).mkdir()
    authority = ThrowAwayAuthority(tmp_path / "this")
    another = ThrowAwayAuthority(tmp_path / "another", "another")
    files = {"this": str(authority.certificate), "another": str(another.certificate), "": ""}
    security = ClientSecurity(
        ClientOptions(trust=files[trusted], verify_host=verify_host, allow_insecure=insecure)
    )
    trusts = trusted == "this" and (host == "localhost" or not verify_host)
    with contextlib.nullcontext() if insecure or trusts else pytest.raises(ssl.SSLError):
        connects(security.context(), authority.server(), host)


async def test_an_insecure_session_reaches_a_broker_of_an_unknown_authority(tmp_path: Path) -> None:
    site = secure_site(ThrowAwayAuthority(tmp_path))
    async with site.open() as url:
        async with http_session(ClientSecurity(ClientOptions(allow_insecure=True))) as session:
            assert (await session.get(url)).ok
        async with http_session(ClientSecurity()) as session:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await session.get(url)


def test_another_identity_keeps_the_trust_and_nothing_else(tmp_path: Path) -> None:
    authority = ThrowAwayAuthority(tmp_path)
    pair = authority.client("broker")
    own = ClientSecurity(
        ClientOptions(
            plugin="token",
            parameters="token:mine",
            trust=str(authority.certificate),
            certificate=str(pair.certificate),
            key=str(pair.key),
        )
    )
    assert own.as_another("yours").shown() == ("token", b"yours")
    assert connects(own.context(), authority.server()) == "broker"
    assert connects(own.as_another("yours").context(), authority.server()) is None
    anonymous = own.as_another()
    assert anonymous.shown() == ("none", b"")
    assert anonymous.headers() == {}
    assert anonymous.has_tls_settings, "it trusts the same authorities"


def test_another_identity_names_settings_as_the_first_one_did(tmp_path: Path) -> None:
    authority = ThrowAwayAuthority(tmp_path)
    names = Names(trust="--tls-trust-cert-path")
    own = ClientSecurity(ClientOptions(trust=str(authority.certificate)), names)
    authority.certificate.unlink()
    with pytest.raises(ConfigError, match="--tls-trust-cert-path"):
        own.as_another("yours")


async def test_an_answer_may_take_so_long_to_its_last_byte() -> None:
    """A broker that hangs in the middle of an answer stops no one for ever."""

    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        await reader.read()
        writer.close()
        ended.set()

    ended = asyncio.Event()
    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server, http_session(ClientSecurity(), 0.5) as session, asyncio.timeout(60):
        with pytest.raises(TimeoutError):
            await (await session.get(f"http://{host}:{port}/")).read()
        await ended.wait()


def test_a_user_may_be_named_as_pulsars_clients_name_one() -> None:
    for name in ("userId", "username"):
        given = json.dumps({name: "alice", "password": "secret"})
        shown = ClientSecurity(ClientOptions(plugin="basic", parameters=given)).shown()
        assert shown == ("basic", b"alice:secret")


@pytest.mark.parametrize(
    ("plugin", "parameters"),
    [
        ("token", "file://{file}"),
        ("token", "file:{spaced}"),
        ("token", '{{"token": "t0ken\\n"}}'),
        ("token", " token:t0ken \n"),
    ],
)
def test_a_tokens_white_space_is_no_part_of_it(
    tmp_path: Path, plugin: str, parameters: str
) -> None:
    file = tmp_path / "token"
    for each in (file, tmp_path / "my token"):
        each.write_text("\n t0ken \n")
    spaced = f"{tmp_path}/my%20token"
    options = ClientOptions(plugin="token", parameters=parameters.format(file=file, spaced=spaced))
    assert ClientSecurity(options).shown() == ("token", b"t0ken")


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ({"plugin": "token", "parameters": ""}, "Parameters"),
        ({"plugin": "token", "parameters": '{"role": "alice"}'}, "Parameters"),
        ({"plugin": "token", "parameters": "file:///nowhere/token"}, "cannot read /nowhere"),
        ({"plugin": "basic", "parameters": '{"userId": "alice"}'}, "Parameters"),
        ({"plugin": "tls", "parameters": "tlsCertFile:/nowhere"}, "KeyFile"),
        ({"plugin": "kerberos"}, "kerberos is not supported"),
        ({"certificate": "/nowhere"}, "KeyFilePath"),
        ({"key": "/nowhere"}, "CertificateFilePath"),
    ],
)
def test_settings_that_show_nothing_are_reported_at_the_start(
    options: dict[str, str], setting: str
) -> None:
    with pytest.raises(ConfigError, match=setting):
        ClientSecurity(ClientOptions(**options))  # type: ignore[arg-type]


def test_a_token_that_is_no_text_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"hush\xff")
    with pytest.raises(ConfigError, match=r"it is not text$"):
        ClientSecurity(ClientOptions(plugin="token", parameters=f"file://{tmp_path}/token"))
