"""A topic's metadata comes back as it was written, in each layout."""

import pytest

from counterpoise.names.position import Position
from counterpoise.storage.managed.topic_node import ManagedLedgerTopics
from counterpoise.storage.topic_record import JsonTopics, TopicCodec, TopicRecord

RECORDS = [
    TopicRecord(),
    TopicRecord({"team": "a"}),
    TopicRecord({}, Position(3, 7)),
    TopicRecord({"team": "a", "": "b"}, Position(-1, -1)),
]


@pytest.mark.parametrize("codec", [JsonTopics(), ManagedLedgerTopics()], ids=["JSON", "Pulsar's"])
@pytest.mark.parametrize("record", RECORDS)
def test_a_record_is_read_as_it_was_written(codec: TopicCodec, record: TopicRecord) -> None:
    for former in RECORDS:
        assert codec.read(codec.write(record, codec.write(former))) == record


def test_a_topic_without_any_has_an_empty_node() -> None:
    assert JsonTopics().write(TopicRecord()) == b""
