"""Stored messages by the admin API, and what whole namespaces are asked to forget."""

import json
import time
import urllib.request
import zlib
from base64 import b64decode
from collections.abc import Callable
from types import SimpleNamespace

import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.admin.rest import messages
from counterpoise.admin.rest.messages import UNPACKED_MAX
from counterpoise.wire.proto.metadata_pb2 import CompressionType, EncryptionKeys
from tests.admin.conftest import Api
from tests.broker.connection.raw_client import RawClient
from tests.wire import frames
from tests.wire.frames import Type

Connect = Callable[[], pulsar.Client]
NAMESPACES = "/admin/v2/namespaces"

pytestmark = pytest.mark.client


@pytest.fixture
def topic(namespace: str, connect: Connect) -> str:
    """Five messages, a backlog of four, and a subscription that has read nothing."""
    name = f"persistent://{namespace}/kept"
    client = connect()
    consumer, other = client.subscribe(name, "reads"), client.subscribe(name, "idle")
    producer = client.create_producer(name, "says", batching_enabled=False)
    for number in range(5):
        producer.send(b"message %d" % number, properties={"number": str(number), "ü": "\n"})
    consumer.acknowledge(consumer.receive(60_000))
    consumer.close()
    other.close()
    producer.close()
    return "/admin/v2/" + name.replace("://", "/")


def backlogs(api: Api, topic: str) -> dict[str, int]:
    found = api.get(f"{topic}/stats")["subscriptions"]
    return {name: each["msgBacklog"] for name, each in found.items()}


def raw(cluster: Cluster, path: str) -> tuple[bytes, dict[str, str]]:
    with urllib.request.urlopen(cluster.admin_url + path) as response:
        return response.read(), dict(response.headers)


def test_peeking_shows_the_backlog_and_acknowledges_nothing(
    cluster: Cluster, api: Api, topic: str
) -> None:
    for name, first in (("reads", 1), ("idle", 0)):
        body, headers = raw(cluster, f"{topic}/subscription/{name}/position/1")
        assert body == b"message %d" % first
        assert json.loads(headers["X-Pulsar-PROPERTY"]) == {"number": str(first), "ü": "\n"}
        assert headers["X-Pulsar-producer-name"] == "says"
    assert api("GET", f"{topic}/subscription/reads/position/5").status == 404
    assert api("GET", f"{topic}/subscription/reads/position/0").status == 412
    assert raw(cluster, f"{topic}/subscription/absent/position/2")[0] == b"message 1"
    assert backlogs(api, topic) == {"reads": 4, "idle": 5, "absent": 5}, "as in Pulsar, created"


def test_a_message_is_found_by_place_and_by_id(cluster: Cluster, api: Api, topic: str) -> None:
    assert raw(cluster, f"{topic}/examinemessage?initialPosition=earliest")[0] == b"message 0"
    newest = f"{topic}/examinemessage?initialPosition=latest&messagePosition=2"
    body, headers = raw(cluster, newest)
    assert body == b"message 3"
    ledger, entry = headers["X-Pulsar-Message-ID"].split(":")
    assert raw(cluster, f"{topic}/ledger/{ledger}/entry/{entry}")[0] == b"message 3"
    assert api("GET", f"{topic}/ledger/{ledger}/entry/99").status == 404
    assert api("GET", f"{topic}/ledger/{int(ledger) - 1}/entry/0").status == 404
    assert api("GET", f"{topic}/examinemessage?messagePosition=9").status == 404
    oldest = api.get(f"{topic}/messageid/0")
    assert (oldest["entryId"], oldest["partitionIndex"]) == (0, -1)


