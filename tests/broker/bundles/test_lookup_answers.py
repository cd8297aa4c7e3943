"""What a broker under the modular manager answers to a lookup, by what the store says."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.lookup import LOOKUP_S, LookupService
from counterpoise.broker.bundles.lookup_result import LookupConnect, LookupRedirect, for_listener
from counterpoise.broker.bundles.tally import BundleTally
from counterpoise.metadata import StoreUnavailable
from counterpoise.names.bundle import BundleName
from counterpoise.ownership.events import Assign
from counterpoise.ownership.port import BundleLocation
from counterpoise.ownership.records import LeaderBroker, NamespaceEphemeralData
from counterpoise.quota import SECOND_NS
from counterpoise.wire.errors import ServerError
from tests.quota.jumping import now_ns, on_jumping_loop, pass_time

ME, OTHER, THIRD, GONE = "b1:80", "b2:80", "b3:80", "b9:80"
BUNDLE = BundleName.parse("public/default/0x00000000_0x80000000")
TWIN = BundleName.parse("public/another/0x00000000_0x80000000")
NOWHERE = BundleLocation(None)
TLS = "pulsar+ssl://b2:6651"


def owner(broker: str) -> NamespaceEphemeralData:
    return NamespaceEphemeralData(f"pulsar://{broker}", f"http://{broker}")


@dataclass
class Cluster:
    """Three brokers, as the first of them sees them."""

    leader_id: str | None = OTHER
    where: BundleLocation = NOWHERE
    after_acquire: BundleLocation = field(default_factory=lambda: BundleLocation(owner(ME)))
    choice: str | None = THIRD
    active_ids: set[str] = field(default_factory=lambda: {ME, OTHER, THIRD})
    locates: Callable[[], Awaitable[None]] | None = None
    waited_for: list[BundleName] = field(default_factory=list)
    after_assign: BundleLocation = field(default_factory=lambda: BundleLocation(owner(THIRD)))
    assigned: list[str] = field(default_factory=list)
    changes_by_record: bool = False
    my_id: str = ME
    tally: BundleTally = field(default_factory=BundleTally)
    at_rest: bool = False
    acquires: bool = False

    def service(self, *, balanced: bool = True) -> LookupService:
        as_any = cast("Any", self)
        return LookupService(as_any, as_any, as_any, as_any, balanced=balanced, tally=self.tally)

    # The registry.

    async def active(self) -> Collection[str]:
        return self.active_ids

    async def report(self, broker: str) -> object:
        if broker not in self.active_ids:
            return None
        return SimpleNamespace(
            pulsar_service_url=f"pulsar://{broker}",
            web_service_url=f"http://{broker}",
            pulsar_service_url_tls=None,
            web_service_url_tls=None,
            advertised_listeners={},
        )

    # The election.

    @property
    def leader(self) -> LeaderBroker | None:
        return None if self.leader_id is None else LeaderBroker(self.leader_id, "")

    @property
    def is_leader(self) -> bool:
        return self.leader_id == ME

    # Ownership.

    @property
    def me(self) -> NamespaceEphemeralData:
        return owner(ME)

    async def locate(self, bundle: BundleName) -> BundleLocation:
        if self.locates is not None:
            await self.locates()
        return self.where

    async def acquire(self, bundle: BundleName) -> None:
        self.where = self.after_acquire
        self.at_rest = self.acquires

    async def request(self, bundle: BundleName, request: Assign) -> None:
        self.assigned.append(request.broker)
        self.where = self.after_assign

    def serves_at_rest(self, bundle: BundleName) -> bool:
        return self.at_rest

    async def wait_until_served(self, bundle: BundleName) -> None:
        await pass_time(1)
        self.waited_for.append(bundle)

    async def until(
        self, bundle: BundleName, holds: Callable[[], Awaitable[bool]], within_s: float
    ) -> bool:
        deadline = now_ns() + within_s * SECOND_NS
        while not await holds():
            if now_ns() > deadline:
                return False
            await pass_time(0.1)
        return True

    # The placer.

    async def choose(self, bundle: BundleName, without: Collection[str] = ()) -> str | None:
        return self.choice


def redirect(broker: str, *, authoritative: bool) -> LookupRedirect:
    url, web_url = f"pulsar://{broker}", f"http://{broker}"
    return LookupRedirect(broker, url, web_url=web_url, authoritative=authoritative)


def connect(broker: str) -> LookupConnect:
    return LookupConnect(broker, f"pulsar://{broker}", web_url=f"http://{broker}")


@pytest.mark.parametrize(
    ("cluster", "authoritative", "answer"),
    [
        (Cluster(where=BundleLocation(owner(OTHER))), False, connect(OTHER)),
        (
            Cluster(where=BundleLocation(NamespaceEphemeralData("", "", TLS, f"https://{OTHER}"))),
            False,
            LookupConnect(OTHER, None, TLS, None, f"https://{OTHER}"),
        ),
        (Cluster(), False, redirect(OTHER, authoritative=False)),
        (Cluster(), True, connect(ME)),
        (Cluster(leader_id=ME), False, redirect(THIRD, authoritative=True)),
        (Cluster(leader_id=ME, choice=ME), False, connect(ME)),
        (Cluster(leader_id=GONE), False, redirect(THIRD, authoritative=True)),
        (Cluster(leader_id=None), False, redirect(THIRD, authoritative=True)),
        (Cluster(where=BundleLocation(None, successor=THIRD)), False, connect(THIRD)),
        (
            Cluster(where=BundleLocation(None, successor=GONE)),
            False,
            redirect(OTHER, authoritative=False),
        ),
    ],
)
@on_jumping_loop
async def test_a_lookup_leads_to_the_owner_the_leader_or_the_chosen_broker(
    cluster: Cluster, authoritative: bool, answer: object
) -> None:
    assert await cluster.service().lookup_bundle(BUNDLE, authoritative=authoritative) == answer


@on_jumping_loop
async def test_a_broker_names_itself_when_it_serves_the_bundle() -> None:
    cluster = Cluster(where=BundleLocation(owner(ME)))
    assert await cluster.service().lookup_bundle(BUNDLE) == connect(ME)
    assert cluster.waited_for == [BUNDLE]


@on_jumping_loop
async def test_a_bundle_that_nothing_changes_is_looked_up_without_asking() -> None:
    service = (cluster := Cluster(where=BundleLocation(owner(ME)), at_rest=True)).service()
    assert service.served_here(BUNDLE) is None, "no address is known yet"
    assert await service.lookup_bundle(BUNDLE) == connect(ME)
    assert not cluster.waited_for
    assert service.served_here(TWIN) == connect(ME)
    assert cluster.tally.lookups == {("Owned", "Total"): 1}
    cluster.at_rest = False
    assert service.served_here(BUNDLE) is None


@on_jumping_loop
async def test_a_broker_that_got_a_bundle_reads_no_more_of_it_than_before() -> None:
    reads: list[int] = []

    async def read() -> None:
        reads.append(1)

    cluster = Cluster(leader_id=ME, choice=ME, acquires=True, locates=read)
    assert await cluster.service().lookup_bundle(BUNDLE) == connect(ME)
    assert len(reads) == 1


@on_jumping_loop
async def test_anothers_addresses_are_not_taken_for_this_brokers() -> None:
    service = Cluster(where=BundleLocation(owner(OTHER)), at_rest=True).service()
    await service.lookup_bundle(BUNDLE)
    assert service.served_here(BUNDLE) is None


@on_jumping_loop
async def test_without_a_load_balancer_the_broker_that_is_asked_takes_the_bundle() -> None:
    assert await Cluster().service(balanced=False).lookup_bundle(BUNDLE) == connect(ME)


@on_jumping_loop
async def test_an_administrators_choice_holds_once_and_for_its_bundle_alone() -> None:
    service = (cluster := Cluster(leader_id=ME)).service()
    await service.place_unowned(BUNDLE, OTHER)
    assert await service.lookup_bundle(TWIN) == redirect(THIRD, authoritative=True)
    assert await service.lookup_bundle(BUNDLE) == redirect(OTHER, authoritative=True)
    assert await service.lookup_bundle(BUNDLE) == redirect(THIRD, authoritative=True)
    await service.place_unowned(BUNDLE, GONE)
    assert await service.lookup_bundle(BUNDLE) == redirect(THIRD, authoritative=True)
    assert not cluster.tally.assigned["Failure"]


@on_jumping_loop
async def test_a_brokers_own_namespace_goes_to_that_broker_alone() -> None:
    cluster = Cluster()
    bundle = BundleName.parse(f"pulsar/{THIRD}/0x00000000_0xffffffff")
    assert await cluster.service().lookup_bundle(bundle) == redirect(THIRD, authoritative=True)
    cluster.active_ids.discard(THIRD)
    with pytest.raises(BrokerError, match="No broker was available"):
        await cluster.service().lookup_bundle(bundle)
    assert cluster.tally.assigned == {"Failure": 1}


@pytest.mark.parametrize("is_there", [True, False])
@on_jumping_loop
async def test_of_two_brokers_that_take_a_bundle_the_faster_one_is_named(is_there: bool) -> None:
    cluster = Cluster(leader_id=ME, choice=ME)
    cluster.after_acquire = BundleLocation(None, successor=OTHER if is_there else GONE)
    if is_there:
        assert await cluster.service().lookup_bundle(BUNDLE) == connect(OTHER)
    else:
        with pytest.raises(BrokerError, match="could not be acquired"):
            await cluster.service().lookup_bundle(BUNDLE)
    assert cluster.tally.assigned["Skip"] == is_there


@on_jumping_loop
async def test_a_bundle_that_is_being_unloaded_is_waited_for() -> None:
    cluster = Cluster(where=BundleLocation(owner(OTHER), changing=True))
    looking = asyncio.ensure_future(cluster.service().lookup_bundle(BUNDLE))
    await pass_time(1)
    assert not looking.done()
    cluster.where = BundleLocation(owner(THIRD))
    assert await looking == connect(THIRD)
    cluster.where = BundleLocation(owner(OTHER), changing=True)
    with pytest.raises(BrokerError, match="is being unloaded"):
        await cluster.service().lookup_bundle(BUNDLE)


@pytest.mark.parametrize(
    "repaired",
    [
        BundleLocation(NamespaceEphemeralData("", f"http://{OTHER}")),
        BundleLocation(None, successor=OTHER, changing=True),
        BundleLocation(NamespaceEphemeralData("", f"http://{GONE}"), successor=OTHER),
    ],
)
@on_jumping_loop
async def test_an_owner_that_is_known_by_its_id_and_gone_is_waited_for_until_another_has_it(
    repaired: BundleLocation,
) -> None:
    cluster = Cluster(where=BundleLocation(NamespaceEphemeralData("", f"http://{GONE}")))
    looking = asyncio.ensure_future(cluster.service().lookup_bundle(BUNDLE))
    await pass_time(1)
    assert not looking.done()
    cluster.where = repaired
    changed = now_ns()
    assert await looking == connect(OTHER)
    assert (now_ns() - changed) / SECOND_NS < 0.5, "no longer than it takes"
    cluster.where = BundleLocation(NamespaceEphemeralData("", f"http://{GONE}"))
    with pytest.raises(BrokerError, match="has left"):
        await cluster.service().lookup_bundle(BUNDLE)


async def never() -> None:
    await asyncio.get_running_loop().create_future()


async def away() -> None:
    raise StoreUnavailable("get", "it is away")


@pytest.mark.parametrize(("locates", "after_s"), [(never, LOOKUP_S), (away, 0)])
@on_jumping_loop
async def test_a_store_that_is_silent_or_away_is_a_reason_to_try_again(
    locates: Callable[[], Awaitable[None]], after_s: float
) -> None:
    began = now_ns()
    with pytest.raises(BrokerError) as refused:
        await Cluster(locates=locates).service().lookup_bundle(BUNDLE)
    assert refused.value.code is ServerError.ServiceNotReady
    assert (now_ns() - began) / SECOND_NS == pytest.approx(after_s, abs=0.1)


@on_jumping_loop
async def test_a_placement_that_finds_no_broker_is_refused_and_counted() -> None:
    cluster = Cluster(leader_id=ME, choice=None)
    with pytest.raises(BrokerError, match="No broker was available"):
        await cluster.service().lookup_bundle(BUNDLE)
    assert cluster.tally.assigned == {"Failure": 1}


@pytest.mark.parametrize(("leader", "is_known"), [(OTHER, True), (GONE, False), (None, False)])
@on_jumping_loop
async def test_topics_of_the_leader_are_found_at_the_leader(
    leader: str | None, is_known: bool
) -> None:
    service = Cluster(leader_id=leader).service()
    if is_known:
        assert await service.at_leader() == connect(OTHER)
    else:
        with pytest.raises(BrokerError, match="no broker leads"):
            await service.at_leader()


# Where each change of a bundle is first written into its record, any broker assigns.


@pytest.mark.parametrize(
    ("found", "answer", "result"),
    [
        (BundleLocation(owner(THIRD)), connect(THIRD), "Success"),
        (BundleLocation(None, successor=THIRD, changing=True), connect(THIRD), "Success"),
        (BundleLocation(owner(OTHER)), connect(OTHER), "Skip"),
        (NOWHERE, None, "Failure"),
    ],
)
@on_jumping_loop
async def test_lookups_that_wait_share_one_assignment_by_record(
    found: BundleLocation, answer: object, result: str
) -> None:
    cluster = Cluster(changes_by_record=True, after_assign=found)
    service = cluster.service()
    looked_up = await asyncio.gather(
        *(service.lookup_bundle(BUNDLE) for _ in range(3)), return_exceptions=True
    )
    if answer is None:
        assert all("has no owner yet" in str(each) for each in looked_up)
    else:
        assert looked_up == [answer] * 3
    # What found no owner is tried once more, for those that came while it was under way.
    times = 2 if answer is None else 1
    assert (cluster.assigned, cluster.tally.assigned) == ([THIRD] * times, {result: times})


@on_jumping_loop
async def test_a_bundle_on_its_way_to_a_broker_that_is_gone_waits_for_the_leaders_repair() -> None:
    cluster = Cluster(changes_by_record=True)
    cluster.where = BundleLocation(None, successor=GONE, changing=True)
    looking = asyncio.ensure_future(cluster.service().lookup_bundle(BUNDLE))
    await pass_time(1)
    assert not looking.done()
    cluster.where = BundleLocation(owner(OTHER))
    assert await looking == connect(OTHER)
    assert cluster.assigned == []


@pytest.mark.parametrize(
    ("listener", "plain", "secure"),
    [
        (None, "pulsar://b:1", "pulsar+ssl://b:2"),
        ("", "pulsar://b:1", "pulsar+ssl://b:2"),
        ("out", "pulsar://out:1", None),
        ("safe", None, "pulsar+ssl://safe:2"),
        ("both", "pulsar://both:1", "pulsar+ssl://both:2"),
    ],
)
@pytest.mark.parametrize("kind", [LookupConnect, LookupRedirect])
def test_a_listeners_addresses_stand_in_place_of_all_those_of_the_broker(
    kind: type[LookupConnect | LookupRedirect],
    listener: str | None,
    plain: str | None,
    secure: str | None,
) -> None:
    listeners = {
        "out": {"brokerServiceUrl": "pulsar://out:1"},
        "safe": {"brokerServiceUrlTls": "pulsar+ssl://safe:2"},
        "both": {
            "brokerServiceUrl": "pulsar://both:1",
            "brokerServiceUrlTls": "pulsar+ssl://both:2",
        },
    }
    answer = kind(
        broker_id="b:80",
        service_url="pulsar://b:1",
        web_url="http://b:80",
        service_url_tls="pulsar+ssl://b:2",
        web_url_tls="https://b:443",
        listeners=listeners,
    )
    found = for_listener(listener, answer)
    assert (found.service_url, found.service_url_tls) == (plain, secure)
    assert (found.broker_id, found.web_url, found.web_url_tls) == (
        "b:80",
        "http://b:80",
        "https://b:443",
    )
    with pytest.raises(BrokerError, match="do not have no listener"):
        for_listener("no", answer)
