"""The state channel as the watchdog reads it: records, which of them hold, and what ends a read."""

import subprocess
import sys
from dataclasses import replace
from functools import partial
from itertools import product
from types import SimpleNamespace

import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.decide.watchdog.observation import ChannelRecord
from counterpoise.pipeline.watchdog.channel import Channel
from counterpoise.pipeline.watchdog.records import Written, holds_after, written
from tests.pipeline.fake_cluster import bundle_name

A, B = bundle_name(0), bundle_name(1)


@pytest.mark.parametrize(
    ("data", "record"),
    [
        (b'{"state":"Owned","dstBroker":"b:1","timestamp":7}', ChannelRecord("Owned", "b:1", 7)),
        (b'{"state":"Free","sourceBroker":"b:1"}', ChannelRecord("Free", "b:1", 0)),
        (b'{"state":"Releasing","dstBroker":"b:2","sourceBroker":"b:1","timestamp":7}',
         ChannelRecord("Releasing", "b:2", 7)),
        (b"", None),
        (b"null", None),
        (b'{"dstBroker":"b:1"}', None),
        (b'{"state":"Owned","timestamp":"x"}', None),
        (b"\xff", None),
    ],
)  # fmt: skip
def test_a_record_of_the_channel_is_read_or_left(data: bytes, record: ChannelRecord | None) -> None:
    read = written(data)
    assert (read.seen if read is not None else None) == record


ASSIGNED = Written("Assigning", "b:1", version=1)
OWNED = Written("Owned", "b:1", version=2)
LEFT = Written("Releasing", "b:2", "b:1", version=3)


@pytest.mark.parametrize(
    ("before", "record", "holds"),
    [
        (None, ASSIGNED, True),
        (ASSIGNED, OWNED, True),
        (OWNED, LEFT, True),
        # Two brokers assigned it at once: as a real Pulsar's channel had them, in this order.
        (OWNED, Written("Assigning", "b:2", version=1), False),
        (OWNED, Written("Assigning", "b:1", version=1), False),
        (OWNED, Written("Owned", "b:2", version=2, force=True), False),
        # What lies between was compacted away.
        (ASSIGNED, Written("Assigning", "b:2", "b:1", version=9), True),
        (Written("Owned", "b:1", version=(1 << 63) - 1), replace(LEFT, version=-(1 << 63)), True),
        (OWNED, Written("Assigning", "b:2", version=3), False),
        (OWNED, Written("Assigning", "b:2", version=3, force=True), True),
        (ASSIGNED, Written("Owned", "b:2", version=2), False),
        (OWNED, Written("Releasing", "b:2", "b:3", version=3), False),
        (OWNED, Written("Releasing", "b:1", "b:1", version=3), False),
        (OWNED, Written("Splitting", "", "b:1", version=3), True),
        (OWNED, Written("Splitting", "b:2", "b:1", version=3), False),
        (LEFT, Written("Assigning", "b:2", "b:1", version=4), True),
        (LEFT, Written("Assigning", "b:3", "b:1", version=4), False),
        (Written("Free", "", "b:1", version=4), Written("Assigning", "b:2", version=5), True),
        (Written("Free", "", "b:1", version=4), Written("Assigning", "", "b:1", 5), False),
        (Written("Free", "", "b:1", 4), Written("Assigning", "b:2", "b:1", 5), False),
        (Written("Releasing", "", "b:1", 3), Written("Assigning", "", "b:1", 4), False),
        (Written("Releasing", "", "b:1", 3), Written("Free", "", "b:1", 4), True),
        (Written("Releasing", "", "b:1", 3), Written("Free", "", "b:2", 4), False),
        (Written("Splitting", "", "b:1", 3), Written("Deleted", "", "b:1", 4), True),
        (Written("Splitting", "", "b:1", 3), Written("Deleted", "", "b:2", 4), False),
        (Written("Deleted", "", "b:1", 4), Written("Init", version=5), True),
        (Written("Unheard", "b:1", version=1), OWNED, False),
    ],
)
def test_a_record_holds_or_was_never_the_bundle_s(
    before: Written | None, record: Written, holds: bool
) -> None:
    assert holds_after(before, record) is holds


FOLLOWS = {
    "Init": "Assigning Deleted Free Owned Releasing Splitting",
    "Free": "Assigning Init",
    "Owned": "Releasing Splitting",
    "Assigning": "Owned",
    "Releasing": "Assigning Free",
    "Splitting": "Deleted",
    "Deleted": "Init",
}
"""`ServiceUnitState.validTransitions` of Pulsar 4.0.7."""


