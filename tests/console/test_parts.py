"""What a page shows and what a click in it does, on NiceGUI's own stand-in for a browser."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import aiohttp
import pytest
from nicegui import ElementFilter, ui
from nicegui.elements.mixins.text_element import TextElement
from nicegui.testing import User, user_simulation

from counterpoise.app.verbs.console import drain_rules_of, strategy_of
from counterpoise.console import page as page_module
from counterpoise.console.actions import Actions
from counterpoise.console.balancer_rounds import BalancerRounds
from counterpoise.console.cluster_watch import ClusterWatch
from counterpoise.console.options import ConsoleOptions, WatchOptions
from counterpoise.console.page import Page
from counterpoise.console.page_session import Sources
from counterpoise.console.parts import cluster_map
from counterpoise.console.parts.activity_lists import clock, moment
from counterpoise.picture.figures import in_words
from counterpoise.picture.observed import ChangeKind, LoadCurve, OwnerChange
from counterpoise.picture.recorded_load import RecordedLoad
from counterpoise.picture.round_summary import Explanation, RoundSummary
from counterpoise.picture.trades import Trade
from counterpoise.picture.treemap import TileKind
from counterpoise.security.client import ClientSecurity
from counterpoise.security.options import ClientOptions
from tests.picture.pictures import picture_of
from tests.pipeline.fake_cluster import FakeCluster, wide_bundle
from tests.waiting import until

ASKED = "/admin/v2/brokers/configuration/runtime"
FIRST, SECOND = wide_bundle(1), wide_bundle(2)
ANN, BOB = "a.eyJzdWIiOiJhbm4ifQ.c", "b.eyJzdWIiOiJib2IifQ.d"
DAY_MS = 86_400_000


@dataclass
class Reader:
    """A history whose answers a test holds back, by what is asked for."""

    found: dict[str, RecordedLoad] = field(default_factory=dict)
    held: dict[str, threading.Event] = field(default_factory=dict)
    asked: list[tuple[TileKind, str, int]] = field(default_factory=list)

    def read(self, after_ms: int) -> tuple[tuple[RoundSummary, ...], str]:
        return (), ""

    def recorded(self, what: TileKind, key: str, after_ms: int) -> RecordedLoad:
        self.asked.append((what, key, after_ms))
        if key in self.held:
            self.held[key].wait(20)
        return self.found.get(key, RecordedLoad())

    def say(self, wish: str, now_ms: int, why: str) -> None:
        raise AssertionError("no order is given here")


@dataclass
class Shown:
    """A page that is open, and what it is about."""

    user: User
    sources: Sources
    now_ms: list[int]

    @property
    def texts(self) -> list[str]:
        """All that can be read on it."""
        with self.user:
            seen = ElementFilter(kind=TextElement, only_visible=True, local_scope=False)
            return [each.text for each in seen if each.text]

    def labelled(self, label: str, kind: type[ui.element] = ui.element) -> ui.element:
        with self.user:
            found = ElementFilter(kind=kind, local_scope=False)
            named = ("aria-label", "label")
            return next(it for it in found if label in [it.props.get(name) for name in named])

    def pictures(self) -> list[str]:
        """What those who see no pictures are given in their place."""
        with self.user:
            found = ElementFilter(local_scope=False)
            return [it.props.get("aria-label", "") for it in found if it.props.get("role") == "img"]

    def click(self, text: str) -> None:
        self.user.find(text).trigger("click")

    def button(self, text: str) -> ui.button:
        return min(self.user.find(kind=ui.button, content=text).elements, key=lambda each: each.id)

    async def choose(self, key: str, tab: str = "Bundles") -> None:
        self.user.find(kind=ui.tab, content=tab).click()
        await until(lambda: key in self.texts, key)
        self.click(key)

    async def reads(self, text: str) -> None:
        await until(lambda: any(text in each for each in self.texts), text)


@asynccontextmanager
async def opened(
    cluster: FakeCluster,
    reader: Reader | None = None,
    trades: Sequence[tuple[str, Sequence[Trade]]] = (),
    *,
    acts: bool = True,
    every_s: float = 2.0,
) -> AsyncIterator[Shown]:
    """A page about the cluster as it is at the first look; a test makes the next ones."""
    now_ms = [1_600_000_000_000]
    security = ClientSecurity(ClientOptions(plugin="token", parameters=f"token:{ANN}"))
    watching = WatchOptions([cluster.admin_url], every_s, security=security)
    options = ConsoleOptions(watching, strategy_of, drain_rules_of, acts=acts)
    async with aiohttp.ClientSession() as session:
        watch = ClusterWatch(session, options, lambda: now_ms[0])
        await watch.poll()
        actions = Actions(lambda: now_ms[0], watch.move_completed)
        rounds = BalancerRounds(reader, lambda: now_ms[0])
        sources = Sources(watch, actions, rounds, lambda: trades, lambda: now_ms[0])
        async with user_simulation(root=lambda: Page(sources).build()) as user:
            client = await user.open("/")
            yield Shown(user, sources, now_ms)
            client.delete()
        await actions.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "REFRESH_EVERY_S", 0.01)


@pytest.fixture
async def four() -> AsyncIterator[FakeCluster]:
    """Brokers with much, little and no load, and a silent one."""
    async with FakeCluster() as cluster:
        first, second, _, silent = [await cluster.add_broker() for _ in range(4)]
        cluster.carry(first, FIRST, 3000.0)
        cluster.carry(first, wide_bundle(3), 1000.0)
        cluster.carry(second, SECOND, 1000.0)
        silent.silent = True
        first.answers[ASKED] = (200, b"{}")
        yield cluster


async def test_a_transfer_is_carried_out_once_and_not_before_the_cluster_permits_it(
    four: FakeCluster,
) -> None:
    much, little, none, _ = four.names
    async with opened(four) as shown:
        held = four.brokers[0].hangs_at[ASKED] = asyncio.Event()
        await shown.choose(FIRST)
        shown.click("Transfer…")
        await shown.reads("asking whether")
        choice = shown.labelled("To which broker", ui.select)
        assert isinstance(choice, ui.select)
        assert (list(choice.options), choice.value) == ([none, little], none)
        assert not shown.button("Carry it out").enabled
        shown.click("Carry it out")  # as a browser may, whatever is shown
        held.set()
        await shown.reads("the cluster takes this for a superuser")
        assert shown.button("Carry it out").enabled
        for _ in range(2):
            shown.click("Carry it out")
        await shown.reads(f"Transfer {FIRST} to {none}: begun")
        await until(lambda: four.owners[FIRST] == none)
        assert four.unloads == [(FIRST, none)]
    assert much not in choice.options


async def test_what_a_role_may_not_do_cannot_be_confirmed(four: FakeCluster) -> None:
    four.brokers[0].answers[ASKED] = (403, b"")
    async with opened(four) as shown:
        await shown.choose(SECOND)
        shown.click("Unload…")
        await shown.reads("the cluster refuses ann (the console's own token)")
        assert not shown.button("Carry it out").enabled
        shown.click("Carry it out")
        assert shown.sources.actions.activities == []


@pytest.mark.parametrize("acts", [True, False])
async def test_an_operator_signs_in_with_one_word_and_leaves(four: FakeCluster, acts: bool) -> None:
    before = "ann (the console's own token)" if acts else "anonymous"
    async with opened(four, acts=acts) as shown:
        assert shown.labelled(f"Who acts: {before}" if acts else "Who acts: anonymous (no "
                              "credential is presented to the cluster)")  # fmt: skip
        shown.click("Sign in")
        await shown.reads(f"You act as {before}")
        given = shown.labelled("Your token", ui.input)
        assert isinstance(given, ui.input)
        for wrong in ("", "two words", "tokén"):
            given.value = wrong
            shown.click("Act with it")
            await shown.reads("that is no token")
        given.value = f" {BOB}\n"
        shown.click("Act with it")
        await shown.reads("You act as bob (your token)")
        assert given.value == ""
        shown.click("Signed in")
        shown.click("Act without it")
        await shown.reads(f"You act as {before}")


def summary(at_ms: int, sentence: str = "", rounds: int = 1) -> RoundSummary:
    stays = (Explanation("b:1", sentence or f"stays at {at_ms}"),)
    return RoundSummary(at_ms, at_ms + 7000 * (rounds - 1), rounds, "s", 0.5, None, (), stays, 0)


async def test_the_latest_thirty_rounds_are_listed_as_they_are_by_now(four: FakeCluster) -> None:
    async with opened(four) as shown:
        rounds = shown.sources.rounds
        rounds.summaries = tuple(summary(60_000 * number) for number in range(31))
        await shown.reads("b:1: stays at 1800000")
        assert "b:1: stays at 60000" in shown.texts
        assert "b:1: stays at 0" not in shown.texts
        changed = summary(1_800_000, "stays after all", rounds=3)
        rounds.summaries = (*rounds.summaries[:-1], changed)
        await shown.reads("b:1: stays after all")
        assert "b:1: stays at 1800000" not in shown.texts
        assert "00:30:00 to 00:30:14 UTC, 3 rounds, s" in shown.texts
        shown.sources.watch.shed = (summary(1_000, "is the leader's"),)
        rounds.summaries = ()
        await shown.reads("b:1: is the leader's")
        assert "b:1: stays after all" not in shown.texts


def test_a_time_has_its_date_unless_it_is_today() -> None:
    assert moment(DAY_MS - 1000, DAY_MS - 1) == "23:59:59"
    assert moment(DAY_MS - 1000, DAY_MS) == "1970-01-01 23:59"
    assert moment(0, 31 * DAY_MS) == "1970-01-01 00:00"


@pytest.mark.parametrize(("count", "pages"), [(20, 1), (21, 2), (40, 2)])
async def test_a_long_list_is_shown_a_page_at_a_time(
    four: FakeCluster, count: int, pages: int
) -> None:
    async with opened(four) as shown:
        now = shown.sources.clock_ms()
        many = {f"b{n:02}:1": {f"p/d/{n}": 100.0 - n} for n in range(count)}
        shown.sources.watch.picture = picture_of(many, now)
        await until(lambda: "b00:1" in shown.texts)
        place = f", page 1 of {pages}" if pages > 1 else ""
        assert f"{count} brokers{place}" in shown.texts
        last = f"b{count - 1:02}:1"
        assert (last in shown.texts) == (pages == 1)
        if pages > 1:
            shown.click("Next")
            await shown.reads(f"{count} brokers, page 2 of {pages}")
            assert last in shown.texts
            assert not shown.button("Next").enabled
            assert shown.button("Previous").enabled


async def test_how_old_the_picture_is_and_what_is_wrong(four: FakeCluster) -> None:
    async with opened(four, every_s=20.0) as shown:
        watch, then = shown.sources.watch, shown.now_ms[0]
        await shown.reads("live, seen 0 s ago")
        for age_s, said in ((30, "live, seen 30 s ago"), (31, "a look takes long: seen 31 s ago")):
            shown.now_ms[0] = then + 1000 * age_s
            await shown.reads(said)
        watch.picture = replace(watch.picture, trouble="no broker answers")
        await shown.reads(f"no broker answers. What is shown is of {clock(then)} UTC.")
        assert "out of reach" in shown.texts


async def test_the_map_follows_the_cluster_and_shows_a_broker_alone_while_it_is_there(
    four: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(four) as shown:
        watch = shown.sources.watch

        one = picture_of({"a:1": {FIRST: 5.0}, "b:1": {}}, shown.now_ms[0])
        two = picture_of({"a:1": {FIRST: 9.0}, "b:1": {SECOND: 1.0}}, shown.now_ms[0])
        before = next(each for each in shown.pictures() if each == in_words(watch.picture))
        # The browser has not drawn yet what it was sent.
        watch.picture = one
        await until(lambda: "a:1" in shown.texts)
        assert before in shown.pictures()
        shown.user.find(kind=ui.echart).trigger("chart:finished")
        await until(lambda: in_words(one) in shown.pictures())
        # One that never says so is sent all of it again.
        monkeypatch.setattr(cluster_map, "PATIENCE_S", -1.0)
        watch.picture = two
        await until(lambda: in_words(two) in shown.pictures())
        await shown.choose("b:1", "Brokers")
        shown.click("Show it alone")
        await shown.reads("All brokers")
        watch.picture = picture_of({"a:1": {FIRST: 7.0}}, shown.now_ms[0])
        await until(lambda: "All brokers" not in shown.texts)


async def test_a_curve_is_of_what_is_chosen_whatever_is_answered_late(four: FakeCluster) -> None:
    def recorded(load: float) -> RecordedLoad:
        return RecordedLoad(LoadCurve((1, 2), (load, load), (1.0, 1.0)))

    reader = Reader({FIRST: recorded(5e6), SECOND: recorded(7e6)}, {FIRST: threading.Event()})
    async with opened(four, reader) as shown:
        await shown.choose(FIRST)
        span = shown.labelled("How far back", ui.select)
        assert isinstance(span, ui.select)
        with shown.user:
            span.value = 3600
        await shown.reads("reading the history …")
        await until(lambda: reader.asked)
        assert reader.asked == [(TileKind.BUNDLE, FIRST, shown.now_ms[0] - 3_600_000)]
        await shown.choose(SECOND)
        await until(lambda: any("7.0 MB/s" in each for each in shown.pictures()))
        reader.held[FIRST].set()
        await asyncio.sleep(0)
        await shown.choose(SECOND)
        assert not [each for each in shown.pictures() if "5.0 MB/s" in each]


async def test_what_happened_is_what_was_seen_and_before_that_what_was_recorded(
    four: FakeCluster,
) -> None:
    def change(at_ms: int, source: str) -> OwnerChange:
        return OwnerChange(at_ms, FIRST, ChangeKind.MOVED, source, "b:1")

    old = (change(1_000, "older"), change(3_000, "twice"), change(5_000, "never"))
    reader = Reader({FIRST: RecordedLoad(LoadCurve((1,), (1.0,), (1.0,)), old)})
    async with opened(four, reader) as shown:
        watch = shown.sources.watch
        watch.past = replace(watch.past, changes=(change(3_000, "first"), change(9_000, "last")))
        await shown.choose(FIRST)
        span = shown.labelled("How far back", ui.select)
        assert isinstance(span, ui.select)
        with shown.user:
            span.value = 3600
        await shown.reads("moved from older to b:1")
        text = " ".join(shown.texts)
        places = [text.find(f"moved from {each} to b:1") for each in ("last", "first", "older")]
        assert -1 not in places
        assert places == sorted(places)
        assert "from twice" not in text
        assert "from never" not in text


async def test_bundles_of_two_brokers_and_of_none_are_on_their_way(four: FakeCluster) -> None:
    async with opened(four) as shown:
        watch = shown.sources.watch
        assert "Every bundle has an owner, and only one." in shown.texts
        watch.picture = picture_of({"a:1": {FIRST: 5.0}, "b:1": {FIRST: 5.0}}, shown.now_ms[0])
        watch.past = replace(watch.past, away={SECOND: (3_600_000, "a:1")})
        await shown.reads(f"{FIRST}: a:1 and b:1 report it, it changes hands")
        assert f"{SECOND}: no broker reports it since 01:00:00; a:1 had it" in shown.texts


async def test_backtests_are_rows_and_sentences(four: FakeCluster) -> None:
    trades = (Trade("x", 1.25, 0.5, 1200, 3, True), Trade("y", 2.5, 0.75, 7, 0, False))
    async with opened(four, trades=[("june", trades)]) as shown:
        shown.user.find(kind=ui.tab, content="Backtests").click()
        await shown.reads("1.25 times")
        text = shown.texts
        first, second = text.index("x"), text.index("y")
        assert text[first:second] == ["x", "0.500", "1.25 times", "1,200", "3", "yes"]
        assert text[second : second + 5] == ["y", "0.750", "2.50 times", "7", "0"]
        assert text.count("yes") == 1
        assert f"{trades[0].sentence}. {trades[1].sentence}." in shown.pictures()
