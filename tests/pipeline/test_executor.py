"""Moves carried out, verified, and logged as they ended."""

import asyncio
from collections import Counter
from dataclasses import replace

import aiohttp
import pytest

from counterpoise.decide.balancing.moves import Move, MoveOutcome, MoveStatus, RoundMemory, move_id
from counterpoise.decide.balancing.round import decide
from counterpoise.decide.plan import Decision, DecisionKind
from counterpoise.pipeline.bundle_lookup import BundleLookup, name_in
from counterpoise.pipeline.collect.admin import Admin, AdminOptions, RefusedError
from counterpoise.pipeline.executor import Executor
from counterpoise.pipeline.tables.journal import JournalWriter
from tests.decide.balancing.test_round import strategy
from tests.load.story import START
from tests.pipeline.fake_cluster import FakeCluster, bundle_name, wide_bundle
from tests.pipeline.rounds import (
    DO_IT,
    SOON,
    EndedMoves,
    LogLines,
    balancer,
    made_of,
    outcomes,
    seen,
)


async def test_a_bundle_that_is_gone_or_there_already_is_not_unloaded(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    state = seen(uneven)
    second, third = uneven.names[1:]
    hot = {bundle_name(9): second, bundle_name(8): third}
    uneven.owners |= hot
    made = await made_of(balancer(http, history), state)
    by_bundle = {o.bundle: o for o in outcomes(history, made)}
    for bundle, owner in hot.items():
        there = by_bundle[bundle].destination == owner
        assert by_bundle[bundle].status is (MoveStatus.ALREADY_THERE if there else MoveStatus.GONE)
        assert by_bundle[bundle].owner == owner
        assert bundle not in dict(uneven.unloads)


async def test_what_its_consumers_have_not_acknowledged_is_kept_with_a_move(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    consumed = {"consumers": [{}], "type": "Shared", "msgRateOut": 80.0, "unackedMessages": 20}
    uneven.subscriptions = {"s": consumed}
    made = await made_of(balancer(http, history), seen(uneven))
    ended = outcomes(history, made)
    assert ended
    assert {one.unacknowledged_s for one in ended if one.carried_out} == {0.25}
    asked = [url for _, url in uneven.brokers[0].requests if url.endswith("broker-stats/topics")]
    assert len(asked) == 1, "once for all bundles that leave a broker"


async def test_a_destination_that_was_lost_is_seen(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    uneven.lose_destination = True
    made = await made_of(balancer(http, history), seen(uneven))
    for outcome in outcomes(history, made):
        assert outcome.status is MoveStatus.ELSEWHERE
        assert outcome.owner == uneven.owners[outcome.bundle] != outcome.destination


async def test_a_refusal_is_a_failure_with_the_clusters_words_and_may_be_tried_again(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    uneven.refuse_unload = 412
    log = LogLines()
    made = await made_of(balancer(http, history, log), seen(uneven))
    assert {o.status for o in outcomes(history, made)} == {MoveStatus.FAILED}
    assert "412" in log
    assert "no" in outcomes(history, made)[0].error
    assert history.memory_before(made.poll_id + 1).recently_unloaded == {}


async def test_an_unload_without_an_answer_says_which_broker_gave_none(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    uneven.hang_unload = asyncio.Event()
    options = replace(DO_IT, unload_within_s=0.2)
    made = await made_of(balancer(http, history, options=options), seen(uneven))
    uneven.hang_unload.set()
    for one in outcomes(history, made):
        assert one.status is MoveStatus.FAILED
        assert f"unload: {one.source} gave no answer within 0.2 s" in one.error


async def test_an_unloaded_bundle_is_looked_up_where_it_is_to_go(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    made = await made_of(balancer(http, history), seen(uneven))
    asked = [(move.destination, name_in(move.bundle)) for move in made.moves]
    # Once to see that the source has it, once to bring it to its destination.
    assert sorted(uneven.lookups) == sorted(2 * asked)


async def test_a_bundle_that_comes_back_to_its_source_is_unloaded_once_more(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    """Another lookup came first, and the leader chose its old owner."""
    uneven.forget_unload = True
    came_back = uneven.unloads

    class Second(list[tuple[str, str]]):
        def append(self, each: tuple[str, str]) -> None:
            uneven.forget_unload = each[0] not in {bundle for bundle, _ in self}
            super().append(each)

    uneven.unloads = Second(came_back)
    options = replace(DO_IT, back_after_s=0.05, at_once=1)
    made = await made_of(balancer(http, history, options=options), seen(uneven))
    assert {one.status for one in outcomes(history, made)} == {MoveStatus.MOVED}
    assert len(uneven.unloads) == 2 * len(made.moves)


async def test_a_bundle_that_always_comes_back_is_given_up(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    uneven.forget_unload = True
    options = replace(DO_IT, back_after_s=0.05)
    made = await made_of(balancer(http, history, options=options), seen(uneven))
    assert {one.status for one in outcomes(history, made)} == {MoveStatus.FAILED}
    assert "still owns it, or owns it again" in outcomes(history, made)[0].error
    assert len(uneven.unloads) == 2 * len(made.moves)


async def test_a_source_that_shows_for_a_moment_after_the_unload_is_waited_for(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    uneven.forget_unload = True
    loop = asyncio.get_running_loop()

    class ReleasedLater(list[tuple[str, str]]):
        def append(self, each: tuple[str, str]) -> None:
            super().append(each)
            loop.call_later(0.15, uneven.owners.__setitem__, *each)

    uneven.unloads = ReleasedLater()
    made = await made_of(balancer(http, history), seen(uneven))
    assert {one.status for one in outcomes(history, made)} == {MoveStatus.MOVED}
    assert len(uneven.unloads) == len(made.moves), "none is unloaded twice"


async def test_nothing_more_moves_once_an_outcome_cannot_be_kept(
    uneven: FakeCluster, http: aiohttp.ClientSession
) -> None:
    moves = decide(seen(uneven), RoundMemory(), strategy()).moves
    executor = Executor(http, lambda: START + 1000, replace(DO_IT, at_once=1))

    async def full(_: MoveOutcome) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        await executor.carry_out(moves, uneven.names, full)
    assert len(moves) > 1, "or this test says nothing"
    assert len(uneven.unloads) == 1


async def test_a_bundle_is_not_unloaded_long_after_it_was_asked_whether_it_may_be(
    uneven: FakeCluster, http: aiohttp.ClientSession
) -> None:
    """This process may have stood still meanwhile, and another have taken the history over."""
    moves, ended = decide(seen(uneven), RoundMemory(), strategy()).moves, EndedMoves()

    async def slowly() -> str:
        await asyncio.sleep(0.05)
        return ""

    options = replace(DO_IT, send_within_s=0.01)
    executor = Executor(http, lambda: START + 1000, options, withheld=slowly)
    await executor.carry_out(moves, uneven.names, ended.keep)
    assert {(one.status, one.error.partition(" 0.")[0]) for one in ended} == {
        (MoveStatus.FAILED, "it took")
    }
    assert uneven.unloads == []


@pytest.mark.parametrize("creates", [True, False])
async def test_a_destination_that_another_lookup_would_lose_takes_the_bundle(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter, creates: bool
) -> None:
    """Pulsar's leader keeps a destination for one lookup only: the next one finds it gone."""
    uneven.lose_successors, uneven.creates = True, creates
    made = await made_of(balancer(http, history), seen(uneven))
    assert {one.status for one in outcomes(history, made)} == {MoveStatus.MOVED}


async def test_no_broker_that_takes_bundles_over_is_asked_what_it_owns(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    """One of Apache Pulsar's would be stuck for ever."""
    uneven.takes_s = 0.05
    made = await made_of(balancer(http, history), seen(uneven))
    assert len(made.moves) > 1
    assert {one.status for one in outcomes(history, made)} == {MoveStatus.MOVED}
    assert not any(each.stuck for each in uneven.brokers)
    assert not [path for each in uneven.brokers for path in each.asked if "ownedN" in path]


async def test_what_is_changing_hands_until_the_time_is_up_is_said_with_the_brokers_words(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    lookups = "/lookup/v2/topic/persistent/public/default/"
    state = seen(uneven)
    made = await made_of(balancer(http, history, options=replace(DO_IT, execute=False)), state)
    move = made.moves[0]
    destination = next(each for each in uneven.brokers if each.name == move.destination)
    executor, ended = Executor(http, lambda: START, SOON), EndedMoves()
    path = lookups + name_in(move.bundle).rpartition("/")[2]

    class Unloads(list[tuple[str, str]]):
        def append(self, each: tuple[str, str]) -> None:
            destination.answers[path] = (500, b"the bundle is being unloaded")
            super().append(each)

    uneven.unloads = Unloads()
    await executor.carry_out([move], uneven.names, ended.keep)
    [one] = ended
    assert one.status is MoveStatus.FAILED
    assert "no owner shows within" in one.error
    assert "the bundle is being unloaded" in one.error


async def test_a_bundle_without_topics_is_looked_up_by_a_name_that_one_could_have(
    cluster: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    first, _, _ = [await cluster.add_broker() for _ in range(3)]
    for index in range(10):
        cluster.carry(first, wide_bundle(index), 9000.0 + index)
    cluster.no_topics, cluster.takes_s = True, 0.05
    made = await made_of(balancer(http, history), seen(cluster))
    assert {one.status for one in outcomes(history, made)} == {MoveStatus.MOVED}
    assert not [path for each in cluster.brokers for path in each.asked if "ownedN" in path]


async def test_where_clients_may_create_no_topics_one_list_of_topics_serves_all_bundles(
    cluster: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    """A filter by bundle would stop each broker that is asked, as one of Apache's."""
    first, _, _ = [await cluster.add_broker() for _ in range(3)]
    for index in range(10):
        cluster.carry(first, bundle_name(index), 9000.0 + index)
    cluster.creates = False
    options = replace(DO_IT, verify_within_s=20.0)
    made = await made_of(balancer(http, history, options=options), seen(cluster))
    assert len(made.moves) > 1
    assert {one.status for one in outcomes(history, made)} == {MoveStatus.MOVED}
    listed = "/admin/v2/persistent/public/default"
    assert sum(path == listed for each in cluster.brokers for path in each.asked) == 1
    assert not any(each.stuck for each in cluster.brokers)


async def test_where_clients_may_create_no_topics_brokers_are_asked_what_they_own(
    cluster: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    """A name that no topic has is not found there, which says nothing of its bundle."""
    first, _, _ = [await cluster.add_broker() for _ in range(3)]
    for index in range(10):
        cluster.carry(first, wide_bundle(index), 9000.0 + index)
    cluster.no_topics, cluster.creates = True, False
    made = await made_of(balancer(http, history, options=SOON), seen(cluster))
    assert {one.status for one in outcomes(history, made)} == {MoveStatus.UNOWNED}
    assert {bundle for bundle, _ in cluster.unloads} == {move.bundle for move in made.moves}


async def test_a_system_bundle_is_neither_moved_nor_looked_up_by_any_plan(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    """A load manager's own topics are there: unloading them takes its leader's work away."""
    first, second = [await cluster.add_broker() for _ in range(2)]
    bundles = [wide_bundle(1, "pulsar/system"), wide_bundle(1, f"pulsar/{first.name}")]
    ended = EndedMoves()
    moves = [
        Move(move_id(START, each), START, Decision(
            DecisionKind.TRANSFER, each, first.name, second.name, "test", "it is wanted"
        ), "it is wanted")
        for each in bundles
    ]  # fmt: skip
    for each in bundles:
        cluster.carry(first, each, 1000.0)
    await Executor(http, lambda: START, DO_IT).carry_out(moves, cluster.names, ended.keep)
    assert [one.status for one in ended] == [MoveStatus.WITHHELD] * 2
    assert "bundles of pulsar/system are never moved" in ended[0].error
    assert not any(broker.asked for broker in cluster.brokers)


async def test_who_owns_a_system_bundle_is_asked_without_giving_it_an_owner(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    first = await cluster.add_broker()
    bundle = wide_bundle(1, "pulsar/system")
    cluster.carry(first, bundle, 1.0)
    lookup = BundleLookup(Admin(http, AdminOptions()), "http://{}".format)
    assert await lookup.owner(bundle, first.name, [first.name], takes=True) == first.name
    cluster.owners[bundle] = ""
    assert await lookup.owner(bundle, first.name, [first.name], takes=True) == ""
    cluster.unloading.add(bundle)
    with pytest.raises(RefusedError, match="is being unloaded"):
        await lookup.owner(bundle, first.name, [first.name])
    assert cluster.lookups == []


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (b'{"httpUrl": "", "httpUrlTls": "https://b2:443"}', "b2:443"),
        (b'{"brokerUrl": "pulsar://b2:6650"}', "does not say where the web service of"),
        (b"[]", "the answer cannot be read"),
        (b"{", "the answer cannot be read"),
    ],
)
async def test_an_owner_is_known_by_the_address_of_its_web_service(
    cluster: FakeCluster, http: aiohttp.ClientSession, answer: bytes, found: str
) -> None:
    first = await cluster.add_broker()
    bundle = wide_bundle(1)
    first.answers[f"/lookup/v2/topic/persistent/{name_in(bundle)[13:]}"] = (200, answer)
    lookup = BundleLookup(Admin(http, AdminOptions()), "http://{}".format)
    if found.startswith("b2"):
        assert await lookup.named_by(first.name, bundle) == found
        return
    with pytest.raises(RefusedError, match=found):
        await lookup.named_by(first.name, bundle)


async def test_a_decision_on_old_news_is_not_carried_out(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    late = balancer(http, history, clock=lambda: START + 121_000)
    made = await made_of(late, seen(uneven))
    assert {o.status for o in outcomes(history, made)} == {MoveStatus.STALE}
    assert uneven.unloads == []


async def test_what_was_moved_before_a_long_pause_is_known_to_be_there(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    """Its balancer was killed between the unload and the outcome, and started again later."""
    sees = seen(uneven)
    made = decide(sees, RoundMemory(), strategy())
    moved, *rest = made.moves
    uneven.owners[moved.bundle] = moved.destination
    history.record_round(made)
    await balancer(http, history, clock=lambda: START + 3_600_000).step(sees)
    by_bundle = {one.bundle: one for one in outcomes(history, made)}
    assert by_bundle[moved.bundle].status is MoveStatus.ALREADY_THERE
    assert by_bundle[moved.bundle].owner == moved.destination
    assert {by_bundle[each.bundle].status for each in rest} == {MoveStatus.STALE}
    assert uneven.unloads == []
    assert moved.bundle in history.memory_before(made.poll_id + 1).recently_unloaded


async def test_a_cluster_that_fails_at_moves_is_given_no_more_of_them(
    uneven: FakeCluster, http: aiohttp.ClientSession
) -> None:
    """Ten moves, two at a time, of a broker that refuses every unload."""
    uneven.refuse_unload = 500
    first, second, _ = uneven.names
    moves = [
        Move(move_id(START, each), START, Decision(
            DecisionKind.TRANSFER, each, first, second, "test", "for a test"), "by a test")
        for each in uneven.owners
    ]  # fmt: skip
    ended = EndedMoves()
    options = replace(DO_IT, at_once=2, failed_most=3)
    await Executor(http, lambda: START, options).carry_out(moves, uneven.names, ended.keep)
    assert Counter(one.status for one in ended) == {MoveStatus.FAILED: 3, MoveStatus.WITHHELD: 7}
    assert "3 of the last 3 moves failed" in ended[-1].error
