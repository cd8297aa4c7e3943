"""Who may produce at the same time (PIP-68)."""

import asyncio

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.persistent import PersistentTopic
from counterpoise.broker.topic.ports import ProducerRequest
from counterpoise.names.topic import TopicName
from counterpoise.storage.grouplog import Log
from counterpoise.storage.port import StorageError
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import AccessMode, InitialPosition
from tests.broker.topic.conftest import Wire, World, entry, publish


async def test_an_exclusive_producer_keeps_others_out(world: World) -> None:
    first = await world.producer(access_mode=AccessMode.Exclusive)
    assert first.topic_epoch == 1
    with pytest.raises(BrokerError, match="existing exclusive producer") as busy:
        await world.producer()
    assert busy.value.code is ServerError.ProducerBusy
    with pytest.raises(BrokerError) as fenced:
        await world.producer(access_mode=AccessMode.Exclusive)
    assert fenced.value.code is ServerError.ProducerFenced
    first.close()
    assert (await world.producer(access_mode=AccessMode.Exclusive)).topic_epoch == 2


async def test_exclusive_access_is_refused_to_whom_others_are_before(world: World) -> None:
    await world.producer()
    with pytest.raises(BrokerError, match="existing shared producers") as fenced:
        await world.producer(access_mode=AccessMode.Exclusive)
    assert fenced.value.code is ServerError.ProducerFenced


async def test_a_waiting_producer_is_notified_when_it_is_its_turn(world: World) -> None:
    first = await world.producer(access_mode=AccessMode.WaitForExclusive)
    second = await world.producer(access_mode=AccessMode.WaitForExclusive)
    assert (first.ready, second.ready) == (True, False)
    publish(second, 0, 0, entry("too early"))
    assert world.wire.errors[0][2].code is ServerError.ProducerFenced
    first.close()
    assert world.wire.ready == [(second.producer_id, 2)]
    await world.publish(second, "now")


async def test_who_waits_for_exclusive_access_keeps_shared_producers_out(world: World) -> None:
    shared = await world.producer()
    waiting = await world.producer(access_mode=AccessMode.WaitForExclusive)
    with pytest.raises(BrokerError, match="wait for exclusive access") as busy:
        await world.producer()
    assert busy.value.code is ServerError.ProducerBusy
    shared.close()
    assert world.wire.ready == [(waiting.producer_id, 1)]


async def test_a_producer_that_has_gone_hears_nothing_of_what_could_not_be_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[tuple[object, int]] = []
    monkeypatch.setattr(world.wire, "count_detached", lambda *each: settled.append(each))
    gone, here = await world.producer(), await world.producer()
    topic = await world.topic()
    assert isinstance(topic, PersistentTopic)
    gone.close()
    topic.refused(StorageError("the disk is full"), [(gone, 5, 5), (here, 6, 6), (here, 7, 7)])
    assert [each[:2] for each in world.wire.errors] == [(here.producer_id, n) for n in (6, 7)]
    assert world.wire.closed_producers == [(here.producer_id, None)]
    assert settled == [(gone, 1)]


