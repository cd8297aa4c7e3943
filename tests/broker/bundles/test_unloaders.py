"""How the leader has bundles unloaded: at which address, by whom, and to where."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.tally import BundleTally
from counterpoise.broker.bundles.unloaders import AdminUnloader, RecordUnloader
from counterpoise.broker.peers import unloads
from counterpoise.broker.peers.unloads import UnloadRequest
from counterpoise.decide.balancing.moves import Move
from counterpoise.decide.plan import Decision, DecisionKind
from counterpoise.names.bundle import BundleName
from counterpoise.security.client import ANONYMOUS
from counterpoise.wire.errors import ServerError
from tests.waiting import WITHIN_S

ME, OWNER, OTHER = "b1:80", "b2:80", "b3:80"
BUNDLE = BundleName.parse("public/default/0x00000000_0x80000000")
PLAIN, SECURE = f"http://{OWNER}", f"https://{OWNER}"


def move(source: str, destination: str | None) -> Move:
    decision = Decision(DecisionKind.UNLOAD, str(BUNDLE), source, destination, "x", "x")
    return Move("1", 1, decision, "")


@dataclass
class Cluster:
    """A leader, and a broker with these addresses."""

    addresses: tuple[str | None, str | None] | None = (PLAIN, SECURE)
    speaks_tls: bool = False
    is_released: bool = True
    refuses: Exception | None = None
    asked: list[object] = field(default_factory=list)
    tally: BundleTally = field(default_factory=BundleTally)

    def unloader(self) -> AdminUnloader:
        its = cast("Any", self)
        security = cast("Any", SimpleNamespace(has_tls_settings=self.speaks_tls))
        return AdminUnloader(ME, its, its, self.tally, security=security, within_s=lambda: 7.0)

    async def report(self, broker: str) -> object:
        assert broker == OWNER
        if self.addresses is None:
            return None
        plain, secure = self.addresses
        return SimpleNamespace(web_service_url=plain, web_service_url_tls=secure)

    async def unload(self, bundle: BundleName, destination: str | None) -> None:
        self.asked.append((bundle, destination))
        if self.refuses is not None:
            raise self.refuses

    async def request(self, url: str, request: UnloadRequest, _: object) -> None:
        self.asked.append((url, request))

    async def choose(self, bundle: BundleName, without: Collection[str] = ()) -> str | None:
        assert without == {OWNER}
        return OTHER

    async def release(self, bundle: BundleName, source: str, destination: str | None) -> bool:
        self.asked.append((bundle, source, destination))
        return self.is_released


@pytest.mark.parametrize("destination", [OTHER, None, ""])
@pytest.mark.parametrize(
    ("addresses", "speaks_tls", "url"),
    [
        ((PLAIN, SECURE), False, PLAIN),
        ((PLAIN, SECURE), True, SECURE),
        ((PLAIN, None), True, PLAIN),
        ((None, SECURE), False, SECURE),
    ],
)
async def test_another_broker_is_ordered_at_an_address_that_the_leader_speaks(
    monkeypatch: pytest.MonkeyPatch,
    addresses: tuple[str | None, str | None],
    speaks_tls: bool,
    url: str,
    destination: str | None,
) -> None:
    cluster = Cluster(addresses, speaks_tls)
    monkeypatch.setattr(unloads, "request_unload", cluster.request)
    await cluster.unloader()(move(OWNER, destination))
    assert cluster.asked == [(url, UnloadRequest(BUNDLE, destination or None, ME, 7.0))]
    assert cluster.tally.ordered == 0, "its owner counts it"


@pytest.mark.parametrize("destination", [OTHER, None, ""])
async def test_the_leaders_own_bundles_are_unloaded_here(destination: str | None) -> None:
    cluster = Cluster()
    await cluster.unloader()(move(ME, destination))
    assert (cluster.asked, cluster.tally.ordered) == ([(BUNDLE, destination or None)], 1)
    cluster.refuses = BrokerError(ServerError.ServiceNotReady, "not owned")
    with pytest.raises(BrokerError, match="not owned"):
        await cluster.unloader()(move(ME, destination))
    assert cluster.tally.ordered == 1, "it was not unloaded"


@pytest.mark.parametrize("addresses", [None, (None, None)])
async def test_a_broker_that_has_left_is_given_no_order(
    addresses: tuple[str | None, str | None] | None,
) -> None:
    with pytest.raises(BrokerError, match=f"{OWNER} has left"):
        await Cluster(addresses).unloader()(move(OWNER, OTHER))


@pytest.mark.parametrize("is_released", [True, False])
@pytest.mark.parametrize(("destination", "to"), [(ME, ME), (None, OTHER), ("", OTHER)])
async def test_by_records_a_bundle_goes_to_its_destination_or_to_the_chosen_broker(
    destination: str | None, to: str, is_released: bool
) -> None:
    cluster = Cluster(is_released=is_released)
    by_records = RecordUnloader(cast("Any", cluster), cast("Any", cluster))
    if is_released:
        await by_records(move(OWNER, destination))
    else:
        with pytest.raises(BrokerError, match=f"{OWNER} has released it to {to}"):
            await by_records(move(OWNER, destination))
    assert cluster.asked == [(BUNDLE, OWNER, to)]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "did not answer in 0.05 s"),
        ("304 Not Modified\r\n\r\n", "answers 304: Not Modified"),
        ("412 Precondition Failed\r\nContent-Length: 7\r\n\r\nnot now", "answers 412: not now"),
    ],
)
async def test_an_owner_that_does_not_confirm_an_unload_is_quoted(said: str, why: str) -> None:
    left = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if said:
            writer.write(f"HTTP/1.1 {said}".encode())
        else:
            while await reader.read(4096):
                pass
        writer.close()
        await writer.wait_closed()
        left.set()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        request = UnloadRequest(BUNDLE, None, ME, within_s=10.0 if said else 0.05)
        with pytest.raises(BrokerError, match=f"{BUNDLE} was not unloaded: {url} {why}"):
            await unloads.request_unload(url, request, ANONYMOUS)
        async with asyncio.timeout(WITHIN_S):
            await left.wait()