def test_what_is_older_than_so_many_seconds_expires(
    api: Api, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = SimpleNamespace(time=lambda: time.time() + 1800)
    monkeypatch.setattr(messages, "time", later)
    one = f"{topic}/subscription/reads/expireMessages"
    assert api("POST", f"{one}/3600").status == 204
    assert backlogs(api, topic) == {"reads": 4, "idle": 5}
    assert api("POST", f"{topic}/all_subscription/expireMessages/3600").status == 204
    assert backlogs(api, topic) == {"reads": 4, "idle": 5}
    assert api("POST", f"{one}/1700").status == 204
    assert backlogs(api, topic) == {"reads": 0, "idle": 5}
    refused = api("POST", f"{topic}/all_subscription/expireMessages/1700")
    assert (refused.status, backlogs(api, topic)) == (409, {"reads": 0, "idle": 0})
    assert "for subscription reads due to ongoing message expiration not" in refused.reason


def test_what_compaction_has_to_read_does_not_expire(api: Api, topic: str) -> None:
    assert api("PUT", f"{topic}/subscription/__compaction", "earliest").status == 204
    assert api("POST", f"{topic}/all_subscription/expireMessages/-3600").status == 204
    assert backlogs(api, topic) == {"reads": 0, "idle": 0, "__compaction": 5}


def test_a_small_backlog_that_is_not_as_old_is_left_to_consumers(
    api: Api, topic: str, connect: Connect
) -> None:
    """As in Pulsar, whose limit is a thousand entries."""
    connect().subscribe(topic.removeprefix("/admin/v2/").replace("/", "://", 1), "idle")
    one = f"{topic}/subscription/idle/expireMessages"
    assert api("POST", f"{one}/3600").status == 409
    assert api("POST", f"{one}/-3600").status == 204
    assert backlogs(api, topic)["idle"] == 0


def test_messages_up_to_an_id_expire(api: Api, topic: str) -> None:
    one = f"{topic}/subscription/idle/expireMessages"
    first = {**api.get(f"{topic}/messageid/0"), "entryId": -1}
    ledger = first["ledgerId"]
    for entry, more, left in ((-1, {}, 5), (1, {}, 3), (1, {"isExcluded": True}, 2), (0, {}, 2)):
        assert api("POST", one, {**first, "entryId": entry, **more}).status == 204
        assert backlogs(api, topic) == {"reads": 4, "idle": left}
    assert api("POST", one, {"ledgerId": ledger - 1, "entryId": 9}).status == 204
    assert api("POST", one, {"ledgerId": ledger, "entryId": 5}).status == 409
    refused = api("POST", one, {"ledgerId": ledger, "entryId": 4, "partitionIndex": 1})
    assert (refused.status, "partition index" in refused.reason) == (412, True)
    assert backlogs(api, topic) == {"reads": 4, "idle": 2}
    assert api("POST", one, {"ledgerId": ledger, "entryId": 4}).status == 204
    assert backlogs(api, topic) == {"reads": 4, "idle": 0}
    found = api.get(f"{topic}/stats")["subscriptions"]
    for figure in ("lastExpireTimestamp", "lastMarkDeleteAdvancedTimestamp"):
        assert found["idle"][figure] >= found["reads"]["lastMarkDeleteAdvancedTimestamp"] > 0
    assert found["reads"]["lastExpireTimestamp"] == 0


def test_truncating_leaves_no_backlog_and_one_ledger(api: Api, topic: str, namespace: str) -> None:
    retention = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    assert api("POST", f"/admin/v2/namespaces/{namespace}/retention", retention).status == 204
    assert api("PUT", f"{topic}/unload").status == 204
    assert len(api.get(f"{topic}/internalStats")["ledgers"]) == 2
    assert api("DELETE", f"{topic}/truncate").status == 204
    assert backlogs(api, topic) == {"reads": 0, "idle": 0}
    assert len(api.get(f"{topic}/internalStats")["ledgers"]) == 1


def test_truncating_a_partitioned_topic_truncates_each_partition(
    api: Api, namespace: str, connect: Connect
) -> None:
    name = f"persistent://{namespace}/cut"
    path = "/admin/v2/" + name.replace("://", "/")
    assert api("PUT", f"{path}/partitions", 2).status == 204
    client = connect()
    consumer, producer = client.subscribe(name, "idle"), client.create_producer(name)
    for number in range(8):
        producer.send(b"%d" % number)
    producer.close()
    consumer.close()
    parts = [f"{path}-partition-{number}" for number in range(2)]
    assert sum(backlogs(api, part)["idle"] for part in parts) == 8
    assert api("DELETE", f"{path}/truncate").status == 204
    assert [backlogs(api, part) for part in parts] == [{"idle": 0}] * 2


def test_a_compressed_batch_is_shown_with_the_size_of_what_it_holds(
    cluster: Cluster, namespace: str, connect: Connect
) -> None:
    name = f"persistent://{namespace}/packed"
    producer = connect().create_producer(
        name, compression_type=pulsar.CompressionType.ZLib, batching_enabled=True
    )
    for _ in range(3):
        producer.send_async(b"z" * 1000, None)
    producer.flush()
    body, headers = raw(cluster, "/admin/v2/" + name.replace("://", "/") + "/examinemessage")
    assert len(body) > 3000
    assert (headers["X-Pulsar-num-batch-message"], headers["X-Pulsar-batch-size"]) == (
        "3",
        str(len(body)),
    )


def test_what_claims_to_be_compressed_is_refused_or_cut(
    cluster: Cluster, api: Api, namespace: str
) -> None:
    name = f"persistent://{namespace}/hostile"
    path = "/admin/v2/" + name.replace("://", "/") + "/examinemessage"
    bomb = zlib.compress(bytes(UNPACKED_MAX + 1000))
    packed = {"compression": CompressionType.ZLIB, "uncompressed_size": UNPACKED_MAX + 1000}
    keys = [EncryptionKeys(key="mine", value=b"k"), EncryptionKeys(key="yours", value=b"l")]
    secret = {
        **packed,
        "encryption_keys": keys,
        "encryption_param": b"p",
        "partition_key": "\u00fc",
    }
    owner = api.get("/lookup/v2/topic/" + name.replace("://", "/"))["brokerUrl"]
    with RawClient(owner) as client:
        client.connect()
        client.produce(name)
        sent = ((b"no zlib at all", packed), (bomb, packed), (b"secret", secret))
        for number, (payload, metadata) in enumerate(sent):
            client.send(frames.send(0, number, frames.entry(payload, **metadata)))
            client.receive(Type.SEND_RECEIPT)
    refused = api("GET", f"{path}?initialPosition=earliest")
    assert (refused.status, refused.reason) == (409, "the message cannot be decompressed")
    assert len(raw(cluster, f"{path}?messagePosition=2")[0]) == UNPACKED_MAX
    body, headers = raw(cluster, path)
    assert (body, headers["X-Pulsar-partition-key"]) == (b"secret", "\\u00fc")
    assert (headers["X-Pulsar-Is-Encrypted"], headers["X-Pulsar-compression"]) == ("true", "ZLIB")
    assert headers["X-Pulsar-Base64-encryption-param"] == "cA=="
    shown = headers["X-Pulsar-Base64-encryption-keys"]
    assert EncryptionKeys.FromString(b64decode(shown)) in keys


def test_a_message_is_shown_with_the_time_of_its_event(
    cluster: Cluster, namespace: str, connect: Connect
) -> None:
    name = f"persistent://{namespace}/dated"
    producer = connect().create_producer(name, batching_enabled=False)
    producer.send(b"x", event_timestamp=1_700_000_000_000)
    _, headers = raw(cluster, "/admin/v2/" + name.replace("://", "/") + "/examinemessage")
    assert headers["X-Pulsar-event-time"].startswith("2023-11-14T")


def test_when_the_oldest_message_of_each_backlog_was_published(
    api: Api, namespace: str, connect: Connect
) -> None:
    topic = f"/admin/v2/persistent/{namespace}/aged"
    producer = connect().create_producer(f"persistent://{namespace}/aged", batching_enabled=False)
    began = time.time_ns() // 1_000_000
    producer.send(b"old")
    stored = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 == stored:
        producer.send(b"between")
    newest = producer.send(b"new")
    last = {"ledgerId": newest.ledger_id(), "entryId": newest.entry_id()}
    for name, start in (("all", "earliest"), ("last", last), ("none", "latest")):
        assert api("PUT", f"{topic}/subscription/{name}", start).status == 204
    found = api.get(f"{topic}/stats?getEarliestTimeInBacklog=true&subscriptionBacklogSize=false")
    assert {each["backlogSize"] for each in found["subscriptions"].values()} == {-1}
    times = {
        name: each["earliestMsgPublishTimeInBacklog"]
        for name, each in found["subscriptions"].items()
    }
    assert times["none"] == -1
    assert began <= times["all"] <= stored < times["last"] <= time.time_ns() // 1_000_000
    assert found["earliestMsgPublishTimeInBacklogs"] == times["all"]
    assert api.get(f"{topic}/stats")["earliestMsgPublishTimeInBacklogs"] == 0, "where not asked for"


def test_a_namespace_forgets_as_a_whole(api: Api, topic: str, namespace: str) -> None:
    base = f"{NAMESPACES}/{namespace}"
    bundle = "0x00000000_0xffffffff"
    assert api("POST", f"{base}/{bundle}/clearBacklog/idle").status == 204
    earliest = {"ledgerId": -1, "entryId": -1}
    # Java's client encodes it twice.
    assert api("PUT", f"{topic}/subscription/odd%252Fna%252B%2525me", earliest).status == 204
    before = backlogs(api, topic)
    assert before == {"reads": 4, "idle": 0, "odd/na+%me": 5}
    assert api("POST", f"{base}/clearBacklog").status == 204
    assert backlogs(api, topic) == {"reads": 0, "idle": 0, "odd/na+%me": 0}
    assert api("POST", f"{base}/unsubscribe/odd%252Fna%252B%2525me").status == 204
    assert api("POST", f"{base}/unsubscribe/idle").status == 204
    assert backlogs(api, topic) == {"reads": 0}
    assert api("POST", f"{NAMESPACES}/t/none/clearBacklog").status == 204, "as in Pulsar"


def test_a_subscription_that_no_role_may_use_any_more_has_no_entry(
    api: Api, namespace: str
) -> None:
    base = f"{NAMESPACES}/{namespace}"
    assert api("POST", f"{base}/permissions/subscription/s", ["reader", "other"]).status == 204
    for role, left in (("reader", {"s": ["other"]}), ("other", {})):
        assert api("DELETE", f"{base}/permissions/s/{role}").status == 204
        assert api.get(f"{base}/permissions/subscription") == left


def test_the_subscriptions_of_readers_are_listed(
    api: Api, namespace: str, connect: Connect
) -> None:
    name = f"persistent://{namespace}/read"
    reader = connect().create_reader(
        name, pulsar.MessageId.earliest, subscription_role_prefix="reader"
    )
    (subscription,) = api.get("/admin/v2/" + name.replace("://", "/") + "/subscriptions")
    assert subscription.startswith("reader")
    reader.close()


def test_a_subscription_starts_at_the_ends_by_name_or_by_id(
    api: Api, topic: str, namespace: str
) -> None:
    last, first = {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}, {"ledgerId": -1, "entryId": -1}
    for name, start, due in (("last", last, 0), ("first", first, 5)):
        assert api("PUT", f"{topic}/subscription/{name}", start).status == 204
        assert backlogs(api, topic)[name] == due, name


def test_permissions_are_kept(api: Api, namespace: str) -> None:
    base, topic = f"{NAMESPACES}/{namespace}", f"/admin/v2/persistent/{namespace}/t"
    assert api("POST", f"{base}/permissions/reader", ["consume"]).status == 204
    for each in (topic, f"{topic}2"):
        assert api("POST", f"{each}/permissions/reader", ["produce"]).status == 404
        assert api("PUT", each).status == 204
    assert api("POST", f"{topic}/permissions/reader", ["produce"]).status == 204
    assert api.get(f"{base}/permissions") == {"reader": ["consume"]}
    assert api("POST", f"{topic}2/permissions/reader", ["consume"]).status == 204
    assert api.get(f"{topic}/permissions") == {"reader": ["produce", "consume"]}
    assert api("DELETE", f"{topic}2/permissions/reader").status == 204
    assert api.get(f"{topic}/permissions") == {"reader": ["produce", "consume"]}
    assert api("DELETE", f"{topic}/permissions/reader").status == 204
    assert api("DELETE", f"{topic}/permissions/reader").status == 204
    assert api("DELETE", f"{topic}-other/permissions/reader").status == 404
    assert api("POST", f"{topic}/permissions/reader", ["produce"]).status == 204
    assert api("POST", f"{base}/permissions/subscription/s", ["reader"]).status == 204
    assert api("POST", f"{base}/permissions/writer", ["sinks", "consume", "produce"]).status == 204
    both = {"reader": ["consume"], "writer": ["produce", "consume", "sinks"]}
    assert api.get(f"{base}/permissions") == both, "in Pulsar's order"
    assert api("POST", f"{base}/permissions/writer", ["produce"]).status == 204
    assert api("DELETE", f"{base}/permissions/reader").status == 204
    assert api.get(f"{base}/permissions") == {"writer": ["produce"]}, "and no others than those"
    assert api.get(f"{topic}/permissions") == {"reader": ["produce"], "writer": ["produce"]}
    assert api.get(f"{base}/permissions/subscription") == {"s": ["reader"]}
    assert api("POST", f"{base}/permissions/reader", ["everything"]).status == 400


def test_one_property_of_a_namespace(api: Api, namespace: str) -> None:
    base = f"{NAMESPACES}/{namespace}"
    assert api("PUT", f"{base}/property/colour/blue").status == 204
    assert api("PUT", f"{base}/property/size/2").status == 204
    assert api("PUT", f"{base}/property/age/1").status == 204
    assert api.get(f"{base}/property/colour") == "blue"
    assert api("DELETE", f"{base}/property/colour").value == "blue"
    unset = api("GET", f"{base}/property/colour")
    assert (unset.status, unset.value) == (200, "")
    assert api.get(f"{base}/properties") == {"age": "1", "size": "2"}


def test_a_schemas_life(api: Api, namespace: str) -> None:
    path = f"/admin/v2/schemas/{namespace}/typed"
    fields = [{"name": "a", "type": "int"}]
    text = json.dumps({"type": "record", "name": "r", "fields": fields})
    other = json.dumps({"type": "record", "name": "r", "fields": [{"name": "b", "type": "int"}]})
    body = {"type": "AVRO", "schema": text, "properties": {}}
    assert api("GET", f"{path}/schema").status == 404
    assert api("POST", f"{path}/schema", body).value == {"version": {"version": 0}}
    answer = api.get(f"{path}/schema/0")
    assert (answer["version"], answer["type"], answer["data"]) == (0, "AVRO", text)
    assert api.get(f"{path}/schemas")["getSchemaResponses"] == [answer]
    assert api("POST", f"{path}/version", body).value == {"version": 0}
    answer = api("POST", f"{path}/compatibility", {**body, "schema": other}).value
    assert answer == {"compatibility": False, "schemaCompatibilityStrategy": "FULL"}
    refused = api("POST", f"{path}/compatibility", {"type": "INT8", "schema": ""})
    assert (refused.status, refused.reason) == (
        500,
        "Incompatible schema: exists schema type AVRO, new schema type INT8",
    )
    assert api("POST", f"{path}/schema", {**body, "schema": other}).status == 409
    assert api("POST", f"{path}/schema", {**body, "type": "NOVEL"}).status == 422
    assert api("POST", f"{path}/schema", {**body, "schema": f"[{text}]"}).status == 422
    same = {**body, "schema": json.dumps(json.loads(text), indent=2)}
    assert api("POST", f"{path}/version", same).value == {"version": 0}
    assert api("GET", f"{path}/schema/1").status == 404
    assert api("DELETE", f"{path}/schema").value == {"version": 1}
    assert api("GET", f"{path}/schema").status == 404
    assert api.get(f"{path}/schemas") == {"getSchemaResponses": []}


def test_a_schema_of_keys_and_values_is_stored_as_clients_have_it(
    api: Api, cluster: Cluster, namespace: str
) -> None:
    """Recorded of Pulsar 4.0.7: Java's client took the text for a length of a gigabyte."""
    record = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}], "doc": "ü"}
    compact = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
    given = json.dumps({"value": "", "key": record}, indent=1)
    path = f"/admin/v2/schemas/{namespace}/pairs/schema"
    assert api("POST", path, {"type": "KEY_VALUE", "schema": given}).status == 200
    assert api.get(path)["data"] == f'{{"key":{compact},"value":""}}'
    with RawClient(cluster.service_url.partition(",")[0]) as client:
        client.connect()
        client.command("get_schema", request_id=1, topic=f"persistent://{namespace}/pairs")
        found = client.receive(Type.GET_SCHEMA_RESPONSE).get_schema_response.schema
    key = compact.encode()
    assert found.schema_data == len(key).to_bytes(4) + key + bytes(4)
    for wrong in ("junk", '{"key":""}', "[1]", ""):
        assert api("POST", path, {"type": "KEY_VALUE", "schema": wrong}).status == 422


@pytest.mark.parametrize("tail", ["", "/partitions"])
def test_the_schema_of_a_deleted_topic_is_not_the_next_ones(
    api: Api, namespace: str, tail: str
) -> None:
    topic, path = f"/admin/v2/persistent/{namespace}/typed", f"/admin/v2/schemas/{namespace}/typed"
    assert api("PUT", f"{topic}{tail}", 2 if tail else None).status == 204
    assert api("POST", f"{path}/schema", {"type": "STRING", "schema": ""}).status == 200
    if tail:
        assert api("DELETE", f"{topic}-partition-0").status == 204
    assert api("GET", f"{path}/schema").status == 200
    assert api("DELETE", f"{topic}{tail}").status == 204
    assert api("GET", f"{path}/schema").status == 404
