"""A broker's bundles while its store, its topics or other brokers fail it for a moment."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from counterpoise.broker.bundles.bundle_assigner import BundleAssigner
from counterpoise.broker.bundles.ownership import RETRY_S, BundleOwnership
from counterpoise.metadata import MemoryTree, StoreUnavailable
from counterpoise.names.bundle import BundleName
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR
from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData
from counterpoise.ownership.channel.state import RECORDS
from counterpoise.ownership.lock.nodes import hand_over_of, lock_of
from counterpoise.ownership.port import BundleLocation, OwnershipOptions
from counterpoise.ownership.protocols import PROTOCOLS
from counterpoise.ownership.records import HandOver, NamespaceEphemeralData
from counterpoise.ownership.signals import READY, signal_path
from tests.broker.misbehaving_store import MisbehavingStore
from tests.quota.jumping import now_ns, on_jumping_loop, pass_time

ME, OTHER = "b1:80", "b2:80"
BUNDLE = BundleName.parse("public/default/0x00000000_0xffffffff")
HALVES = ("0x00000000_0x80000000", "0x80000000_0xffffffff")
MANAGERS = pytest.mark.parametrize("load_manager", [MODULAR, EXTENSIBLE])


def owner(broker: str) -> NamespaceEphemeralData:
    return NamespaceEphemeralData(f"pulsar://{broker}", f"http://{broker}")


class Owner:
    """The ownership of one broker, and what another one writes into the same store."""

    def __init__(self, load_manager: str) -> None:
        tree = MemoryTree()
        self.store, self.another = MisbehavingStore(tree), tree.open()
        self.load_manager, self.versions = load_manager, 0
        self.prepared = 0
        self.fails = False
        self.signals: list[str] = []
        self.another.subscribe(lambda change: self.signals.append(change.path))
        options = OwnershipOptions(owner(ME))
        protocol = PROTOCOLS[load_manager](options, lambda: now_ns() // 1_000_000)
        self.ownership = BundleOwnership(
            self.store, protocol, options, self.drain, prepare=self.prepare
        )

    async def drain(self, bundle: BundleName, destination: str | None) -> None:
        pass

    async def prepare(self, bundle: BundleName) -> None:
        self.prepared += 1
        if self.fails:
            raise OSError("the disk failed")

    async def record(self, state: ServiceUnitState, to: str | None, source: str | None) -> None:
        self.versions += 1
        data = ServiceUnitStateData(state, to, source, version=self.versions)
        await self.another.put(f"{RECORDS}/{BUNDLE}", data.to_json())

    async def is_named(self) -> None:
        """Another broker, which owns the bundle, announces this one as its successor."""
        if self.load_manager == EXTENSIBLE:
            await self.record(ServiceUnitState.OWNED, OTHER, None)
            await pass_time(0.1)
            await self.record(ServiceUnitState.RELEASING, ME, OTHER)
        else:
            await self.another.put(lock_of(str(BUNDLE)), owner(OTHER).to_json(), ephemeral=True)
            await pass_time(0.1)
            announced = HandOver(OTHER, ME).to_json()
            await self.another.put(hand_over_of(str(BUNDLE)), announced, ephemeral=True)
        await pass_time(0.1)

    async def is_named_no_more(self) -> None:
        if self.load_manager == EXTENSIBLE:
            await self.record(ServiceUnitState.OWNED, OTHER, None)
        else:
            await self.another.put(hand_over_of(str(BUNDLE)), HandOver(OTHER, None).to_json())
            await self.another.delete(hand_over_of(str(BUNDLE)))
        await pass_time(20)


@MANAGERS
@on_jumping_loop
async def test_a_successor_that_could_not_prepare_itself_does_so_for_the_next_hand_over(
    load_manager: str,
) -> None:
    me, ready = Owner(load_manager), signal_path(READY, str(BUNDLE))
    me.fails = True
    await me.is_named()
    assert (me.prepared, ready in me.signals) == (1, False)
    await me.is_named_no_more()
    me.fails = False
    await me.is_named()
    assert (me.prepared, ready in me.signals) == (2, True)
    me.ownership.close()


@MANAGERS
@on_jumping_loop
async def test_a_write_whose_answer_was_lost_is_seen_though_no_notification_came(
    load_manager: str,
) -> None:
    me = Owner(load_manager)
    assert (await me.ownership.locate(BUNDLE)).owner is None
    me.store.hold_notifications()
    me.store.fails_afterwards = lambda operation, _: operation == "put"
    taking = asyncio.ensure_future(me.ownership.acquire(BUNDLE))
    await pass_time(0.01)
    where = await me.ownership.locate(BUNDLE)
    assert where.owner is not None or where.successor == ME
    me.store.fails_afterwards = lambda _, __: False
    assert await taking
    me.ownership.close()


@MANAGERS
@on_jumping_loop
async def test_a_broker_that_restarts_while_its_store_is_away_resumes_later(
    load_manager: str,
) -> None:
    me, announced = Owner(load_manager), hand_over_of(str(BUNDLE))
    me.store.go_away()
    if load_manager == EXTENSIBLE:
        await me.record(ServiceUnitState.ASSIGNING, ME, None)
    else:
        await me.another.put(announced, HandOver(ME, OTHER).to_json())
    resuming = asyncio.ensure_future(me.ownership.resume())
    await pass_time(2.5 * RETRY_S)
    assert not resuming.done()
    me.store.come_back()
    await resuming
    await pass_time(1)
    if load_manager == EXTENSIBLE:
        assert me.ownership.serves(BUNDLE)
    else:
        assert not await me.another.exists(announced)
    me.ownership.close()


@pytest.mark.parametrize(
    ("destination", "now", "done"),
    [
        (None, None, True),
        (None, OTHER, True),
        (None, ME, False),
        (OTHER, OTHER, True),
        (OTHER, None, False),
        (OTHER, "b3:80", False),
    ],
)
async def test_an_ordered_release_is_done_once_its_owner_has_released_it_to_where_it_was_to_go(
    destination: str | None, now: str | None, done: bool
) -> None:
    async def request(*_: object) -> None:
        pass

    async def locate(_: BundleName) -> BundleLocation:
        return BundleLocation(None if now is None else owner(now))

    async def until(_: BundleName, holds: Any, within_s: float) -> bool:
        assert within_s == 7.0
        return bool(await holds())

    ownership = SimpleNamespace(request=request, locate=locate, until=until, release_within_s=7.0)
    orders = BundleAssigner(cast("BundleOwnership", ownership))
    assert await orders.release(BUNDLE, ME, destination) is done


@on_jumping_loop
async def test_a_split_that_another_broker_left_here_is_finished_each_time() -> None:
    """A namespace that was deleted and created again has bundles of the same names."""
    me = Owner(EXTENSIBLE)
    split: list[list[str]] = []

    async def carry_out(bundle: BundleName, parts: Sequence[BundleName]) -> None:
        split.append([str(each.range) for each in parts])
        if len(split) % 2:
            raise StoreUnavailable("/", "for the test")
        await me.ownership.replaced(bundle)

    me.ownership.on_split = carry_out
    for times in (1, 2):
        me.versions = 0
        await me.record(ServiceUnitState.OWNED, ME, None)
        await pass_time(0.1)
        me.versions += 1
        begun = ServiceUnitStateData(
            ServiceUnitState.SPLITTING, None, ME, dict.fromkeys(HALVES), version=me.versions
        )
        await me.another.put(f"{RECORDS}/{BUNDLE}", begun.to_json())
        await pass_time(0.1)
        await pass_time(2 * RETRY_S)
        # The first attempt fails, and it is tried again.
        assert split == [[*HALVES]] * 2 * times
        assert await me.another.get(f"{RECORDS}/{BUNDLE}") is None
    me.ownership.close()


@on_jumping_loop
async def test_a_bundle_that_is_being_split_is_not_released() -> None:
    me, path = Owner(EXTENSIBLE), f"{RECORDS}/{BUNDLE}"
    assert await me.ownership.acquire(BUNDLE)
    parts = [BundleName.parse(f"public/default/{each}") for each in HALVES]
    assert await me.ownership.announce_split(BUNDLE, parts)
    announced = await me.another.get(path)
    assert not await me.ownership.release(BUNDLE, OTHER)
    await pass_time(0.1)
    assert await me.another.get(path) == announced
    await me.ownership.replaced(BUNDLE)
    assert not await me.ownership.release(BUNDLE, None), "it is not served any more"
    me.ownership.close()


@pytest.mark.parametrize("step", ["prepare_s", "close_topics_s", "successor_s"])
def test_a_release_may_take_as_long_as_each_of_its_steps_does(step: str) -> None:
    short = {"prepare_s": 1.0, "close_topics_s": 1.0, "successor_s": 1.0}

    def within_s(**options: float) -> float:
        made = OwnershipOptions(owner(ME), **(short | options))
        protocol = PROTOCOLS[MODULAR](made, lambda: 0)
        ownership = BundleOwnership(MemoryTree().open(), protocol, made, Owner(MODULAR).drain)
        ownership.close()
        return ownership.release_within_s

    assert within_s(**{step: 100.0}) - within_s() == 99.0
