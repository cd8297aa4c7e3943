"""The demo's load, and settings that fit it to a laptop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from counterpoise.names.bundle import BundleName, NamespaceBundles
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName

NAMESPACE = NamespaceName("public", "demo")
BUNDLES = 24
TOPICS_PER_BUNDLE = 2
MESSAGE_BYTES = 4096
BYTES_PER_S = 2_000_000.0
"""Bytes/s published to all topics together; each message is consumed once."""
HOT_SHARE = 0.8
"""The part of the load on the topics of one broker, the hot one."""

# Load is measured, and may be reported, every second.
_EVERY_SECOND = {"loadBalancerReportUpdateMinIntervalMillis": "1000"}
BROKER_SETTINGS: Mapping[str, str] = {
    **_EVERY_SECOND,
    # A network that this load can fill: the hot broker starts at about two thirds of it.
    "loadBalancerOverrideBrokerNicSpeedGbps": "0.02",
}
BALANCER_SETTINGS: Mapping[str, str] = {
    **_EVERY_SECOND,
    # Brokers, clients and Spark share this machine's cores, so the CPU says little about a broker.
    "loadBalancerCPUResourceWeight": "0",
}
BALANCE_OPTIONS = (
    "--interval=2s",
    "--decide-every=6s",
    *(f"--set={name}={value}" for name, value in BALANCER_SETTINGS.items()),
)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of the demo."""

    brokers: int = 3
    limit_s: float = 120.0
    """The most seconds that the demo lasts after the balancer's first round."""
    spark_s: float = 240.0
    """The most seconds until the balancer's first round: on a busy machine Spark starts slowly."""
    quiet_s: float = 8.0
    """The seconds without a decision after which the demo ends if the imbalance has halved."""
    receive_s: float = 30.0
    """The most seconds to wait for the last messages after the load has ended."""
    picture: Path = Path("counterpoise-demo.png")
    seed: int = 1


@dataclass(frozen=True, slots=True)
class SkewedTopic:
    """A topic and its publish rate."""

    topic: str
    messages_per_s: float


def topics_by_bundle() -> Mapping[BundleName, Sequence[str]]:
    """Return a few topics for each bundle of the demo's namespace.

    Names are tried until enough of them hash into each bundle.
    """
    ring = NamespaceBundles.of_count(NAMESPACE, BUNDLES)
    found: dict[BundleName, list[str]] = {bundle: [] for bundle in ring.bundles}
    number = 0
    while any(len(topics) < TOPICS_PER_BUNDLE for topics in found.values()):
        topic = TopicName("persistent", NAMESPACE.tenant, NAMESPACE.local, f"sensor-{number}")
        topics = found[ring.bundle_of(topic)]
        if len(topics) < TOPICS_PER_BUNDLE:
            topics.append(str(topic))
        number += 1
    return found


def skewed_loads(owner_of: Mapping[str, str], seed: int) -> tuple[str, list[SkewedTopic]]:
    """Choose the broker to overload, and each topic's load: most of it on that broker's topics.

    `owner_of` has the broker that serves each topic. Within one group, that broker's topics or all
    others, the busiest topic gets up to four times as much as the quietest.
    """
    rng = Random(seed)
    owned: dict[str, list[str]] = {}
    for topic in sorted(owner_of):
        owned.setdefault(owner_of[topic], []).append(topic)
    hot = max(sorted(owned), key=lambda broker: len(owned[broker]))
    loads = []
    for topics, share in (
        (owned[hot], HOT_SHARE),
        ([t for broker in sorted(owned) if broker != hot for t in owned[broker]], 1 - HOT_SHARE),
    ):
        weights = [rng.uniform(0.4, 1.6) for _ in topics]
        for topic, weight in zip(topics, weights, strict=True):
            bytes_per_s = BYTES_PER_S * share * weight / sum(weights)
            loads.append(SkewedTopic(topic, bytes_per_s / MESSAGE_BYTES))
    return hot, loads
