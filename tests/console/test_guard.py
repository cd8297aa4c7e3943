"""Without a browser: what another site's page may not do."""

import aiohttp
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message

from counterpoise.console.guard import OwnSite
from tests.console.conftest import StartConsole


@pytest.fixture(scope="module")
def console(start_console: StartConsole) -> str:
    return start_console("--admin-url", "http://127.0.0.1:1")


ELSEWHERE = (
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Host": "evil.example"},
    {"Sec-Fetch-Site": "cross-site"},
)


@pytest.mark.parametrize("headers", ELSEWHERE, ids=str)
async def test_another_sites_page_is_refused_on_both_roads(
    console: str, headers: dict[str, str]
) -> None:
    socket = f"{console}_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    polling = f"{console}_nicegui_ws/socket.io/?EIO=4&transport=polling"
    async with aiohttp.ClientSession() as session:
        async with session.post(polling, headers=headers, data=b"40") as answer:
            assert answer.status == 403
        async with session.get(console, headers=headers) as answer:
            assert answer.status == 403
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(socket, headers=headers)


async def test_ones_own_page_and_a_link_to_it_are_served(console: str) -> None:
    async with aiohttp.ClientSession() as session:
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        async with session.get(console, headers=link) as answer:
            assert answer.status == 200
            assert answer.headers["Content-Security-Policy"].startswith("frame-ancestors 'none'")
        socket = f"{console}_nicegui_ws/socket.io/?EIO=4&transport=websocket"
        own = {"Origin": console.rstrip("/")}
        async with session.ws_connect(socket, headers=own) as opened_socket:
            assert (await opened_socket.receive_str()).startswith("0{")


@pytest.mark.parametrize(("method", "status"), [("GET", 200), ("HEAD", 200), ("POST", 403)])
async def test_a_link_of_another_site_leads_to_the_page_and_a_form_does_not(
    method: str, status: int
) -> None:
    headers = {"host": "localhost", "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": method, "path": "/", "headers": raw}
    await OwnSite(PlainTextResponse("the page"), ())(scope, receive, send)
    assert sent[0]["status"] == status


async def test_a_name_is_served_however_it_is_written_and_what_the_page_says_stays() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    page = PlainTextResponse("the page", headers={"Cache-Control": "no-store"})
    for host, status in (("console.example:80", 200), ("other.example", 403)):
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/",
            "headers": [(b"host", host.encode())],
        }
        sent.clear()
        await OwnSite(page, ("Console.Example",))(scope, receive, send)
        assert sent[0]["status"] == status
        names = [name for name, _ in sent[0]["headers"]]
        assert (b"cache-control" in names) is (status == 200)
        assert (b"content-security-policy" in names) is (status == 200)
