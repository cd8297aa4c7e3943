"""The namespace service: the owners of bundles, lookups, moves and splits."""

from collections.abc import Awaitable, Callable

from counterpoise.broker.base.errors import BrokerError, store_errors_as_not_ready
from counterpoise.broker.bundles.lookup import LookupService
from counterpoise.broker.bundles.lookup_result import LookupResult
from counterpoise.broker.bundles.moves import BundleMoves
from counterpoise.broker.bundles.namespace_bundles import NamespaceBundleCache
from counterpoise.broker.bundles.ownership import BundleOwnership
from counterpoise.names.bundle import BundleName, NamespaceBundles
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.system_topics import SYSTEM_TOPICS
from counterpoise.names.topic import TopicName
from counterpoise.ownership.records import NamespaceEphemeralData
from counterpoise.wire.errors import ServerError


class NamespaceService:
    """What other parts of this broker ask about bundles and owners (Pulsar's ``NamespaceService``).

    `lookups` and `moves` have the operations that it does not repeat.
    """

    def __init__(
        self,
        bundles: NamespaceBundleCache,
        ownership: BundleOwnership,
        lookups: LookupService,
        moves: BundleMoves,
        leads: Callable[[], bool] | None = None,
    ) -> None:
        """``leads`` says whether this broker leads; None if the leader serves no system topics."""
        self._leads = leads
        self._bundles = bundles
        self._ownership = ownership
        self.lookups = lookups
        self.moves = moves

    # What a topic registry asks.

    def bundle_of(self, topic: TopicName) -> BundleName:
        """The bundle of a topic; the topic's namespace must be cached."""
        bundles = self._bundles.peek(topic.namespace_name)
        if bundles is not None:
            return bundles.bundle_of(topic)
        for bundle in self._ownership.owned():
            if topic in bundle:
                return bundle
        raise _not_served(topic)

    def goes_with_leader(self, topic: TopicName) -> bool:
        """Whether the leader serves the topic (a system topic), not the owner of its bundle."""
        return self._leads is not None and str(topic) in SYSTEM_TOPICS

    def owns(self, topic: TopicName) -> bool:
        """Whether this broker may serve the topic now."""
        if self._leads is not None and self.goes_with_leader(topic):
            return self._leads()
        bundles = self._bundles.peek(topic.namespace_name)
        if bundles is not None:
            bundle = bundles.bundle_of(topic)
            if self._ownership.serves(bundle) or self._ownership.taking_over(bundle):
                return True
        # During a split this broker owns the parent until it owns every part.
        serving = filter(self._ownership.serves, self._ownership.owned())
        return any(topic in bundle for bundle in serving)

    async def approach(self, topic: TopicName, is_released: Callable[[], Awaitable[bool]]) -> None:
        """Wait until this broker may open the topic, while its bundle is being transferred here.

        ``is_released`` says whether the topic's former owner has closed it; it is called while
        other topics of the bundle may be open there. Raises `BrokerError` (ServiceNotReady) when
        this broker does not own the bundle: the client looks up again.
        """
        bundle = (await self.bundles(topic.namespace_name)).bundle_of(topic)
        if not self.goes_with_leader(topic) and await self._ownership.wait_until_served(
            bundle, is_released
        ):
            return
        if not self.owns(topic) or self._ownership.taking_over(bundle):
            raise _not_served(topic)

    def opened(self, topic: TopicName) -> None:
        """Wake the calls that wait for the topic's bundle: the topic is open on this broker now."""
        bundles = self._bundles.peek(topic.namespace_name)
        if bundles is not None:
            self._ownership.look_again(bundles.bundle_of(topic))

    # What a client asks.

    async def bundles(self, namespace: NamespaceName) -> NamespaceBundles:
        """The bundles of a namespace; raises `BrokerError` (TopicNotFound) if it does not exist."""
        with store_errors_as_not_ready():
            return await self._bundles.get(namespace)

    async def owner(self, bundle: BundleName) -> NamespaceEphemeralData | None:
        """A bundle's owner by the metadata store; None: none. Raises `BrokerError`
        (ServiceNotReady).
        """
        with store_errors_as_not_ready():
            return (await self._ownership.locate(bundle)).owner

    def owned(self) -> list[BundleName]:
        """The bundles that this broker owns, sorted."""
        return self._ownership.owned()

    def lookup_now(self, topic: TopicName) -> LookupResult | None:
        """Return this broker's addresses if it surely serves the topic, otherwise None.

        As `LookupService.served_here`.
        """
        bundles = self._bundles.peek(topic.namespace_name)
        if bundles is None or self.goes_with_leader(topic):
            return None
        return self.lookups.served_here(bundles.bundle_of(topic))

    async def lookup(self, topic: TopicName, *, authoritative: bool = False) -> LookupResult:
        """The broker that serves a topic; assigns its bundle to one if none does.

        As `LookupService.lookup_bundle`. Raises `BrokerError` (TopicNotFound) if the namespace does
        not exist.
        """
        if self.goes_with_leader(topic):
            return await self.lookups.at_leader()
        bundle = (await self.bundles(topic.namespace_name)).bundle_of(topic)
        found = self.lookups.served_here(bundle)
        return found or await self.lookups.lookup_bundle(bundle, authoritative=authoritative)

    async def place_unowned(self, bundle: BundleName, broker_id: str) -> None:
        """Assign a bundle without an owner to a broker (`LookupService.place_unowned`)."""
        with store_errors_as_not_ready():
            await self.lookups.place_unowned(bundle, broker_id)


def _not_served(topic: TopicName) -> BrokerError:
    return BrokerError(
        ServerError.ServiceNotReady,
        f"Namespace bundle for topic ({topic}) not served by this instance. "
        f"Please redo the lookup. Request is denied: namespace={topic.namespace_name}",
    )
