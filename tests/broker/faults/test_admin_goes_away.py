"""An HTTP client that asked for a change goes away, at any of the steps that it takes."""

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from counterpoise.admin import server
from counterpoise.admin.client_limits import HttpClientLimits
from counterpoise.admin.errors import Handler
from counterpoise.app.wiring import make_web_server
from counterpoise.broker.broker import Broker
from counterpoise.broker.namespaces.auto_creation import ForcedDeletion
from counterpoise.names.bundle import BundleName
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.quota import RateLimiter
from tests.broker.faults.clients import Publisher, stored, until_served
from tests.broker.faults.conftest import FaultyBrokers
from tests.storage.faults import Failing
from tests.waiting import WITHIN_S, found, until
from tests.wire.frames import Type

STEPS_MAX = 60


class CountedRequests(HttpClientLimits):
    """Counts the requests that are being worked on."""

    serving = 0

    @web.middleware
    async def serve(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.serving += 1
        try:
            return await super().serve(request, handler)
        finally:
            self.serving -= 1


class Admin:
    """An administrator, and what is left of a request that was not waited for."""

    def __init__(
        self, brokers: FaultyBrokers, session: aiohttp.ClientSession, limits: list[CountedRequests]
    ) -> None:
        self.brokers, self.session, self.limits = brokers, session, limits
        self.left = 0

    async def ask(self, broker: Broker, method: str, path: str, body: Any = None) -> int:
        url = f"{broker.web_url}/admin/v2/{path}"
        async with self.session.request(method, url, json=body) as answer:
            await answer.read()
            return answer.status

    async def until(self, broker: Broker, statuses: set[int], *request: Any) -> int:
        """Ask again as long as the answer is that it is not the time for it."""
        status = 0
        async with asyncio.timeout(WITHIN_S):
            while status not in statuses:
                status = await self.ask(broker, *request)
                assert status != 500
                await asyncio.sleep(0)
        return status

    async def leave_at(self, step: int, broker: Broker, *request: Any) -> bool:
        """Go away when the store is asked for the so manieth time; False if it is done before."""
        store = self.brokers.store_of(broker)
        store.stop_at(step)
        asking = asyncio.create_task(self.ask(broker, *request))
        stopped = asyncio.create_task(store.stopped.wait())
        await asyncio.wait([asking, stopped], return_when=asyncio.FIRST_COMPLETED)
        came_to_it = store.stopped.is_set() and not asking.done()
        asking.cancel()
        stopped.cancel()
        answers = await asyncio.gather(asking, stopped, return_exceptions=True)
        if came_to_it:
            self.left += 1
            # The handler hears of it before the store answers.
            await until(lambda: self.served() == 0, "the handler has ended")
        store.go_on()
        assert answers[0] != 500
        return came_to_it

    def served(self) -> int:
        """How many requests are still being worked on."""
        return sum(each.serving for each in self.limits)


@pytest.fixture
async def admin(brokers: FaultyBrokers, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Admin]:
    # As if whatever serves requests ended them with their clients, as Pulsar's operators' proxies
    # and later versions of the library may.
    monkeypatch.setattr(web, "AppRunner", partial(web.AppRunner, handler_cancellation=True))
    limits: list[CountedRequests] = []

    def made(most: int, requests: RateLimiter | None) -> HttpClientLimits:
        limits.append(CountedRequests(most, requests))
        return limits[-1]

    monkeypatch.setattr(server, "HttpClientLimits", made)
    brokers.web = make_web_server
    allowed = {"forced_deletion": ForcedDeletion(namespaces=True)}
    await brokers.start_many(2, **allowed)
    async with aiohttp.ClientSession() as session:
        yield Admin(brokers, session, limits)


async def at_each_step(admin: Admin, attempt: Callable[[int], Awaitable[bool]]) -> None:
    """Leave at one step, at a later one, and so on, until there are no more.

    Under each load manager every other of them.
    """
    steps = range(1 + admin.brokers.offset % 2, STEPS_MAX, 2)
    for step in steps:
        if not await attempt(step):
            assert admin.left > 0, "it was never in the middle of anything"
            return
    raise AssertionError("a request without an end")


async def namespace(admin: Admin, name: str) -> TopicName:
    """A namespace with one bundle, and a topic in it that the first broker serves."""
    broker = admin.brokers.all[0]
    path = f"namespaces/public/{name}"
    assert await admin.ask(broker, "PUT", path, {"bundles": {"numBundles": 1}}) == 204
    topic = TopicName.parse(f"persistent://public/{name}/t")
    (bundle,) = (await broker.namespaces.bundles(topic.namespace_name)).bundles
    await broker.parts.ownership.bundles.acquire(bundle)
    wire = await until_served(admin.brokers, topic, Type.PRODUCER, "producer", producer_id=7)
    await wire.leave()
    return topic


async def set_policy(admin: Admin, topic: TopicName) -> None:
    path = f"{topic.rest_path}/maxConsumers"
    await admin.until(admin.brokers.all[0], {204}, "POST", path, 77)


async def policy_of(admin: Admin, topic: TopicName) -> int | None:
    url = f"{admin.brokers.all[0].web_url}/admin/v2/{topic.rest_path}/maxConsumers"
    async with admin.session.get(url) as answer:
        return await answer.json() if answer.status == 200 else None


async def usable(admin: Admin, topic: TopicName) -> None:
    publisher = Publisher(admin.brokers, topic)
    try:
        await publisher.more(2)
    finally:
        await publisher.kill()


async def test_an_unload(admin: Admin) -> None:
    async def attempt(step: int) -> bool:
        topic = await namespace(admin, f"unload-{step}")
        broker = admin.brokers.all[0]
        path = f"namespaces/{topic.namespace_name}/0x00000000_0xffffffff/unload"
        stopped = await admin.leave_at(step, broker, "PUT", path)
        await usable(admin, topic)
        assert await admin.until(broker, {204}, "PUT", path) == 204
        await usable(admin, topic)
        return stopped

    await at_each_step(admin, attempt)


async def bundles(broker: Broker, name: NamespaceName) -> list[BundleName]:
    return list((await broker.namespaces.bundles(name)).bundles)


async def test_a_split(admin: Admin) -> None:
    async def attempt(step: int) -> bool:
        topic = await namespace(admin, f"split-{step}")
        broker, name = admin.brokers.all[0], topic.namespace_name
        path = f"namespaces/{name}/0x00000000_0xffffffff/split"
        stopped = await admin.leave_at(step, broker, "PUT", path)
        await usable(admin, topic)
        # Either it was not begun, or it comes to its end: wherever the bundle goes meanwhile.
        away = f"namespaces/{name}/0x00000000_0xffffffff/unload"
        await admin.ask(broker, "PUT", f"{away}?destinationBroker={admin.brokers.all[1].id}")
        await usable(admin, topic)
        await admin.until(broker, {204, 404, 412}, "PUT", path)
        for each in admin.brokers.all:
            await until_two(each, name)
        await usable(admin, topic)
        parts = await bundles(broker, name)
        assert len(parts) == 2
        for each in parts:
            path = f"namespaces/{name}/{each.range}/unload"
            await admin.until(broker, {204, 412}, "PUT", path)
        await usable(admin, topic)
        return stopped

    await at_each_step(admin, attempt)


async def until_two(broker: Broker, name: NamespaceName) -> None:

    async def two() -> bool:
        return len(await bundles(broker, name)) == 2

    await found(two, "the bundle is split")


async def test_a_forced_delete_of_a_namespace(admin: Admin) -> None:
    async def attempt(step: int) -> bool:
        topic = await namespace(admin, f"delete-{step}")
        await set_policy(admin, topic)
        broker, path = admin.brokers.all[0], f"namespaces/{topic.namespace_name}"
        stopped = await admin.leave_at(step, broker, "DELETE", f"{path}?force=true")
        await admin.until(broker, {204, 404}, "DELETE", f"{path}?force=true")
        assert await admin.ask(broker, "GET", path) == 404
        # Nothing is left of it that a namespace of the same name would meet.
        assert await namespace(admin, f"delete-{step}") == topic
        await usable(admin, topic)
        assert await policy_of(admin, topic) is None
        await admin.until(broker, {204}, "DELETE", f"{path}?force=true")
        return stopped

    await at_each_step(admin, attempt)


async def test_a_forced_delete_of_a_topic(admin: Admin) -> None:
    async def attempt(step: int) -> bool:
        topic = await namespace(admin, f"topic-{step}")
        await usable(admin, topic)
        await set_policy(admin, topic)
        broker, path = admin.brokers.all[0], f"{topic.rest_path}?force=true"
        stopped = await admin.leave_at(step, broker, "DELETE", path)
        await admin.until(broker, {204, 404}, "DELETE", path)
        # What it stored is gone with it.
        wire = await until_served(admin.brokers, topic, Type.PRODUCER, "producer", producer_id=0)
        await wire.leave()
        (loaded,) = [
            each.topics.loaded[topic] for each in admin.brokers.all if topic in each.topics.loaded
        ]
        assert loaded.log.end == 0  # type: ignore[attr-defined]
        assert await policy_of(admin, topic) is None
        await usable(admin, topic)
        return stopped

    await at_each_step(admin, attempt)


@pytest.mark.parametrize("fails", ["open", "write"])
async def test_a_topic_that_a_failing_disk_keeps_is_deleted_later(
    admin: Admin, fails: str, expected_errors: list[str]
) -> None:
    """Until then it is as it was: no client reads its messages in another one of its name."""
    expected_errors.append("Input/output error")
    topic = await namespace(admin, "kept")
    broker = admin.brokers.all[0]
    publisher = admin.brokers.publish(topic)
    await publisher.more()
    await publisher.stop()
    path = f"{topic.rest_path}?force=true"
    admin.brokers.disk_of(broker).before = fault = Failing(fails, "fence", errno.EIO)
    assert await admin.ask(broker, "DELETE", path) == 500
    assert fault.times > 0
    listed = f"persistent/{topic.namespace_name}/t/stats"
    fault.on = False
    assert await admin.ask(broker, "GET", listed) == 200
    await admin.brokers.lost_nothing(admin.brokers.publish(topic, start=1_000_000))
    assert await admin.ask(broker, "DELETE", path) == 204
    assert await admin.ask(broker, "GET", listed) == 404
    again = admin.brokers.publish(topic, start=2_000_000)
    await again.more()
    last = await again.stop() - 1
    assert await stored(admin.brokers, topic, last) == list(range(2_000_000, last + 1))


async def test_a_policy(admin: Admin) -> None:
    async def attempt(step: int) -> bool:
        topic = await namespace(admin, f"policy-{step}")
        broker, path = admin.brokers.all[0], f"namespaces/{topic.namespace_name}/offloadThreshold"
        stopped = await admin.leave_at(step, broker, "PUT", path, step)
        assert await admin.until(broker, {204}, "PUT", path, step + 1) == 204
        for each in admin.brokers.all:
            assert await admin.ask(each, "GET", path) == 200
        await usable(admin, topic)
        return stopped

    await at_each_step(admin, attempt)
