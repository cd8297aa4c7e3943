"""Answers that no broker should give: each is a gap with one printable line, and costs little."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.collect.admin import Admin, AdminOptions, RefusedError
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.words import line, refusal
from tests.pipeline.fake_cluster import FakeCluster, bundle_name

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]
REPORT = "/admin/v2/broker-stats/load-report"


def saying(data: bytes) -> Answer:
    """Says these bytes and closes the connection."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return answer


def answering(status: str, body: bytes, *headers: str) -> Answer:
    """Says this as HTTP."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return saying("\r\n".join(lines).encode() + body)


async def endless(writer: asyncio.StreamWriter) -> None:
    """Sends spaces until the connection is closed."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    with contextlib.suppress(ConnectionError):
        while True:
            writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
            await writer.drain()


@asynccontextmanager
async def broker(report: Answer) -> AsyncIterator[str]:
    """The address of a broker of a cluster of its own, which answers like this."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        if path == REPORT:
            await report(writer)
        elif path == "/admin/v2/brokers":
            await answering("200 OK", json.dumps([name]).encode())(writer)
        else:
            await answering("404 Not Found", b"")(writer)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    name = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield name


async def seen(name: str) -> ReportRows:
    async with aiohttp.ClientSession() as http:
        options = AdminOptions(most_bytes=1 << 20)
        return await Collector(http, [f"http://{name}"], lambda: 1, options=options).poll()


def report(**changes: Any) -> Answer:
    return answering("200 OK", json.dumps({"lastUpdate": 5, **changes}).encode())


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (endless, "its answer is longer than 1 MiB, and the rest is not read"),
        (answering("401 Unauthorized", b""), "HTTP 401; say who you are by --auth-plugin and"),
        (answering("500 Oops", b'{"reason":"\\n Message: boom\\n\\tat a.b.C(D.java:1)"}'),
         "HTTP 500 Message: boom"),
        (answering("500 Oops", b"\x1b[31mred\r\nand more"), "HTTP 500 [31mred and more"),
        (saying(b"SSH-2.0-OpenSSH\r\n\r\n"), "its answer is no HTTP"),
        (saying(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"), "its answer broke off"),
        (saying(b""), "it closed the connection without an answer"),
        (answering("307 Away", b"", "Location: file:///etc/passwd"),
         "HTTP 307: it sends us to file:///etc/passwd, and its figures are asked of it alone"),
        (report(lastStats={"no bundle": {}}),
         "lastStats: expected bundles such as tenant/namespace/0x…_0x…, got 'no bundle'"),
        (report(lastStats={"a/b/0x00_0x10\n": {}}), "0x…_0x…, got 'a/b/0x00_0x10\\n'"),
        (report(cpu="much"), "cpu"),
        (report(lastStats={"": {}}), "tenant/namespace/0x…_0x…, got ''"),
    ],
)  # fmt: skip
async def test_a_wild_answer_is_a_gap_of_one_printable_line(answer: Answer, says: str) -> None:
    async with broker(answer) as name:
        rows = await seen(name)
    assert list(rows["kind"]) == ["poll", "gap"]
    note = str(rows["note"][1])
    assert says in note
    assert note.isprintable()


@pytest.mark.parametrize("length", [299, 300, 301])
def test_a_sentence_of_others_is_cut_off_behind_three_hundred_characters(length: int) -> None:
    text = "a" * length
    assert line(text) == (text if length <= 300 else "a" * 299 + "…")


def test_of_a_stack_trace_its_first_line_is_said() -> None:
    trace = "boom\n\tat a.b.C(D.java:1)\n\tat e.f.G(H.java:2)"
    for body in (trace, json.dumps({"reason": trace}), json.dumps({"reason": trace})[1:]):
        assert "at a.b.C" not in refusal(500, body)
        assert "boom" in refusal(500, body)
    assert refusal(500, trace) == "HTTP 500 boom"


async def test_a_broker_that_sends_us_to_another_is_not_taken_for_it() -> None:
    async with FakeCluster() as cluster:
        there = await cluster.add_broker()
        cluster.carry(there, bundle_name(0), 100.0)
        away = answering("307 Away", b"", f"Location: http://{there.name}{REPORT}")
        async with broker(away) as name:
            rows = await seen(name)
    assert list(rows["kind"]) == ["poll", "gap"]


async def test_odd_names_in_the_list_of_brokers_are_gaps_and_the_others_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with FakeCluster() as cluster:
        sound = await cluster.add_broker()
        odd = [None, 5, "", "a b\nc", "../x:1", "http://x:1", "host:99999", "..:1", "\x1b[31m:1"]
        monkeypatch.setattr(FakeCluster, "names", [sound.name, *odd])
        rows = await seen(sound.name)
    brokers = rows.take(rows["kind"] == "broker")
    assert list(brokers["broker"]) == [sound.name]
    gaps = rows.take(rows["kind"] == "gap")
    assert len(gaps["broker"]) == len(odd)
    assert all(str(each).isprintable() for each in (*gaps["broker"], *gaps["note"]))


async def test_an_address_that_cannot_be_is_refused_with_its_name() -> None:
    async with aiohttp.ClientSession() as http:
        with pytest.raises(RefusedError, match=r"http://host:99999/x is no address"):
            await Admin(http, AdminOptions()).get("http://host:99999/x")
