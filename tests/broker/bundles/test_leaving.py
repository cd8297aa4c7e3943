"""A broker that an administrator shuts down hands its bundles over at the rate asked for."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from unittest.mock import AsyncMock

import aiohttp
import pytest

from counterpoise.app.wiring import make_web_server
from counterpoise.broker.broker import Broker
from counterpoise.broker.bundles.placement import LoadPlacer
from counterpoise.names.bundle import BundleName
from tests.broker.conftest import NAMESPACE, BrokersOfTest, owned
from tests.quota.jumping import on_jumping_loop
from tests.waiting import found, until

BUNDLES = 40


@contextlib.asynccontextmanager
async def brokers_in_memory() -> AsyncIterator[BrokersOfTest]:
    brokers = BrokersOfTest("memory:")
    try:
        yield brokers
    finally:
        for broker in list(brokers.all):
            await brokers.kill(broker)


async def two_brokers(brokers: BrokersOfTest) -> tuple[Broker, Broker, list[float]]:
    """A broker that owns all bundles, another, and the times at which hand-overs begin."""
    leaving = await brokers.start(default_number_of_namespace_bundles=BUNDLES)
    for bundle in (await leaving.namespaces.bundles(NAMESPACE)).bundles:
        await leaving.parts.ownership.bundles.acquire(bundle)
    other = await brokers.start()
    ownership, begun = leaving.parts.ownership.bundles, list[float]()
    release = ownership.release

    async def noted(bundle: BundleName, destination: str | None) -> bool:
        begun.append(asyncio.get_running_loop().time())
        return await release(bundle, destination)

    ownership.release = noted  # type: ignore[method-assign]
    return leaving, other, begun


# "PIP-322", uses of rate limiters in Pulsar: namespace bundle unloading.
@pytest.mark.parametrize("unloads_per_s", [1, 8])
def test_002_l50_unloading_is_rate_limited_at_shutdown(unloads_per_s: int) -> None:
    @on_jumping_loop
    async def run() -> None:
        async with brokers_in_memory() as brokers:
            leaving, other, begun = await two_brokers(brokers)
            leaving.request_stop(unloads_per_s)
            assert leaving.stop_requested.is_set()
            await leaving.stop()
            assert len(begun) == len(owned(other)) == BUNDLES
            for first, later in zip(begun, begun[unloads_per_s:], strict=False):
                assert later - first >= 1 - 1e-6, f"more than {unloads_per_s} in a second"
            assert begun[-1] - begun[0] == pytest.approx((BUNDLES - 1) / unloads_per_s, abs=1)

    run()


async def test_a_broker_that_leaves_slowly_attracts_no_bundles(any_brokers: BrokersOfTest) -> None:
    leaving, other = await any_brokers.start_many(2)
    first, *rest = (await leaving.namespaces.bundles(NAMESPACE)).bundles
    await leaving.parts.ownership.bundles.acquire(first)
    released, go_on = asyncio.Event(), asyncio.Event()
    release = leaving.parts.ownership.bundles.release

    async def slowly(bundle: BundleName, destination: str | None) -> bool:
        released.set()
        await go_on.wait()
        return await release(bundle, destination)

    leaving.parts.ownership.bundles.release = slowly  # type: ignore[method-assign]
    leaving.request_stop(1)
    stopping = asyncio.create_task(any_brokers.stop(leaving))
    await released.wait()
    registry = other.parts.load.registry

    async def is_known() -> bool:
        gone = leaving.id not in await registry.active()
        return gone or leaving.id in await registry.leaving()

    await found(is_known, "the other broker knows that it leaves")
    for bundle in rest:
        assert (await other.namespaces.lookups.lookup_bundle(bundle)).broker_id == other.id
    assert set(owned(other)) == set(rest)
    go_on.set()
    await stopping
    await until(lambda: set(owned(other)) == {first, *rest}, "the other owns all bundles")


@pytest.mark.parametrize("unloads_per_s", [0, -1])
def test_without_a_rate_all_bundles_go_at_once(unloads_per_s: int) -> None:
    @on_jumping_loop
    async def run() -> None:
        async with brokers_in_memory() as brokers:
            leaving, other, begun = await two_brokers(brokers)
            leaving.request_stop(unloads_per_s)
            await leaving.stop()
            assert len(begun) == len(owned(other)) == BUNDLES
            assert begun[-1] == begun[0]

    run()


async def test_a_bundle_placed_here_meanwhile_is_handed_over_too(brokers: BrokersOfTest) -> None:
    leaving, other = await brokers.start_many(2)
    bundle, *_ = (await leaving.namespaces.bundles(NAMESPACE)).bundles
    unregister, calls = leaving.parts.load.registry.unregister, list[None]()

    async def after_a_lookup() -> None:
        calls.append(None)
        if len(calls) == 2:  # It has handed over what it had.
            assert await leaving.parts.ownership.bundles.acquire(bundle)
        await unregister()

    leaving.parts.load.registry.unregister = after_a_lookup  # type: ignore[method-assign]
    await brokers.stop(leaving)
    assert owned(other) == [bundle]


async def test_an_administrator_names_the_rate(brokers: BrokersOfTest) -> None:
    brokers.web = make_web_server
    broker = await brokers.start()
    url = f"{broker.web_url}/admin/v2/brokers/shutdown?maxConcurrentUnloadPerSec="
    async with aiohttp.ClientSession() as client:
        assert (await client.post(url + "many")).status == 412
        assert not broker.stop_requested.is_set()
        assert (await client.post(url + "7")).status == 204
    assert broker.stop_requested.is_set()
    asked: list[int] = []

    async def leave(unloads_per_s: int = 0) -> None:
        asked.append(unloads_per_s)

    broker.namespaces.moves.leave = leave  # type: ignore[method-assign]
    await brokers.stop(broker)
    assert set(asked) == {7}


@pytest.mark.parametrize("steps", [0, 1, 3, 10, 30, 100, 300])
async def test_a_stop_that_is_cancelled_or_fails_leaves_nothing_open(
    brokers: BrokersOfTest, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``steps``: turns of the event loop that the stop has had; 0: it is not cancelled, but no
    bundle can be placed.
    """
    leaving, _, _ = await two_brokers(brokers)
    if not steps:
        monkeypatch.setattr(LoadPlacer, "choose", AsyncMock(side_effect=ValueError))
        await leaving.stop()
    else:
        leaving.request_stop(1)
        stopping = asyncio.create_task(leaving.stop())
        for _ in range(steps):
            await asyncio.sleep(0)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
    brokers.all.remove(leaving)
    host, port = leaving.service_url.removeprefix("pulsar://").rsplit(":", 1)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, int(port))
