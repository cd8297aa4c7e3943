"""What proving who one is costs a connection, beside a cluster that asks nobody: CPU and time.

``python -m bench.handshake [--connections 300]``. A publish costs nothing more: who a client is, is
looked at when it connects and when it opens a producer, never at a message.
"""

import argparse
import base64
import socket
import ssl
import statistics
import struct
import time
from collections.abc import Callable

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from counterpoise import Cluster
from counterpoise.wire import requests

PACKAGE = "org.apache.pulsar.broker.authentication.AuthenticationProvider"


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


def measure(name: str, connections: int, once: Callable[[], float]) -> float:
    for _ in range(20):
        once()
    cpu = time.process_time()
    took = [once() for _ in range(connections)]
    cpu_ms = (time.process_time() - cpu) / connections * 1000
    print(f"{name:<28} {cpu_ms:8.3f} ms CPU   {statistics.median(took) * 1000:8.3f} ms median")
    return cpu_ms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=300)
    count = parser.parse_args().connections
    print(f"one connection of {count}, client and broker together:")
    with Cluster(brokers=1) as cluster:
        url = cluster.service_url
        measure("nobody is asked", count, lambda: connect(url, requests.connect("b"), None))
    with Cluster(brokers=1, tls=True, tokens=True) as cluster:
        trusted = ssl.create_default_context(cafile=cluster.security.trust_certs)
        shown = requests.connect("b", "token", cluster.security.token("admin").encode())
        url, by_tls = cluster.service_url, cluster.service_url_tls
        measure("a token, HS512", count, lambda: connect(url, shown, None))
        measure("a token, HS512, by TLS 1.3", count, lambda: connect(by_tls, shown, trusted))
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
        url = cluster.service_url
        token = jwt.encode({"sub": "admin"}, key, algorithm="RS256")
        by_key = requests.connect("b", "token", token.encode())
        measure("a token, RS256", count, lambda: connect(url, by_key, None))


if __name__ == "__main__":
    main()
