"""Which moments are asked for, and where a series of Pulsar's belongs by its labels."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.names.bundle import NamespaceBundles
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.pipeline.collect.admin import Admin, RefusedError
from counterpoise.pipeline.prometheus.boundaries import (
    ClusterBoundaries,
    KnownBundles,
    NamedBoundaries,
)
from counterpoise.pipeline.prometheus.series import SeriesLabels, SeriesPlace
from counterpoise.pipeline.prometheus.source import SeriesError
from counterpoise.pipeline.prometheus.time_grid import DAY_MS, TimeGrid

HALVES = ["0x00000000", "0x80000000", "0xffffffff"]
GRIDS = st.builds(
    TimeGrid,
    st.integers(0, 3 * DAY_MS),
    st.sampled_from([1, 15_000, 60_000, DAY_MS // 2, DAY_MS, 2 * DAY_MS]),
    st.integers(1, 40),
)


@given(GRIDS, st.integers(1, 45), st.integers(1, 45))
def test_parts_of_a_grid_are_its_moments_in_their_order(
    grid: TimeGrid, most: int, nth: int
) -> None:
    """Whether they are cut by number or by days, and a moment is found at its place alone."""
    moments = grid.moments.tolist()
    assert len(moments) == grid.count
    assert moments[-1] == grid.last_ms
    assert grid.every(nth).moments.tolist() == moments[::nth]
    for cut in (lambda left: left.at_most(most), TimeGrid.within_day):
        found: list[int] = []
        left: TimeGrid | None = grid
        while left is not None:
            part = cut(left)
            found += part.moments.tolist()
            left = left.behind(part)
        assert found == moments
    assert grid.at_most(0).moments.tolist() == moments[:1]
    day = grid.within_day().moments.tolist()
    assert day == [each for each in moments if each // DAY_MS == moments[0] // DAY_MS]
    assert [grid.place(each) for each in moments] == [*range(grid.count)]
    assert grid.place(grid.first_ms - grid.step_ms) == -1
    assert grid.place(grid.last_ms + grid.step_ms) == -1
    assert grid.step_ms == 1 or grid.place(grid.first_ms + 1) == -1


def labels(known: KnownBundles | None = None, **more: Any) -> SeriesLabels:
    named = NamedBoundaries({"t/n": HALVES})
    return SeriesLabels(known or KnownBundles(named), **more)


async def read(series: SeriesLabels, **given_labels: str) -> SeriesPlace | None:
    [place] = await series.places([json.dumps(given_labels).encode()])
    return place


@pytest.mark.parametrize(
    ("given_labels", "broker"),
    [
        ({"pod": "a", "kubernetes_pod_name": "b", "instance": "c", "broker": "d"}, "a:8080"),
        ({"kubernetes_pod_name": "b", "instance": "c:1", "broker": "d"}, "b:8080"),
        ({"pod": "", "instance": "c:1", "broker": "d"}, "c:1"),
        ({"broker": "d:70"}, "d:70"),
    ],
)
async def test_a_broker_is_named_by_the_first_label_that_says_something(
    given_labels: dict[str, str], broker: str
) -> None:
    assert await read(labels(), **given_labels) == SeriesPlace(broker)


async def test_a_label_that_was_chosen_is_the_only_one_that_counts() -> None:
    series = labels(broker_label="node", names={"n1": "real:9"})
    assert await read(series, node="n1", pod="a") == SeriesPlace("real:9")
    assert await read(series, pod="a") is None
    [reason] = series.unreadable
    assert "none of its labels names a broker (node)" in reason


@pytest.mark.parametrize(
    ("partition", "topic"),
    [
        ("", "persistent://t/n/x"),
        ("-1", "persistent://t/n/x"),
        ("0", "persistent://t/n/x-partition-0"),
        ("12", "persistent://t/n/x-partition-12"),
    ],
)
async def test_a_partition_is_a_topic_of_its_own(partition: str, topic: str) -> None:
    place = await read(labels(), pod="a", topic="persistent://t/n/x", partition=partition)
    bundles = NamespaceBundles.from_text(NamespaceName.parse("t/n"), HALVES)
    bundle = bundles.bundle_of(TopicName.parse(topic))
    assert place == SeriesPlace("a:8080", str(bundle), topic)


async def test_what_cannot_be_read_is_counted_and_one_of_each_kind_is_shown() -> None:
    series = labels()
    wrong = [
        {"pod": "a", "topic": "persistent://t/x"}, {"pod": "a", "bundle": "t/n"},
        {"pod": "a", "topic": "persistent://t/n/x", "partition": "²"}, {}, {"n": "0"}, {"n": "1"},
    ]  # fmt: skip
    lines = [json.dumps(each).encode() for each in wrong] + [b"[]", b"{"]
    assert await series.places(lines * 2) == [None] * 16
    assert series.left_out == len(lines), "a line is read once"
    assert len(series.unreadable) == len(lines) - 2, "three have no label of a broker"
    assert any(text == "{}" for text in series.unreadable.values()), "the first of a kind"


class Counting:
    """Knows the bundles of one namespace, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def of(self, namespace: NamespaceName) -> NamespaceBundles | None:
        self.asked.append(str(namespace))
        return NamespaceBundles.of_count(namespace, 2) if str(namespace) == "t/known" else None


