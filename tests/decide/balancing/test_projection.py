"""The picture after a move: what the bundle carried left its source and arrived, and no more."""

from dataclasses import replace

import numpy as np
import pytest

from counterpoise.decide.balancing.projection import moved_in, with_owners
from counterpoise.decide.plan import Decision, DecisionKind
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.rates import Rates
from counterpoise.load.view import ClusterView
from tests.decide.balancing.test_round import UNEVEN, seen
from tests.load.story import START

BUSY, CALM = "b1:80", "b3:80"


@pytest.fixture
def view() -> ClusterView:
    found = cluster_view(seen(UNEVEN), START)
    assert found.broker_index(BUSY) is not None
    return found


def some_bundle(view: ClusterView) -> str:
    """A bundle of the busy broker with traffic."""
    row = view.broker_index(BUSY)
    assert row is not None
    members = view.members[view.offsets[row] : view.offsets[row + 1]]
    chosen = max(members, key=lambda member: float(view.bundle.short.throughput()[member]))
    return view.bundles[chosen]


def moved(view: ClusterView, bundle: str, to: str | None = CALM) -> ClusterView:
    decision = Decision(DecisionKind.UNLOAD, bundle, BUSY, to, "", "")
    return moved_in(view, decision)


def test_what_it_carried_goes_with_it(view: ClusterView) -> None:
    bundle = some_bundle(view)
    after = moved(view, bundle)
    source, target = view.broker_index(BUSY), view.broker_index(CALM)
    at = view.bundle_index(bundle)
    assert source is not None
    assert target is not None
    assert at is not None
    assert after.broker.bundle_count[source] == view.broker.bundle_count[source] - 1
    assert after.broker.bundle_count[target] == view.broker.bundle_count[target] + 1
    topics = view.bundle.topics[at]
    assert after.broker.topics[source] == view.broker.topics[source] - topics
    assert after.broker.topics[target] == view.broker.topics[target] + topics
    carried = float(view.bundle.short.throughput()[at])
    total = float(view.broker.traffic.throughput()[source])
    assert 0 < carried <= total
    part = np.float32(carried / total)
    usage = view.broker.usage
    assert after.broker.usage[source] == pytest.approx(usage[source] * (1 - part))
    assert after.broker.usage[target] == pytest.approx(usage[target] + usage[source] * part)
    others = [n for n in range(len(view.brokers)) if n not in (source, target)]
    assert np.array_equal(after.broker.usage[others], usage[others])
    assert after.broker.traffic.throughput().sum() == pytest.approx(
        view.broker.traffic.throughput().sum()
    )


def test_a_source_without_traffic_gives_no_use_away(view: ClusterView) -> None:
    """Nor more than it has, where its bundles report more than it does."""
    bundle = some_bundle(view)
    source = view.broker_index(BUSY)
    for scale in (0.0, 1e-6):
        rates = view.broker.traffic
        small = type(rates)(
            *(
                getattr(rates, name) * scale
                for name in ("rate_in", "rate_out", "throughput_in", "throughput_out")
            )
        )
        before = replace(view, broker=replace(view.broker, traffic=small))
        after = moved(before, bundle)
        left = after.broker.usage[source]
        whole = before.broker.usage[source]
        assert left == pytest.approx(whole if scale == 0 else 0 * whole)
        assert np.all(after.broker.traffic.throughput() >= 0)


@pytest.mark.parametrize("to", [None, "absent:80"])
def test_a_move_to_no_known_broker_changes_nothing(view: ClusterView, to: str | None) -> None:
    assert moved(view, some_bundle(view), to) is view


def test_each_average_of_the_bundle_goes_to_the_same_average_of_the_broker(
    view: ClusterView,
) -> None:
    bundle = some_bundle(view)
    source, at = view.broker_index(BUSY), view.bundle_index(bundle)
    assert source is not None
    assert at is not None
    idle = Rates.of(*[np.zeros(len(view.bundles))] * 4)
    for name in ("short", "long"):
        seen_as = replace(view, bundle=replace(view.bundle, **{name: idle}))
        after = moved(seen_as, bundle).broker
        for average in ("short", "long"):
            before = getattr(view.broker, f"{average}_average").throughput()[source]
            gone = before - getattr(after, f"{average}_average").throughput()[source]
            assert gone == pytest.approx(getattr(seen_as.bundle, average).throughput()[at])


def test_other_owners_have_their_bundles_and_what_is_not_known_is_left_as_it_was(
    view: ClusterView,
) -> None:
    bundle = some_bundle(view)
    other = with_owners(view, {bundle: CALM, "t/n/unknown": CALM})
    both = [other.reported_by(other.broker_index(each) or 0).tolist() for each in (BUSY, CALM)]
    assert both == [
        [row for row in view.reported_by(0).tolist() if row != view.bundle_index(bundle)],
        [view.bundle_index(bundle)],
    ]
    same = with_owners(view, {bundle: "absent:80"})
    assert same.offsets.tolist() == view.offsets.tolist()
    assert same.members.tolist() == view.members.tolist()
