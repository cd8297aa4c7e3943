"""Every command a client may send, as Hypothesis sees it."""

from hypothesis import strategies as st

from counterpoise.wire.proto.base_pb2 import BaseCommand
from tests.wire.frames import Type, entry, frame

uint64 = st.one_of(st.integers(0, 300), st.integers(0, 1 << 22), st.integers(0, (1 << 64) - 1))
int63 = st.one_of(st.integers(0, 300), st.integers(0, (1 << 63) - 1))
text = st.text(max_size=12)
names = st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1, max_size=12)
pairs = st.lists(st.fixed_dictionaries({"key": text, "value": text}), max_size=3)
#: Most commands are about the producers and consumers that are there; some are not.
peers = st.integers(0, 4)

message_ids = st.fixed_dictionaries(
    {"ledger_id": uint64, "entry_id": uint64},
    optional={
        "partition": st.integers(-1, 100),
        "batch_index": st.integers(-1, 100),
        "ack_set": st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=3),
        "batch_size": st.integers(0, 100),
    },
)
schemas = st.fixed_dictionaries(
    {"name": text, "schema_data": st.binary(max_size=8), "type": st.integers(0, 21)},
    optional={"properties": pairs},
)
entries = st.builds(
    entry,
    st.binary(max_size=200),
    sequence_id=uint64,
    num_messages_in_batch=st.integers(1, 100),
)

