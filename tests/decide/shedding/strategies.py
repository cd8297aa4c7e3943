"""Load data drawn at random: ties, zeroes, NaN and stale reports are as likely as anything."""

import math
from typing import Any

from hypothesis import strategies as st

from tests.decide.shedding.clusters import Line, broker, bundle, line

MIB = 1024.0 * 1024.0
common = [0.0, 1.0, 900.0, 1000.0, 5e4, MIB, 3 * MIB, 1e9, 2.2e9, 1e11]
# Nothing between nought and the least value that a setting can have.
amounts = st.sampled_from(common) | st.floats(1e-9, 1e8)
odd = amounts | st.sampled_from([math.nan, math.inf, -5.0, -0.0])
percents = st.sampled_from([0.0, 10.0, 30.0, 50.0, 75.0, 85.0, 90.0, 99.9, 150.0]) | st.floats(
    0, 120
)


@st.composite
def lines(draw: st.DrawFn, values: st.SearchStrategy[float] = amounts) -> Line:
    """A line with up to six brokers and a dozen bundles, some known, some reported, some not."""
    names = [f"t/n{i % 3}/0x{i:08x}_0x{i + 1:08x}" for i in range(12)] + ["pulsar/host:1/0x0_0x1"]
    known = draw(st.lists(st.sampled_from(names), unique=True))
    bundles = {n: bundle(draw(values), draw(values), topics=i) for i, n in enumerate(known)}
    brokers: dict[str, Any] = {}
    for index in range(draw(st.integers(0, 6))):
        owned = draw(st.lists(st.sampled_from(names), unique=True, max_size=8))
        brokers[f"b{index}:8080"] = broker(
            owned,
            cpu=draw(percents),
            bandwidth=draw(percents),
            rate=draw(values),
            throughput=draw(values),
        )
    return line(brokers, bundles, draw(st.lists(st.sampled_from(names), max_size=3)))


def shuffled(data: Line, order: Any) -> Line:
    """The same line with every object's and every bundle list's order changed."""
    brokers = list(data["brokerData"].items())
    bundles = list(data["bundleData"].items())
    for entries in (brokers, bundles):
        order.shuffle(entries)
    made = {**data, "brokerData": dict(brokers), "bundleData": dict(bundles)}
    for entry in made["brokerData"].values():
        entry["localData"]["bundles"] = entry["localData"]["bundles"][::-1]
    return made
