"""Bundles that brokers were given and have not reported yet: they count from the moment on."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from counterpoise.load.average import BundleData
from counterpoise.load.rows import Table
from counterpoise.load.view import bundle_namespace


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who was given a bundle, when (milliseconds since 1970), and what was known of it then."""

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
        """The broker that was just given this bundle; None if none was."""
        given = self._by_bundle.get(bundle)
        return None if given is None else given.broker

    def rate(self, broker: str) -> float:
        """Their long-term messages/s, summed in the order in which they were given."""
        return self._rates[broker]

    def topics(self, broker: str) -> int:
        """Their topics."""
        return self._topics[broker]

    def add(self, bundle: str, given: Assignment) -> None:
        """Count a bundle to its new broker instead of the one it was given to before."""
        if bundle in self._by_bundle:
            self._keep({name: each for name, each in self._by_bundle.items() if name != bundle})
        self._by_bundle[bundle] = given
        self._count(given)

    def settle(self, served: Table, brokers: Iterable[str], since_ms: int) -> None:
        """Forget those that their broker reports by now, or cannot: it left, or had its time.

        For an assignment older than ``since_ms`` no client has asked the new broker.
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
        """How many bundles of each namespace each broker has: reported or just given to it.

        A bundle that was just given to a broker is not counted where it is still reported.
        """
        held: defaultdict[str, Counter[str]] = defaultdict(Counter)
        pairs = zip(served["broker"].tolist(), served["bundle"].tolist(), strict=True)
        for broker, bundle in pairs:
            if bundle not in self._by_bundle:
                held[broker][bundle_namespace(bundle)] += 1
        for bundle, given in self._by_bundle.items():
            held[given.broker][bundle_namespace(bundle)] += 1
        return held

    def _keep(self, kept: Mapping[str, Assignment]) -> None:
        self._by_bundle = dict(kept)
        self._rates.clear()
        self._topics.clear()
        for given in kept.values():
            self._count(given)

    def _count(self, given: Assignment) -> None:
        self._rates[given.broker] += given.data.long_term_data.rate
        self._topics[given.broker] += given.data.topics
