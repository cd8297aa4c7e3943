"""Bundles played as if there were more of them, and what is compared with what."""

import argparse

import numpy as np
import pytest

from counterpoise.app.errors import UserError
from counterpoise.app.verbs.backtest_compare import cut_of, differences, sides_of, sources_of
from counterpoise.pipeline.backtest.cut import CutSource
from counterpoise.pipeline.backtest.run import Task, play, tasks_of
from counterpoise.pipeline.backtest.simulate import BacktestCandidate
from counterpoise.pipeline.backtest.synthetic import SyntheticTrace

SMALL = SyntheticTrace("heavy-tailed", count_of_brokers=3, count_of_bundles=12, hours=0.2)


def test_the_parts_of_a_bundle_carry_what_it_carries_where_it_is() -> None:
    cut = CutSource(SMALL, 8).open()
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

    parts = CutSource(One("diurnal", count_of_brokers=2, count_of_bundles=4), 8).open().loads(0)
    assert (parts.throughput().reshape(4, 8) > 0).sum(axis=1).tolist() == [1, 1, 1, 1]


def test_it_is_the_same_wherever_it_is_played() -> None:
    tasks = tasks_of(
        [BacktestCandidate("c", None)], CutSource(SMALL, 4), parts=2, move_s=1.0, seed=1
    )
    assert isinstance(tasks[0], Task)
    assert [play(task) for task in tasks] == [play(task) for task in tasks]
    first = CutSource(SMALL, 4)
    assert (
        CutSource(SMALL, 4).open().loads(1).rate_in.tolist()
        == first.open().loads(1).rate_in.tolist()
    )


def compared(now: str, then: str, *settings: str, conf: str | None = None) -> argparse.Namespace:
    return argparse.Namespace(compare=[now, then], settings=list(settings), conf=conf)


def test_an_upgrade_changes_the_strategies_and_cuts_bundles() -> None:
    now, then = sides_of(compared("pulsar-4.0", "pulsar-next"))
    assert cut_of(now, then) == 8
    changed, logged = differences(now, then, 8)
    assert "loadBalancerLoadSheddingStrategy: ThresholdShedder -> AvgShedder" in changed
    assert "each bundle is played as 8" in logged
    assert sources_of(SMALL, 8) == (SMALL, CutSource(SMALL, 8))


def test_what_an_operator_set_himself_no_upgrade_changes() -> None:
    mine = (
        "loadBalancerLoadSheddingStrategy=OverloadShedder",
        "defaultNumberOfNamespaceBundles=16",
    )
    now, then = sides_of(compared("pulsar-4.0", "pulsar-next", *mine))
    assert cut_of(now, then) == 1
    assert differences(now, then, 1) == [
        "changed: loadBalancerLoadPlacementStrategy: LeastLongTermMessageRate -> AvgShedder"
    ]


def test_fewer_bundles_are_not_played_and_it_is_said() -> None:
    now, then = sides_of(compared("pulsar-next", "pulsar-4.0"))
    assert cut_of(now, then) == 1
    assert differences(now, then, 1)[1].startswith("defaultNumberOfNamespaceBundles is not played")
    assert sources_of(SMALL, 1) == (SMALL, SMALL)


def test_what_cannot_be_compared_is_said() -> None:
    with pytest.raises(UserError, match="both sides are versions"):
        sides_of(compared("a.conf", "pulsar-next", conf="b.conf"))
    with pytest.raises(UserError, match=r"a version is one of pulsar-4\.0, pulsar-next"):
        sides_of(compared("pulsar-3.0", "pulsar-next"))
