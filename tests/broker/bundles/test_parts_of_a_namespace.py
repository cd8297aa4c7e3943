"""What a broker's bundles say of single topics: who serves each, and where they are cut."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from counterpoise.broker.bundles.service import NamespaceService
from counterpoise.broker.bundles.split_points import SplitPointFinder
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.names.bundle import NamespaceBundles
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.system_topics import SERVICE_UNIT_STATE
from counterpoise.names.topic import TopicName

NAMESPACE = NamespaceName("t", "n")
TOPICS = [TopicName.parse(f"persistent://t/n/{number}") for number in range(40)]


@pytest.mark.parametrize("leads", [False, True])
def test_the_topic_of_bundles_records_is_served_by_the_leader_alone(leads: bool) -> None:
    nothing = cast("Any", None)
    service = NamespaceService(nothing, nothing, nothing, nothing, leads=lambda: leads)
    topic = TopicName.parse(SERVICE_UNIT_STATE)
    assert (service.goes_with_leader(topic), service.owns(topic)) == (True, leads)
    assert not service.goes_with_leader(TOPICS[0])
    without = NamespaceService(nothing, nothing, nothing, nothing)
    assert not without.goes_with_leader(topic)


async def test_a_bundle_is_cut_by_its_own_topics() -> None:
    first, second = NamespaceBundles.of_count(NAMESPACE, 2).bundles

    def finder(topics: list[TopicName]) -> SplitPointFinder:
        async def topics_of(*_: object) -> list[TopicName]:
            return topics

        catalog = cast("Any", SimpleNamespace(topics_of=topics_of))
        return SplitPointFinder(catalog, list, SplitOptions)

    for bundle in (first, second):
        own = [topic for topic in TOPICS if topic in bundle]
        found = [
            await finder(topics).points(bundle, "topic_count_equally_divide", ())
            for topics in (TOPICS, own)
        ]
        assert found[0] == found[1]
        assert len(found[0]) == 1
