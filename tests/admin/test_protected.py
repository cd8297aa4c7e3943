"""Policies that are read-only, and topics of brokers' own, which no client may change by REST."""

from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest

from counterpoise.admin.app import all_routes
from counterpoise.admin.protected import changes_policies
from counterpoise.app.wiring import make_web_server
from counterpoise.broker.base import paths
from counterpoise.broker.broker import Broker
from counterpoise.broker.face import ORDERED_BY_LEADER
from counterpoise.names.bundle import BundleName
from counterpoise.names.load_managers import EXTENSIBLE
from counterpoise.names.system_topics import SERVICE_UNIT_STATE
from tests.broker.conftest import NAMESPACE, BrokersOfTest
from tests.waiting import until

WHOLE = "0x00000000_0x40000000"
NS = "/admin/v2/namespaces/public/default"
STATE = f"/admin/v2/{SERVICE_UNIT_STATE.replace('://', '/')}"


@pytest.fixture
async def brokers() -> AsyncIterator[BrokersOfTest]:
    made = BrokersOfTest("memory:", EXTENSIBLE)
    made.web = make_web_server
    yield made
    for broker in list(made.all):
        await made.stop(broker)


async def ask(
    broker: Broker, client: aiohttp.ClientSession, method: str, path: str, body: object = None
) -> tuple[int, str]:
    async with client.request(method, broker.web_url + path, json=body) as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", f"{NS}/bundles", None),
        ("PUT", f"{NS}/{WHOLE}/split", None),
        ("PUT", f"{NS}/{WHOLE}/unload", None),
        ("PUT", "/admin/v2/namespaces/public/another", None),
        ("POST", f"{NS}/retention", {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1}),
        ("PUT", "/admin/v2/tenants/another", {"allowedClusters": ["standalone"]}),
        ("POST", "/admin/v2/resource-quotas", {"msgRateIn": 1}),
    ],
)
async def test_001_l322_policies_that_are_read_only_refuse_a_change_by_hand(
    brokers: BrokersOfTest, method: str, path: str, body: object
) -> None:
    broker = await brokers.start()
    async with aiohttp.ClientSession() as client:
        await broker.metadata.put(paths.POLICIES_READ_ONLY, b"{}")
        status, said = await ask(broker, client, method, path, body)
        assert (status, "forbidden to do read-write" in said) == (403, True), said
        assert (await ask(broker, client, "GET", NS))[0] == 200
        await broker.metadata.delete(paths.POLICIES_READ_ONLY)
        assert (await ask(broker, client, method, path, body))[0] != 403


async def test_unloads_that_the_leader_orders_are_carried_out_while_policies_are_read_only(
    brokers: BrokersOfTest,
) -> None:
    broker, other = await brokers.start_many(2)
    await broker.metadata.put(paths.POLICIES_READ_ONLY, b"{}")
    path = f"{NS}/{WHOLE}/unload"
    async with aiohttp.ClientSession() as client:
        for name, status in ((broker.id, 204), (other.id, 403), ("", 403)):
            order = client.put(broker.web_url + path, headers={ORDERED_BY_LEADER: name})
            async with order as answer:
                assert (broker.is_leader, answer.status) == (True, status)
        order = client.put(
            f"{broker.web_url}{NS}/{WHOLE}/split", headers={ORDERED_BY_LEADER: broker.id}
        )
        async with order as answer:
            assert answer.status == 403, "a split changes policies"


def test_001_l322_what_is_refused_while_policies_are_read_only_is_what_pulsar_refuses() -> None:
    routes = {(each.method, each.template) for each in all_routes()}
    refused = {route for route in routes if changes_policies(*route)}
    below = "/admin/v2/namespaces/{tenant}/{namespace}"
    assert {route for route in refused if route[0] == "GET"} == {("GET", f"{below}/bundles")}
    for method, path in (
        ("POST", f"{below}/dispatchRate"),
        ("POST", f"{below}/clearBacklog"),
        ("PUT", f"{below}/unload"),
        ("POST", "/admin/v2/clusters/{cluster}/failureDomains/{failureDomain}"),
        ("POST", f"{below}/unsubscribe/{{subscription}}"),
        ("PUT", "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"),
    ):
        assert (method, path) in routes - refused
    for method, path in (
        ("POST", "/admin/v2/namespaces/grantPermissionsOnTopics"),
        ("PUT", f"{below}/{{bundle}}/split"),
        ("DELETE", f"{below}/{{bundle}}"),
        ("DELETE", below),
        ("POST", f"{below}/messageTTL"),
        ("PUT", "/admin/v2/clusters/{cluster}"),
        ("POST", "/admin/v2/tenants/{tenant}"),
        ("POST", "/admin/v2/clusters/{cluster}/namespaceIsolationPolicies/{policy}"),
        ("POST", "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/backlogQuota"),
        ("POST", "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/permissions/{role}"),
        ("POST", "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/delayedDelivery"),
    ):
        assert (method, path) in refused


@pytest.mark.parametrize("is_open", [False, True])
async def test_the_topic_of_bundles_states_is_not_changed_by_rest(
    brokers: BrokersOfTest, is_open: bool
) -> None:
    brokers.ownership = replace(brokers.ownership, clients_may_write=is_open)
    broker = await brokers.start()
    records = broker.parts.ownership.records
    assert records is not None
    await until(lambda: records.caught_up, "the topic is read")
    bundle = (await broker.namespaces.lookups.lookup_bundle(await first(broker))).broker_id
    before = dict(records.believed)
    assert bundle == broker.id
    assert before
    async with aiohttp.ClientSession() as client:
        for method, path in (
            ("DELETE", f"{STATE}/truncate"),
            ("POST", f"{STATE}/terminate"),
            ("POST", f"{STATE}/trim"),
            ("DELETE", f"{STATE}?force=true"),
            ("DELETE", "/admin/v2/namespaces/pulsar/system?force=true"),
            ("DELETE", "/admin/v2/tenants/pulsar?force=true"),
            ("POST", "/admin/v2/namespaces/grantPermissionsOnTopics"),
        ):
            grants = [{"topic": SERVICE_UNIT_STATE, "role": "r", "actions": ["produce"]}]
            status, said = await ask(
                broker, client, method, path, grants if "Permissions" in path else None
            )
            if is_open:
                assert "systemTopicsWritableByClients" not in said
                break
            assert (status, "systemTopicsWritableByClients" in said) == (403, True), said
        if not is_open:
            assert dict(records.believed) == before
            assert (await ask(broker, client, "PUT", f"{STATE}/unload"))[0] != 403


async def first(broker: Broker) -> BundleName:
    return (await broker.namespaces.bundles(NAMESPACE)).bundles[0]
