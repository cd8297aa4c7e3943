"""The filters that compare one fact about each broker with one limit."""

from collections.abc import Collection, Mapping, Sequence

from counterpoise.decide.filters.facts import UNKNOWN, BrokerFacts
from counterpoise.decide.filters.outcome import FilterOutcome, FilterStatus, applied, unchanged
from counterpoise.decide.plan import Rejection, Rule

_MAX_TOPICS = "loadBalancerBrokerMaxTopics"
_OTHER_MANAGER = Rule(
    "load_manager",
    "{subject} runs another load manager than this broker ({setting})",
    "loadManagerClassName",
)
_MORE_BUNDLES = Rule(
    "even_distribution",
    "{subject} has {value} of the namespace's bundles, others {limit} ({setting})",
    "loadBalancerDistributeBundlesEvenlyEnabled",
)
_DRAINING = Rule("draining", "{subject} is being emptied")
_BARRED = Rule("barred", "{subject} {why}")


def below_max_topics(
    brokers: Sequence[str], facts: Mapping[str, BrokerFacts], limit: int
) -> FilterOutcome:
    """Keep brokers with at most ``limit`` topics, unless that would leave none (modular).

    Topics of bundles just assigned count too. Parity:
    ``LoadManagerShared.filterBrokersWithLargeTopicCount`` of 4.0.7.
    """

    def judge(broker: str) -> Rejection | None:
        fact = facts.get(broker, UNKNOWN)
        topics = fact.topics + fact.preallocated_topics
        return None if topics <= limit else _too_many(broker, topics, limit, "more than")

    outcome = applied("max_topics", brokers, judge, f"at most {limit} topics")
    if not outcome.kept and brokers:
        reason = f"every broker has more than {limit} topics ({_MAX_TOPICS}), so none is refused"
        return unchanged("max_topics", FilterStatus.SET_ASIDE, brokers, reason)
    return outcome


def under_max_topics(
    brokers: Sequence[str], facts: Mapping[str, BrokerFacts], limit: int
) -> FilterOutcome:
    """Keep brokers with fewer than ``limit`` topics, even if none is left (extensible).

    Parity: ``extensions.filter.BrokerMaxTopicCountFilter`` of 4.0.7: ``limit`` itself is too many.
    """

    def judge(broker: str) -> Rejection | None:
        topics = facts.get(broker, UNKNOWN).topics
        return None if topics < limit else _too_many(broker, topics, limit, "not fewer than")

    return applied("max_topics", brokers, judge, f"fewer than {limit} topics")


def _too_many(broker: str, topics: int, limit: int, how: str) -> Rejection:
    sentence = f"{{subject}} has {{value}} topics, {how} {{limit}} ({{setting}})"
    return Rejection(broker, "max_topics", topics, limit, _MAX_TOPICS, sentence)


def same_load_manager(
    brokers: Sequence[str], facts: Mapping[str, BrokerFacts], class_name: str
) -> FilterOutcome:
    """Keep brokers that run the load manager ``class_name``, or did not report which they run.

    Parity: both managers' ``BrokerLoadManagerClassFilter`` of 4.0.7.
    """

    def judge(broker: str) -> Rejection | None:
        if broker not in facts or facts[broker].load_manager_class == class_name:
            return None
        return _OTHER_MANAGER.refuses(broker)

    return applied("load_manager", brokers, judge, f"runs {class_name.rpartition('.')[2]}")


def fewest_of_namespace(
    brokers: Sequence[str], counts: Mapping[str, int], *, enabled: bool = True
) -> FilterOutcome:
    """Keep the brokers with the fewest bundles of this namespace; a broker absent from ``counts``
    has none.

    Parity: ``LoadManagerShared.removeMostServicingBrokersForNamespace`` of 4.0.7. It is on by
    default, and is applied before any load is compared.
    """
    name = _MORE_BUNDLES.name
    if not enabled:
        return unchanged(name, FilterStatus.OFF, brokers, f"{_MORE_BUNDLES.setting} is false")
    least = min((counts.get(broker, 0) for broker in brokers), default=0)

    def judge(broker: str) -> Rejection | None:
        count = counts.get(broker, 0)
        if count == least:
            return None
        return _MORE_BUNDLES.refuses(broker, count, least)

    return applied(name, brokers, judge, f"{least} of the namespace's bundles is the fewest")


def not_draining(brokers: Sequence[str], draining: Collection[str]) -> FilterOutcome:
    """Keep the brokers that are not being drained."""
    if not draining:
        return unchanged("draining", FilterStatus.OFF, brokers, "no broker is being emptied")

    def judge(broker: str) -> Rejection | None:
        return _DRAINING.refuses(broker) if broker in draining else None

    return applied("draining", brokers, judge, f"{len(draining)} brokers are being emptied")


def not_barred(brokers: Sequence[str], barred: Mapping[str, str]) -> FilterOutcome:
    """Keep the brokers that may have this bundle; ``barred`` has the reasons why others may not."""
    if not barred:
        return unchanged("barred", FilterStatus.OFF, brokers, "no broker is barred")

    def judge(broker: str) -> Rejection | None:
        return _BARRED.refuses(broker, why=barred[broker]) if broker in barred else None

    return applied("barred", brokers, judge, f"{len(barred)} brokers are not to have it")
