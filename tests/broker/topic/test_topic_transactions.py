"""A topic's transactions outlive the broker that serves it: unloaded in order, or killed."""

import asyncio
import sys

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic import topic_transactions
from counterpoise.broker.topic.consumer import Consumer
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.persistent import PersistentTopic
from counterpoise.broker.topic.producer import Producer
from counterpoise.broker.topic.subscription_transactions import SubscriptionTransactions
from counterpoise.broker.topic.topic_compaction import COMPACTION
from counterpoise.broker.topic.transaction_ends import LocalParticipants
from counterpoise.metadata import MemoryTree
from counterpoise.names.position import NO_POSITION
from counterpoise.storage.disk_faults import DiskFaults
from counterpoise.storage.managed.store import ManagedLedgerStore
from counterpoise.storage.managed_options import ManagedLedgerOptions
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import CursorState, StorageError
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import EndOnParticipant, Send
from counterpoise.wire.values import SubscriptionType, TransactionId
from tests.bookkeeper.memory_ledgers import MemoryBookKeeper
from tests.broker.topic.conftest import World, batch, entry, publish
from tests.broker.topic.test_compaction import never_by_size
from tests.quota.jumping import on_jumping_loop, pass_time
from tests.waiting import WITHIN_S

ONE, TWO, THREE = (TransactionId(0, number) for number in range(3))
SHARED = SubscriptionType.Shared


@pytest.fixture(params=["memory", "bookies"])
def store(request: pytest.FixtureRequest) -> MemoryLedgerStore | ManagedLedgerStore:
    if request.param == "memory":
        return MemoryLedgerStore()
    tree = MemoryTree()
    options = ManagedLedgerOptions(ledger_entries=4, min_rollover_min=0, mark_deletes_per_s=0)
    client = MemoryBookKeeper(tree).client()
    return ManagedLedgerStore(tree.open(), client, options=options, cache_bytes=500)


@pytest.mark.parametrize("kind", [SHARED, SubscriptionType.Key_Shared])
async def test_a_batch_acknowledged_in_a_transaction_and_beside_it_is_held_by_none(
    kind: SubscriptionType,
) -> None:
    """Its consumer had it for ever: the key got no other, and what else it held was lost to all."""
    world = World(MemoryLedgerStore(), options=TopicOptions(batch_index_acks=True))
    producer, consumer = await world.producer(), await world.consumer(kind)
    publish(producer, 0, 0, batch(2, partition_key="k"))
    await world.wire.until(lambda: world.wire.receipted)
    await world.publish(producer, "b", partition_key="k")
    (ledger_id, entry_id, _), _ = world.wire.ids(consumer)
    await consumer.ack_in_transaction(ONE, [(ledger_id, entry_id, (2,))], cumulative=False)
    consumer.ack_individual([(ledger_id, entry_id, (1,))])
    await end(world, ONE, commit=True, subscription="s")
    assert (consumer.unacked, consumer.subscription.backlog) == (1, 1)
    consumer.close()
    assert world.wire.payloads(await world.consumer(kind)) == ["b"]


async def topic_of(world: World) -> PersistentTopic:
    return await world.topic()


async def reloaded(world: World, *, killed: bool) -> World:
    """The topic at its next owner."""
    if killed:
        world.registry.abandon()
    else:
        await world.registry.unload_topic(world.name)
    successor = World(world.store)
    successor.cluster.created = world.cluster.created
    return successor


def send(producer: Producer, transaction: TransactionId, message: bytes) -> None:
    sent = Send(producer.producer_id, 0, 0, 1, False, message)
    producer.topic.publish_in_transaction(producer, transaction, sent)


async def publish_in(
    world: World, producer: Producer, transaction: TransactionId, *payloads: str, **more: object
) -> None:
    wanted = len(world.wire.receipted) + len(payloads)
    for body in payloads:
        message = entry(
            body, txnid_most_bits=transaction[0], txnid_least_bits=transaction[1], **more
        )
        send(producer, transaction, message)
    await world.wire.until(lambda: len(world.wire.receipted) == wanted)


async def end(
    world: World,
    transaction: TransactionId,
    *,
    commit: bool,
    subscription: str | None = None,
    mark: int = -1,
) -> None:
    request = EndOnParticipant(0, transaction, commit, mark, str(world.name), subscription)
    async with asyncio.timeout(WITHIN_S):
        await LocalParticipants(world.registry).end(request)


