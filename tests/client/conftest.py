"""The official client against a cluster: ours, or any other.

Every test of this folder is the same script for both. Without configuration it drives an embedded
cluster; set ``PULSAR_SERVICE_URL`` and ``PULSAR_ADMIN_URL`` to drive another one, for instance
Apache Pulsar standalone, which is what the expectations were written down from.
"""

import json
import os
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus

import pulsar
import pytest

SOON = 60_000
"""How long a message may take that is sure to come, in milliseconds; a busy machine needs some."""
NEVER = 300
"""How long to wait to see that nothing comes, in milliseconds."""


@dataclass(frozen=True)
class Target:
    """The cluster under test."""

    service_url: str
    admin_url: str

    def admin(self, method: str, path: str, body: object = None) -> object:
        """Call the admin API below ``/admin/v2``; returns what it answers."""
        return self._call(method, f"{self.admin_url}/admin/v2/{path}", body)

    def _call(self, method: str, url: str, body: object) -> object:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                text = response.read()
        except urllib.error.HTTPError as error:
            # urllib follows a redirect of what reads, and of nothing else.
            if error.code != HTTPStatus.TEMPORARY_REDIRECT:
                raise
            with error:
                return self._call(method, error.headers["Location"], body)
        return json.loads(text) if text else None

    def create_partitioned_topic(self, topic: str, partitions: int) -> None:
        path = topic.replace("://", "/")
        self.admin("PUT", f"{path}/partitions", partitions)


@pytest.fixture(scope="session")
def target() -> Iterator[Target]:
    service_url = os.environ.get("PULSAR_SERVICE_URL")
    if service_url is not None:
        yield Target(service_url, os.environ["PULSAR_ADMIN_URL"])
        return
    import counterpoise

    with counterpoise.Cluster(brokers=2) as cluster:
        yield Target(cluster.service_url, cluster.admin_url)


@pytest.fixture
def client(target: Target) -> Iterator[pulsar.Client]:
    client = pulsar.Client(
        target.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    )
    yield client
    client.close()


@pytest.fixture
def topic() -> str:
    """A topic that was not used before."""
    return f"persistent://public/default/client-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def namespace(target: Target) -> str:
    """A namespace that was not used before."""
    name = f"public/n-{uuid.uuid4().hex[:12]}"
    target.admin("PUT", f"namespaces/{name}")
    return name


Drain = Callable[..., list[bytes]]


def payloads(count: int, start: int = 0) -> list[bytes]:
    """As many different payloads."""
    return [b"message-%d" % number for number in range(start, start + count)]


def receive_all(consumer: pulsar.Consumer, count: int, *, ack: bool = True) -> list[bytes]:
    """Receive exactly so many messages, in order."""
    received = []
    for _ in range(count):
        message = consumer.receive(SOON)
        received.append(message.data())
        if ack:
            consumer.acknowledge(message)
    return received


def assert_no_more(consumer: pulsar.Consumer) -> None:
    """Nothing else is delivered."""
    with pytest.raises(pulsar.Timeout):
        consumer.receive(NEVER)
