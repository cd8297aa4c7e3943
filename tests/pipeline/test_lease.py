"""The lease of a history in an object store: never two at once, though one is late or stood still.

No test waits for a lease to lapse: each holder and each taker has a clock of its own, which the
test moves; a process that stood still is one whose clock has jumped.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from counterpoise.pipeline.history.lease import LeaseOptions, lease
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.tables.faults import HistoryFaultError, HistoryInUseError
from tests.pipeline.s3_server import Bucket, bucket, own_path

pytestmark = pytest.mark.timeout(60)
OPTIONS = LeaseOptions(lasts_s=30.0, holds_s=20.0, renew_every_s=0.02, wait_s=1e9)
"""Renewed as often as the machine likes, and never too late unless a clock jumps."""
IMPATIENT = replace(OPTIONS, wait_s=0.0)
SLOWER = replace(OPTIONS, renew_every_s=0.4)
"""Where many look, so that they leave the store time for more than their questions."""
NEVER = replace(OPTIONS, renew_every_s=1e6)
"""Never renewed, so that a test says what happens when."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Bucket]:
    with bucket() as made:
        yield made


@pytest.fixture
def store(endpoint: Bucket, request: pytest.FixtureRequest) -> Iterator[Store]:
    yield open_store(endpoint.uri(f"leases/{own_path(request.node.name)}"))
    endpoint.refuse, endpoint.before, endpoint.heard = "", None, None


@dataclass
class Process:
    """One machine's clock, and whoever holds the lease there."""

    now: float = 0.0
    runs: float = 0.0
    """How far the clock goes by itself whenever it is read."""
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    def clock(self) -> float:
        self.now += self.runs
        return self.now

    async def takes(self, store: Store, options: LeaseOptions = OPTIONS) -> Store:
        held = lease(store, self.lost.set, options, self.clock)
        return await self.stack.enter_async_context(held)


def writes(store: Store, name: str = "rounds/x") -> bool:
    """Whether a store lets us write."""
    with suppress(HistoryFaultError):
        store.write(name, b"x")
        return True
    return False


def claims(store: Store) -> list[str]:
    return store.names("claims")


async def test_a_directory_that_is_not_there_yet_is_made_with_all_above_it(tmp_path: Path) -> None:
    there = tmp_path / "clusters" / "one"
    async with lease(open_store(there), lambda: None, OPTIONS) as held:
        assert writes(held)
    assert there.is_dir()


async def test_who_is_alive_keeps_it_and_whoever_lets_go_leaves_nothing(store: Store) -> None:
    one, two, three = Process(), Process(), Process()
    mine = await one.takes(store)
    # However far the other's clock is ahead: it is not compared.
    two.now = 1e9
    with pytest.raises(HistoryInUseError, match=r"process .* writes s3://bucket/leases"):
        await two.takes(store, IMPATIENT)
    waiting = asyncio.create_task(three.takes(store))
    assert writes(mine)
    await one.stack.aclose()
    assert writes(await waiting)
    await three.stack.aclose()
    assert claims(store) == []
    assert not any(each.lost.is_set() for each in (one, two, three))


async def test_a_claim_of_somebody_killed_is_watched_for_as_long_as_it_lasts(store: Store) -> None:
    store.write("claims/dead.json", b'{"holder": "h", "lasts_s": 30.0, "renewals": 7}')
    mine = Process(runs=0.0)
    taking = asyncio.create_task(mine.takes(store, IMPATIENT))
    looked, read = asyncio.Event(), Store.read
    loop = asyncio.get_running_loop()

    def seen(self: Store, name: str, parse: object) -> object:
        loop.call_soon_threadsafe(looked.set)
        return read(self, name, parse)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Store, "read", seen)
        for now in (0.0, 10.0, 29.9):
            mine.now = now
            for _ in range(2):  # the first look may have begun before
                looked.clear()
                await looked.wait()
            assert not taking.done()
        mine.now = 30.0
        await taking
    assert claims(store) != ["dead.json"]
    assert len(claims(store)) == 1
    await mine.stack.aclose()


async def test_a_claim_that_arrives_late_finds_the_history_taken(
    store: Store, endpoint: Bucket
) -> None:
    """Both saw that nobody has it; one's claim is on its way until the other holds it."""
    slow, quick = Process(), Process()
    arrived, go_on, on_its_way = threading.Event(), threading.Event(), set[str]()

    def before(name: str) -> None:
        if "/claims/" in name and not arrived.is_set():
            on_its_way.add(name)
            arrived.set()
        if name in on_its_way:
            go_on.wait(30)

    endpoint.before = before
    late = asyncio.create_task(slow.takes(store, IMPATIENT))
    await asyncio.to_thread(arrived.wait, 30)
    mine = await quick.takes(store)
    go_on.set()
    with pytest.raises(HistoryInUseError):
        await late
    assert writes(mine)
    assert not quick.lost.is_set()
    await quick.stack.aclose()


