"""What a broker does with its bundles when a step fails, is late, or comes twice."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.moves import BundleMoves
from counterpoise.broker.bundles.tally import FAILURE, SKIP, SUCCESS, BundleTally
from counterpoise.metadata import StoreUnavailable
from counterpoise.names.bundle import BundleName, NamespaceBundles
from counterpoise.names.namespace import NamespaceName
from counterpoise.ownership.channel.sense import PARTS_MAX
from counterpoise.ownership.port import BundleLocation
from counterpoise.ownership.records import NamespaceEphemeralData
from tests.quota.jumping import now_ns, on_jumping_loop, pass_time

NAMESPACE = NamespaceName("t", "n")
WHOLE, OTHER = NamespaceBundles.of_count(NAMESPACE, 2).bundles
MIDDLE = (WHOLE.range.lower + WHOLE.range.upper) // 2


class Surroundings:
    """All that moves ask, with one broker more than this one; each call is noted."""

    my_id = "me:1"
    changes_by_record = True
    on_split: Any = None

    def __init__(self) -> None:
        self.others = ["b2:1"]
        self.chosen: str | None = "b2:1"
        self.preferred: Sequence[str] = ()
        self.calls: list[tuple[Any, ...]] = []
        self.mine: set[BundleName] = {WHOLE, OTHER}
        self.listed = NamespaceBundles.of_count(NAMESPACE, 2)
        self.fails: dict[str, BaseException] = {}
        self.releases = self.announces = True
        self.taken_by: str | None = None
        self.comes_to: str | None = None
        self.hold: asyncio.Event | None = None
        self.points: Sequence[int] = (MIDDLE,)
        self.tally = BundleTally()
        self.moves = BundleMoves(
            *[cast("Any", self)] * 6, split_points=self._split_points, tally=self.tally
        )

    def note(self, *call: Any) -> None:
        self.calls.append(call)
        if call[0] in self.fails:
            raise self.fails[call[0]]

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [rest for call, *rest in self.calls if call == name]  # type: ignore[misc]

    async def active(self) -> list[str]:
        return [self.my_id, *self.others]

    async def choose(self, bundle: BundleName, without: Collection[str] = ()) -> str | None:
        return next((each for each in self.preferred if each not in without), self.chosen)

    async def get(self, namespace: NamespaceName) -> NamespaceBundles:
        return self.listed

    async def update(
        self, namespace: NamespaceName, change: Callable[[NamespaceBundles], NamespaceBundles]
    ) -> None:
        self.note("update")
        self.listed = change(self.listed)

    async def share_bundles(self, bundles: NamespaceBundles) -> None:
        self.note("share", len(bundles.bundles))

    def serves(self, bundle: BundleName) -> bool:
        return bundle in self.mine

    def owned(self) -> list[BundleName]:
        return sorted(self.mine)

    async def locate(self, bundle: BundleName) -> BundleLocation:
        self.note("locate", bundle)
        owner = None if self.taken_by is None else NamespaceEphemeralData("", self.taken_by)
        return BundleLocation(owner=owner, successor=self.comes_to)

    async def release(self, bundle: BundleName, successor: str | None) -> bool:
        self.note("release", bundle, successor, now())
        self.mine.discard(bundle)
        return self.releases

    async def announce_split(self, bundle: BundleName, parts: Sequence[BundleName]) -> bool:
        self.note("announce", bundle)
        return self.announces

    def finish_split(self, bundle: BundleName) -> None:
        self.note("finish", bundle)

    async def acquire(self, bundle: BundleName, *, as_split_part: bool = False) -> bool:
        if self.hold is not None:
            await self.hold.wait()
        self.note("acquire", bundle, as_split_part)
        if self.taken_by is None:
            self.mine.add(bundle)
        return self.taken_by is None

    async def replaced(self, bundle: BundleName) -> None:
        self.note("replaced", bundle)
        self.mine.discard(bundle)

    async def _split_points(
        self, bundle: BundleName, algorithm: str | None, boundaries: Sequence[int]
    ) -> Sequence[int]:
        return self.points


def now() -> float:
    try:
        return round(now_ns() / 1e9, 1)
    except AssertionError:
        return 0.0


def parts_of(here: Surroundings) -> list[BundleName]:
    return [each for each in here.listed.bundles if each != OTHER]


async def test_an_unload_that_another_step_overtook_is_refused_and_counted() -> None:
    here = Surroundings()
    here.releases = False
    with pytest.raises(BrokerError, match="not owned"):
        await here.moves.unload(WHOLE)
    assert here.tally.unloaded == {FAILURE: 1}


async def test_a_bundle_does_not_stay_where_it_is_unloaded_though_that_is_the_best_place() -> None:
    here = Surroundings()
    here.preferred = (here.my_id, "b3:1")
    here.others.append("b3:1")
    await here.moves.unload(WHOLE)
    assert [[bundle, to] for bundle, to, _ in here.named("release")] == [[WHOLE, "b3:1"]]


async def test_what_is_not_served_here_is_neither_unloaded_nor_split() -> None:
    here = Surroundings()
    here.mine.clear()
    for step in (here.moves.unload(WHOLE), here.moves.split(WHOLE)):
        with pytest.raises(BrokerError, match="not owned"):
            await step
    assert here.calls == []


async def test_a_bundle_that_policies_allow_no_other_broker_comes_back() -> None:
    here = Surroundings()
    here.preferred, here.chosen = (here.my_id,), None
    await here.moves.unload(WHOLE)
    assert [[bundle, to] for bundle, to, _ in here.named("release")] == [[WHOLE, here.my_id]]


async def test_a_split_that_another_step_overtook_is_refused_and_cuts_nothing() -> None:
    here = Surroundings()
    here.announces = False
    with pytest.raises(BrokerError, match="not owned"):
        await here.moves.split(WHOLE)
    assert len(here.listed.bundles) == 2
    assert here.named("finish") == []
    assert here.tally.split == {FAILURE: 1}


async def test_the_owner_afterwards_is_the_broker_that_a_bundle_is_moving_to() -> None:
    here = Surroundings()
    here.taken_by, here.comes_to = "http://b3:1", "b2:1"
    assert await here.moves.unload(WHOLE) == "b2:1"
    here.comes_to = None
    assert await here.moves.unload(OTHER) == "b3:1"


async def test_the_new_owner_is_not_known_while_the_store_is_away() -> None:
    here = Surroundings()
    here.fails["locate"] = StoreUnavailable("x", "y")
    assert await here.moves.unload(WHOLE) is None
    assert here.tally.unloaded == {SUCCESS: 1}


@pytest.mark.parametrize(("unloads_per_s", "second_s"), [(1, 1.0), (2, 0.5), (0, 0.0), (-1, 0.0)])
@on_jumping_loop
async def test_a_broker_that_leaves_hands_over_at_its_rate_to_those_that_are_there(
    unloads_per_s: int, second_s: float
) -> None:
    here = Surroundings()
    here.chosen = "gone:1"
    await here.moves.leave(unloads_per_s=unloads_per_s)
    assert here.named("release") == [[WHOLE, None, 0.0], [OTHER, None, second_s]]


async def test_a_bundle_that_fails_keeps_no_other_on_a_broker_that_leaves(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here = Surroundings()
    third = BundleName(NamespaceName("t", "other"), WHOLE.range)
    here.mine.add(third)

    async def choose(bundle: BundleName, without: Collection[str] = ()) -> str | None:
        if bundle == WHOLE:
            raise TypeError("its policies are none")
        await asyncio.sleep(0)
        return "b2:1"

    async def release(bundle: BundleName, successor: str | None) -> bool:
        here.note("release", bundle, successor)
        if bundle == OTHER:
            raise StoreUnavailable(str(bundle), "in vain")
        await asyncio.sleep(0)
        here.note("released", bundle)
        return True

    monkeypatch.setattr(here, "choose", choose)
    monkeypatch.setattr(here, "release", release)
    await here.moves.leave()
    assert sorted(here.named("release")) == [[WHOLE, None], [OTHER, "b2:1"], [third, "b2:1"]]
    assert sorted(here.named("released")) == [[WHOLE], [third]]
    assert f"{WHOLE} goes to no broker before it is looked up: TypeError" in caplog.text
    assert f"{OTHER} is not handed over" in caplog.text


@pytest.mark.parametrize("unload", [True, False])
async def test_a_split_enters_the_parts_shares_them_and_unloads_each_if_asked(unload: bool) -> None:
    here = Surroundings()
    parts = await here.moves.split(WHOLE, unload=unload)
    assert [*parts] == parts_of(here)
    assert here.named("acquire") == [[part, True] for part in parts]
    assert here.named("replaced") == [[WHOLE]]
    assert here.named("finish") == [[WHOLE]]
    assert here.named("share") == [[3]]
    assert [bundle for bundle, *_ in here.named("release")] == ([*parts] if unload else [])
    assert here.tally.split == {SUCCESS: 1}


async def test_a_split_goes_on_when_its_caller_goes_away() -> None:
    here = Surroundings()
    here.hold = asyncio.Event()
    asked = asyncio.ensure_future(here.moves.split(WHOLE))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    here.hold.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(parts_of(here)) == 2
    assert WHOLE not in here.mine


@on_jumping_loop
async def test_of_two_splits_of_a_bundle_the_second_finds_it_gone() -> None:
    here = Surroundings()
    here.hold = asyncio.Event()
    both = [asyncio.ensure_future(here.moves.split(WHOLE)) for _ in range(2)]
    await pass_time(1)
    assert len(here.named("announce")) == 1
    here.hold.set()
    _, second = await asyncio.gather(*both, return_exceptions=True)
    assert isinstance(second, BrokerError)
    assert here.tally.split == {SUCCESS: 1, FAILURE: 1}


async def test_an_algorithm_that_sees_no_need_changes_nothing() -> None:
    here = Surroundings()
    here.points = ()
    assert await here.moves.split(WHOLE) == ()
    assert here.calls == []
    assert here.tally.split == {SKIP: 1}


@pytest.mark.parametrize("parts", [PARTS_MAX, PARTS_MAX + 1])
async def test_a_bundle_is_cut_into_a_thousand_parts_at_most(parts: int) -> None:
    here = Surroundings()
    points = [WHOLE.range.lower + 1 + number for number in range(parts - 1)]
    if parts <= PARTS_MAX:
        assert len(await here.moves.split(WHOLE, at=points)) == parts
        return
    with pytest.raises(BrokerError, match="at most 1000"):
        await here.moves.split(WHOLE, at=points)
    assert here.calls == []


@pytest.mark.parametrize("by_record", [True, False])
async def test_a_split_that_fails_gives_its_parts_back_unless_it_was_announced(
    by_record: bool,
) -> None:
    here = Surroundings()
    here.changes_by_record = by_record
    here.fails["update"] = BrokerError(0, "x")  # type: ignore[arg-type]
    with pytest.raises(BrokerError):
        await here.moves.split(WHOLE)
    assert len(here.named("replaced")) == (0 if by_record else 2)
    assert here.named("finish") == [[WHOLE]], "what was announced cannot be taken back"
    assert here.named("share") == []


@pytest.mark.parametrize(("by_record", "owner"), [(True, "b2:1"), (False, "b2:1"), (True, None)])
async def test_a_part_that_another_broker_owns_is_a_step_that_was_done_by_record_alone(
    by_record: bool, owner: str | None
) -> None:
    here = Surroundings()
    here.changes_by_record, here.taken_by = by_record, owner
    if by_record or owner is None:
        await here.moves.split(WHOLE)
        assert here.named("replaced") == [[WHOLE]]
        return
    with pytest.raises(BrokerError, match="is owned elsewhere"):
        await here.moves.split(WHOLE)


async def test_bundles_that_cannot_be_shared_are_split_all_the_same() -> None:
    here = Surroundings()
    here.fails["share"] = StoreUnavailable("x", "y")
    assert len(await here.moves.split(WHOLE)) == 2


async def test_a_split_that_was_entered_already_ends_with_the_parent() -> None:
    here = Surroundings()
    await here.moves.split(WHOLE)
    here.calls.clear()
    await here.moves.split_into(WHOLE, parts_of(here))
    assert [call for call, *_ in here.calls] == ["replaced", "share"]