async def received(world: World, consumer: Consumer, payloads: list[str]) -> None:
    """Bookies are read before messages are delivered, so that they come a while later."""
    await world.wire.until(lambda: world.wire.payloads(consumer) == payloads)


def code_of(refusal: pytest.ExceptionInfo[BrokerError]) -> ServerError:
    return refusal.value.code


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("commit", [False, True])
async def test_a_reloaded_topic_delivers_what_was_committed_and_hides_the_rest(
    world: World, killed: bool, commit: bool
) -> None:
    producer = await world.producer()
    await world.publish(producer, "a")
    await publish_in(world, producer, ONE, "c1")
    await publish_in(world, producer, TWO, "x1", "x2")
    await publish_in(world, producer, ONE, "c2")
    await end(world, ONE, commit=True)
    await end(world, TWO, commit=False)
    await world.publish(producer, "b")
    await publish_in(world, producer, THREE, "o1")
    await world.publish(producer, "d")
    await publish_in(world, producer, THREE, "o2")
    world = await reloaded(world, killed=killed)
    consumer = await world.consumer()
    await received(world, consumer, ["a", "c1", "c2", "b"])
    ends = (await world.topic()).log.end
    for _ in range(2):
        await end(world, THREE, commit=commit)
    # One marker: the coordinator may ask again whatever was answered.
    assert (await world.topic()).log.end == ends + 1
    wanted = ["a", "c1", "c2", "b", *(["o1", "d", "o2"] if commit else ["d"])]
    await received(world, consumer, wanted)
    world = await reloaded(world, killed=killed)
    consumer = await world.consumer(subscription="another")
    await received(world, consumer, wanted)
    late = await world.producer()
    send(late, THREE, entry("late", txnid_most_bits=0, txnid_least_bits=2))
    assert world.wire.errors[-1][2].code is ServerError.NotAllowedError


async def test_what_is_open_below_the_low_watermark_ended_elsewhere(world: World) -> None:
    producer, consumer = await world.producer(), await world.consumer(SHARED)
    await world.publish(producer, "m")
    ids = world.wire.ids(consumer)
    await consumer.ack_in_transaction(ONE, ids, cumulative=False)
    await publish_in(world, producer, TWO, "late")
    await world.publish(producer, "after")
    await end(world, THREE, commit=True, mark=1)
    await received(world, consumer, ["m", "after"])
    await end(world, THREE, commit=True, subscription="s", mark=1)
    await received(world, consumer, ["m", "after", "m"])
    # The mark itself has ended as well.
    await consumer.ack_in_transaction(THREE, world.wire.ids(consumer)[-1:], cumulative=False)
    await end(world, TransactionId(0, 3), commit=True, subscription="s", mark=THREE.number)
    await received(world, consumer, ["m", "after", "m", "m"])


async def test_an_abort_overtakes_nothing_that_is_to_be_delivered_again(world: World) -> None:
    producer, consumer = await world.producer(), await world.consumer(permits=3)
    await world.publish(producer, *"abc")
    await received(world, consumer, ["a", "b", "c"])
    await consumer.ack_in_transaction(ONE, world.wire.ids(consumer)[-1:], cumulative=False)
    consumer.redeliver()
    await end(world, ONE, commit=False, subscription="s")
    consumer.flow(9)
    await received(world, consumer, ["a", "b", "c", "a", "b", "c"])


async def test_what_was_acknowledged_up_to_a_message_comes_again_from_the_first_on(
    world: World,
) -> None:
    producer, consumer = await world.producer(), await world.consumer()
    await world.publish(producer, *"abc")
    await received(world, consumer, ["a", "b", "c"])
    await consumer.ack_in_transaction(ONE, world.wire.ids(consumer)[-1:], cumulative=True)
    await end(world, ONE, commit=False, subscription="s")
    await received(world, consumer, ["a", "b", "c", "a", "b", "c"])


