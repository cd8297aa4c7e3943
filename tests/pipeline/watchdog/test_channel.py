"""The state channel as the watchdog reads it: the records that hold, and what ends a read."""

import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.decide.watchdog.observation import ChannelRecord
from counterpoise.pipeline.watchdog.channel import Channel
from tests.pipeline.fake_cluster import bundle_name

A, B = bundle_name(0), bundle_name(1)


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
        ("n/d", '{"state":"Releasing","dstBroker":"b:2","sourceBroker":"b:1","versionId":3}'),
        ("n/d", '{"state":"Free","sourceBroker":"b:1","timestamp":5,"versionId":4,"force":true}'),
        ("n/d", "null"),
        ("n/d", '{"state":"Unheard","dstBroker":"b:1","versionId":5}'),
    ]
    monkeypatch.setattr(pulsar, "Client", lambda *_, **__: client)
    channel = Channel("pulsar://b1:6650", pytest.fail)
    assert channel.read() == {
        "n/a": ChannelRecord("Owned", "b:1", 2),
        "n/b": ChannelRecord("Assigning", "b:2", 4),
        "n/d": ChannelRecord("Free", "b:1", 5),
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
