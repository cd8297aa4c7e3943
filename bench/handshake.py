"""What proving who one is costs: a connection its figure, and a publish nothing.

Compared with a cluster without authentication, in processor time of client and broker together.
Publishing is measured in the processor time of the brokers' threads, in pairs of equal rounds one
after the other: who a client is, is looked at when it connects and when it opens a producer.
"""

import base64
import contextlib
import socket
import ssl
import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bench._frames import FrameClient, sends
from bench.figures import Figure
from counterpoise import Cluster
from counterpoise.wire.constants import PROTOCOL_VERSION
from counterpoise.wire.encode import frame
from counterpoise.wire.proto.commands_pb2 import CommandConnect

PACKAGE = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
UNANSWERED = 1_000
COSTS_AT_MOST = 1.02


def hello_of(client_version: str, method: str = "none", shown: bytes = b"") -> bytes:
    """CONNECT, with what the client shows."""
    connect = CommandConnect(
        client_version=client_version,
        protocol_version=PROTOCOL_VERSION,
        auth_method_name=method,
        auth_data=shown,
    )
    return frame(connect)


def connect(url: str, hello: bytes, tls: ssl.SSLContext | None) -> float:
    """Connect, be let in, and leave; the seconds until CONNECTED."""
    host, port = url.partition("://")[2].split(",")[0].split(":")
    began = time.perf_counter()
    with socket.create_connection((host, int(port)), 10) as plain:
        # As Pulsar's clients do.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with tls.wrap_socket(plain, server_hostname=host) if tls else plain as sock:
            sock.sendall(hello)
            (size,) = struct.unpack(">I", sock.recv(4))
            assert b"Pulsar Server" in sock.recv(size)
            return time.perf_counter() - began


def connection_ms(connections: int, once: Callable[[], float]) -> float:
    """Milliseconds of processor time for one connection, both ends together."""
    for _ in range(20):
        once()
    cpu = time.process_time()
    for _ in range(connections):
        once()
    return (time.process_time() - cpu) / connections * 1000


def connections(count: int) -> Iterator[Figure]:
    """What a connection costs, by what it shows."""
    with Cluster(brokers=1) as cluster:
        url = cluster.service_url
        asked = connection_ms(count, lambda: connect(url, hello_of("b"), None))

    def beside(name: str, url: str, hello: bytes, tls: ssl.SSLContext | None = None) -> Figure:
        took = connection_ms(count, lambda: connect(url, hello, tls))
        return Figure(f"a connection by {name}", took, "ms CPU", "no authentication", asked)

    with Cluster(brokers=1, tls=True, tokens=True) as cluster:
        trusted = ssl.create_default_context(cafile=cluster.security.trust_certs)
        shown = hello_of("b", "token", cluster.security.token("admin").encode())
        yield beside("token, HS512", cluster.service_url, shown)
        yield beside("token, HS512, TLS 1.3", cluster.service_url_tls, shown, trusted)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    settings = {
        "authenticationEnabled": True,
        "authenticationProviders": f"{PACKAGE}Token",
        "tokenPublicKey": "data:;base64," + base64.b64encode(public).decode(),
    }
    with Cluster(brokers=1, config=settings) as cluster:
        token = jwt.encode({"sub": "admin"}, key, algorithm="RS256")
        by_key = hello_of("b", "token", token.encode())
        yield beside("token, RS256", cluster.service_url, by_key)


def publishing(rounds: int, messages: int) -> Figure:
    """What a message costs the broker where everybody has to prove who they are."""
    with contextlib.ExitStack() as stack:
        sides: dict[str, tuple[FrameClient, list[int]]] = {}
        for name, tokens in (("asked", True), ("free", False)):
            before = {each.native_id for each in threading.enumerate()}
            cluster = stack.enter_context(Cluster(brokers=1, tokens=tokens))
            token = cluster.security.token("admin") if tokens else ""
            topic = "persistent://public/default/t"
            client = FrameClient(cluster.service_url, topic, token)
            stack.callback(client.close)
            made = {each.native_id for each in threading.enumerate()} - before
            sides[name] = (client, [each for each in made if each is not None])
        spent: dict[str, list[float]] = {name: [] for name in sides}
        first = 0
        for number in range(rounds + 1):
            for name in sorted(sides, reverse=bool(number % 2)):
                client, threads = sides[name]
                began = sum(map(_nanoseconds, threads))
                client.publish(sends(first, messages, batch=1), UNANSWERED)
                spent[name].append(sum(map(_nanoseconds, threads)) - began)
            first += messages
    pairs = list(zip(spent["asked"], spent["free"], strict=True))[1:]
    free = statistics.median(each for _, each in pairs) / messages / 1e3
    asked = free * statistics.median(one / other for one, other in pairs)
    return Figure(
        "the broker's processor time of a message, clients known by token",
        asked,
        "us",
        "no authentication",
        free,
        f"at most {COSTS_AT_MOST} of it",
        asked <= COSTS_AT_MOST * free,
    )


def _nanoseconds(thread: int) -> int:
    return int(Path(f"/proc/self/task/{thread}/schedstat").read_text().split()[0])


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Measure; ``out`` is not needed."""
    del out
    return [
        *connections(50 if quick else 300),
        publishing(*((4, 2_000) if quick else (100, 5_000))),
    ]