@pytest.mark.parametrize(("killed", "kind"), [(False, SHARED), (True, SubscriptionType.Key_Shared)])
async def test_pending_acknowledgements_outlive_their_broker(
    world: World, killed: bool, kind: SubscriptionType
) -> None:
    producer = await world.producer()
    consumer = await world.consumer(kind)
    await world.publish(producer, "m0", "m1", "m2")
    ids = world.wire.ids(consumer)
    await consumer.ack_in_transaction(ONE, ids[:1], cumulative=False)
    await consumer.ack_in_transaction(TWO, ids[1:2], cumulative=False)
    world = await reloaded(world, killed=killed)
    consumer = await world.consumer(kind)
    await received(world, consumer, ["m2"])
    with pytest.raises(BrokerError) as refusal:
        await consumer.ack_in_transaction(THREE, ids[:1], cumulative=False)
    assert code_of(refusal) is ServerError.TransactionConflict
    await end(world, ONE, commit=True, subscription="s")
    await end(world, TWO, commit=False, subscription="s")
    await received(world, consumer, ["m2", "m1"])
    world = await reloaded(world, killed=killed)
    consumer = await world.consumer(kind)
    await received(world, consumer, ["m1", "m2"])


@pytest.mark.parametrize("cumulative", [False, True])
async def test_what_precedes_the_first_message_is_acknowledged_in_no_transaction(
    world: World, cumulative: bool
) -> None:
    producer = await world.producer()
    consumer = await world.consumer()
    await world.publish(producer, "m0")
    [(ledger, _, _)] = world.wire.ids(consumer)
    with pytest.raises(BrokerError) as refusal:
        await consumer.ack_in_transaction(ONE, [(ledger, -1, ())], cumulative=cumulative)
    assert code_of(refusal) is ServerError.TransactionConflict


async def test_an_entry_that_its_ledger_never_had_acknowledges_no_other(world: World) -> None:
    """In memory it is behind the last one; on bookies another ledger follows."""
    producer, consumer = await world.producer(), await world.consumer(SHARED)
    for number in range(6):
        await world.publish(producer, f"m{number}")
    await world.wire.until(lambda: len(world.wire.ids(consumer)) == 6)
    (ledger, _, _) = world.wire.ids(consumer)[0]
    with pytest.raises(BrokerError, match=f"{ledger}:99 ") as refusal:
        await consumer.ack_in_transaction(ONE, [(ledger, 99, ())], cumulative=False)
    assert code_of(refusal) is ServerError.TransactionConflict


async def test_a_part_of_a_batch_that_is_pending_outlives_its_broker(world: World) -> None:
    producer = await world.producer()
    publish(producer, 0, 0, batch(3))
    consumer = await world.consumer()
    await world.wire.until(lambda: bool(world.wire.deliveries))
    (ledger, number, _) = world.wire.ids(consumer)[0]
    await consumer.ack_in_transaction(ONE, [(ledger, number, (0b110,))], cumulative=True)
    # This one acknowledges nothing: all of its messages are left.
    await consumer.ack_in_transaction(TWO, [(ledger, number, (0b111,))], cumulative=False)
    world = await reloaded(world, killed=True)
    acks = (await topic_of(world)).subscriptions["s"].acks
    assert list(acks.ack_set(0)) == [0b110]
    await end(world, TWO, commit=True, subscription="s")
    await end(world, ONE, commit=True, subscription="s")
    world = await reloaded(world, killed=True)
    acks = (await topic_of(world)).subscriptions["s"].acks
    assert (list(acks.ack_set(0)), acks.is_acked(0)) == ([0b110], False)


async def test_of_a_batch_nothing_that_is_pending_is_delivered_again(world: World) -> None:
    producer = await world.producer()
    publish(producer, 0, 0, batch(3))
    consumer = await world.consumer(SHARED)
    await world.wire.until(lambda: bool(world.wire.deliveries))
    (ledger, number, _) = world.wire.ids(consumer)[0]
    await consumer.ack_in_transaction(ONE, [(ledger, number, (0b101,))], cumulative=False)
    consumer.redeliver()
    await world.wire.until(lambda: len(world.wire.deliveries) == 2)
    assert list(world.wire.deliveries[-1][1][4]) == [0b101]
    # All of it is pending by now, or acknowledged: of a batch, too, nothing is delivered then.
    await consumer.ack_in_transaction(TWO, [(ledger, number, (0b110,))], cumulative=False)
    await end(world, ONE, commit=True, subscription="s")
    await consumer.ack_in_transaction(THREE, [(ledger, number, (0b011,))], cumulative=False)
    consumer.redeliver()
    await world.publish(producer, "after")
    await world.wire.until(lambda: len(world.wire.deliveries) == 3)
    assert (consumer.unacked, world.wire.deliveries[-1][1][1] > number) == (1, True)
    await end(world, TWO, commit=False, subscription="s")
    await world.wire.until(lambda: len(world.wire.deliveries) == 4)
    _, (_, again, redeliveries, _, left) = world.wire.deliveries[-1]
    assert (again, redeliveries, list(left)) == (number, 2, [0b001])


