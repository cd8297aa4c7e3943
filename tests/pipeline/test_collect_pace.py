"""How brokers are asked: so many at once, each with its own time, and none blamed for ours."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import aiohttp
import pytest

from counterpoise.load.poll_rows import Fetched, Gap, poll_rows
from counterpoise.pipeline.collect.admin import Admin, AdminOptions, LoopLag
from counterpoise.pipeline.collect.beside import Beside, Hung
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.poll_log import PollLog, trouble
from counterpoise.pipeline.collect.serving import SERVES_NO_LOOKUPS
from tests.load.story import poll as poll_of
from tests.pipeline.fake_cluster import FakeCluster, bundle_name
from tests.quota.jumping import now_ns, on_jumping_loop, pass_time

NOW = 1_700_000_000_000


def collector(
    http: aiohttp.ClientSession, cluster: FakeCluster, options: AdminOptions
) -> Collector:
    return Collector(http, [cluster.admin_url], lambda: NOW, options=options)


async def test_a_broker_that_hangs_is_a_gap_and_those_that_wait_for_their_turn_are_not(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    """With one request at a time, the others wait longer than a request may take."""
    brokers = [await cluster.add_broker() for _ in range(4)]
    never = asyncio.Event()
    hanging = min(brokers, key=lambda broker: broker.name)
    hanging.hangs = never
    rows = await collector(http, cluster, AdminOptions(at_once=1, timeout_s=0.4)).poll()
    never.set()
    gap = rows.take(rows["kind"] == "gap")
    assert list(gap["broker"]) == [hanging.name]
    assert "no answer within 0.4 s" in gap["note"][0]
    assert (rows["kind"] == "broker").sum() == 3


async def test_a_broker_that_hung_is_heard_again_when_it_answers(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    healthy, hanging = [await cluster.add_broker() for _ in range(2)]
    hanging.hangs = asyncio.Event()
    collect = collector(http, cluster, AdminOptions(timeout_s=0.3))
    for _ in range(3):
        rows = await collect.poll()
        assert list(rows.take(rows["kind"] == "gap")["broker"]) == [hanging.name]
        assert list(rows.take(rows["kind"] == "broker")["broker"]) == [healthy.name]
    hanging.hangs.set()
    while (rows["kind"] == "gap").any():
        rows = await collect.poll()
    assert list(rows.take(rows["kind"] == "broker")["broker"]) == sorted(cluster.names)


HUNG = Hung("it hung")


async def test_a_broker_that_answers_and_serves_no_lookups_is_a_gap(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    """Its report alone would make it a destination."""
    healthy, blocked = [await cluster.add_broker() for _ in range(2)]
    blocked.blocked = asyncio.Event()
    options = AdminOptions(timeout_s=0.2)
    collect = Collector(http, (f"http://{healthy.name}",), lambda: NOW, options=options)
    for _ in range(3):
        rows = await collect.poll()
        gaps = rows.take(rows["kind"] == "gap")
        assert list(gaps["broker"]) == [blocked.name]
        assert list(gaps["note"]) == [SERVES_NO_LOOKUPS]
    blocked.blocked.set()
    while (rows["kind"] == "gap").any():
        rows = await collect.poll()
    assert list(rows.take(rows["kind"] == "broker")["broker"]) == sorted(cluster.names)


async def test_a_poll_does_not_wait_for_a_broker_that_hung_and_uses_what_it_says_later() -> None:
    answers: list[asyncio.Future[Fetched | Hung]] = []

    async def ask(broker: str) -> Fetched | Hung:
        answers.append(loop.create_future())
        return await answers[-1]

    loop = asyncio.get_running_loop()
    long_ago = loop.time() - 10
    beside = Beside(ask, 10.0, lambda: NOW)
    assert beside.hung("b:80", HUNG).answer == Gap("it hung")
    await asyncio.sleep(0)
    for _ in range(3):
        [gap] = await beside.answers(long_ago)
        assert isinstance(gap.answer, Gap)
        assert "no answer yet" in gap.answer.reason
    assert len(answers) == 1, "it is asked once, and not again while it owes an answer"
    said = Fetched("b:80", NOW - 3, Gap("whatever it says"))
    answers[0].set_result(said)
    assert await beside.answers(loop.time()) == [said]
    assert "b:80" not in beside


async def test_a_broker_that_hangs_again_or_takes_long_stays_beside() -> None:
    said = Fetched("b:80", NOW, Gap("whatever it says"))
    answers: list[Fetched | Hung] = [HUNG, said]

    async def ask(broker: str) -> Fetched | Hung:
        return answers.pop(0)

    loop = asyncio.get_running_loop()
    beside = Beside(ask, 0.0, lambda: NOW)  # whatever it takes is more than half of nothing
    beside.hung("b:80", HUNG)
    [gap] = await beside.answers(loop.time())
    assert gap.answer == Gap("it hung")
    assert await beside.answers(loop.time()) == [said]
    assert "b:80" in beside
    beside.keep([])
    assert "b:80" not in beside


def asked_beside(takes_s: float, ended: list[str]) -> Beside:
    """Asks a broker that hung, which answers after so long; time-out is 10 s."""

    async def ask(name: str) -> Fetched | Hung:
        try:
            await asyncio.sleep(takes_s)
        finally:
            ended.append(name)
        return Fetched(name, 1, Gap("an answer"))

    beside = Beside(ask, 10.0, lambda: 1)
    beside.hung("b1:80", Hung("it hung"))
    return beside


@pytest.mark.parametrize(
    ("takes_s", "stays"), [(4.9, False), (5.0, False), (5.1, True), (9.0, True)]
)
@on_jumping_loop
async def test_a_broker_is_asked_with_the_others_once_it_answers_in_half_its_time(
    takes_s: float, stays: bool
) -> None:
    ended = list[str]()
    beside = asked_beside(takes_s, ended)
    await pass_time(10)
    [answer] = await beside.answers(now_ns() / 1e9)
    assert answer.answer == Gap("an answer")
    assert ("b1:80" in beside) is stays
    beside.keep(())


@on_jumping_loop
async def test_a_poll_gives_a_broker_beside_a_second_from_its_begin() -> None:
    beside = asked_beside(60, [])
    await pass_time(5)
    for spent, waits in ((0.0, 1.0), (0.7, 0.3), (1.0, 0.0), (3.0, 0.0)):
        began = now_ns() / 1e9
        await beside.answers(began - spent)
        assert now_ns() / 1e9 - began == pytest.approx(waits)
    beside.keep(())


@on_jumping_loop
async def test_a_broker_that_is_listed_no_more_is_asked_no_longer() -> None:
    ended = list[str]()
    beside = asked_beside(60, ended)
    await pass_time(1)
    beside.keep(["b1:80"])
    await pass_time(1)
    assert ended == []
    beside.keep(["b2:80"])
    await pass_time(1)
    assert ended == ["b1:80"]
    assert "b1:80" not in beside


async def test_a_request_that_takes_long_holds_up_no_other_turn(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    healthy, hanging = [await cluster.add_broker() for _ in range(2)]
    hanging.hangs = asyncio.Event()
    report = "http://{}/admin/v2/broker-stats/load-report"
    first = Admin(http, AdminOptions(at_once=1, turn_s=0.05, timeout_s=3600))
    beside = Admin(http, AdminOptions(at_once=1, turn_s=3600, timeout_s=3600))
    asked = [first.get(report.format(hanging.name)), beside.aside.get(report.format(hanging.name))]
    waiting = [asyncio.ensure_future(each) for each in asked]
    await asyncio.sleep(0)  # both have their turn now
    for admin in (first, beside):
        await admin.get(report.format(healthy.name))
    assert not any(each.done() for each in waiting)
    assert f"http://{hanging.name}" in first.slow()
    assert f"http://{hanging.name}" not in first.slow(), "it is named once"
    assert not beside.slow(), "no turn is over"
    hanging.hangs.set()
    await asyncio.gather(*waiting)


class Hanging:
    """A session whose answers all wait until their events are set, by their URLs."""

    timeout = aiohttp.ClientTimeout(total=60)

    def __init__(self) -> None:
        self.asked: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def get(self, url: str, **_: object) -> AsyncIterator[Any]:
        self.asked[url] = asyncio.Event()
        await self.asked[url].wait()

        class Nothing:
            async def iter_any(self) -> AsyncIterator[bytes]:
                for piece in ():
                    yield piece

        class Answer:
            status = 200
            headers: ClassVar[dict[str, str]] = {}
            content = Nothing()

        yield Answer()


async def asking(admin: Admin, *urls: str) -> list[asyncio.Future[bytes]]:
    """Each of these asked for; those that get a turn have it, and have given it away."""
    asked = [asyncio.ensure_future(admin.get(url)) for url in urls]
    for _ in range(50):
        await asyncio.sleep(0)
    return asked


async def given_up(asked: list[asyncio.Future[bytes]]) -> None:
    for each in asked:
        each.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


AT_ONCE = AdminOptions(at_once=1, aside=2, turn_s=0.0, timeout_s=3600)
"""Who has its turn gives it away at once, where it may."""


async def test_no_more_connections_are_opened_than_have_a_turn_or_gave_it_away() -> None:
    session = Hanging()
    admin = Admin(session, AT_ONCE)  # type: ignore[arg-type]
    first = await asking(admin, "a", "b", "c", "d")
    assert list(session.asked) == ["a", "b", "c"]
    for each in session.asked.values():
        each.set()
    await asyncio.gather(*first[:3])
    await given_up(first)
    session.asked.clear()
    again = await asking(admin, "e", "f", "g", "h", "i")
    assert list(session.asked) == ["e", "f", "g"], "as many as before"
    await given_up(again)


async def test_brokers_that_hung_have_as_many_connections_and_none_to_give_away() -> None:
    session = Hanging()
    asked = await asking(Admin(session, AT_ONCE).aside, "a", "b", "c")  # type: ignore[arg-type]
    assert list(session.asked) == ["a", "b"]
    await given_up(asked)


async def test_nothing_ticks_while_no_broker_is_waited_for() -> None:
    ticks = 0

    class Quick(LoopLag):
        EVERY_S = 0.0

        def _tick(self) -> None:
            nonlocal ticks
            ticks += 1
            super()._tick()

    async def asked() -> None:
        while ticks < 3:  # noqa: ASYNC110 - in the loop's own time
            await asyncio.sleep(0)

    await Quick().within(asked(), 3600)
    before = ticks
    for _ in range(10):
        await asyncio.sleep(0)
    assert ticks == before


async def test_a_broker_that_was_slow_is_asked_first_at_the_next_poll(
    cluster: FakeCluster, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = [await cluster.add_broker() for _ in range(4)]
    names = sorted(broker.name for broker in brokers)
    logged: list[str] = []
    for broker in brokers:
        broker.asked = OrderOfRequests(broker.name, logged)
    slow = frozenset[str]()
    monkeypatch.setattr(Admin, "slow", lambda _: slow)
    collect = collector(http, cluster, AdminOptions(at_once=1))
    await collect.poll()
    logged.clear()
    slow = frozenset([f"http://{names[2]}"])
    rows = await collect.poll()
    assert logged == [names[2], names[0], names[1], names[3]]
    assert list(rows["broker"][rows["kind"] == "broker"]) == names, "the rows stay in order"


class OrderOfRequests(list[str]):
    """What a broker was asked; its report is noted among everybody's."""

    def __init__(self, name: str, everybody: list[str]) -> None:
        self._name, self._everybody = name, everybody

    def append(self, path: str) -> None:
        if path.endswith("/load-report"):
            self._everybody.append(self._name)


