"""The parts of Counterpoise, each with its own figures: capacities, suspects, forecasts, memory."""

from dataclasses import replace

import numpy as np
import pytest

from counterpoise.decide.shedding.counterpoise.columns import capacities, suspects
from counterpoise.decide.shedding.counterpoise.forecast import (
    TREND_FADES,
    advance,
    averaged,
    followed,
    predicted,
)
from counterpoise.decide.shedding.counterpoise.memory import Tracks
from counterpoise.decide.shedding.counterpoise.search import search
from counterpoise.load.rates import Floats
from tests.decide.shedding.counterpoise.clusters import (
    COUNTERPOISE,
    MINUTE,
    SIZE,
    START,
    Cluster,
    constant,
    random_cluster,
    with_rates,
)
from tests.decide.shedding.counterpoise.test_timing import UNEVEN, cheap

EVERY = np.ones(5)
UNKNOWN = np.full((3, 3), np.nan)


def three(*carried: float) -> Cluster:
    return Cluster([0, 1, 2], constant(np.array(carried)), 3)


def test_what_a_broker_can_carry_is_its_traffic_by_its_use_of_the_same_kind() -> None:
    view = three(5e8, 4e8, 6e8).view()
    found = capacities(view, EVERY, UNKNOWN)
    assert found == pytest.approx(np.array([[0.0, SIZE, 0.0]] * 3), rel=1e-5)
    usage = view.broker.usage[:, [0, 1, 2, 4, 3]]
    sent = with_rates(view, usage, lambda it: replace(it, throughput_out=2 * it.throughput_in))
    assert capacities(sent, EVERY, UNKNOWN)[:, 2] == pytest.approx(2 * SIZE, rel=1e-5)


def test_a_capacity_that_is_known_changes_by_a_tenth_of_what_is_new() -> None:
    found = capacities(three(5e8, 4e8, 6e8).view(), EVERY, np.full((3, 3), 2 * SIZE))
    assert found[:, 1] == pytest.approx(1.9 * SIZE, rel=1e-5)


@pytest.mark.parametrize(("percent", "most"), [(99.5, 3e8 / 0.995), (98.0, SIZE)])
def test_a_broker_at_its_end_can_carry_no_more_than_it_does(percent: float, most: float) -> None:
    view = three(5e8, 5e8, 3e8).view()
    usage = view.broker.usage.copy()
    usage[2, 3] = percent
    view = with_rates(view, usage, lambda it: it)
    found = capacities(view, EVERY, np.full((3, 3), SIZE))
    assert found[2, 1] == pytest.approx(most, rel=1e-3)


@pytest.mark.parametrize(("each", "suspected"), [(3, False), (4, True)])
def test_a_broker_is_suspected_by_four_of_its_bundles(each: int, suspected: bool) -> None:
    owners = np.repeat(np.arange(3), each).tolist()
    view = Cluster(owners, constant(np.full(3 * each, 1e7)), 3).view()
    level = np.full((3 * each, 3), 1e7, np.float32)
    sample = level.copy()
    sample[:each] *= 0.1
    assert suspects(view, sample, level).tolist() == [suspected, False, False]
    sample[:2] = level[:2]
    assert not suspects(view, sample, level).any()


def tracks_of(outliers: list[int]) -> Tracks:
    """Bundles of which each carries 100 of everything, with so many outliers in a row."""
    count = len(outliers)
    return replace(
        Tracks.empty(count),
        level=np.full((count, 3), 100.0, np.float32),
        outliers=np.array(outliers, np.int32),
        count=np.full(count, 5, np.int32),
    )


def test_what_is_out_of_the_ordinary_twice_lasts_for_some_time_up_or_down() -> None:
    sample = np.full((4, 3), 7.0, np.float32)
    soon, later = predicted(tracks_of([2, -2, 1, -1]), 60.0, sample, START).swapaxes(0, 1)
    assert soon.tolist() == [[7.0, 7.0, 100.0, 100.0]] * 3
    assert later.tolist() == [[100.0] * 4] * 3


@pytest.mark.parametrize("minutes", [1, 2, 10])
def test_a_trend_fades_by_the_minute_however_often_there_are_reports(minutes: int) -> None:
    before = replace(tracks_of([0]), trend=np.ones((1, 3), np.float32))
    sample = np.full((1, 3), 100.0 + minutes, np.float32)
    after = advance(
        before,
        sample,
        sample,
        np.ones(1, np.int64),
        (START, START + minutes * MINUTE),
        np.zeros(1, np.bool_),
    )
    assert after.level == pytest.approx(sample)
    assert after.trend == pytest.approx(np.full((1, 3), TREND_FADES**minutes), rel=1e-5)


def test_a_bundle_that_is_new_has_no_history_of_another() -> None:
    small = random_cluster(2, brokers=6, each=10)
    small.round()
    large = random_cluster(2, brokers=6, each=15)
    assert followed(large.view(), small.memory).count.tolist() == [1] * 60 + [0] * 30


def test_a_mean_is_of_one_sample_at_least() -> None:
    view = three(1e8, 1e8, 1e8).view()
    samples = view.bundle.samples.copy()
    samples[:, :2] = [[0, 0], [10, 3], [10, 30]]
    view = replace(view, bundle=replace(view.bundle, samples=samples))
    assert averaged(view).tolist() == [1, 3, 10]


@pytest.mark.parametrize("most", [0, 1])
def test_no_more_moves_are_looked_for_than_may_be_made(most: int) -> None:
    assert len(search(UNEVEN, most, cheap(0.001)).steps) == most


def test_a_bundle_has_moved_when_it_is_first_seen_elsewhere() -> None:
    cluster = three(1e8, 1e8, 1e8)
    cluster.settings = {"max_moves": 0}
    cluster.rounds(3)
    cluster.owners[0] = 1
    cluster.rounds(2)
    assert cluster.memory.tracks.moved_ms.tolist() == [START + 3 * MINUTE, 0, 0]


def test_a_broker_is_suspected_since_it_was_first() -> None:
    loads = np.full(24, 1e7)

    def load(minute: int) -> Floats:
        made = loads.copy()
        made[:8] *= 0.1 if minute >= 20 else 1.0
        return made

    cluster = Cluster(np.repeat(np.arange(3), 8).tolist(), load, 3, {"max_moves": 0})
    cluster.rounds(23)
    assert cluster.memory.ill == {"b00:8080": START + 20 * MINUTE}


def test_what_a_broker_could_carry_is_forgotten_when_it_has_left() -> None:
    cluster = three(5e8, 4e8, 6e8)
    cluster.round()
    assert [*cluster.memory.capacity] == cluster.names
    left = COUNTERPOISE.forget(cluster.memory, cluster.names[1:])
    assert [*left.capacity] == cluster.names[1:]
