"""What a client of brokers shows to whom: credentials follow redirects, and never leave TLS."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from counterpoise.app.throwaway import ThrowAwayAuthority
from counterpoise.names.options import ConfigError
from counterpoise.security.client import ClientSecurity, http_session
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
        runner = web.AppRunner(app)
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
    anonymous = own.as_another()
    assert anonymous.shown() == ("none", b"")
    assert anonymous.headers() == {}
    assert anonymous.has_tls_settings, "it trusts the same authorities"


@pytest.mark.parametrize(
    ("plugin", "parameters"),
    [
        ("token", "file://{file}"),
        ("token", '{{"token": "t0ken\\n"}}'),
        ("token", " token:t0ken \n"),
    ],
)
def test_a_tokens_white_space_is_no_part_of_it(
    tmp_path: Path, plugin: str, parameters: str
) -> None:
    file = tmp_path / "token"
    file.write_text("\n t0ken \n")
    options = ClientOptions(plugin="token", parameters=parameters.format(file=file))
    assert ClientSecurity(options).shown() == ("token", b"t0ken")


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ({"plugin": "token", "parameters": ""}, "Parameters"),
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