async def test_a_shared_subscription_has_no_cumulative_acknowledgement(world: World) -> None:
    producer, consumer = await world.producer(), await world.consumer(SHARED)
    await world.publish(producer, "m0", "m1")
    await received(world, consumer, ["m0", "m1"])
    with pytest.raises(BrokerError, match="Shared subscription has no cumulative") as refusal:
        await consumer.ack_in_transaction(ONE, world.wire.ids(consumer)[1:], cumulative=True)
    assert code_of(refusal) is ServerError.NotAllowedError
    await consumer.ack_in_transaction(ONE, world.wire.ids(consumer), cumulative=False)


async def test_a_seek_brings_back_what_is_pending_and_nothing_that_was_aborted(
    world: World,
) -> None:
    producer, consumer = await world.producer(), await world.consumer()
    await world.publish(producer, "m0")
    await publish_in(world, producer, ONE, "aborted")
    await end(world, ONE, commit=False)
    await world.publish(producer, "m1")
    await received(world, consumer, ["m0", "m1"])
    await consumer.ack_in_transaction(TWO, world.wire.ids(consumer)[:1], cumulative=False)
    await consumer.seek_to(NO_POSITION)
    subscription = (await topic_of(world)).subscriptions["s"]
    assert subscription.backlog == 2
    for each in ("now", "at the next owner"):
        again = await world.consumer()
        await received(world, again, ["m0", "m1"])
        world = await reloaded(world, killed=False) if each == "now" else world
    # What it was to acknowledge was forgotten with the seek.
    await end(world, TWO, commit=True, subscription="s")
    assert (await topic_of(world)).subscriptions["s"].backlog == 2


async def test_a_topic_with_nothing_but_what_was_aborted_has_no_last_message(world: World) -> None:
    producer, consumer = await world.producer(), await world.consumer()
    await publish_in(world, producer, ONE, "aborted")
    await end(world, ONE, commit=False)
    assert consumer.last_message_id()[0] == NO_POSITION
    assert await consumer.last_batch_index() == -1


async def test_an_abort_that_could_not_be_saved_is_saved_when_it_is_asked_for_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await world.producer()
    consumer = await world.consumer(SHARED)
    await world.publish(producer, "m0")
    await consumer.ack_in_transaction(ONE, world.wire.ids(consumer), cumulative=False)
    log = (await topic_of(world)).log

    async def fail() -> None:
        raise StorageError("no space is left")

    def forget(state: CursorState) -> None:
        del state

    with monkeypatch.context() as broken:
        broken.setattr(log, "cursors_saved", fail)
        broken.setattr(log, "save_cursor", forget)
        with pytest.raises(BrokerError) as refusal:
            await end(world, ONE, commit=False, subscription="s")
        assert code_of(refusal) is ServerError.ServiceNotReady
    await end(world, ONE, commit=False, subscription="s")
    world = await reloaded(world, killed=True)
    await received(world, await world.consumer(SHARED), ["m0"])


async def test_a_marker_that_could_not_be_stored_is_stored_later(world: World) -> None:
    producer = await world.producer()
    await publish_in(world, producer, ONE, "m0")
    log = (await topic_of(world)).log
    log.disk = DiskFaults(is_full=True)  # type: ignore[attr-defined]
    with pytest.raises(BrokerError) as refusal:
        await end(world, ONE, commit=True)
    assert code_of(refusal) is ServerError.ServiceNotReady
    log.disk = None  # type: ignore[attr-defined]
    # Until it is there, the transaction goes on.
    await publish_in(world, await world.producer(), ONE, "m1")
    await end(world, ONE, commit=True)
    await received(world, await world.consumer(), ["m0", "m1"])


