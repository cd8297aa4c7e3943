"""The text that Prometheus reads, held against the text that its own library writes."""

import math
from collections.abc import AsyncIterator, Iterable

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric

from counterpoise.admin.metrics import exposition
from counterpoise.admin.metrics.reference import MEANINGS, is_counter
from counterpoise.admin.metrics.sample import Labels, MetricSample

NAMES = ["pulsar_rate_in", "counterpoise_moves_total", "pulsar_in_messages_total", "unknown"]
labels = st.lists(
    st.tuples(st.sampled_from(["topic", "cluster", "a"]), st.text(max_size=12)),
    max_size=3,
    unique_by=lambda pair: pair[0],
).map(tuple)
figures = st.lists(st.tuples(st.sampled_from(NAMES), labels, st.floats()), max_size=40)


async def streamed(found: Iterable[MetricSample]) -> AsyncIterator[MetricSample]:
    for each in found:
        yield each


def by_the_library(found: Iterable[MetricSample]) -> bytes:
    families: dict[str, Metric] = {}
    for each in found:
        if each.name not in families:
            counts = is_counter(each.name)
            families[each.name] = Metric(
                each.name.removesuffix("_total") if counts else each.name,
                MEANINGS.get(each.name, ""),
                "counter" if counts else "gauge",
            )
        families[each.name].add_sample(each.name, dict(each.labels), each.value)

    class Collector:
        def collect(self) -> list[Metric]:
            return list(families.values())

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector())  # type: ignore[arg-type]
    return generate_latest(registry)


@given(figures)
def test_it_is_what_the_library_writes(found: list[tuple[str, Labels, float]]) -> None:
    import asyncio

    given_figures = [MetricSample(*each) for each in found]
    text = asyncio.run(exposition.text_of(streamed(given_figures)))
    assert b"".join(text.pieces()) == by_the_library(given_figures)


async def test_of_many_subjects_each_series_is_in_one_place() -> None:
    found = [
        MetricSample(name, (("topic", f"t{number}"),), value)
        for number in range(3000)
        for name, value in (("pulsar_rate_in", float(number)), ("unknown", math.inf))
    ]
    text = await exposition.text_of(streamed(found))
    assert b"".join(text.pieces()) == by_the_library(found)
    assert text.held < text.size // 5
