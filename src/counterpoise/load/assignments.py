"""Bundles that were assigned to brokers and are not in their reports yet, with their loads."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from counterpoise.load.average import BundleData
from counterpoise.load.rows import Table
from counterpoise.load.view import bundle_namespace


@dataclass(frozen=True, slots=True)
class Assignment:
    """One bundle's assignment: the broker, the bundle's load then, and the time (ms since 1970)."""

    broker: str
    data: BundleData
    at_ms: int


class Assignments:
    """The bundles just assigned to each broker, whose load it has not reported yet (Pulsar's
    ``BrokerData.preallocatedBundleData``).
    """

    def __init__(self) -> None:
        self._by_bundle: dict[str, Assignment] = {}
        self._rates: defaultdict[str, float] = defaultdict(float)
        self._topics: Counter[str] = Counter()

    def broker_of(self, bundle: str) -> str | None:
        """The broker to which the bundle was just assigned; None if there is no assignment."""
        given = self._by_bundle.get(bundle)
        return None if given is None else given.broker

    def rate(self, broker: str) -> float:
        """The long-term messages/s of the bundles just assigned to a broker, summed in the order of
        assignment.
        """
        return self._rates[broker]

    def topics(self, broker: str) -> int:
        """The number of topics in the bundles just assigned to a broker."""
        return self._topics[broker]

    def add(self, bundle: str, given: Assignment) -> None:
        """Record that a bundle was assigned to a broker; replaces its earlier assignment."""
        if bundle in self._by_bundle:
            self._keep({name: each for name, each in self._by_bundle.items() if name != bundle})
        self._by_bundle[bundle] = given
        self._count(given)

    def drop_ended(self, served: Table, brokers: Iterable[str], since_ms: int) -> None:
        """Drop assignments that have ended: the broker reports the bundle, is not in ``brokers``,
        or was assigned it before ``since_ms``.

        An assignment that old was never used: no client asked the new broker for the bundle.
        """
        if not self._by_bundle:
            return
        alive = set(brokers)
        reported = set(zip(served["broker"].tolist(), served["bundle"].tolist(), strict=True))
        self._keep(
            {
                bundle: given
                for bundle, given in self._by_bundle.items()
                if given.broker in alive
                and given.at_ms >= since_ms
                and (given.broker, bundle) not in reported
            }
        )

    def namespaces(self, served: Table) -> defaultdict[str, Counter[str]]:
        """The number of bundles by broker and namespace: those reported in ``served`` or just
        assigned.

        A bundle just assigned to another broker does not count at the broker that still reports
        it.
        """
        owned: defaultdict[str, Counter[str]] = defaultdict(Counter)
        pairs = zip(served["broker"].tolist(), served["bundle"].tolist(), strict=True)
        for broker, bundle in pairs:
            if bundle not in self._by_bundle:
                owned[broker][bundle_namespace(bundle)] += 1
        for bundle, given in self._by_bundle.items():
            owned[given.broker][bundle_namespace(bundle)] += 1
        return owned

    def _keep(self, kept: Mapping[str, Assignment]) -> None:
        self._by_bundle = dict(kept)
        self._rates.clear()
        self._topics.clear()
        for given in kept.values():
            self._count(given)

    def _count(self, given: Assignment) -> None:
        self._rates[given.broker] += given.data.long_term_data.rate
        self._topics[given.broker] += given.data.topics
