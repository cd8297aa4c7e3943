"""Leader election on a metadata store."""

import asyncio

import pytest

from counterpoise.broker.bundles.election import LeaderElection
from counterpoise.metadata import MemoryTree, MetadataStore, StoreUnavailable
from counterpoise.ownership.election import LEADER_NODE
from counterpoise.ownership.records import LeaderBroker
from tests.broker.conftest import BrokersOfTest
from tests.broker.misbehaving_store import MisbehavingStore
from tests.waiting import WITHIN_S, turns, until


class Candidate:
    def __init__(self, store: MetadataStore, name: str) -> None:
        self.me = LeaderBroker(f"{name}:8080", f"http://{name}:8080")
        self.notified: list[bool] = []
        self.leaders: list[LeaderBroker | None] = []
        self.store = store
        self.election = LeaderElection(store, self.me)
        self.election.report_to(self)

    def leadership_changed(self, leads: bool) -> None:
        self.notified.append(leads)

    def leader_changed(self, leader: LeaderBroker | None) -> None:
        self.leaders.append(leader)


async def test_the_first_leads_and_is_notified_once(caplog: pytest.LogCaptureFixture) -> None:
    tree = MemoryTree()
    one, two = Candidate(tree.open(), "b1"), Candidate(tree.open(), "b2")
    await one.election.start()
    await two.election.start()
    assert (one.election.is_leader, two.election.is_leader) == (True, False)
    assert two.election.leader == one.me
    assert (one.notified, two.notified) == ([True], [])
    stored = await two.store.get(LEADER_NODE)
    assert LeaderBroker.from_json(stored.value) == one.me
    assert stored.ephemeral
    await one.election.stop()
    await until(lambda: two.election.is_leader, "the other leads")
    assert (one.notified, two.notified) == ([True, False], [True])
    assert [each for each in two.leaders if each is not None] == [one.me, two.me]
    await two.election.stop()
    assert await two.store.get(LEADER_NODE) is None
    assert not caplog.records, "nothing is wrong with two brokers of two ids"


async def test_two_brokers_with_one_id_leave_each_other_s_node_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tree = MemoryTree()
    stores = [MisbehavingStore(tree), MisbehavingStore(tree)]
    candidates = [Candidate(each, "b1") for each in stores]
    for each in candidates:
        await each.election.start()
    await turns(200)
    asked = [len(each.asked) for each in stores]
    await turns(200)
    assert [len(each.asked) for each in stores] == asked
    (leader,) = [each for each in candidates if each.election.is_leader]
    assert "another broker leads under this one's id, b1:8080" in caplog.text
    await leader.election.stop()
    (other,) = [each for each in candidates if each is not leader]
    await until(lambda: other.election.is_leader, "the other leads")
    await other.election.stop()


async def test_a_killed_leader_is_replaced(any_brokers: BrokersOfTest) -> None:
    leader, other, third = await any_brokers.start_many(3)
    assert leader.is_leader
    await any_brokers.kill(leader)
    await until(lambda: other.is_leader or third.is_leader, "another one leads")
    successor, follower = (other, third) if other.is_leader else (third, other)
    await until(
        lambda: (known := follower.leader()) is not None and known.broker_id == successor.id,
        "the others know it",
    )
    assert any_brokers.leadership == [(leader.id, True), (successor.id, True)]


async def test_a_leader_that_lost_its_session_says_so() -> None:
    tree = MemoryTree()
    session = tree.open()
    one = Candidate(session, "b1")
    await one.election.start()
    session.expire()
    await until(lambda: len(one.notified) > 2 and one.election.is_leader, "it leads again")
    assert one.notified[:3] == [True, False, True]
    await one.election.stop()


async def test_a_node_of_a_former_life_does_not_keep_us_from_leading() -> None:
    tree = MemoryTree()
    former = tree.open()
    one = Candidate(tree.open(), "b1")
    await former.put(LEADER_NODE, one.me.to_json(), ephemeral=True)
    await one.election.start()
    assert one.election.is_leader
    stored = await one.store.get(LEADER_NODE)
    assert stored.mine
    await one.election.stop()


async def test_a_store_out_of_reach_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Candidate(MemoryTree().open(), "b1")
    real, failures = one.store.get, iter(range(3))

    async def sometimes(path: str) -> object:
        for _ in failures:
            raise StoreUnavailable(f"get {path}", "test")
        return await real(path)

    monkeypatch.setattr(one.store, "get", sometimes)
    async with asyncio.timeout(WITHIN_S):
        await one.election.start()
    assert one.election.is_leader
    await one.election.stop()


async def test_stopping_twice_or_before_the_start_is_harmless() -> None:
    tree = MemoryTree()
    one, two = Candidate(tree.open(), "b1"), Candidate(tree.open(), "b2")
    await one.election.stop()
    await one.election.start()
    await two.election.start()
    await one.election.stop()
    await one.election.stop()
    one.election.kill()
    await until(lambda: two.election.is_leader, "the other leads")
    assert not one.election.is_leader


async def test_a_broker_answers_with_the_leader_of_now_though_it_missed_the_news() -> None:
    tree = MemoryTree()
    one, slow = Candidate(tree.open(), "b1"), MisbehavingStore(tree)
    two, three = Candidate(slow, "b2"), Candidate(tree.open(), "b3")
    for candidate in (one, two, three):
        await candidate.election.start()
    slow.hold_notifications()
    await one.election.stop()
    await until(lambda: three.election.is_leader, "the third leads")
    assert two.election.leader == one.me, "it has not heard yet"
    assert await two.election.ask() == three.me
    slow.release_notifications()
    await until(lambda: two.election.leader == three.me, "it has heard")
    await two.election.stop()
    await three.election.stop()


async def test_a_leader_that_lost_its_session_does_not_lead_while_the_store_is_away() -> None:
    tree = MemoryTree()
    store = MisbehavingStore(tree)
    one, two = Candidate(store, "b1"), Candidate(tree.open(), "b2")
    await one.election.start()
    await two.election.start()
    store.lose_session()
    await until(lambda: two.election.is_leader, "the other leads")
    assert not one.election.is_leader
    assert (one.notified, one.election.leader) == ([True, False], None)
    with pytest.raises(StoreUnavailable):
        await one.election.ask()
    store.come_back()
    await until(lambda: one.election.leader == two.me, "it follows")
    assert one.notified == [True, False]
    await one.election.stop()
    await two.election.stop()


@pytest.mark.parametrize("afterwards", [False, True])
async def test_one_that_resigns_while_its_node_is_created_leaves_none(afterwards: bool) -> None:
    tree = MemoryTree()
    store = MisbehavingStore(tree)
    one = Candidate(store, "b1")
    starting = asyncio.create_task(one.election.start())
    await until(lambda: ("put", LEADER_NODE) in store.asked, "it is under way")
    if afterwards:
        store.fails_afterwards = lambda operation, _: operation == "put"
    await one.election.stop()
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    assert await store.get(LEADER_NODE) is None
    assert one.notified in ([], [True, False])
