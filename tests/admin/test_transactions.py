"""What ``/admin/v3/transactions`` says of a transaction, before it ends and afterwards.

What Pulsar prints for each of these is held by the table of ``pulsar-admin``'s commands.
"""

import contextlib
import urllib.request
from collections.abc import Iterator
from itertools import cycle

import pytest
from prometheus_client.parser import text_string_to_metric_families

from counterpoise import Cluster
from counterpoise.broker.transactions.buffer import Marker
from tests.admin.conftest import Api
from tests.broker.connection.raw_client import RawClient
from tests.broker.connection.transactor import ABORT, ASSIGNMENT, COMMIT, Transactor, id_in
from tests.wire import frames
from tests.wire.frames import Type

BASE = "/admin/v3/transactions"
ENABLED = {"transactionCoordinatorEnabled": "true"}
TARGET, SOURCE = "persistent://public/default/target", "persistent://public/default/source"
COMMITTED = ("committed_total", "tb_committed_total", "tp_committed_count_total")
IN_TARGET, ON_SOURCE = "public/default/target", "public/default/source/s"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two brokers; each of what takes part is at another one than the next."""
    with Cluster(brokers=2, config=ENABLED) as running:
        for topic, broker in zip((ASSIGNMENT, TARGET, SOURCE), cycle(running.brokers)):
            running.place(topic, broker)
        yield running


@contextlib.contextmanager
def transactor(cluster: Cluster, topic: str) -> Iterator[Transactor]:
    """A client of a topic's owner."""
    path = f"/lookup/v2/topic/{topic.replace('://', '/')}"
    owner = Api(cluster.admin_url).get(path)["brokerUrl"]
    with RawClient(owner) as client:
        client.connect()
        yield Transactor(client)


@pytest.fixture
def story(cluster: Cluster) -> Iterator[tuple[Transactor, Transactor, Transactor]]:
    """The clients of the coordinator, of `TARGET` and of `SOURCE`."""
    with contextlib.ExitStack() as stack:
        coordinator, publishes, consumes = (
            stack.enter_context(transactor(cluster, topic))
            for topic in (ASSIGNMENT, TARGET, SOURCE)
        )
        publishes.client.produce(TARGET)
        consumes.client.produce(SOURCE)
        consumes.client.subscribe(SOURCE, sub_type=0)
        yield coordinator, publishes, consumes


def sent(transactor: Transactor, number: int) -> tuple[int, int]:
    """A message without a transaction; where it is."""
    transactor.client.send(frames.send(0, number))
    receipt = transactor.client.receive(Type.SEND_RECEIPT).send_receipt.message_id
    return receipt.ledger_id, receipt.entry_id


def in_headers(cluster: Cluster, position: tuple[int, int]) -> dict[str, str]:
    """What the answer with a message of `TARGET` says of its transaction."""
    at = f"{TARGET.replace('://', '/')}/ledger/{position[0]}/entry/{position[1]}"
    with urllib.request.urlopen(f"{cluster.admin_url}/admin/v2/{at}") as response:
        found = {name.removeprefix("X-Pulsar-"): value for name, value in response.headers.items()}
    names = ("txn-uncommitted", "txn-aborted", "marker-type")
    return {name.removeprefix("txn-"): found[name] for name in names if name in found}


def text(position: tuple[int, int]) -> str:
    return ":".join(map(str, position))


