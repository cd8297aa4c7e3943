"""The settings of the placement filters."""

from dataclasses import dataclass

from counterpoise.names.load_managers import MODULAR
from counterpoise.names.options import option


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """Every setting that `counterpoise.decide.filters` reads."""

    load_manager_class: str = option(MODULAR, "loadManagerClassName", dynamic=True)
    """The load manager of this cluster; brokers with another one are not candidates."""
    max_topics: int = option(50000, "loadBalancerBrokerMaxTopics", "topics", low=0, dynamic=True)
    """A broker with more topics is given no bundle."""
    distribute_evenly: bool = option(
        True, "loadBalancerDistributeBundlesEvenlyEnabled", dynamic=True
    )
    """Only brokers with the fewest bundles of a namespace get its next one (modular)."""
    prefer_later_versions: bool = option(False, "preferLaterVersions", dynamic=True)
    """Only brokers of the latest version are given bundles."""
    failure_domains: bool = option(False, "failureDomainsEnabled", dynamic=True)
    """Whether namespaces of an anti-affinity group are spread over failure domains first, then
    brokers."""
    persistent_topics: bool = option(True, "enablePersistentTopics")
    """Whether this broker serves persistent topics."""
    non_persistent_topics: bool = option(True, "enableNonPersistentTopics")
    """Whether this broker serves non-persistent topics."""