@on_jumping_loop
async def test_a_topic_that_another_broker_has_tries_no_longer_to_note_its_transactions() -> None:
    world = World(MemoryLedgerStore())
    producer = await world.producer()
    world.take_over()
    await world.topic()
    message = entry("m0", txnid_most_bits=ONE[0], txnid_least_bits=ONE[1])
    send(producer, ONE, message)
    await pass_time(10)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_topic_is_noted_to_have_transactions_however_often_that_failed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_transactions, "_RETRY_S", 0)
    producer, consumer = await world.producer(), await world.consumer()
    log = (await topic_of(world)).log
    save, failures, noted = log.cursors_saved, iter(range(sys.getrecursionlimit())), asyncio.Event()

    async def fail() -> None:
        if next(failures, None) is not None:
            raise StorageError("no space is left")
        await save()
        noted.set()

    with monkeypatch.context() as broken:
        broken.setattr(log, "cursors_saved", fail)
        send(producer, ONE, entry("refused", txnid_most_bits=0, txnid_least_bits=0))
        await asyncio.wait_for(noted.wait(), WITHIN_S)
    await publish_in(world, await world.producer(), ONE, "m0")
    await end(world, ONE, commit=True)
    await received(world, consumer, ["m0"])


async def test_no_marker_precedes_the_note_that_there_are_transactions(world: World) -> None:
    producer = await world.producer()
    send(producer, ONE, entry("m0", txnid_most_bits=0, txnid_least_bits=0))
    with pytest.raises(BrokerError) as refusal:
        await end(world, ONE, commit=False)
    assert code_of(refusal) is ServerError.ServiceNotReady
    await world.wire.until(lambda: len(world.wire.receipted) == 1)
    await end(world, ONE, commit=False)


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"txnid_most_bits": 0, "txnid_least_bits": 1},
        {"txnid_most_bits": 0, "txnid_least_bits": 0, "marker_type": 21},
    ],
    ids=["none", "another's", "a marker"],
)
async def test_a_message_must_name_its_transaction(
    world: World, metadata: dict[str, object]
) -> None:
    producer = await world.producer()
    send(producer, ONE, entry("m0", **metadata))
    assert world.wire.errors[-1][2].code is ServerError.NotAllowedError


async def test_compaction_takes_only_messages_that_were_committed(store: MemoryLedgerStore) -> None:
    world = World(store, policies=never_by_size)
    producer = await world.producer()
    await world.publish(producer, "a1", partition_key="a")
    await world.publish(producer, "b1", partition_key="b")
    await publish_in(world, producer, ONE, "a2", partition_key="a")
    await end(world, ONE, commit=False)
    await publish_in(world, producer, TWO, "b2", partition_key="b")
    topic = await topic_of(world)
    await topic.compaction.compact()
    consumer = await world.consumer(read_compacted=True)
    await received(world, consumer, ["a1", "b1"])
    await end(world, TWO, commit=True)
    await topic.compaction.compact()
    again = await world.consumer(read_compacted=True, subscription="again")
    await received(world, again, ["a1", "b2"])
    assert COMPACTION in topic.subscriptions


async def test_a_compacted_reader_gets_nothing_that_is_pending(store: MemoryLedgerStore) -> None:
    world = World(store, policies=never_by_size)
    producer = await world.producer()
    await world.publish(producer, "a1", partition_key="a")
    await world.publish(producer, "b1", partition_key="b")
    await (await topic_of(world)).compaction.compact()
    consumer = await world.consumer(read_compacted=True)
    await consumer.ack_in_transaction(ONE, world.wire.ids(consumer)[:1], cumulative=False)
    consumer.close()
    consumer = await world.consumer(read_compacted=True)
    await received(world, consumer, ["b1"])


async def test_a_deleted_subscription_leaves_nothing_pending(world: World) -> None:
    producer = await world.producer()
    consumer = await world.consumer(SHARED)
    await world.publish(producer, "m0")
    await consumer.ack_in_transaction(ONE, world.wire.ids(consumer), cumulative=False)
    topic = await topic_of(world)
    transactions = topic.subscriptions["s"].transactions
    assert isinstance(transactions, SubscriptionTransactions)
    assert topic.log.cursors
    await consumer.unsubscribe()
    assert topic.log.cursors == {}
    with pytest.raises(BrokerError):
        await transactions.end(ONE, commit=True, low_watermark=-1)
    world = await reloaded(world, killed=True)
    await received(world, await world.consumer(SHARED), ["m0"])
