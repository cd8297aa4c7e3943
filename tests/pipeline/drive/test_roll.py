"""A rolling restart: each broker empty before it is stopped, resumed wherever it was cut off."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.app.main import main
from counterpoise.decide.balancing.restarts import RestartStage
from counterpoise.decide.watchdog.observation import WatchdogOptions
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.drive import roll as roll_module
from counterpoise.pipeline.drive.action_trail import ActionKind, cordoned
from counterpoise.pipeline.drive.roll import RollStoppedError
from counterpoise.pipeline.drive.roll_state import RollState
from counterpoise.pipeline.tables.control import Control, Wish, write_control
from tests.pipeline.drive.roller import IMPATIENT, QUICK, Roller, roller_of
from tests.pipeline.drive.test_approved import LogLines
from tests.pipeline.drive.test_restart_command import has_ended
from tests.pipeline.fake_cluster import FakeBroker, FakeCluster
from tests.pipeline.test_collect_managers import with_own_topics
from tests.waiting import pause, until


@pytest.fixture
async def roller(tmp_path: Path) -> AsyncIterator[Roller]:
    async with roller_of(tmp_path) as made:
        yield made


def sheds_not(cluster: FakeCluster) -> None:
    for each in cluster.brokers:
        base = "/admin/v2/brokers/configuration"
        off = b'{"loadBalancerSheddingEnabled": "false"}'
        each.answers |= {f"{base}/runtime": (200, off), f"{base}/values": (200, b"{}")}


async def test_each_broker_is_empty_when_it_is_restarted_and_the_leader_is_the_last(
    roller: Roller,
) -> None:
    begun: list[RollState | None] = []
    roller.logged = LogLines("moved ", lambda: begun.append(roller.trail.roll()))
    ended = await roller.whole()
    assert {each.stage for state in begun if state for each in state.brokers} == {
        RestartStage.DRAINING,
        RestartStage.WAITING,
    }
    assert sorted(roller.machines.restarted) == sorted(roller.cluster.names)
    assert roller.machines.restarted[-1] == roller.cluster.leader
    assert roller.machines.not_empty == []
    assert not ended.under_way
    # 16 bundles in four parts: the first part goes twice, the last broker is filled with three.
    assert sum(roller.moves().values()) <= 16 + 4 + 4
    assert max(roller.moves().values()) <= 2
    assert min(Counter(roller.cluster.owners.values()).values()) >= 3
    actions = roller.trail.actions()
    assert cordoned(actions) == {}
    kept = [move for each in actions for move in each.moves]
    assert Counter((each.bundle, each.destination) for each in kept) == Counter(
        roller.cluster.unloads
    )
    assert [each.part for each in kept] == pytest.approx([1 / 16] * len(kept))
    assert {(each.who, each.why) for each in actions} == {("me", ended.label)}
    assert all(each.ended_ms for each in actions)
    last = roller.machines.restarted[-1]
    [fill] = [each for each in actions if each.kind is ActionKind.MOVE]
    assert (fill.broker, {move.destination for move in fill.moves}) == (last, {last})
    drains = [each for each in actions if each.kind is ActionKind.DRAIN]
    for number, drain in enumerate(drains[1:], 1):
        back = {each.broker for each in drains[:number]}
        assert {move.destination for move in drain.moves} <= back, "where they need not move again"
    begun = [f"{name}, {n} of 4: waiting" for n, name in enumerate(roller.machines.restarted, 1)]
    assert [each for each in roller.logged if " of 4: " in each] == begun


async def test_it_shows_that_it_is_alive_while_a_command_runs_and_ends_with_the_order(
    roller: Roller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And once it has ended, nothing is written any more."""
    monkeypatch.setattr(roll_module, "SILENT_AFTER_MS", 30)
    ended = await roller.whole()
    for _ in range(5):
        await pause()
    assert roller.trail.roll() == ended
    begun, never = asyncio.Event(), asyncio.Event()

    async def restart(_: str) -> None:
        begun.set()
        await never.wait()

    monkeypatch.setattr(roller.machines, "restart", restart)
    running = asyncio.create_task(roller.whole())
    await begun.wait()
    seen = set[int]()

    def beats() -> bool:
        state = roller.trail.roll()
        assert state is not None
        seen.add(state.seen_ms)
        return len(seen) > 3

    await until(beats)
    state = roller.trail.roll()
    assert state is not None
    assert {each.stage for each in state.brokers} == {RestartStage.RESTARTING, RestartStage.WAITING}
    roller.trail.keep_roll(replace(state, abandoned=True, ended_ms=1))
    with pytest.raises(RollStoppedError, match="was given up"):
        await asyncio.wait_for(running, 20)


