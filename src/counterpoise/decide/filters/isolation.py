"""Isolation policies: which brokers a namespace may use, and which are reserved for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from counterpoise.decide.filters.facts import UNKNOWN, BrokerFacts, broker_host
from counterpoise.decide.filters.outcome import FilterOutcome, applied
from counterpoise.decide.plan import Rejection, Rule
from counterpoise.load.fields import LoadDataError, read_object, read_text, read_texts
from counterpoise.names.errors import InvalidName
from counterpoise.names.patterns import compile_pattern, matches_any

NAME = "isolation_policies"
_NOT_NEEDED = Rule("secondary_not_needed", "{subject} is a secondary of policy {policy}, and {why}")
_NOT_AMONG = Rule("not_in_isolation_policy", "{subject} is no broker of isolation policy {policy}")
_RESERVED = Rule("reserved", "{subject} is reserved by isolation policy {policy}")


@dataclass(frozen=True, slots=True)
class IsolationPolicy:
    """Brokers reserved for namespaces: primaries, and secondaries in case those run short.

    All patterns are regular expressions that must match in full: of the namespace, and of the
    broker's host. Secondaries join when fewer than ``min_limit`` primaries are candidates.
    ``usage_threshold`` is read but, as in Pulsar's modular and extensible managers, has no effect.
    """

    namespaces: tuple[str, ...]
    primary: tuple[str, ...]
    secondary: tuple[str, ...] = ()
    min_limit: int = 1
    usage_threshold: int = 100

    @staticmethod
    def from_json(value: object, path: str = "policy") -> "IsolationPolicy":
        """Read ``NamespaceIsolationData``; raises ``LoadDataError`` naming the field."""
        data = read_object(value, path)
        namespaces, primary, secondary = (
            _read_patterns(data.get(name) or [], f"{path}.{name}")
            for name in ("namespaces", "primary", "secondary")
        )
        where = f"{path}.auto_failover_policy"
        failover = data.get("auto_failover_policy") or data.get("autoFailoverPolicy") or {}
        numbers = read_object(read_object(failover, where).get("parameters") or {}, where)
        return IsolationPolicy(
            namespaces,
            primary,
            secondary,
            _read_count(numbers.get("min_limit", "1"), f"{where}.parameters.min_limit"),
            _read_count(
                numbers.get("usage_threshold", "100"), f"{where}.parameters.usage_threshold"
            ),
        )

    def governs(self, namespace: str) -> bool:
        """Whether the policy applies to the namespace."""
        return matches_any(self.namespaces, namespace)


def governing_policy(
    namespace: str, policies: Mapping[str, IsolationPolicy]
) -> tuple[str, IsolationPolicy] | None:
    """The first policy that applies to a namespace, by name (in Pulsar: by hash order)."""
    for name in sorted(policies):
        if policies[name].governs(namespace):
            return name, policies[name]
    return None


def isolate(
    namespace: str,
    brokers: Sequence[str],
    policies: Mapping[str, IsolationPolicy],
    facts: Mapping[str, BrokerFacts],
    *,
    persistent: bool = True,
) -> FilterOutcome:
    """Keep the brokers that a namespace's isolation policy allows; without a policy, those that no
    policy reserves.

    Parity: ``LoadManagerShared.applyNamespacePolicies`` of 4.0.7. Quirks kept: under a policy it
    does not count whether a broker serves such topics (``persistent`` or not), and being another
    policy's secondary reserves no broker.
    """
    found = governing_policy(namespace, policies)
    if found is None:
        return _shared(brokers, policies, facts, persistent=persistent)
    name, policy = found
    primaries = [each for each in brokers if matches_any(policy.primary, broker_host(each))]
    short = len(primaries) < policy.min_limit
    limit = f"{len(primaries)} of at least {policy.min_limit} primaries are there"

    def judge(broker: str) -> Rejection | None:
        if broker in primaries:
            return None
        if not matches_any(policy.secondary, broker_host(broker)):
            return _NOT_AMONG.refuses(broker, policy=repr(name))
        if short:
            return None
        there = len(primaries)
        return _NOT_NEEDED.refuses(broker, there, policy.min_limit, policy=repr(name), why=limit)

    reason = f"policy {name!r} governs {namespace}; {limit}" + (
        ", so secondaries join" if short and policy.secondary else ""
    )
    return applied(NAME, brokers, judge, reason)


def _shared(
    brokers: Sequence[str],
    policies: Mapping[str, IsolationPolicy],
    facts: Mapping[str, BrokerFacts],
    *,
    persistent: bool,
) -> FilterOutcome:
    def judge(broker: str) -> Rejection | None:
        fact = facts.get(broker, UNKNOWN)
        if not (fact.persistent_topics if persistent else fact.non_persistent_topics):
            kind, setting = (
                ("persistent", "enablePersistentTopics")
                if persistent
                else ("non-persistent", "enableNonPersistentTopics")
            )
            sentence = f"{{subject}} serves no {kind} topics ({{setting}})"
            return Rejection(broker, "topic_domain", None, None, setting, sentence)
        for name in sorted(policies):
            if matches_any(policies[name].primary, broker_host(broker)):
                return _RESERVED.refuses(broker, policy=repr(name))
        return None

    return applied(NAME, brokers, judge, "no isolation policy governs the namespace")


def _read_patterns(value: object, path: str) -> tuple[str, ...]:
    patterns = read_texts(value, path)
    for index, pattern in enumerate(patterns):
        try:
            compile_pattern(pattern)
        except InvalidName as error:
            expected = f"a regular expression ({error})"
            raise LoadDataError(f"{path}[{index}]", expected, pattern) from None
    return patterns


def _read_count(value: Any, path: str) -> int:
    text = str(value) if isinstance(value, int) else read_text(value, path)
    try:
        return int(text)
    except ValueError:
        raise LoadDataError(path, "a whole number", value) from None
