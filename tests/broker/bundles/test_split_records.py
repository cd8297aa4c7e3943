"""A split under the state channel: what is written in which order, and who ends it."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from counterpoise.broker.broker import Broker
from counterpoise.metadata import StoreUnavailable
from counterpoise.names.bundle import BundleName
from counterpoise.ownership.channel.state import RECORDS
from tests.broker.bundles.test_auto_split import first_bundle
from tests.broker.bundles.test_topic_records import brokers as on_topic  # noqa: F401
from tests.broker.bundles.test_topic_records import read_all
from tests.broker.conftest import NAMESPACE, BrokersOfTest, owned, records_of
from tests.waiting import WITHIN_S, found


async def halves(broker: Broker, bundle: BundleName) -> list[BundleName]:
    middle = (bundle.range.lower + bundle.range.upper) // 2
    bundles = await broker.namespaces.bundles(NAMESPACE)
    return list(bundles.split(bundle.range, [middle]).children(bundle.range))


async def until_whole(brokers: Sequence[Broker], parts: Sequence[BundleName]) -> Broker:
    """Wait until the parts have an owner each, and the namespace knows them."""

    async def owner() -> Broker | None:
        for broker in brokers:
            listed = (await broker.namespaces.bundles(NAMESPACE)).bundles
            if set(parts) <= set(listed) and set(parts) <= set(owned(broker)):
                return broker
        return None

    return await found(owner, "the parts have an owner")


async def gone(broker: Broker, bundle: BundleName) -> None:
    """Wait until a bundle has no record any more."""
    news, records = asyncio.Event(), records_of(broker)
    leave = records.subscribe(lambda _: news.set())
    try:
        async with asyncio.timeout(WITHIN_S):
            while await records.get(f"{RECORDS}/{bundle}") is not None:
                await news.wait()
                news.clear()
    finally:
        leave()


async def test_records_come_in_pulsars_order(on_topic: BrokersOfTest) -> None:  # noqa: F811
    broker = await on_topic.start()
    bundle = await first_bundle(broker)
    parts = await halves(broker, bundle)
    assert list(await broker.namespaces.moves.split(bundle)) == parts
    states: dict[str, list[str]] = defaultdict(list)
    records = {}
    for key, value in await asyncio.to_thread(read_all, broker.service_url):
        record = json.loads(value) if value else {"state": "Init"}
        states[key].append(record["state"])
        records[key, record["state"]] = record
    parent = str(bundle)
    assert states[parent] == ["Assigning", "Owned", "Splitting", "Deleted", "Init"]
    for part in parts:
        assert states[str(part)] == ["Owned"]
        assert records[str(part), "Owned"]["versionId"] == 1
    splitting = records[parent, "Splitting"]
    assert splitting["sourceBroker"] == broker.id
    assert splitting["splitServiceUnitToDestBroker"] == {str(part.range): None for part in parts}
    assert "dstBroker" not in splitting


async def test_a_split_that_the_store_interrupts_is_finished(
    any_brokers: BrokersOfTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await any_brokers.start()
    bundle = await first_bundle(broker)
    parts = await halves(broker, bundle)
    real, fails = broker.parts.ownership.cache.update, iter([True])

    async def update(*arguments: object) -> object:
        if next(fails, False):
            raise StoreUnavailable("/admin/local-policies", "for the test")
        return await real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(broker.parts.ownership.cache, "update", update)
    with pytest.raises(Exception, match="for the test"):
        await broker.namespaces.moves.split(bundle)
    if broker.parts.ownership.bundles.changes_by_record:
        await until_whole([broker], parts)
        await gone(broker, bundle)
    else:
        assert owned(broker) == [bundle], "it is taken back"


async def test_a_split_goes_on_when_its_caller_goes_away(
    any_brokers: BrokersOfTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await any_brokers.start()
    bundle = await first_bundle(broker)
    parts = await halves(broker, bundle)
    real, begun, may_go_on = broker.parts.ownership.cache.update, asyncio.Event(), asyncio.Event()

    async def update(*arguments: Any) -> object:
        begun.set()
        await may_go_on.wait()
        return await real(*arguments)

    monkeypatch.setattr(broker.parts.ownership.cache, "update", update)
    asking = asyncio.create_task(broker.namespaces.moves.split(bundle))
    async with asyncio.timeout(WITHIN_S):
        await begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    may_go_on.set()
    await until_whole([broker], parts)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("is_cut", [False, True], ids=["half the parts owned", "bundles written"])
async def test_who_dies_in_a_split_leaves_it_to_another(
    on_topic: BrokersOfTest,  # noqa: F811
    is_cut: bool,
) -> None:
    leader, source = await on_topic.start_many(2)
    bundle = await first_bundle(source)
    parts = await halves(source, bundle)
    assert await source.parts.ownership.bundles.announce_split(bundle, parts)
    assert await source.parts.ownership.bundles.release(bundle, leader.id) is False, (
        "it is being cut"
    )
    await source.parts.ownership.bundles.acquire(parts[0], as_split_part=True)
    if is_cut:
        await source.parts.ownership.bundles.acquire(parts[1], as_split_part=True)
        middle = parts[1].range.lower
        await source.parts.ownership.cache.update(
            NAMESPACE, lambda bundles: bundles.split(bundle.range, [middle])
        )
    await on_topic.kill(source)
    await until_whole([leader], parts)
    await gone(leader, bundle)