@settings(max_examples=5, deadline=None)
@given(
    st.integers(2, 4),
    st.integers(0, 14),
    st.lists(st.sampled_from([0.0, 10.0, 1000.0, 30_000.0]), min_size=1, max_size=5),
    st.lists(st.integers(0, 40), max_size=3),
)
async def test_cut_off_anywhere_it_ends_with_each_broker_restarted_empty_and_few_moves(
    tmp_path_factory: pytest.TempPathFactory,
    brokers: int,
    bundles: int,
    loads: list[float],
    cuts: list[int],
) -> None:
    path = tmp_path_factory.mktemp("roll")
    async with roller_of(path, brokers, bundles, tuple(loads)) as roller:
        run: Callable[[], Awaitable[RollState]] = roller.whole
        for cut in cuts:
            task = asyncio.ensure_future(run())
            for _ in range(cut * 10):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            run = roller.whole if roller.trail.roll() is None else roller.resumed
        state = roller.trail.roll()
        if state is None or state.under_way:
            await run()
        assert {*roller.machines.restarted} == {*roller.cluster.names}
        assert roller.machines.not_empty == []
        assert "" not in roller.cluster.owners.values()
        # A move that was cut off is not in the history, and may be made once more.
        assert max(roller.moves().values(), default=0) <= 2 + len(cuts)


async def test_failure_domains_are_restarted_one_after_the_other(roller: Roller) -> None:
    a, b, c, d = roller.cluster.names
    domains = f'{{"east": {{"brokers": ["{a}", "{d}"]}}, "west": {{"brokers": ["{b}", "{c}"]}}}}'
    for each in roller.cluster.brokers:
        each.answers["/admin/v2/clusters/fake/failureDomains"] = (200, domains.encode())
    # Who leads is asked of whoever says it.
    roller.cluster.brokers[1].answers["/admin/v2/brokers/leaderBroker"] = (500, b"")
    assert await roller.roll().plan() == (*sorted([b, c]), d, a)


async def test_brokers_of_the_wanted_version_are_left_out_and_another_version_stops_it(
    roller: Roller,
) -> None:
    options = replace(QUICK, to_version="4.0.8")
    roller.cluster.brokers[2].version = "4.0.8"
    order = await roller.roll(options).plan()
    assert set(order) == {*roller.cluster.names} - {roller.cluster.names[2]}
    assert await roller.roll(options).plan((order[1], order[0])) == order[:2]
    assert await roller.roll(options).plan(order[1:2]) == order[1:2]
    roller.machines.version = "4.0.7"
    with pytest.raises(RollStoppedError, match=r"is back with version 4.0.7, not 4.0.8"):
        await roller.whole(options)
    assert len(roller.machines.restarted) == 1


async def test_a_broker_that_does_not_come_back_stops_it_until_it_does(roller: Roller) -> None:
    roller.machines.stays_away = True
    with pytest.raises(RollStoppedError, match=r"is not back after 0.5 s: .* does not answer"):
        await roller.whole(replace(QUICK, back_within_s=0.5))
    [stopped] = roller.machines.restarted
    roller.machines.stays_away = False
    next(each for each in roller.cluster.brokers if each.name == stopped).away = False
    await roller.resumed()
    assert sorted(roller.machines.restarted) == sorted(roller.cluster.names), "none of them twice"


async def test_a_resumed_one_waits_for_the_broker_that_it_stopped_and_not_for_all_to_be_well(
    roller: Roller,
) -> None:
    """They are not, since that broker is away; its command may run twice."""
    roller.machines.stays_away = True
    for run in (roller.whole, roller.resumed):
        with pytest.raises(RollStoppedError, match=r"is not back after 0.5 s: .* does not answer"):
            await run(IMPATIENT)
    [stopped] = {*roller.machines.restarted}
    assert roller.machines.restarted == [stopped] * 2


