"""What clients say of transactions that are not there, or over: errors, never tracebacks."""

import logging
from collections.abc import Iterator

import pytest

from counterpoise.broker.transactions.table import PARTICIPANTS_MAX
from counterpoise.wire.entry import metadata_of
from counterpoise.wire.errors import ServerError
from tests.broker.connection.one_broker import OneBroker
from tests.broker.connection.raw_client import RawClient
from tests.broker.connection.test_extremes import extremes, works
from tests.broker.connection.transactor import ABORT, COMMIT, Transactor
from tests.wire import frames
from tests.wire.frames import Type

HUGE = (1 << 64) - 1
TRANSACTION_COMMANDS = (
    Type.NEW_TXN,
    Type.ADD_PARTITION_TO_TXN,
    Type.ADD_SUBSCRIPTION_TO_TXN,
    Type.END_TXN,
    Type.END_TXN_ON_PARTITION,
    Type.END_TXN_ON_SUBSCRIPTION,
    Type.TC_CLIENT_CONNECT_REQUEST,
)


@pytest.fixture(scope="module")
def broker() -> Iterator[OneBroker]:
    with OneBroker(transactions=True) as broker:
        yield broker


@pytest.fixture(autouse=True)
def _serves_on(broker: OneBroker, caplog: pytest.LogCaptureFixture, topic: str) -> Iterator[None]:
    """Whatever a test says, the next client is served, and no log line has a traceback."""
    caplog.set_level(logging.WARNING)
    yield
    assert works(broker.service_url, topic, 0)
    failed = [record.getMessage() for record in caplog.records if record.exc_info]
    assert not failed


@pytest.fixture
def transactor(client: RawClient) -> Transactor:
    return Transactor(client)


def test_unknown_transactions_are_refused(transactor: Transactor) -> None:
    transactor.open()
    for most, code in (
        (0, ServerError.TransactionNotFound),
        (7, ServerError.TransactionCoordinatorNotFound),
        (HUGE, ServerError.TransactionCoordinatorNotFound),
    ):
        unknown = transactor.id_of(most, HUGE)
        add = transactor.ask(Type.ADD_PARTITION_TO_TXN, partitions=["t"], **unknown)
        assert add == code
        subscription = {"topic": "t", "subscription": "s"}
        assert (
            transactor.ask(Type.ADD_SUBSCRIPTION_TO_TXN, subscription=[subscription], **unknown)
            == code
        )
        assert transactor.ask(Type.END_TXN, txn_action=COMMIT, **unknown) == code


def test_an_end_counts_once(transactor: Transactor, topic: str) -> None:
    transaction = transactor.open()
    assert transactor.ask(Type.ADD_PARTITION_TO_TXN, partitions=[topic], **transaction) is None
    assert transactor.ask(Type.END_TXN, txn_action=COMMIT, **transaction) is None
    for action in (COMMIT, ABORT):
        again = transactor.ask(Type.END_TXN, txn_action=action, **transaction)
        assert again == ServerError.TransactionNotFound
    late = transactor.ask(Type.ADD_PARTITION_TO_TXN, partitions=[topic], **transaction)
    assert late == ServerError.TransactionNotFound


def test_a_message_whose_send_alone_names_the_transaction_belongs_to_it(
    transactor: Transactor, topic: str
) -> None:
    """Apache's client for Go does not repeat the transaction in the message's metadata."""
    client, transaction = transactor.client, transactor.open()
    transactor.add(transaction, topic)
    client.produce(topic)
    for number, within in ((1, transaction), (2, {})):
        client.send(frames.send(0, number, frames.entry(sequence_id=number), **within))
        client.receive(Type.SEND_RECEIPT)
    transactor.end(transaction, ABORT)
    client.subscribe(topic, consumer_id=1, initial_position=1)
    client.command("flow", consumer_id=1, message_permits=1)
    _, entry = client.receive_with_entry(Type.MESSAGE)
    assert metadata_of(entry).sequence_id == 2


def test_absurd_counts_and_names_are_refused(transactor: Transactor, topic: str) -> None:
    transaction = transactor.open()
    many = [f"{topic}-{number}" for number in range(PARTICIPANTS_MAX + 1)]
    add = Type.ADD_PARTITION_TO_TXN
    assert transactor.ask(add, partitions=many, **transaction) == ServerError.NotAllowedError
    assert transactor.ask(add, partitions=["a://b"], **transaction) == ServerError.InvalidTopicName
    assert transactor.ask(add, partitions=[], **transaction) is None
    assert transactor.ask(Type.ADD_SUBSCRIPTION_TO_TXN, subscription=[], **transaction) is None
    assert transactor.answer.DESCRIPTOR.name == "CommandAddSubscriptionToTxnResponse"
    assert transactor.ask(Type.NEW_TXN, tc_id=0, txn_ttl_seconds=HUGE) is None
    assert transactor.ask(Type.END_TXN, txn_action=ABORT, **transaction) is None


def test_an_acknowledgement_of_more_words_than_its_batch_has_is_quick(
    transactor: Transactor, topic: str
) -> None:
    transaction, client = transactor.open(), transactor.client
    client.produce(topic)
    client.send(frames.send(0, 0))
    receipt = client.receive(Type.SEND_RECEIPT).send_receipt.message_id
    client.subscribe(topic, consumer_id=1, initial_position=1)
    position = {
        "ledger_id": receipt.ledger_id,
        "entry_id": receipt.entry_id,
        "ack_set": [1] * 400_000,
    }
    ack = {"consumer_id": 1, "ack_type": 0, "message_id": [position], **transaction}
    assert transactor.ask(Type.ACK, **ack) is None
    ended = {"topic": topic, "subscription": "s"}
    for _ in range(2):
        assert (
            transactor.ask(
                Type.END_TXN_ON_SUBSCRIPTION, subscription=ended, txn_action=COMMIT, **transaction
            )
            is None
        )


@pytest.mark.parametrize("kind", TRANSACTION_COMMANDS, ids=Type.Name)
def test_extreme_numbers_are_answered(client: RawClient, topic: str, kind: int) -> None:
    transactor = Transactor(client)
    for what, command in extremes(kind, 0, topic):
        transactor.open()
        client.send(frames.frame(command))
        client.command("ping")
        kinds = {client.receive().type, client.receive().type}
        assert Type.PONG in kinds, what


def test_a_broker_without_transactions_says_so(topic: str) -> None:
    with OneBroker() as without, RawClient(without.service_url) as client:
        client.connect()
        transactor = Transactor(client)
        for kind in TRANSACTION_COMMANDS:
            if kind not in (Type.END_TXN_ON_PARTITION, Type.END_TXN_ON_SUBSCRIPTION):
                named = {"tc_id": 0} if kind == Type.TC_CLIENT_CONNECT_REQUEST else {}
                assert transactor.ask(kind, **named) == ServerError.NotAllowedError
        assert works(without.service_url, topic, 0)
