"""Bundles replayed as if there were more of them, and what is compared with what."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from counterpoise.app.errors import UserError
from counterpoise.app.verbs.backtest_compare import differences, sides_of, sources_of, split_count
from counterpoise.load.topic_loads import BundleTopicLoads, TopicLoad
from counterpoise.names.hashing import topic_at
from counterpoise.pipeline.backtest.recorded import Recording
from counterpoise.pipeline.backtest.run import Task, replay, tasks_of
from counterpoise.pipeline.backtest.simulate import BacktestCandidate
from counterpoise.pipeline.backtest.split_trace import SplitSource
from counterpoise.pipeline.backtest.synthetic import SyntheticTrace
from counterpoise.pipeline.tables.faults import DamagedError
from counterpoise.pipeline.tables.reports import land
from tests.load.story import poll
from tests.pipeline.histories import writer_of

SMALL = SyntheticTrace("heavy-tailed", count_of_brokers=3, count_of_bundles=12, hours=0.2)


def test_the_parts_of_a_bundle_carry_what_it_carries_where_it_is() -> None:
    cut = SplitSource(SMALL, 8).open()
    assert len(cut.bundles) == 96
    assert list(cut.bundles) == sorted(set(cut.bundles))
    assert cut.bundles[0].startswith("tenant/ns/0x00000000_")
    assert cut.bundles[-1].endswith("_0xffffffff")
    whole, parts = SMALL.loads(3), cut.loads(3)
    for name in ("rate_in", "rate_out", "throughput_in", "throughput_out"):
        found = getattr(parts, name).reshape(12, 8).sum(axis=1)
        assert found == pytest.approx(getattr(whole, name))
    assert cut.topics.reshape(12, 8).sum(axis=1).tolist() == SMALL.topics.tolist()
    assert cut.owners.tolist() == np.repeat(SMALL.owners, 8).tolist()


def test_a_bundle_of_one_topic_stays_whole_however_often_it_is_cut() -> None:
    class One(SyntheticTrace):
        @property
        def topics(self) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
            return np.ones(self.count_of_bundles, np.int64)

    parts = SplitSource(One("diurnal", count_of_brokers=2, count_of_bundles=4), 8).open().loads(0)
    assert (parts.throughput().reshape(4, 8) > 0).sum(axis=1).tolist() == [1, 1, 1, 1]


def test_parts_of_a_bundle_without_topics_carry_what_it_carries_in_equal_shares() -> None:
    class Without(SyntheticTrace):
        @property
        def topics(self) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
            return np.zeros(self.count_of_bundles, np.int64)

    whole = Without("diurnal", count_of_brokers=2, count_of_bundles=4)
    parts = SplitSource(whole, 8).open().loads(0).throughput()
    assert parts == pytest.approx(np.repeat(whole.loads(0).throughput() / 8, 8))


def recorded(folder: Path, bundle: str, loads: Sequence[dict[str, TopicLoad]]) -> SplitSource:
    """A history of one bundle that carries 1,000 bytes/s; some polls have loads of its topics."""
    for number, topics in enumerate(loads):
        rows = poll(number, {"b1:80": {bundle: 1000.0}}, every_ms=60_000)
        rows["topics"][rows["kind"] == "bundle"] = 4
        if topics:
            text = BundleTopicLoads.of(topics).to_json()
            rows["topic_loads"][rows["kind"] == "bundle"] = text
        land(writer_of(folder), rows)
    return SplitSource(Recording(str(folder)), 4)


def test_topics_whose_load_was_recorded_go_where_their_names_hash_to(tmp_path: Path) -> None:
    bundle = "public/default/0x00000000_0xffffffff"
    first, last = (topic_at("persistent://public/default/t", at) for at in (5, 0xC0000000))
    before = {first: TopicLoad(0, 0, 100.0, 0), last: TopicLoad(0, 0, 300.0, 0)}
    after = {first: TopicLoad(0, 0, 1500.0, 0), last: TopicLoad(0, 0, 100.0, 0)}
    trace = recorded(tmp_path, bundle, [{}, before, {}, after]).open()
    # Of the 2,000 bytes/s that were told of, 1,600 were the first's.
    assert trace.loads(20).throughput_in.tolist() == pytest.approx([800.0, 0.0, 0.0, 200.0])
    assert trace.topics.tolist() == [1, 0, 0, 1]


def test_topics_that_are_not_named_have_the_rest(tmp_path: Path) -> None:
    bundle = "public/default/0x00000000_0xffffffff"
    hot = topic_at("persistent://public/default/t", 0x40000000)
    others = {f"small-{number}": TopicLoad(0, 0, 1.0, 0) for number in range(500)}
    loads = {hot: TopicLoad(0, 0, 500.0, 0), **others}
    trace = recorded(tmp_path, bundle, [loads, loads]).open()
    assert trace.topics.sum() == 501, "each of them once, however often they are reported"
    expected = trace.topics + np.array([0, 499, 0, 0])
    assert trace.loads(0).throughput_in == pytest.approx(expected, rel=1e-6)


def test_loads_of_topics_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    rows = poll(0, {"b1:80": {"public/default/0x00000000_0xffffffff": 1000.0}})
    rows["topic_loads"][rows["kind"] == "bundle"] = '{"busiest": 7}'
    land(writer_of(tmp_path), rows)
    with pytest.raises(DamagedError, match=r"topic_loads\.busiest: .*without --bundles"):
        SplitSource(Recording(str(tmp_path)), 4).open()


def test_it_is_the_same_wherever_it_is_played() -> None:
    tasks = tasks_of(
        [BacktestCandidate("c", None)], SplitSource(SMALL, 4), parts=2, move_s=1.0, seed=1
    )
    assert isinstance(tasks[0], Task)
    assert [replay(task) for task in tasks] == [replay(task) for task in tasks]
    first = SplitSource(SMALL, 4)
    assert (
        SplitSource(SMALL, 4).open().loads(1).rate_in.tolist()
        == first.open().loads(1).rate_in.tolist()
    )


def compared(now: str, then: str, *settings: str, conf: str | None = None) -> argparse.Namespace:
    return argparse.Namespace(compare=[now, then], settings=list(settings), conf=conf)


def test_an_upgrade_changes_the_strategies_and_cuts_bundles() -> None:
    now, then = sides_of(compared("pulsar-4.0", "pulsar-next"))
    assert split_count(now, then) == 8
    changed, logged = differences(now, then, 8)
    assert "loadBalancerLoadSheddingStrategy: ThresholdShedder -> AvgShedder" in changed
    assert "each bundle is replayed as 8" in logged
    assert sources_of(SMALL, 8) == (SMALL, SplitSource(SMALL, 8))


def test_what_an_operator_set_himself_no_upgrade_changes() -> None:
    mine = (
        "loadBalancerLoadSheddingStrategy=OverloadShedder",
        "defaultNumberOfNamespaceBundles=16",
    )
    now, then = sides_of(compared("pulsar-4.0", "pulsar-next", *mine))
    assert split_count(now, then) == 1
    assert differences(now, then, 1) == [
        "changed: loadBalancerLoadPlacementStrategy: LeastLongTermMessageRate -> AvgShedder"
    ]


def test_fewer_bundles_are_not_played_and_it_is_said() -> None:
    now, then = sides_of(compared("pulsar-next", "pulsar-4.0"))
    assert split_count(now, then) == 1
    assert differences(now, then, 1)[1].startswith(
        "defaultNumberOfNamespaceBundles is not replayed"
    )
    assert sources_of(SMALL, 1) == (SMALL, SMALL)


def test_what_cannot_be_compared_is_said() -> None:
    with pytest.raises(UserError, match="both sides are versions"):
        sides_of(compared("a.conf", "pulsar-next", conf="b.conf"))
    with pytest.raises(UserError, match=r"a version is one of pulsar-4\.0, pulsar-next"):
        sides_of(compared("pulsar-3.0", "pulsar-next"))