def test_a_transaction_is_shown_wherever_it_took_part(
    cluster: Cluster, story: tuple[Transactor, Transactor, Transactor]
) -> None:
    api = Api(cluster.admin_url)
    coordinator, publishes, consumes = story
    before = counted(cluster)
    read = [sent(consumes, number) for number in range(4)]
    opened = coordinator.open(600_000)
    one = id_in(opened)
    path = f"{one.coordinator}/{one.number}"
    coordinator.add(opened, TARGET)
    coordinator.add(opened, SOURCE, "s")
    first, last = (publishes.publish(opened, number) for number in range(2))
    for each in (first, last):
        assert in_headers(cluster, each) == {"uncommitted": "true", "aborted": "false"}
    consumes.acknowledge(opened, read[1], cumulative=True)
    consumes.acknowledge(opened, read[3])

    found = api.get(f"{BASE}/transactionMetadata/{path}")
    assert found == {
        "txnId": str(one),
        "status": "OPEN",
        "openTimestamp": found["openTimestamp"],
        "timeoutAt": 600_000,
        "producedPartitions": {TARGET: {"startPosition": text(first), "aborted": False}},
        "ackedPartitions": {SOURCE: {"s": {"cumulativeAckPosition": text(read[1])}}},
    }
    assert api.get(f"{BASE}/slowTransactions/599999") == {str(one): found}
    assert api.get(f"{BASE}/slowTransactions/600000?coordinatorId=0") == {}
    buffer = api.get(f"{BASE}/transactionBufferStats/{IN_TARGET}?lowWaterMarks=true")
    assert (buffer["state"], buffer["ongoingTxnSize"]) == ("Ready", 1)
    assert buffer["maxReadPosition"] == text((first[0], first[1] - 1))
    states = [
        api.get(f"{BASE}/positionStatsInPendingAck/{ON_SOURCE}/{at[0]}/{at[1]}{query}")["state"]
        for at, query in ((read[3], ""), (read[2], ""), (read[3], "?batchIndex=7"))
    ]
    assert states == ["PendingAck", "NotInPendingAck", "InvalidPosition"]
    assert api.get(f"{BASE}/pendingAckStats/{ON_SOURCE}")["ongoingTxnSize"] == 1
    shown = api.get(f"{BASE}/coordinatorStats")["0"]
    assert (shown["leastSigBits"], shown["ongoingTxnSize"]) == (one.number, 1)

    coordinator.end(opened, COMMIT)
    refused = api("GET", f"{BASE}/transactionMetadata/{path}")
    assert (refused.status, str(one) in refused.reason) == (404, True)
    in_buffer = f"{BASE}/transactionInBufferStats/{IN_TARGET}/{path}"
    assert api.get(in_buffer) == {"aborted": False}
    readable = api.get(f"{BASE}/transactionBufferStats/{IN_TARGET}")["maxReadPosition"]
    marker = (last[0], last[1] + 1)
    assert readable == text(marker)
    assert in_headers(cluster, last) == {"uncommitted": "false", "aborted": "false"}
    assert in_headers(cluster, marker)["marker-type"] == str(int(Marker.COMMIT))
    at = f"{BASE}/positionStatsInPendingAck/{ON_SOURCE}/{read[1][0]}/{read[1][1]}"
    assert api.get(at) == {"state": "MarkDelete"}
    gained = {name: value - before.get(name, 0) for name, value in counted(cluster).items()}
    assert {gained[f"pulsar_txn_{name}"] for name in COMMITTED} == {1}


def test_an_operator_aborts_a_transaction(
    cluster: Cluster, story: tuple[Transactor, Transactor, Transactor]
) -> None:
    api = Api(cluster.admin_url)
    coordinator, publishes, consumes = story
    before = counted(cluster)
    opened = coordinator.open()
    one = id_in(opened)
    coordinator.add(opened, TARGET)
    coordinator.add(opened, "target")  # the same topic: shown as sent, ended once
    coordinator.add(opened, SOURCE, "s")
    publishes.publish(opened, 10)
    consumes.acknowledge(opened, sent(consumes, 10))
    path = f"{one.coordinator}/{one.number}"
    shown = api.get(f"{BASE}/transactionMetadata/{path}")["producedPartitions"]
    assert [*shown] == [TARGET, "target"]
    assert api("POST", f"{BASE}/abortTransaction/{path}").status == 204
    assert api("POST", f"{BASE}/abortTransaction/{path}").status == 404
    assert api.get(f"{BASE}/transactionInBufferStats/{IN_TARGET}/{path}") == {"aborted": True}
    stats = api.get(f"/admin/v2/{TARGET.replace('://', '/')}/stats")
    assert (stats["ongoingTxnCount"], stats["abortedTxnCount"]) == (0, 1)
    coordinator.end(coordinator.open(), ABORT)
    gained = {name: value - before.get(name, 0) for name, value in counted(cluster).items()}
    assert gained == {
        "pulsar_txn_active_count": 0,
        "pulsar_txn_created_total": 2,
        "pulsar_txn_committed_total": 0,
        "pulsar_txn_aborted_total": 2,
        "pulsar_txn_timeout_total": 0,
        "pulsar_txn_append_log_total": 9,
        "pulsar_txn_tb_active_total": 0,
        "pulsar_txn_tb_aborted_total": 1,
        "pulsar_txn_tb_committed_total": 0,
        "pulsar_txn_tp_committed_count_total": 0,
        "pulsar_txn_tp_aborted_count_total": 1,
    }