async def test_a_namespace_is_asked_for_once_and_has_a_default_where_it_is_not_known() -> None:
    source = Counting()
    known = KnownBundles(source)
    topics = [TopicName.parse(f"persistent://t/{n}/x{i}") for n in ("known", "new") for i in (0, 1)]
    assert known.of(topics[0]) is None
    for _ in range(2):
        for topic in topics:
            await known.ask(topic.namespace_name)
    assert source.asked == ["t/known", "t/new"]
    assert known.assumed == ["t/new"]
    for topic, count in zip(topics, (2, 2, 4, 4), strict=True):
        of_count = NamespaceBundles.of_count(topic.namespace_name, count)
        assert known.of(topic) == str(of_count.bundle_of(topic))


@pytest.mark.parametrize(
    "value", [2, HALVES, {"boundaries": HALVES}, {"bundles": {"boundaries": HALVES}}]
)
async def test_bundles_are_named_by_number_boundaries_or_policies(
    value: object, tmp_path: Path
) -> None:
    file = tmp_path / "bundles.json"
    file.write_text(json.dumps({"t/n": value}))
    found = await NamedBoundaries.read(file).of(NamespaceName.parse("t/n"))
    assert found is not None
    topic = TopicName.parse("persistent://t/n/x")
    halves = NamespaceBundles.of_count(NamespaceName.parse("t/n"), 2)
    assert str(found.bundle_of(topic)) == str(halves.bundle_of(topic))
    assert await NamedBoundaries.read(file).of(NamespaceName.parse("t/other")) is None


@pytest.mark.parametrize(
    ("statuses", "found"), [((200,), True), ((500, 200), True), ((404, 200), False)]
)
async def test_the_first_broker_that_knows_says_which_bundles_a_namespace_has(
    statuses: tuple[int, ...], found: bool
) -> None:
    """It is asked of another one only where the first cannot say; one that is gone has none."""
    left = [*statuses]

    class Brokers:
        async def get(self, _: str) -> bytes:
            if (status := left.pop(0)) != 200:
                raise RefusedError(f"HTTP {status}", status)
            return json.dumps({"boundaries": HALVES}).encode()

    addresses = tuple(f"http://b{number}:80" for number in range(len(statuses)))
    namespace = NamespaceName.parse("t/n")
    bundles = await ClusterBoundaries(cast("Admin", Brokers()), addresses).of(namespace)
    assert (bundles is not None) is found
    left[:] = [500] * len(addresses)
    with pytest.raises(SeriesError, match=r"bundles of t/n \(http://b0:80: HTTP 500"):
        await ClusterBoundaries(cast("Admin", Brokers()), addresses).of(namespace)


@pytest.mark.parametrize("text", ["[]", "{", '{"t/n": "x"}', '{"t/n": {}}', '{"n": 2}'])
def test_a_file_that_names_no_bundles_is_refused_by_its_name(text: str, tmp_path: Path) -> None:
    file = tmp_path / "bundles.json"
    file.write_text(text)
    with pytest.raises(SeriesError, match=str(file)):
        NamedBoundaries.read(file)
