"""Under the extensible load manager every broker assigns bundles, and a record orders a release."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from counterpoise.broker.broker import Broker
from counterpoise.broker.bundles.bundle_assigner import BundleAssigner
from counterpoise.broker.bundles.lookup_result import LookupConnect
from counterpoise.broker.bundles.options import IN_STORE, ON_TOPIC
from counterpoise.metadata import Notification
from counterpoise.names.bundle import BundleName
from counterpoise.names.load_managers import EXTENSIBLE
from counterpoise.ownership.channel.data import ServiceUnitStateData
from counterpoise.ownership.channel.state import RECORDS
from tests.broker.conftest import NAMESPACE, BrokersOfTest, owned, records_of
from tests.waiting import until


@pytest.fixture(params=[IN_STORE, ON_TOPIC])
async def brokers(request: pytest.FixtureRequest) -> AsyncIterator[BrokersOfTest]:
    async with BrokersOfTest("memory:", EXTENSIBLE, request.param) as made:
        yield made


async def bundles_of(broker: Broker) -> tuple[BundleName, ...]:
    return tuple((await broker.namespaces.bundles(NAMESPACE)).bundles)


def assigner_of(broker: Broker) -> BundleAssigner:
    return BundleAssigner(broker.parts.ownership.bundles)


def records_seen(by: Broker, bundle: BundleName) -> list[ServiceUnitStateData]:
    """Every record of a bundle from now on, as one broker reads them."""
    seen: list[ServiceUnitStateData] = []
    store = records_of(by)

    async def read() -> None:
        if (stored := await store.get(f"{RECORDS}/{bundle}")) is not None:
            record = ServiceUnitStateData.from_json(stored.value)
            if record not in seen:
                seen.append(record)

    def on_change(notification: Notification) -> None:
        if notification.path == f"{RECORDS}/{bundle}":
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop().create_task(read())

    store.subscribe(on_change)
    return seen


async def test_003_l527_each_broker_assigns_the_bundles_that_it_is_asked_for(
    brokers: BrokersOfTest,
) -> None:
    started = await brokers.start_many(3)
    bundles = await bundles_of(started[0])
    for number, bundle in enumerate(bundles):
        asked = started[1 + number % 2]  # neither of them leads
        before = asked.tally.published["Assign", "Total"]
        found = await asked.namespaces.lookups.lookup_bundle(bundle)
        assert isinstance(found, LookupConnect), "no client is sent to the leader"
        assert found.broker_id == brokers.owner(bundle).id
        assert asked.tally.published["Assign", "Total"] > before


async def test_003_l536_brokers_that_assign_a_bundle_at_once_agree_on_one_owner(
    brokers: BrokersOfTest,
) -> None:
    started = await brokers.start_many(3)
    for bundle in await bundles_of(started[0]):
        found = await asyncio.gather(
            *(
                assigner_of(broker).assign(bundle, chosen.id)
                for broker, chosen in zip(started, [*started[1:], started[0]], strict=True)
            )
        )
        owner = brokers.owner(bundle)
        assert {each.owner.broker_id for each in found if each.owner is not None} == {owner.id}
        for broker in started:
            assert (await broker.namespaces.lookups.lookup_bundle(bundle)).broker_id == owner.id


async def test_003_l527_lookups_that_wait_share_one_assignment(brokers: BrokersOfTest) -> None:
    started = await brokers.start_many(2)
    bundle = (await bundles_of(started[0]))[0]
    asked = started[1]
    before = asked.tally.assigned.total()
    found = await asyncio.gather(
        *(asked.namespaces.lookups.lookup_bundle(bundle) for _ in range(50))
    )
    assert len({each.broker_id for each in found}) == 1
    # Bundles of system topics may be assigned meanwhile, too.
    assert asked.tally.assigned.total() - before < 10


async def test_003_l527_a_bundle_whose_destination_dies_gets_another_owner(
    brokers: BrokersOfTest,
) -> None:
    started = await brokers.start_many(3)
    bundle = (await bundles_of(started[0]))[0]
    dying = started[2]
    await brokers.kill(dying)
    where = await assigner_of(started[1]).assign(bundle, dying.id)
    assert where.owner is None or where.owner.broker_id != dying.id

    async def found() -> str:
        return (await started[1].namespaces.lookups.lookup_bundle(bundle)).broker_id

    assert await found() in {broker.id for broker in started[:2]}


async def test_003_l562_the_leaders_unload_is_one_record_that_its_owner_follows(
    brokers: BrokersOfTest,
) -> None:
    leader, owner, destination = await brokers.start_many(3)
    bundle = (await bundles_of(leader))[0]
    assert await owner.parts.ownership.bundles.acquire(bundle)
    seen = records_seen(leader, bundle)
    ordered = await assigner_of(leader).release(bundle, owner.id, destination.id)
    assert ordered
    serves = destination.parts.ownership.bundles.serves
    await until(lambda: serves(bundle), "the former owner has closed its topics")
    assert brokers.owner(bundle) is destination
    await until(lambda: bool(seen) and seen[-1].destination == destination.id, "it is read")
    assert {(each.source, each.destination) for each in seen} == {(owner.id, destination.id)}
    assert leader.tally.published["Unload", "Total"] == 1
    assert owner.tally.published["Unload", "Total"] == 0, "the owner was not asked by a request"


async def test_003_l562_an_order_that_names_another_owner_changes_nothing(
    brokers: BrokersOfTest,
) -> None:
    leader, owner, other = await brokers.start_many(3)
    bundle = (await bundles_of(leader))[0]
    assert await owner.parts.ownership.bundles.acquire(bundle)
    assert not await assigner_of(leader).release(bundle, other.id, leader.id)
    assert not await assigner_of(leader).release(bundle, owner.id, owner.id) or (
        brokers.owner(bundle) is owner
    )
    assert brokers.owner(bundle) is owner
    assert owned(other) == owned(leader) == []