def counted(cluster: Cluster) -> dict[str, float]:
    """What all brokers count of transactions, but for how long they took."""
    found: dict[str, float] = {}
    for broker in cluster.brokers:
        for family in text_string_to_metric_families(Api(broker.admin_url).get("/metrics")):
            for each in family.samples:
                if each.name.startswith("pulsar_txn_") and "latency" not in each.name:
                    found[each.name] = found.get(each.name, 0) + each.value
    return found


def test_there_are_never_fewer_coordinators_than_before(cluster: Cluster) -> None:
    api = Api(cluster.admin_url)
    replicas = f"{BASE}/transactionCoordinator/replicas"
    now = len(api.get(f"{BASE}/coordinators"))
    assert api("POST", replicas, now).status == 406
    assert api("POST", replicas, now + 1).status == 204
    assert len(api.get(f"{BASE}/coordinators")) == now + 1
    for path, reason in (
        (
            "coordinatorStats?coordinatorId={}",
            "Transaction coordinator not found! coordinator id : ",
        ),
        ("coordinatorInternalStats/{}", "Transaction coordinator not found! coordinator id : "),
        (
            "slowTransactions/1?coordinatorId={}",
            "Transaction coordinator not found! coordinator id",
        ),
        ("transactionMetadata/{}/0", "Transaction coordinator with id "),
    ):
        assert api("GET", f"{BASE}/{path.format(now)}").status < 500, "the last that there is"
        missing = api("GET", f"{BASE}/{path.format(now + 1)}")
        assert (missing.status, missing.reason.startswith(reason)) == (404, True), missing
    parts = "public/default/none"
    for path in (
        f"transactionBufferStats/{parts}",
        f"transactionBufferInternalStats/{parts}",
        f"transactionInBufferStats/{parts}/0/0",
        f"pendingAckStats/{parts}/s",
    ):
        missing = api("GET", f"{BASE}/{path}")
        topic = f"persistent://{parts}"
        assert (missing.status, missing.reason) == (404, f"Topic not found {topic}")


def test_any_broker_knows_which_one_has_a_coordinator() -> None:
    with Cluster(brokers=3, config=ENABLED) as cluster:
        leader = Api(cluster.admin_url).get("/admin/v2/brokers/leaderBroker")["brokerId"]
        asked = next(each for each in cluster.brokers if not each.admin_url.endswith(leader))
        api = Api(asked.admin_url)
        for each in api.get(f"{BASE}/coordinators"):
            lookup = f"/lookup/v2/topic/{ASSIGNMENT.replace('://', '/')[:-1]}{each['id']}"
            assert each["brokerServiceUrl"] == api.get(lookup)["brokerUrl"]


def test_a_broker_without_transactions_says_so() -> None:
    with Cluster(brokers=1) as cluster:
        api, parts = Api(cluster.admin_url), "public/default/t"
        for method, path in (
            ("GET", "coordinators"),
            ("GET", "coordinatorStats"),
            ("GET", "slowTransactions/1"),
            ("GET", "coordinatorInternalStats/0"),
            ("GET", "transactionMetadata/0/0"),
            ("POST", "abortTransaction/0/0"),
            ("GET", f"transactionBufferStats/{parts}"),
            ("GET", f"pendingAckStats/{parts}/s"),
            ("GET", f"pendingAckInternalStats/{parts}/s"),
        ):
            refused = api(method, f"{BASE}/{path}")
            assert (refused.status, "transactionCoordinatorEnabled" in refused.reason) == (
                503,
                True,
            )