async def test_what_a_producer_left_pending_is_settled_when_the_log_fails(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection counts that until it is stored or lost."""
    settled: list[tuple[object, int]] = []
    monkeypatch.setattr(world.wire, "count_detached", lambda *each: settled.append(each))
    gone, here = await world.producer(), await world.producer()
    topic = await world.topic()
    assert isinstance(topic, PersistentTopic)
    gone.close()
    for contexts in [(gone, 0, 0), (here, 0, 0)], [(gone, 1, 1)]:
        topic.failed(StorageError("the disk is gone"), contexts)
    assert settled == [(gone, 1), (gone, 1)]
    assert world.wire.closed_producers == [(here.producer_id, None)]


async def test_all_that_a_producer_left_pending_is_settled_once_it_is_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[tuple[object, int]] = []
    monkeypatch.setattr(world.wire, "count_detached", lambda *each: settled.append(each))
    gone = await world.producer()
    for number in range(3):
        publish(gone, number, number, entry(number))
    gone.close()
    await (await world.topic()).log.drain()  # type: ignore[attr-defined]
    assert (settled, world.wire.receipted) == ([(gone, 3)], [])


async def test_who_leaves_while_waiting_is_forgotten(world: World) -> None:
    first = await world.producer(access_mode=AccessMode.Exclusive)
    waiting = await world.producer(access_mode=AccessMode.WaitForExclusive)
    waiting.close()
    first.close()
    assert world.wire.ready == []
    await world.producer()


async def test_fencing_throws_the_others_out(world: World) -> None:
    shared = await world.producer()
    usurper = await world.producer(access_mode=AccessMode.ExclusiveWithFencing)
    assert world.wire.closed_producers == [(shared.producer_id, None)]
    publish(shared, 0, 0, entry("ignored"))
    await world.publish(usurper, "taken")
    assert [r[0] for r in world.wire.receipted] == [usurper.producer_id]
    shared.close()


async def test_fencing_refuses_those_that_wait(world: World) -> None:
    await world.producer(access_mode=AccessMode.Exclusive)
    waiting = await world.producer(access_mode=AccessMode.WaitForExclusive)
    usurper = await world.producer(access_mode=AccessMode.ExclusiveWithFencing)
    [(refused, _, error)] = world.wire.errors
    assert (refused, error.code) == (waiting.producer_id, ServerError.ProducerFenced)
    usurper.close()
    assert world.wire.ready == []


async def test_an_old_epoch_is_refused(world: World) -> None:
    first = await world.producer(access_mode=AccessMode.Exclusive)
    first.close()
    (await world.producer(access_mode=AccessMode.Exclusive)).close()
    with pytest.raises(BrokerError, match="Current epoch: 2, Producer epoch: 1"):
        await world.producer(access_mode=AccessMode.Exclusive, topic_epoch=1)
    again = await world.producer(access_mode=AccessMode.Exclusive, topic_epoch=2)
    assert again.topic_epoch == 2


async def test_a_producer_comes_again_on_its_own_connection(world: World) -> None:
    topic = await world.topic()
    first = topic.add_producer(ProducerRequest(7, name="me", epoch=0), world.wire)
    second = topic.add_producer(ProducerRequest(7, name="me", epoch=1), world.wire)
    assert first.closed
    first.close()
    await world.publish(second, "a")
    with pytest.raises(BrokerError, match="'me' is already connected"):
        topic.add_producer(ProducerRequest(7, name="me", epoch=2), Wire())


async def test_a_producer_creates_the_subscription_it_asks_for(world: World) -> None:
    await world.publish(await world.producer(), "before")
    producer = await world.producer(initial_subscription="dead-letters")
    await world.publish(producer, "after")
    topic = await world.topic()
    assert topic.subscriptions["dead-letters"].durable
    consumer = await world.consumer(
        subscription="dead-letters", initial_position=InitialPosition.Latest
    )
    assert world.wire.payloads(consumer) == ["before", "after"]
    consumer.ack_individual(world.wire.ids(consumer))
    await world.producer(initial_subscription="dead-letters")
    assert topic.subscriptions["dead-letters"].backlog == 0, "it was there already"


async def test_what_stores_nothing_has_no_initial_subscription(world: World) -> None:
    world.name = TopicName.parse("non-persistent://t/n/x")
    await world.producer(initial_subscription="s")
    assert not (await world.topic()).subscriptions


class Unsaved:
    """A topic whose cursors are saved when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        monkeypatch.setattr(Log, "cursors_saved", lambda _log: self.answer)


async def test_an_initial_subscription_is_saved_before_its_client_has_an_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsaved = Unsaved(monkeypatch)
    opening = asyncio.ensure_future(world.producer(initial_subscription="dead-letters"))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not opening.done()
    assert not len((await world.topic()).producers)
    unsaved.answer.set_result(None)
    assert (await opening).name


async def test_a_subscription_that_is_made_by_itself_is_saved_before_its_client_has_an_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await world.topic()
    unsaved = Unsaved(monkeypatch)
    making = asyncio.ensure_future(topic.create_subscription("s"))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not making.done()
    unsaved.answer.set_exception(StorageError("the disk is full"))
    with pytest.raises(BrokerError, match="could not be saved: the disk is full") as refused:
        await making
    assert refused.value.code is ServerError.PersistenceError


async def test_a_producer_comes_back_with_its_epoch_or_a_later_one(world: World) -> None:
    """Its own epoch fences only those before it (PIP-68)."""
    for wanted in (300, 300, 301):
        producer = await world.producer(access_mode=AccessMode.Exclusive, topic_epoch=wanted)
        assert producer.topic_epoch == wanted
        producer.close()
    with pytest.raises(BrokerError, match="Current epoch: 301, Producer epoch: 300") as fenced:
        await world.producer(access_mode=AccessMode.Exclusive, topic_epoch=300)
    assert fenced.value.code is ServerError.ProducerFenced


@pytest.mark.parametrize(("producer_id", "epoch"), [(6, 2), (8, 2), (7, 1), (7, 0)])
async def test_only_the_same_id_with_a_later_epoch_is_the_same_come_again(
    world: World, producer_id: int, epoch: int
) -> None:
    topic = await world.topic()
    topic.add_producer(ProducerRequest(7, name="me", epoch=1), world.wire)
    with pytest.raises(BrokerError, match="'me' is already connected"):
        topic.add_producer(ProducerRequest(producer_id, name="me", epoch=epoch), world.wire)
    assert topic.add_producer(ProducerRequest(7, name="me", epoch=2), world.wire).name == "me"


async def test_one_that_waited_for_a_topic_has_it_for_itself(world: World) -> None:
    first = await world.producer(access_mode=AccessMode.Exclusive)
    second = await world.producer(access_mode=AccessMode.WaitForExclusive)
    first.close()
    assert second.ready
    assert (await world.topic()).attached_producers() == [second]
    with pytest.raises(BrokerError) as refused:
        await world.producer(access_mode=AccessMode.Exclusive)
    assert refused.value.code is ServerError.ProducerFenced
