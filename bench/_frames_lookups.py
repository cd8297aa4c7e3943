"""A client that looks topics up, or connects, as often as a broker lets it.

Prints one JSON object: how often a second.
"""

import argparse
import http.client
import json
import ssl
import struct
import time
from urllib.parse import urlsplit

from bench._frames import FrameConnection, framed
from counterpoise.wire.proto.base_pb2 import BaseCommand

UNANSWERED = 200
"""Lookups under way on one connection: fewer than `maxConcurrentLookupRequest` of any broker."""
TOPICS = 100
_SIZE = struct.Struct(">I")
_Type = BaseCommand.Type


def topic(number: int) -> str:
    return f"persistent://public/default/looked-up-{number % TOPICS}"


class LookupConnection(FrameConnection):
    """One connection, whose lookups do not wait for each other."""

    def many(self, seconds: float) -> float:
        """Lookups a second."""
        for number in range(TOPICS):
            self.look_up(topic(number), number)
        requests = [
            framed(
                BaseCommand(type=_Type.LOOKUP, lookup_topic={"topic": topic(n), "request_id": n})
            )
            for n in range(UNANSWERED)
        ]
        self._socket.sendall(b"".join(requests))
        began, answered, unread = time.perf_counter(), 0, b""
        while time.perf_counter() < began + seconds:
            data = unread + self._socket.recv(1 << 18)
            at, came = 0, 0
            while at + 4 <= len(data) and at + 4 + _SIZE.unpack_from(data, at)[0] <= len(data):
                at += 4 + _SIZE.unpack_from(data, at)[0]
                came += 1
            unread = data[at:]
            self._socket.sendall(b"".join(requests[n % UNANSWERED] for n in range(came)))
            answered += came
        return answered / (time.perf_counter() - began)


def by_http(admin_url: str, seconds: float) -> float:
    """Lookups a second over HTTP, one after the other on one connection."""
    where = urlsplit(admin_url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
    began, answered = time.perf_counter(), 0
    while time.perf_counter() < began + seconds:
        path = topic(answered).replace("persistent://", "/lookup/v2/topic/persistent/")
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise SystemExit(f"a lookup was answered with {response.status} {body!r}")
        answered += 1
    connection.close()
    return answered / (time.perf_counter() - began)


def connects(url: str, seconds: float, tls: ssl.SSLContext | None = None) -> float:
    """Connections a second that are answered CONNECTED and closed, one after the other."""
    began, count = time.perf_counter(), 0
    while time.perf_counter() < began + seconds:
        FrameConnection(url, tls=tls).close()
        count += 1
    return count / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["lookups", "http", "connections", "tls"])
    parser.add_argument("--trusted", help="the certificate of the authority, for tls")
    parser.add_argument("--url", required=True)
    parser.add_argument("--admin-url", required=True)
    parser.add_argument("--seconds", type=float, default=3.0)
    args = parser.parse_args()
    match args.what:
        case "lookups":
            rate = LookupConnection(args.url).many(args.seconds)
        case "http":
            rate = by_http(args.admin_url, args.seconds)
        case "tls":
            trusted = ssl.create_default_context(cafile=args.trusted)
            rate = connects(args.url, args.seconds, trusted)
        case _:
            rate = connects(args.url, args.seconds)
    print(json.dumps({"a_second": rate}))


if __name__ == "__main__":
    main()
