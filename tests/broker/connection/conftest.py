"""A broker without a cluster, and clients that speak to it frame by frame."""

import uuid
from collections.abc import Callable, Iterator

import pytest

from counterpoise.broker.topic.options import TopicOptions
from tests.broker.connection.one_broker import OneBroker
from tests.broker.connection.raw_client import RawClient


@pytest.fixture(scope="module")
def broker() -> Iterator[OneBroker]:
    with OneBroker(options=TopicOptions(batch_index_acks=True)) as broker:
        yield broker


@pytest.fixture
def dial(broker: OneBroker) -> Iterator[Callable[[], RawClient]]:
    """Return a function that opens a connection without a word said on it."""
    clients: list[RawClient] = []

    def open_one() -> RawClient:
        clients.append(RawClient(broker.service_url))
        return clients[-1]

    yield open_one
    for client in clients:
        client.close()


@pytest.fixture
def client(dial: Callable[[], RawClient]) -> RawClient:
    """Return a connection whose handshake is done."""
    client = dial()
    client.connect()
    return client


@pytest.fixture
def topic() -> str:
    return f"persistent://public/default/{uuid.uuid4().hex[:12]}"
