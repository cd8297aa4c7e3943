"""Fields of commands that hold what they must not: the connection ends, and nothing is served."""

import pytest

from counterpoise.wire.checks import COMMAND_SIZE_MAX, LIMITS, LIST_MAX, TEXT_SIZE_MAX
from counterpoise.wire.constants import FRAME_PADDING
from counterpoise.wire.decode import READERS
from counterpoise.wire.entry import NO_KEY, sticky_key
from counterpoise.wire.events import Violation
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata
from counterpoise.wire.protocol import ServerProtocol
from counterpoise.wire.states import ConnectionState
from tests.wire import frames
from tests.wire.frames import Type


def flow(permits: int) -> bytes:
    command = BaseCommand(type=Type.FLOW, flow={"consumer_id": 0, "message_permits": permits})
    return frames.frame(command)


@pytest.mark.parametrize("permits", [1, 1000, (1 << 31) - 1])
def test_permits_that_java_takes(permits: int) -> None:
    (event,) = frames.opened().receive(flow(permits))
    assert event == (0, permits)


@pytest.mark.parametrize("permits", [0, 1 << 31, (1 << 32) - 1])
def test_permits_that_java_refuses(permits: int) -> None:
    (event,) = frames.opened().receive(flow(permits))
    assert isinstance(event, Violation)
    assert f"its message_permits is {permits}, not 1 to 2147483647" in str(event.error)


def test_every_row_names_a_field() -> None:
    for kind, limits in LIMITS.items():
        field, _ = READERS[kind]
        inner = BaseCommand.DESCRIPTOR.fields_by_name[field].message_type
        for limit in limits:
            assert limit.field in inner.fields_by_name
            assert limit.low <= limit.high


def lookup(topic: bytes) -> bytes:
    """A LOOKUP whose topic is these bytes, whatever they are."""
    size = len(topic)
    length = bytes((size & 127 | 128, size >> 7 & 127 | 128, size >> 14))
    inner = b"\x0a" + length + topic + b"\x10\x01"
    size = len(inner)
    length = bytes((size & 127 | 128, size >> 7 & 127 | 128, size >> 14))
    body = b"\x08\x17\xba\x01" + length + inner
    return (len(body) + 4).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body


def test_text_is_read() -> None:
    (event,) = frames.opened().receive(lookup("t\u00e9".encode()))
    assert event.topic == "t\u00e9"