async def test_an_address_that_hangs_is_not_waited_for_at_every_poll(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    broker = await cluster.add_broker()
    never = asyncio.Event()
    asked = 0

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await never.wait()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    addresses = [f"http://127.0.0.1:{port}", cluster.admin_url]
    collect = Collector(http, addresses, lambda: NOW, options=AdminOptions(timeout_s=0.2))
    for _ in range(3):
        rows = await collect.poll()
        assert list(rows["broker"][1:]) == [broker.name]
    assert asked == 1
    never.set()
    server.close()


async def test_our_own_slowness_is_not_the_brokers() -> None:
    """However often it was late before."""
    loop, answer, lag = asyncio.get_running_loop(), asyncio.Event(), LoopLag()

    async def asked() -> str:
        await answer.wait()
        return "here"

    def busy() -> None:
        threading.Event().wait(0.7)  # the loop hears nothing meanwhile
        loop.call_soon(lambda: loop.call_later(0.1, answer.set))

    for _ in range(2):
        answer.clear()
        loop.call_later(0.05, busy)
        assert await lag.within(asked(), 0.5) == "here"


async def test_a_broker_that_takes_too_long_is_cut_off_and_its_request_ended() -> None:
    ended = asyncio.Event()

    async def asked() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(TimeoutError, match=r"0\.2 s"):
        await LoopLag().within(asked(), 0.2)
    assert ended.is_set()


async def test_heap_that_changes_whenever_it_is_read_is_no_news(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    broker = await cluster.add_broker()
    cluster.carry(broker, bundle_name(1), 500.0)
    collect = collector(http, cluster, AdminOptions())
    await collect.poll()
    for heap in (10.0, 20.0):
        broker.heap = heap
        rows = await collect.poll()
        assert [str(kind) for kind in rows["kind"]] == ["poll", "broker"]
        assert rows["memory_usage"][1] == heap, "what the host uses is kept all the same"


async def test_a_report_of_no_traffic_is_news_when_its_time_is_new(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    broker = await cluster.add_broker()
    cluster.carry(broker, bundle_name(1), 0.0)
    collect = collector(http, cluster, AdminOptions())
    for number in range(3):
        cluster.report_time = NOW + number
        rows = await collect.poll()
        assert [str(kind) for kind in rows["kind"]] == ["poll", "broker", "bundle"]


async def test_the_same_refusal_of_many_is_said_once(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    brokers = [await cluster.add_broker() for _ in range(7)]
    for broker in brokers:
        broker.silent = True
    logged: list[str] = []
    seen, collect = PollLog(logged.append), collector(http, cluster, AdminOptions())
    for _ in range(3):
        rows = await collect.poll()
        seen.log_poll(rows)
    assert len(logged) == 1, logged
    assert "and 2 more: HTTP 503 not now" in logged[0]
    assert trouble(rows).startswith("none of 7 brokers gives its load")
    gone = brokers.pop()
    gone.away = True
    for broker in brokers:
        broker.silent = False
    rows = await collect.poll()
    seen.log_poll(rows)
    assert trouble(rows) == ""
    [back] = [sentence for sentence in logged if sentence.endswith(" answers again")]
    assert gone.name not in back
    assert "and 1 more answers again" in back
    assert f"{gone.name} has left" in logged


def test_brokers_are_listed_when_there_is_a_new_one_and_not_when_one_answers_again() -> None:
    logged: list[str] = []
    log = PollLog(logged.append)
    for number, there in enumerate(("ab", "a", "ab", "b", "abc", "c")):
        answers = {f"{each}:80": {} if each in there else None for each in "abc"[: 2 + number // 4]}
        log.log_poll(poll_of(number, answers))
    listed = [each for each in logged if each.startswith("load reports of")]
    assert listed == [
        "load reports of 2 brokers: a:80, b:80",
        "load reports of 3 brokers: a:80, b:80, c:80",
    ]


def test_a_cluster_that_was_away_answers_again_and_has_not_left() -> None:
    logged: list[str] = []
    log = PollLog(logged.append)
    for number, refusal in enumerate(("", "refused", "refused", "")):
        log.log_poll(poll_rows(number, refusal, []))
    assert logged == ["no load report from the cluster: refused", "the cluster answers again"]
