"""Filters: which brokers may have a bundle at all, each with a reason for those that may not."""

from counterpoise.decide.filters.anti_affinity import spread
from counterpoise.decide.filters.facts import BrokerFacts
from counterpoise.decide.filters.isolation import IsolationPolicy, isolate
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.filters.outcome import FilterOutcome, FilterStatus
from counterpoise.decide.filters.simple import (
    below_max_topics,
    fewest_of_namespace,
    not_barred,
    not_draining,
    same_load_manager,
    under_max_topics,
)
from counterpoise.decide.filters.versions import latest_version

__all__ = [
    "BrokerFacts",
    "FilterOptions",
    "FilterOutcome",
    "FilterStatus",
    "IsolationPolicy",
    "below_max_topics",
    "fewest_of_namespace",
    "isolate",
    "latest_version",
    "not_barred",
    "not_draining",
    "same_load_manager",
    "spread",
    "under_max_topics",
]