async def test_a_broker_whose_state_channel_has_not_started_is_not_back(roller: Roller) -> None:
    for each in roller.cluster.brokers:
        with_own_topics(each)
    roller.machines.channel_waits = True
    with pytest.raises(RollStoppedError, match=r"not back after 0.5 s: .*its bundle state channel"):
        await roller.whole(IMPATIENT)
    assert len(roller.machines.restarted) == 1


async def test_a_broker_that_runs_as_it_did_was_not_restarted(roller: Roller) -> None:
    roller.machines.does_nothing = True
    with pytest.raises(RollStoppedError, match="runs as it did: it was not restarted yet"):
        await roller.whole(IMPATIENT)
    assert len(roller.machines.restarted) == 1


async def test_a_broker_whose_report_cannot_be_read_yet_is_not_back(roller: Roller) -> None:
    roller.machines.reports = False
    running = asyncio.create_task(roller.whole())
    await until(lambda: any("not among the cluster's brokers yet" in s for s in roller.logged))
    assert len(roller.machines.restarted) == 1
    roller.machines.reports = True
    for each in roller.cluster.brokers:
        each.silent = False
    await running
    assert sorted(roller.machines.restarted) == sorted(roller.cluster.names)


@pytest.mark.parametrize("says_when", [False, True])
async def test_without_a_start_time_and_only_then_a_broker_that_was_seen_away_was_restarted(
    roller: Roller, says_when: bool
) -> None:
    if not says_when:
        for each in roller.cluster.brokers:
            each.started_s = 0.0
    roller.machines.does_nothing = True
    [first, *_] = await roller.roll().plan()
    machine = next(each for each in roller.cluster.brokers if each.name == first)

    def logged(words: str) -> int:
        return sum(words in each for each in roller.logged)

    running = asyncio.create_task(roller.whole())
    await until(lambda: logged("runs as it did"))
    machine.away = True
    await until(lambda: logged("does not answer"))
    machine.away = False
    await until(
        lambda: logged("runs as it did") > 1 or ((state := roller.trail.roll()) and state.restarted)
    )
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    state = roller.trail.roll()
    assert state is not None
    assert state.restarted == (() if says_when else (first,))


def _silent(roller: Roller, last: FakeBroker) -> None:
    last.silent = True


def _gone(roller: Roller, last: FakeBroker) -> None:
    last.away = True


def _paused(roller: Roller, last: FakeBroker) -> None:
    write_control(roller.trail.place, Control(Wish.PAUSE, 1, "an incident"))


def _led_by_none(roller: Roller, last: FakeBroker) -> None:
    roller.cluster.leader = ""


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (_silent, r"cannot be given bundles: HTTP 503"),
        (_gone, r"is not there"),
        (_paused, r"an incident"),
        (_led_by_none, r"no broker leads"),
    ],
)
async def test_no_further_broker_is_begun_while_the_cluster_is_not_well(
    roller: Roller, trouble: Callable[[Roller, FakeBroker], None], words: str
) -> None:
    roller.watchdog = WatchdogOptions(patience_ms=0)
    each = roller.roll(IMPATIENT)
    state = await each.begin(await each.plan(), "me", "")
    last = next(b for b in roller.cluster.brokers if b.name == state.brokers[-1].broker)
    trouble(roller, last)
    with pytest.raises(RollStoppedError, match=f"no further broker is restarted: .*{words}"):
        await each.run(state)
    assert roller.cluster.unloads == []
    assert roller.machines.restarted == []


async def test_it_goes_on_in_a_cluster_that_is_uneven_does_not_shed_and_is_slow(
    roller: Roller,
) -> None:
    """Its leader is not to move what the rolling restart moves; what has just started is slow."""
    uneven = WatchdogOptions(patience_ms=0, shed_patience_ms=0, uneven_above=-1.0)
    roller.watchdog = replace(uneven, slow_times=0.0, slow_from_s=0.0, slow_looks=1)
    for each in roller.cluster.brokers:
        on = (200, b'{"loadBalancerSheddingEnabled": "true"}')
        each.answers |= {f"/admin/v2/brokers/configuration/{k}": on for k in ("runtime", "values")}
    running = asyncio.create_task(roller.whole(replace(QUICK, patience_s=0.1)))
    await until(lambda: running.done() or roller.machines.restarted)
    for kind in ("leader-does-not-shed", "slow-broker"):
        assert any(kind in each for each in roller.logged)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert roller.machines.restarted


