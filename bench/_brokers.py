"""Many brokers that are only their admin API, in a process of their own; some of them misbehave.

    python -m bench._brokers BROKERS BUNDLES MISBEHAVE

prints the ports as JSON when all listen, and serves until its standard input ends. Answers are made
beforehand, but for the figures of a bundle that differ at each asking: so each is a measurement.
"""

import asyncio
import itertools
import json
import sys

CONFIGURATION = b'{"loadManagerClassName": "Modular", "statsUpdateFrequencyInSecs": "1"}'
SLOW_S = 3.0
WAYS = ("refuses", "cuts off", "talks nonsense", "is slow", "hangs")
"""To be slow is no fault: what such a broker says counts."""


def way_of(number: int) -> str:
    """How a broker misbehaves: one of fifty, each way in turn."""
    return WAYS[number // 50 % len(WAYS)] if number % 50 == 7 else ""


class Broker(asyncio.Protocol):
    """One connection to one broker."""

    def __init__(
        self, report: list[bytes], listing: bytes, way: str, turn: "itertools.count[int]"
    ) -> None:
        self._report, self._listing, self._way, self._turn = report, listing, way, turn
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._held += data
        while b"\r\n\r\n" in self._held:
            head, _, self._held = self._held.partition(b"\r\n\r\n")
            self._answer(head.split(b" ", 2)[1])

    def _answer(self, path: bytes) -> None:
        if path.endswith(b"/brokers"):
            self._say(self._listing)
        elif path.endswith(b"/runtime"):
            self._say(CONFIGURATION)
        elif not path.endswith(b"/load-report"):
            self._say(b"{}", b"404 Not Found")
        elif self._way == "refuses":
            self._say(b"not now", b"503 Service Unavailable")
        elif self._way == "cuts off":
            body = self._report[0]
            self._say(body[: len(body) // 2], length=len(body))
            self._transport.close()
        elif self._way == "talks nonsense":
            self._say(b"<html>")
        elif self._way == "hangs":
            pass
        elif self._way == "is slow":
            asyncio.get_running_loop().call_later(SLOW_S, self._say, self._now())
        else:
            self._say(self._now())

    def _now(self) -> bytes:
        return self._report[next(self._turn) % len(self._report)]

    def _say(self, body: bytes, status: bytes = b"200 OK", length: int | None = None) -> None:
        size = len(body) if length is None else length
        self._transport.write(
            b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (status, size, body)
        )


def report(broker: int, bundles: int, turn: int) -> bytes:
    """A load report as Pulsar's modular load manager writes it."""
    first = broker * bundles
    stats = {
        f"tenant/ns-{i % 500}/0x{i:08x}_0x{i + 1:08x}": {
            "msgRateIn": 100.5 + (i + turn) % 97,
            "msgThroughputIn": 100_500.5 + (i + turn) % 89,
            "msgRateOut": 200.5,
            "msgThroughputOut": 201_000.25,
            "consumerCount": 2,
            "producerCount": 1,
            "topics": 10,
            "cacheSize": 0,
        }
        for i in range(first, first + bundles)
    }
    names = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
    usage = {name: {"usage": 20.0 + broker % 60, "limit": 100.0} for name in names}
    numbers = {
        "msgRateIn": bundles * 100.5,
        "msgThroughputIn": bundles * 100_500.5,
        "msgRateOut": bundles * 200.5,
        "msgThroughputOut": bundles * 201_000.25,
        "numBundles": bundles,
        "numTopics": bundles * 10,
        "lastUpdate": 1000 + turn,
    }
    return json.dumps({**usage, **numbers, "lastStats": stats}).encode()


async def serve(brokers: int, bundles: int, misbehave: bool) -> None:
    loop = asyncio.get_running_loop()
    listing: list[bytes] = [b""]
    ports = []

    def made(number: int) -> "asyncio.Server":
        reports = [report(number, bundles, turn) for turn in range(2)]
        way, turn = way_of(number) if misbehave else "", itertools.count()
        return loop.create_server(  # type: ignore[return-value]
            lambda: Broker(reports, listing[0], way, turn), "127.0.0.1", 0
        )

    servers = [await made(number) for number in range(brokers)]  # type: ignore[misc]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    listing[0] = json.dumps([f"127.0.0.1:{port}" for port in ports]).encode()
    print(json.dumps(ports), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "1"))
