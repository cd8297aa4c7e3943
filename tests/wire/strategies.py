"""Every command a client may send, as Hypothesis sees it: any values of the fields that its
definition names.
"""

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import strategies as st

from counterpoise.wire.proto.base_pb2 import BaseCommand
from tests.wire.frames import Type, entry, frame

uint64 = st.one_of(st.integers(0, 300), st.integers(0, 1 << 22), st.integers(0, (1 << 64) - 1))
entries = st.builds(
    entry, st.binary(max_size=200), sequence_id=uint64, num_messages_in_batch=st.integers(1, 100)
)

COMMANDS = """
    ping pong auth_response partition_metadata lookup_topic get_topics_of_namespace
    watch_topic_list watch_topic_list_close producer send close_producer subscribe flow ack
    redeliver_unacknowledged_messages seek get_last_message_id consumer_stats unsubscribe
    close_consumer get_schema get_or_create_schema new_txn add_partition_to_txn
    add_subscription_to_txn end_txn end_txn_on_partition end_txn_on_subscription
    tc_client_connect_request
"""
"""The fields of `BaseCommand` that clients fill in, but for `connect`."""
BY_TYPE = {
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=8),
    FieldDescriptor.TYPE_INT32: st.one_of(
        st.integers(-1, 100), st.integers(-(1 << 31), (1 << 31) - 1)
    ),
    FieldDescriptor.TYPE_INT64: st.integers(-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_STRING: st.text(max_size=12),
    FieldDescriptor.TYPE_UINT64: uint64,
}
PEERS = st.integers(0, 4)
"""Most commands are about the producers and consumers that are there; some are not."""
BY_NAME = {
    "consumer_id": PEERS,
    "producer_id": PEERS,
    "CommandSend.producer_id": st.integers(0, 2),
    "CommandCloseProducer.producer_id": st.integers(3, 4),
    "topic_epoch": st.one_of(st.integers(0, 300), st.integers(0, (1 << 63) - 1)),
    "message_permits": st.integers(1, (1 << 31) - 1),
}


def _values(field: FieldDescriptor) -> st.SearchStrategy[object]:
    by_name = BY_NAME.get(f"{field.containing_type.name}.{field.name}", BY_NAME.get(field.name))
    if by_name is not None:
        return by_name
    if field.message_type is not None:
        one = _messages(field.message_type)
    elif field.enum_type is not None:
        one = st.sampled_from([each.number for each in field.enum_type.values])
    else:
        one = BY_TYPE[field.type]
    return st.lists(one, max_size=3) if field.is_repeated else one


def _messages(kind: Descriptor) -> st.SearchStrategy[dict[str, object]]:
    """Any values of a message's fields; none of a message within one of its own kind."""
    fields = [each for each in kind.fields if each.message_type is not kind]
    return st.fixed_dictionaries(
        {each.name: _values(each) for each in fields if each.is_required},
        optional={each.name: _values(each) for each in fields if not each.is_required},
    )


FIELDS: dict[int, tuple[str, st.SearchStrategy[dict[str, object]]]] = {
    field.number: (name, _messages(field.message_type))
    for name in COMMANDS.split()
    for field in (BaseCommand.DESCRIPTOR.fields_by_name[name],)
}
"""By the type of a command: its field, and the field's values."""


@st.composite
def client_frames(draw: st.DrawFn, kind: int | None = None) -> bytes:
    """Draw one frame that a connected client may send."""
    if kind is None:
        kind = draw(st.sampled_from(sorted(FIELDS)))
    field, values = FIELDS[kind]
    command = BaseCommand(type=kind, **{field: draw(values)})
    return frame(command, draw(entries) if kind == Type.SEND else b"")


streams = st.lists(
    st.one_of(
        client_frames(Type.SEND),
        client_frames(Type.SEND),
        client_frames(Type.ACK),
        client_frames(Type.FLOW),
        client_frames(),
    ),
    max_size=12,
)
"""What busy clients send: mostly SEND, FLOW and ACK."""


@st.composite
def chunkings(draw: st.DrawFn, size: int) -> list[int]:
    """Draw where to cut a stream of so many bytes."""
    cuts = draw(st.lists(st.integers(0, size), max_size=20))
    return [0, *sorted(cuts), size]
