"""Faults that tests in Python, Go and Java set over HTTP, and what each official client does then.

Each is set by the language's own HTTP client; a row is one fault, a story by all three.
"""

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from counterpoise import Cluster
from tests.client.official.driver import CLIENTS, Driver, Refused, started

pytestmark = pytest.mark.client

ONCE = {"times": 1}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, faults_over_http=True) as started:
        yield started


@pytest.fixture(scope="module", params=CLIENTS)
def process(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """One process for the module: a JVM takes its time."""
    with started(request.param) as driver:
        yield driver


@pytest.fixture
def client(process: Driver, cluster: Cluster) -> Iterator[Driver]:
    """Connected anew for each test."""
    process("connect", url=cluster.service_url, within_s=60)
    yield process
    process("close")


class Faults:
    """The faults of a cluster, as a client's language asks for them."""

    def __init__(self, client: Driver, url: str) -> None:
        self._client, self._url = client, f"{url}/admin/v2/faults"

    def ask(self, method: str, path: str = "", **body: Any) -> tuple[int, Any]:
        """The status of an answer, and what it says."""
        text = json.dumps(body) if body else ""
        answer = self._client("http", method=method, url=self._url + path, body=text)
        return answer["status"], json.loads(answer["text"]) if answer["text"] else None

    def set(self, operation: str, effect: str, **how: Any) -> None:
        """Set a fault."""
        status, said = self.ask("POST", operation=operation, effect=effect, **how)
        assert status == 200, said

    def at(self, broker: str, fault: str, **how: Any) -> None:
        """Have something happen to a broker."""
        status, said = self.ask("POST", "/brokers", broker=broker, fault=fault, **how)
        assert status == 204, said

    def struck(self) -> list[int]:
        """How often each fault struck."""
        _, listed = self.ask("GET")
        return [each["struck"] for each in listed]

    def expect(self, what: str, topic: str, **how: Any) -> tuple[int, Any]:
        """204, or 409 with what happened instead."""
        return self.ask("POST", "/expect", what=what, topic=topic, **how)

    def clear(self) -> None:
        """End all of them."""
        assert self.ask("DELETE")[0] == 204


@pytest.fixture
def faults(client: Driver, cluster: Cluster) -> Iterator[Faults]:
    made = Faults(client, cluster.admin_url)
    made.ask("GET", "/events")  # what is delivered from now on is known when it comes again
    yield made
    made.clear()


def test_a_refused_message_is_sent_again(client: Driver, faults: Faults, topic: str) -> None:
    client("subscribe", topic=topic)
    faults.set("SEND", "error", topic=topic, code="PersistenceError", **ONCE)
    client("produce", topic=topic, payload="m", count=2)
    assert client("consume", topic=topic, count=2) == ["m-0", "m-1"]
    assert faults.struck() == [1]
    assert faults.expect("nothing-lost", topic, subscription="s")[0] == 204


def test_a_message_that_is_stored_later_keeps_its_place(
    client: Driver, faults: Faults, topic: str
) -> None:
    client("subscribe", topic=topic)
    faults.set("SEND", "delay", topic=topic, seconds=0.3, **ONCE)
    began = time.monotonic()
    client("produce", topic=topic, payload="m", count=3)
    assert time.monotonic() - began >= 0.3
    assert client("consume", topic=topic, count=3) == ["m-0", "m-1", "m-2"]


def test_a_lost_message_ends_in_a_time_out(client: Driver, faults: Faults, topic: str) -> None:
    client("subscribe", topic=topic)
    faults.set("SEND", "drop", topic=topic)
    with pytest.raises(Refused, match=r"(?i)time"):
        client("produce", topic=topic, payload="m", count=1, within_s=1)
    with pytest.raises(Refused):
        client("consume", topic=topic, count=1, within_s=0.2)


def test_a_producer_that_is_cut_off_sends_again(client: Driver, faults: Faults, topic: str) -> None:
    client("subscribe", topic=topic)
    faults.set("SEND", "disconnect", topic=topic, **ONCE)
    client("produce", topic=topic, payload="m", count=1)
    assert client("consume", topic=topic, count=1) == ["m-0"]
    assert faults.struck() == [1]


def test_a_lost_receipt_doubles_a_message(client: Driver, faults: Faults, topic: str) -> None:
    client("subscribe", topic=topic)
    faults.set("RECEIPT", "disconnect", topic=topic, **ONCE)
    client("produce", topic=topic, payload="m", count=1)
    assert client("consume", topic=topic, count=2) == ["m-0", "m-0"]


def test_a_message_is_stored_although_its_receipt_never_comes(
    client: Driver, faults: Faults, topic: str
) -> None:
    client("subscribe", topic=topic)
    faults.set("RECEIPT", "drop", topic=topic)
    with pytest.raises(Refused, match=r"(?i)time"):
        client("produce", topic=topic, payload="m", count=1, within_s=1)
    assert client("consume", topic=topic, count=1) == ["m-0"]


def test_a_slow_lookup_delays_a_producer(client: Driver, faults: Faults, topic: str) -> None:
    faults.set("LOOKUP", "delay", topic=topic, seconds=0.3, **ONCE)
    began = time.monotonic()
    client("produce", topic=topic, payload="m", count=1)
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize("operation", ["LOOKUP", "PARTITIONS", "PRODUCER"])
def test_a_producer_may_be_refused_in_three_places(
    client: Driver, faults: Faults, topic: str, operation: str
) -> None:
    faults.set(operation, "error", topic=topic, code="AuthorizationError")
    with pytest.raises(Refused, match=r"(?i)authorization"):
        client("produce", topic=topic, payload="m", count=1)
    faults.clear()
    client("produce", topic=topic, payload="m", count=1)


def test_a_producer_opens_late(client: Driver, faults: Faults, topic: str) -> None:
    faults.set("PRODUCER", "delay", topic=topic, seconds=0.3, **ONCE)
    began = time.monotonic()
    client("produce", topic=topic, payload="m", count=1)
    assert time.monotonic() - began >= 0.3


def test_a_subscription_is_refused(client: Driver, faults: Faults, topic: str) -> None:
    faults.set("SUBSCRIBE", "error", topic=topic, code="ConsumerBusy", **ONCE)
    with pytest.raises(Refused, match=r"(?i)busy"):
        client("subscribe", topic=topic)
    client("subscribe", topic=topic)


def test_a_client_is_not_let_in(
    client: Driver, faults: Faults, cluster: Cluster, topic: str
) -> None:
    client("close")
    client("connect", url=cluster.service_url, within_s=1)  # for so long it tries again
    faults.set("CONNECT", "error", code="AuthenticationError")
    with pytest.raises(Refused):
        client("produce", topic=topic, payload="m", count=1)
    assert sum(faults.struck()) >= 1


def test_a_client_that_is_cut_off_while_it_connects_comes_again(
    client: Driver, faults: Faults, topic: str
) -> None:
    faults.set("CONNECT", "disconnect", **ONCE)
    client("produce", topic=topic, payload="m", count=1)
    assert faults.struck() == [1]


def test_a_lost_delivery_is_named(client: Driver, faults: Faults, topic: str) -> None:
    client("subscribe", topic=topic)
    faults.set("MESSAGE", "drop", topic=topic, every=2, times=1)
    client("produce", topic=topic, payload="m", count=3)
    assert client("consume", topic=topic, count=2) == ["m-0", "m-2"]
    status, said = faults.expect("nothing-lost", topic, subscription="s", within_s=0)
    assert status == 409
    assert "1 of the 3 messages" in said["reason"]
    assert "subscription s: 2" in said["reason"]


def test_late_deliveries_come_in_order(client: Driver, faults: Faults, topic: str) -> None:
    client("subscribe", topic=topic)
    faults.set("MESSAGE", "delay", topic=topic, seconds=0.2, every=2)
    client("produce", topic=topic, payload="m", count=6)
    assert client("consume", topic=topic, count=6) == [f"m-{n}" for n in range(6)]


def test_a_lost_acknowledgement_brings_a_message_again(
    client: Driver, faults: Faults, cluster: Cluster, topic: str
) -> None:
    client("subscribe", topic=topic)
    client("produce", topic=topic, payload="m", count=1)
    faults.set("ACK", "drop", topic=topic, **ONCE)
    assert client("consume", topic=topic, count=1) == ["m-0"]
    while faults.struck() != [1]:
        pass  # clients may gather acknowledgements for a tenth of a second
    owner = cluster.owner(topic)
    assert owner is not None
    faults.at(owner.id, "drop-connections")
    assert client("consume", topic=topic, count=1) == ["m-0"]
    assert faults.expect("redelivered", topic)[0] == 204


@pytest.mark.parametrize(
    ("operation", "verb"), [("SEEK", "rewind"), ("UNSUBSCRIBE", "unsubscribe")]
)
def test_what_a_consumer_asks_for_is_refused(
    client: Driver, faults: Faults, topic: str, operation: str, verb: str
) -> None:
    client("subscribe", topic=topic)
    client("produce", topic=topic, payload="m", count=1)
    faults.set(operation, "error", topic=topic, code="NotAllowedError", **ONCE)
    with pytest.raises(Refused, match=r"(?i)allowed"):
        client(verb, topic=topic)
    client(verb, topic=topic)
    assert faults.struck() == [1]


def test_the_last_message_id_comes_late(client: Driver, faults: Faults, topic: str) -> None:
    client("subscribe", topic=topic)
    faults.set("LAST_MESSAGE_ID", "delay", topic=topic, seconds=0.3, **ONCE)
    began = time.monotonic()
    client("last", topic=topic)
    assert time.monotonic() - began >= 0.3


def owner_of(client: Driver, cluster: Cluster, topic: str) -> str:
    """The broker that serves a topic, once the client has subscribed and published."""
    client("subscribe", topic=topic)
    client("produce", topic=topic, payload="first", count=1, within_s=3)
    assert client("consume", topic=topic, count=1) == ["first-0"]
    owner = cluster.owner(topic)
    assert owner is not None
    return owner.id


def before(client: Driver, topic: str, last: str) -> set[str]:
    """What comes before a message that is sure to come."""
    received: list[str] = []
    while last not in received:
        received += client("consume", topic=topic, count=1)
    return set(received[:-1])


def test_a_frozen_broker_lets_sends_time_out(
    client: Driver, faults: Faults, cluster: Cluster, topic: str
) -> None:
    owner = owner_of(client, cluster, topic)
    faults.at(owner, "freeze")
    with pytest.raises(Refused, match=r"(?i)time"):
        client("produce", topic=topic, payload="m", count=1)
    faults.at(owner, "freeze", end=True)
    # It goes on where it stood still: what timed out is stored, and then what is sent now.
    client("produce", topic=topic, payload="n", count=1)
    assert client("consume", topic=topic, count=2) == ["m-0", "n-0"]


def test_a_broker_cut_off_from_its_clients(
    client: Driver, faults: Faults, cluster: Cluster, topic: str
) -> None:
    owner = owner_of(client, cluster, topic)
    faults.at(owner, "partition-from-clients")
    with pytest.raises(Refused, match=r"(?i)time"):
        client("produce", topic=topic, payload="m", count=1)
    faults.at(owner, "partition-from-clients", end=True)
    # Its time to send may be over once more before the client has connected again.
    for _ in range(20):
        with contextlib.suppress(Refused):
            client("produce", topic=topic, payload="n", count=1)
            break
    # An acknowledgement that was lost with the connection brings the first message again.
    assert before(client, topic, "n-0") <= {"first-0"}


def test_a_full_disk(client: Driver, faults: Faults, cluster: Cluster, topic: str) -> None:
    owner = owner_of(client, cluster, topic)
    faults.at(owner, "disk-full")
    with pytest.raises(Refused):
        client("produce", topic=topic, payload="m", count=1, within_s=1)
    faults.at(owner, "disk-full", end=True)
    client("produce", topic=topic, payload="n", count=1)
    # The Python client goes on repeating what it was given, and it is stored once there is room.
    assert before(client, topic, "n-0") <= {"first-0", "m-0"}


def test_a_slow_disk(client: Driver, faults: Faults, cluster: Cluster, topic: str) -> None:
    owner = owner_of(client, cluster, topic)
    faults.at(owner, "slow-disk", seconds=0.3)
    began = time.monotonic()
    client("produce", topic=topic, payload="m", count=1)
    assert time.monotonic() - began >= 0.3


def test_a_broker_that_loses_its_session_serves_on(
    client: Driver, faults: Faults, cluster: Cluster, topic: str
) -> None:
    faults.at(owner_of(client, cluster, topic), "lose-session")
    client("produce", topic=topic, payload="m", count=1)
    assert client("consume", topic=topic, count=1) == ["m-0"]


def test_a_topic_moves(client: Driver, faults: Faults, cluster: Cluster, topic: str) -> None:
    owner = owner_of(client, cluster, topic)
    [other] = [each.id for each in cluster.brokers if each.id != owner]
    assert faults.ask("POST", "/place", topic=topic, broker=other)[0] == 204
    client("produce", topic=topic, payload="m", count=1)
    assert client("consume", topic=topic, count=1) == ["m-0"]
    assert faults.expect("moved", topic)[0] == 204