async def test_outside_its_window_no_broker_is_begun(roller: Roller) -> None:
    minute = wall_clock_ms() // 60_000 % 1440
    window = ((minute + 120) % 1440, (minute + 180) % 1440)
    with pytest.raises(RollStoppedError, match=r"UTC only \(--window\)"):
        await roller.whole(replace(IMPATIENT, window=window))
    assert roller.machines.restarted == []


async def test_the_cluster_has_to_be_well_for_a_while_on_end_before_the_next_broker(
    roller: Roller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hours pass while it is not; a cluster that is well has time enough to show it."""
    loop, ahead = asyncio.get_running_loop(), 0.0
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + ahead)

    async def looked() -> None:
        requests = roller.cluster.brokers[0].requests
        before = len(requests)
        await until(lambda: len(requests) > before + 50)

    options = replace(QUICK, healthy_for_s=3600.0, patience_s=10_000.0)
    running = asyncio.create_task(roller.whole(options))
    await looked()
    roller.cluster.brokers[3].silent = True
    await until(lambda: any("is restarted meanwhile" in each for each in roller.logged))
    roller.cluster.brokers[3].silent = False
    ahead += 7200.0
    await looked()
    for passed in (3000.0, 601.0):
        assert roller.cluster.unloads == []
        ahead += passed
        await looked()
    await until(lambda: running.done() or roller.machines.restarted)
    assert roller.machines.restarted
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_signal_ends_the_command_too_and_the_same_line_goes_on(
    roller: Roller, tmp_path: Path
) -> None:
    """As a process of its own: signals are for whole processes."""
    pids = tmp_path / "pids"
    words = [
        sys.executable,
        "-m",
        "counterpoise",
        "roll",
        "--history",
        str(tmp_path / "history"),
        "--admin-url",
        ",".join(f"http://{name}" for name in roller.cluster.names),
        "--execute",
        "--settle",
        "0",
        "--command",
        f"sh -c 'echo $$ > {pids}; sleep 600'",
    ]
    sheds_not(roller.cluster)
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    # The shell makes the file before it writes to it.
    await until(lambda: pids.exists() and pids.read_text(), "the command runs")
    process.terminate()
    said, _ = await process.communicate()
    assert process.returncode == 1
    assert said.decode().endswith("stopped; run the same command again to continue\n")
    await until(lambda: has_ended(int(pids.read_text())))


async def test_the_verb_shows_the_order_goes_on_and_gives_up(
    roller: Roller, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--admin-url", ",".join(f"http://{name}" for name in roller.cluster.names)]
    kept = ["--history", str(tmp_path)]
    sheds_not(roller.cluster)

    async def verb(*words: str) -> int:
        return await asyncio.to_thread(main, ["roll", *at, *kept, *words])

    assert await verb() == 0
    said = capsys.readouterr().out
    assert f"4. {roller.cluster.leader}\nnothing was restarted" in said
    quick = ["--settle", "0", "--back-within", "1s", "--execute"]
    assert await verb(*quick, "--command", "false") == 1
    assert "failed with status 1: no message; run the same command again" in capsys.readouterr().out
    assert await verb("no-broker:1", *quick) == 2
    assert "it is about other brokers" in capsys.readouterr().err
    assert await verb("--abandon") == 0
    assert "was given up: 0 of 4 brokers restarted" in capsys.readouterr().out
    assert await verb("--abandon") == 2
    assert "no rolling restart is under way" in capsys.readouterr().err
    assert await verb("no-broker:1", *quick) == 2
    assert "no-broker:1 is no broker of this cluster" in capsys.readouterr().err
    assert await verb(*quick, "--command", '"') == 2
    assert "No closing quotation" in capsys.readouterr().err