@pytest.mark.parametrize("state", FOLLOWS)
def test_a_state_is_followed_by_those_that_pulsar_lets_follow_and_by_no_other(state: str) -> None:
    """Whichever brokers the two records name."""
    brokers = product(("", "b:1", "b:2"), repeat=4)
    found = {
        after
        for had, left, takes, leaves in brokers
        for after in FOLLOWS
        if holds_after(Written(state, had, left, 1), Written(after, takes, leaves, 2))
    }
    assert sorted(found) == FOLLOWS[state].split()


@pytest.mark.parametrize(("value", "force"), [("true", True), ("false", False), ('"true"', False)])
def test_a_record_is_forced_where_it_says_so(value: str, force: bool) -> None:
    read = written(b'{"state":"Owned","force":%s}' % value.encode())
    assert read is not None
    assert read.force is force


class ScriptedClient:
    """Stands for a cluster: its channel's messages, or why it cannot be read."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str]] = []
        self.trouble: Exception | None = None
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def create_reader(self, *_: object, **__: object) -> SimpleNamespace:
        left = [
            SimpleNamespace(partition_key=partial(str, key), data=text.encode)
            for key, text in self.messages
        ]
        return SimpleNamespace(
            has_message_available=lambda: self.answer(bool(left)), read_next=lambda _: left.pop(0)
        )

    def answer(self, value: bool) -> bool:
        if self.trouble is not None:
            raise self.trouble
        return value


def test_a_channel_that_could_not_be_read_is_read_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And that it cannot is said once each time."""
    client, said = ScriptedClient(), list[str]()
    monkeypatch.setattr(pulsar, "Client", lambda *_, **__: client)
    channel = Channel("pulsar://b:1", said.append)
    owned = '{"state":"Owned","dstBroker":"b:%d","timestamp":2,"versionId":2}'
    client.messages = [(A, owned % 1), (B, owned % 1)]
    assert channel.read() == dict.fromkeys((A, B), ChannelRecord("Owned", "b:1", 2))
    for outage in range(1, 3):
        client.trouble = pulsar.PulsarException("gone")
        assert channel.read() is channel.read() is None
        assert said == ["the bundle state channel cannot be read: gone"] * outage
        client.messages, client.trouble = [(B, owned % 7)], None
        assert channel.read() == {B: ChannelRecord("Owned", "b:7", 2)}, "A was deleted meanwhile"
    channel.close()
    assert client.is_closed


def test_the_channel_shows_the_last_record_that_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """As three bundles of a real Pulsar: `Owned`, and then an `Assigning` that came second."""
    client = ScriptedClient()
    client.messages = [
        ("n/a", '{"state":"Assigning","dstBroker":"b:1","timestamp":1,"versionId":1}'),
        ("n/a", '{"state":"Owned","dstBroker":"b:1","timestamp":2,"versionId":2}'),
        ("n/a", '{"state":"Assigning","dstBroker":"b:2","timestamp":3,"versionId":1}'),
        ("n/b", '{"state":"Assigning","dstBroker":"b:2","timestamp":4,"versionId":1}'),
        ("n/c", '{"state":"Owned","dstBroker":"b:2","timestamp":4,"versionId":7}'),
        ("n/c", ""),
    ]
    monkeypatch.setattr(pulsar, "Client", lambda *_, **__: client)
    channel = Channel("pulsar://b1:6650", pytest.fail)
    assert channel.read() == {
        "n/a": ChannelRecord("Owned", "b:1", 2),
        "n/b": ChannelRecord("Assigning", "b:2", 4),
    }


_READS = """
import sys
from counterpoise.pipeline.watchdog.channel import Channel
said = []
channel = Channel(sys.argv[1], said.append)
missing = Channel("pulsar://127.0.0.1:1", said.append, answers_within_s=1)
try:
    assert channel.read() == {}
    assert missing.read() is None
    assert missing.read() is None
finally:
    channel.close()
    missing.close()
print(*said, sep="\\n")
"""


def test_a_channel_that_cannot_be_read_is_said_once() -> None:
    with Cluster(1) as cluster:
        # A process keeps the logger of its first client: this one's may be of another test.
        words = [sys.executable, "-c", _READS, cluster.service_url]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    [sentence] = (done.stdout + done.stderr).splitlines()
    assert sentence.startswith("the bundle state channel cannot be read: ")