@pytest.mark.parametrize("topic", [b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"])
def test_text_that_is_no_utf8_ends_the_connection(topic: bytes) -> None:
    (event,) = frames.opened().receive(lookup(topic))
    assert isinstance(event, Violation)
    assert "its topic is not UTF-8 (in a LOOKUP frame" in str(event.error)


def test_text_inside_a_repeated_field_is_looked_at_too() -> None:
    command = BaseCommand(
        type=Type.SUBSCRIBE,
        subscribe={
            "topic": "t",
            "subscription": "s",
            "sub_type": 0,
            "consumer_id": 9,
            "request_id": 1,
            "metadata": [{"key": "a", "value": "b"}, {"key": "long", "value": "x" * 70_000}],
        },
    )
    (event,) = frames.opened().receive(frames.frame(command))
    assert isinstance(event, Violation)
    assert f"its value has 70000 characters, at most {TEXT_SIZE_MAX}" in str(event.error)


def subscribe(**more: object) -> bytes:
    fields = {"topic": "t", "subscription": "s", "sub_type": 0, "consumer_id": 9, "request_id": 1}
    return frames.frame(BaseCommand(type=Type.SUBSCRIBE, subscribe={**fields, **more}))


@pytest.mark.parametrize("where", ["text", "key", "value"])
@pytest.mark.parametrize("more", [0, 1])
def test_the_longest_text(where: str, more: int) -> None:
    text = "x" * (TEXT_SIZE_MAX + more)
    fields = {
        "text": {"consumer_name": text},
        "key": {"metadata": [{"key": text, "value": "v"}]},
        "value": {"metadata": [{"key": "k", "value": text}]},
    }
    (event,) = frames.opened().receive(subscribe(**fields[where]))
    assert isinstance(event, Violation) is bool(more)


@pytest.mark.parametrize("more", [0, 1])
def test_the_longest_list_of_properties(more: int) -> None:
    listed = [{"key": "k", "value": "v"}] * (LIST_MAX + more)
    (event,) = frames.opened().receive(subscribe(metadata=listed))
    assert isinstance(event, Violation) is bool(more)


@pytest.mark.parametrize(
    ("epoch", "is_taken"), [(0, True), ((1 << 63) - 1, True), (1 << 63, False)]
)
def test_a_topic_epoch_is_a_long_of_java(epoch: int, is_taken: bool) -> None:
    fields = {"topic": "t", "producer_id": 9, "request_id": 1, "topic_epoch": epoch}
    (event,) = frames.opened().receive(frames.frame(frames.command("producer", **fields)))
    assert isinstance(event, Violation) is not is_taken


@pytest.mark.parametrize("more", [0, 1])
def test_the_largest_command_and_the_largest_frame(more: int) -> None:
    def schema(size: int) -> bytes:
        data = {"name": "s", "schema_data": b"x" * size, "type": 2}
        fields = {"topic": "t", "request_id": 1, "schema": data}
        return frames.frame(frames.command("get_or_create_schema", **fields))

    # Beside its data this frame has as many bytes, whose sizes are as long.
    beside = len(schema(1 << 19)) - (1 << 19)
    (event,) = frames.opened().receive(schema(COMMAND_SIZE_MAX + 8 - beside + more))
    assert isinstance(event, Violation) is bool(more)
    protocol = ServerProtocol(max_message_size=1 << 19)
    protocol.receive(frames.connect())
    largest = (1 << 19) + FRAME_PADDING + 4 - beside + more
    (event,) = protocol.receive(schema(largest))
    assert isinstance(event, Violation) is bool(more)


def test_a_client_is_admitted_only_while_it_is_being_authenticated() -> None:
    for is_broken in (False, True):
        protocol = ServerProtocol(authenticates=True)
        if is_broken:
            protocol.receive(frames.connect() * 2)
            protocol.admit()
            protocol.receive(b"")
        before = protocol.state
        protocol.admit()
        assert protocol.state is before
        assert before is (ConnectionState.FAILED if is_broken else ConnectionState.AWAITING_CONNECT)


def test_a_command_has_a_size_beside_its_frame() -> None:
    """A frame may be as large as a message; parsing a command as large would make others wait."""
    (event,) = frames.opened().receive(lookup(b"x" * COMMAND_SIZE_MAX))
    assert isinstance(event, Violation)
    assert f"the limit is {COMMAND_SIZE_MAX}" in str(event.error)


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ({"partition_key": "k"}, b"k"),
        ({"partition_key": "aw==", "partition_key_b64_encoded": True}, b"k"),
        ({"partition_key": "a", "partition_key_b64_encoded": True}, b"a"),
        ({"ordering_key": b"\xff", "partition_key": "k"}, b"\xff"),
        ({}, b"p-7"),
    ],
)
def test_keys(raw: dict[str, object], key: bytes) -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=7, publish_time=1, **raw)
    assert sticky_key(metadata) == key


def test_keys_that_are_no_utf8() -> None:
    metadata = MessageMetadata.FromString(b"\x0a\x01\xff\x10\x07\x18\x01")
    assert sticky_key(metadata) == b"\xff-7"
    metadata = MessageMetadata.FromString(b"\x0a\x01p\x10\x07\x18\x01\x32\x01\xff")
    assert sticky_key(metadata) == b"\xff"
    assert sticky_key(MessageMetadata()) == NO_KEY
