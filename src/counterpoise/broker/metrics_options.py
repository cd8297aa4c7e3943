"""Settings from broker.conf that choose the series of `/metrics`."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.names.options import option


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """Settings of which bundles, topics and consumers have metrics of their own."""

    bundles: bool = option(True, "exposeBundlesMetricsInPrometheus", dynamic=True)
    """Whether each bundle has metrics of its own (Pulsar's default is false: there one cannot see
    by them what the balancer sees)."""
    topics: bool = option(True, "exposeTopicLevelMetricsInPrometheus")
    """Whether each topic and subscription has metrics of its own, or their namespace does."""
    consumers: bool = option(False, "exposeConsumerLevelMetricsInPrometheus")
    """Whether each consumer has metrics of its own, where topics have."""