FIELDS: dict[int, tuple[str, st.SearchStrategy[dict[str, object]]]] = {
    Type.PING: ("ping", st.just({})),
    Type.PONG: ("pong", st.just({})),
    Type.AUTH_RESPONSE: (
        "auth_response",
        st.fixed_dictionaries(
            {},
            optional={
                "client_version": names,
                "response": st.fixed_dictionaries(
                    {}, optional={"auth_method_name": names, "auth_data": st.binary(max_size=99)}
                ),
            },
        ),
    ),
    Type.PARTITIONED_METADATA: (
        "partition_metadata",
        st.fixed_dictionaries(
            {"topic": names, "request_id": uint64},
            optional={"metadata_auto_creation_enabled": st.booleans()},
        ),
    ),
    Type.LOOKUP: (
        "lookup_topic",
        st.fixed_dictionaries(
            {"topic": names, "request_id": uint64},
            optional={"authoritative": st.booleans(), "advertised_listener_name": names},
        ),
    ),
    Type.GET_TOPICS_OF_NAMESPACE: (
        "get_topics_of_namespace",
        st.fixed_dictionaries(
            {"request_id": uint64, "namespace": names},
            optional={
                "mode": st.integers(0, 2),
                "topics_pattern": text,
                "topics_hash": text,
            },
        ),
    ),
    Type.WATCH_TOPIC_LIST: (
        "watch_topic_list",
        st.fixed_dictionaries(
            {
                "request_id": uint64,
                "watcher_id": uint64,
                "namespace": names,
                "topics_pattern": text,
            },
            optional={"topics_hash": text},
        ),
    ),
    Type.WATCH_TOPIC_LIST_CLOSE: (
        "watch_topic_list_close",
        st.fixed_dictionaries({"request_id": uint64, "watcher_id": uint64}),
    ),
    Type.PRODUCER: (
        "producer",
        st.fixed_dictionaries(
            {"topic": names, "producer_id": peers, "request_id": uint64},
            optional={
                "producer_name": names,
                "encrypted": st.booleans(),
                "metadata": pairs,
                "schema": schemas,
                "epoch": uint64,
                "user_provided_producer_name": st.booleans(),
                "producer_access_mode": st.integers(0, 3),
                "topic_epoch": int63,
                "txn_enabled": st.booleans(),
                "initial_subscription_name": names,
            },
        ),
    ),
    Type.SEND: (
        "send",
        st.fixed_dictionaries(
            {"producer_id": st.integers(0, 2), "sequence_id": uint64},
            optional={
                "num_messages": st.integers(0, 1000),
                "highest_sequence_id": uint64,
                "is_chunk": st.booleans(),
                "txnid_least_bits": uint64,
            },
        ),
    ),
    Type.CLOSE_PRODUCER: (
        "close_producer",
        st.fixed_dictionaries({"producer_id": st.integers(3, 4), "request_id": uint64}),
    ),
    Type.SUBSCRIBE: (
        "subscribe",
        st.fixed_dictionaries(
            {
                "topic": names,
                "subscription": names,
                "sub_type": st.integers(0, 3),
                "consumer_id": peers,
                "request_id": uint64,
            },
            optional={
                "consumer_name": names,
                "priority_level": st.integers(0, 9),
                "durable": st.booleans(),
                "start_message_id": message_ids,
                "metadata": pairs,
                "read_compacted": st.booleans(),
                "schema": schemas,
                "initial_position": st.integers(0, 1),
                "force_topic_creation": st.booleans(),
                "start_message_rollback_duration_sec": uint64,
                "key_shared_meta": st.fixed_dictionaries(
                    {"key_shared_mode": st.integers(0, 1)},
                    optional={
                        "hash_ranges": st.lists(
                            st.fixed_dictionaries(
                                {"start": st.integers(0, 65535), "end": st.integers(0, 65535)}
                            ),
                            max_size=2,
                        ),
                        "allow_out_of_order_delivery": st.booleans(),
                    },
                ),
                "subscription_properties": pairs,
                "consumer_epoch": uint64,
            },
        ),
    ),
    Type.FLOW: (
        "flow",
        st.fixed_dictionaries(
            {"consumer_id": peers, "message_permits": st.integers(1, (1 << 31) - 1)}
        ),
    ),
    Type.ACK: (
        "ack",
        st.fixed_dictionaries(
            {
                "consumer_id": peers,
                "ack_type": st.integers(0, 1),
                "message_id": st.lists(message_ids, max_size=4),
            },
            optional={
                "validation_error": st.integers(0, 4),
                "properties": st.lists(
                    st.fixed_dictionaries({"key": text, "value": uint64}), max_size=2
                ),
                "txnid_most_bits": uint64,
                "request_id": uint64,
            },
        ),
    ),
    Type.REDELIVER_UNACKNOWLEDGED_MESSAGES: (
        "redeliver_unacknowledged_messages",
        st.fixed_dictionaries(
            {"consumer_id": peers, "message_ids": st.lists(message_ids, max_size=3)},
            optional={"consumer_epoch": uint64},
        ),
    ),
    Type.SEEK: (
        "seek",
        st.fixed_dictionaries(
            {"consumer_id": peers, "request_id": uint64},
            optional={"message_id": message_ids, "message_publish_time": uint64},
        ),
    ),
    Type.GET_LAST_MESSAGE_ID: (
        "get_last_message_id",
        st.fixed_dictionaries({"consumer_id": peers, "request_id": uint64}),
    ),
    Type.CONSUMER_STATS: (
        "consumer_stats",
        st.fixed_dictionaries({"consumer_id": peers, "request_id": uint64}),
    ),
    Type.UNSUBSCRIBE: (
        "unsubscribe",
        st.fixed_dictionaries(
            {"consumer_id": peers, "request_id": uint64}, optional={"force": st.booleans()}
        ),
    ),
    Type.CLOSE_CONSUMER: (
        "close_consumer",
        st.fixed_dictionaries({"consumer_id": peers, "request_id": uint64}),
    ),
    Type.GET_SCHEMA: (
        "get_schema",
        st.fixed_dictionaries(
            {"request_id": uint64, "topic": names},
            optional={"schema_version": st.binary(max_size=8)},
        ),
    ),
    Type.GET_OR_CREATE_SCHEMA: (
        "get_or_create_schema",
        st.fixed_dictionaries({"request_id": uint64, "topic": names, "schema": schemas}),
    ),
    Type.NEW_TXN: ("new_txn", st.fixed_dictionaries({"request_id": uint64})),
    Type.ADD_PARTITION_TO_TXN: (
        "add_partition_to_txn",
        st.fixed_dictionaries({"request_id": uint64, "partitions": st.lists(names, max_size=2)}),
    ),
    Type.ADD_SUBSCRIPTION_TO_TXN: (
        "add_subscription_to_txn",
        st.fixed_dictionaries({"request_id": uint64}),
    ),
    Type.END_TXN: ("end_txn", st.fixed_dictionaries({"request_id": uint64})),
    Type.END_TXN_ON_PARTITION: (
        "end_txn_on_partition",
        st.fixed_dictionaries({"request_id": uint64}),
    ),
    Type.END_TXN_ON_SUBSCRIPTION: (
        "end_txn_on_subscription",
        st.fixed_dictionaries({"request_id": uint64}),
    ),
    Type.TC_CLIENT_CONNECT_REQUEST: (
        "tc_client_connect_request",
        st.fixed_dictionaries({"request_id": uint64, "tc_id": uint64}),
    ),
}


@st.composite
def client_frames(draw: st.DrawFn, kind: int | None = None) -> bytes:
    """Draw one frame that a connected client may send."""
    if kind is None:
        kind = draw(st.sampled_from(sorted(FIELDS)))
    field, values = FIELDS[kind]
    command = BaseCommand(type=kind, **{field: draw(values)})
    return frame(command, draw(entries) if kind == Type.SEND else b"")


#: What busy clients send: mostly SEND, FLOW and ACK.
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


@st.composite
def chunkings(draw: st.DrawFn, size: int) -> list[int]:
    """Draw where to cut a stream of so many bytes."""
    cuts = draw(st.lists(st.integers(0, size), max_size=20))
    return [0, *sorted(cuts), size]
