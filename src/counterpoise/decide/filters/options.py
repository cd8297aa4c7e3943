"""Settings that say which brokers may have a bundle at all."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.names.load_managers import MODULAR
from counterpoise.names.options import option


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """Every setting that `counterpoise.decide.filters` reads."""

    load_manager_class: str = option(
        MODULAR,
        conf="loadManagerClassName",
        dynamic=True,
        why="which load manager runs; brokers with another one are passed over",
    )
    max_topics: int = option(
        50000,
        conf="loadBalancerBrokerMaxTopics",
        unit="topics",
        low=0,
        dynamic=True,
        why="a broker with more topics is given no bundle",
    )
    distribute_evenly: bool = option(
        True,
        conf="loadBalancerDistributeBundlesEvenlyEnabled",
        dynamic=True,
        why="only brokers with the fewest bundles of a namespace get its next one (modular)",
    )
    prefer_later_versions: bool = option(
        False,
        conf="preferLaterVersions",
        dynamic=True,
        why="only brokers of the latest version are given bundles",
    )
    failure_domains: bool = option(
        False,
        conf="failureDomainsEnabled",
        dynamic=True,
        why="anti-affinity spreads over failure domains first, then over brokers",
    )
    persistent_topics: bool = option(
        True,
        conf="enablePersistentTopics",
        why="whether this broker serves persistent topics",
    )
    non_persistent_topics: bool = option(
        True,
        conf="enableNonPersistentTopics",
        why="whether this broker serves non-persistent topics",
    )