async def test_of_many_at_once_one_has_it_at_a_time(store: Store) -> None:
    inside, most = 0, 0

    async def turn() -> None:
        nonlocal inside, most
        process = Process()
        mine = await process.takes(store, SLOWER)
        inside += 1
        most = max(most, inside)
        assert await asyncio.to_thread(writes, mine)
        inside -= 1
        await process.stack.aclose()
        assert not process.lost.is_set()

    await asyncio.gather(*(turn() for _ in range(3)))
    assert most == 1
    assert claims(store) == []


async def test_who_stood_still_goes_on_when_nobody_came(store: Store) -> None:
    process = Process()
    mine = await process.takes(store, NEVER)
    process.now = 1e6
    assert writes(mine)
    assert not process.lost.is_set()
    await process.stack.aclose()


async def test_who_stood_still_writes_nothing_once_another_came(store: Store) -> None:
    """As one that was stopped, or whose machine slept, in the middle of a round."""
    old, new = Process(), Process(runs=5.0)
    mine = await old.takes(store, NEVER)
    theirs = await new.takes(store, NEVER)
    old.now = 20.0
    before = store.names("rounds")
    for change in (
        lambda: mine.write("rounds/x", b"x"),
        lambda: mine.delete("rounds/y"),
        lambda: mine.move("rounds/y", "rounds/z"),
        lambda: mine.delete_directory("rounds"),
        mine.guard,
    ):
        with pytest.raises(HistoryFaultError, match="has taken s3://bucket/leases"):
            change()
    assert store.names("rounds") == before
    new.runs = 0.0
    assert writes(theirs)
    await old.stack.aclose()
    assert len(claims(store)) == 1, "who goes takes its own claim alone"
    await new.stack.aclose()


async def test_a_holder_hears_that_another_has_it(store: Store) -> None:
    old, new = Process(), Process()
    await old.takes(store)
    [claim] = claims(store)
    store.delete(f"claims/{claim}")  # as whoever took it for dead does
    await new.takes(store)
    await asyncio.wait_for(old.lost.wait(), 30)
    await new.stack.aclose()
    await old.stack.aclose()


@pytest.mark.parametrize("began", [10.0, 25.0], ids=["in time", "too late"])
async def test_a_renewal_that_comes_back_too_late_is_looked_after(
    store: Store, endpoint: Bucket, began: float
) -> None:
    """It was on its way for longer than the lease lasts; another came meanwhile, and went again.

    Who renews too late is whoever wants to write: it looks before and after, all by itself.
    """
    old = Process()
    mine = await old.takes(store, NEVER)
    [claim] = claims(store)

    def before(name: str) -> None:
        if name.endswith(claim):
            endpoint.before = None
            old.now = 40.0
            store.write("claims/new.json", b"{}")

    renew = mine.guard.__self__.renew  # type: ignore[attr-defined]
    old.now, endpoint.before = began, before
    change = renew if began < OPTIONS.holds_s else lambda: writes(mine)
    assert not await asyncio.wait_for(asyncio.to_thread(change), 30)
    assert endpoint.before is None, "it was renewed"
    store.delete("claims/new.json")
    assert not writes(mine), "who came may have written, though it is gone"
    await old.stack.aclose()


async def test_a_store_that_refuses_for_a_while_costs_no_lease(
    store: Store, endpoint: Bucket
) -> None:
    process = Process()
    mine = await process.takes(store)
    tried, renewed = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    claim = f"/{claims(store)[0]}"
    refused = Store.write

    def written(self: Store, name: str, data: bytes) -> None:
        try:
            refused(self, name, data)
        except HistoryFaultError:
            loop.call_soon_threadsafe(tried.set)
            raise
        if name.endswith(claim):
            loop.call_soon_threadsafe(renewed.set)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Store, "write", written)
        endpoint.refuse = "/claims/"
        await asyncio.wait_for(tried.wait(), 30)
        endpoint.refuse = ""
        renewed.clear()
        await asyncio.wait_for(renewed.wait(), 30)
    assert writes(mine)
    assert not process.lost.is_set()
    await process.stack.aclose()
