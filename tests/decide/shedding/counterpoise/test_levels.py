"""What Counterpoise remembers of loads: their levels, their noise, and how far both are doubted."""

from dataclasses import replace

import numpy as np
import pytest

from counterpoise.load.rates import Floats
from tests.decide.shedding.counterpoise.clusters import (
    Averaged,
    Cluster,
    changing,
    constant,
    random_cluster,
)


@pytest.mark.parametrize("seed", range(4))
def test_constant_noisy_load_moves_nothing_after_the_first_hour(seed: int) -> None:
    cluster = random_cluster(seed, noise=0.25)
    cluster.rounds(6 * 60)
    late = [minute for minute, _ in cluster.moved if minute > 60]
    assert len(late) <= 1


def test_the_same_noise_is_doubted_more_on_more_brokers() -> None:
    def doubt(brokers: int) -> float:
        loads, owners = np.full(brokers * 10, 1e7), np.repeat(np.arange(brokers), 10).tolist()
        cluster = Cluster(owners, constant(loads, 0.25), brokers)
        return float(cluster.rounds(20).figures["doubt"])

    # The largest of 40 errors is usually 1.6 times the largest of 4.
    assert 1.4 < doubt(40) / doubt(4) < 1.9


def test_the_same_noise_is_doubted_more_the_longer_moves_are_put_off() -> None:
    def doubt(**settings: float) -> float:
        cluster = random_cluster(1, noise=0.25)
        cluster.settings = settings
        return float(cluster.rounds(180).figures["doubt"])

    # Five times as many errors: the largest of 30 instead of 6.
    assert 1.3 < doubt(max_moves=0) / doubt(move_price=1000.0) < 1.45


def test_load_that_rises_and_falls_as_a_whole_is_no_noise() -> None:
    """A ramp, a report of a part of an interval, a stall: they make no broker fuller."""

    def doubt(factors: list[float]) -> float:
        loads = np.full(24, 1e7)
        cluster = Cluster(
            [row % 3 for row in range(24)], lambda minute: loads * factors[minute % len(factors)], 3
        )
        return float(cluster.rounds(12).figures["doubt"])

    assert doubt([0.2, 0.6, 1.0, 2.5, 1.0, 0.4]) == pytest.approx(doubt([1.0]), rel=0.01)


def test_a_mean_of_ten_samples_is_doubted_less_than_one_of_them() -> None:
    of_one, of_ten, of_many = (
        Averaged([0, 1, 2], constant(np.full(3, 1e7)), 3, count=count).round().figures["doubt"]
        for count in (1, 10, 1000)
    )
    assert of_one / of_ten == pytest.approx(10**0.5)
    assert of_many == of_ten


def test_a_first_sample_of_a_part_of_an_interval_is_forgotten_soon() -> None:
    begun = changing(np.full(24, 1e7), lambda minute: 1.0 if minute else 0.05)
    cluster = Cluster([row % 3 for row in range(24)], begun, 3, {"move_price": 100.0})
    cluster.rounds(4)
    assert cluster.memory.tracks.level[0, 1] == pytest.approx(1e7, rel=0.05)


@pytest.mark.parametrize("quiet_from", [0, 20], ids=["quiet at first", "quiet for a while"])
def test_load_that_begins_is_moved_soon(quiet_from: int) -> None:
    """A broker that restarted reports its bundles without load: their noise is not known by it."""
    steady = random_cluster(1, noise=0.1)

    def begins(minute: int) -> Floats:
        made: Floats = steady.load(minute) * (0.0 if quiet_from <= minute < 60 else 1.0)
        return made

    cluster = replace(steady, load=begins, owners=[owner // 2 for owner in steady.owners])
    if quiet_from:
        cluster.settings = {"max_moves": 0}
    cluster.rounds(60)
    cluster.settings = {}
    plan = cluster.rounds(20)
    assert cluster.ratio(80) < 1.3
    assert plan.figures["doubt"] < 0.3


def test_a_burst_moves_no_level() -> None:
    """A bundle that carries ten times its load for ten minutes is forecast as before after it."""
    burst = changing(np.full(12, 2e7), lambda minute: 10.0 if 60 <= minute < 70 else 1.0)
    cluster = Cluster([row % 3 for row in range(12)], burst, 3, {"move_price": 100.0})
    cluster.rounds(72)
    level = cluster.memory.tracks.level[:, 1]
    assert level[0] < 1.5 * level[1]


def test_a_shift_that_lasts_is_learnt() -> None:
    shift = changing(np.full(12, 2e7), lambda minute: 4.0 if minute >= 60 else 1.0)
    cluster = Cluster([row % 3 for row in range(12)], shift, 3, {"move_price": 100.0})
    cluster.rounds(90)
    assert cluster.memory.tracks.level[0, 1] == pytest.approx(8e7, rel=0.1)


def test_a_memory_of_other_bundles_is_carried_over_by_name() -> None:
    first = random_cluster(2)
    first.round()
    other = random_cluster(2, brokers=6, each=10)
    other.memory, other.minute = first.memory, 1
    plan = other.round()
    assert plan.memory.bundles == other.view().bundles
    assert plan.memory.tracks.count.tolist() == [2] * 60
