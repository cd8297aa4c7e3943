"""Whether this broker leads, and what it does when that changes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.bundles.election import LeaderElection
from counterpoise.broker.bundles.repairs import OwnershipRepairs
from counterpoise.broker.bundles.service import NamespaceService
from counterpoise.broker.bundles.shedding import LeaderShedding
from counterpoise.broker.load.registry import BrokerRegistry
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.metadata import MetadataStore
from counterpoise.ownership.records import LeaderBroker

if TYPE_CHECKING:
    from counterpoise.broker.bundles.topic_records import TopicRecords


class LeadershipProgram(Protocol):
    """Runs another program, such as a balancer, beside a broker for as long as the broker leads."""

    def __call__(self, leads: bool) -> None:
        """Start the program, since the broker became leader (True), or end it (False)."""


def no_program(leads: bool) -> None:
    """A `LeadershipProgram` that runs nothing."""
    del leads


class Leadership:
    """Answers, for a broker's other parts, whether this broker is the leader."""

    def __init__(
        self, election: LeaderElection, store: MetadataStore, registry: BrokerRegistry
    ) -> None:
        self._election = election
        self._store = store
        self._registry = registry

    def is_leader(self) -> bool:
        """Whether this broker is the leader by the last notification."""
        return self._election.is_leader

    def is_connected_leader(self) -> bool:
        """Whether this broker is the leader and its metadata session is alive."""
        return self._election.is_leader and self._store.connected

    async def gone_brokers(self, known: Iterable[str]) -> list[str]:
        """Return which of the ``known`` brokers have left, sorted; nothing if not the leader."""
        if not self._election.is_leader:
            return []
        return sorted(set(known) - set(await self._registry.active()))


class LeaderDuties:
    """Starts what only a leader does when this broker wins the election, and ends it afterwards."""

    def __init__(
        self,
        repairs: OwnershipRepairs,
        shedding: LeaderShedding,
        records: "TopicRecords | None",
        topics: TopicRegistry,
        namespaces: NamespaceService,
        background: BackgroundTasks,
        program: LeadershipProgram,
    ) -> None:
        self._repairs = repairs
        self._shedding = shedding
        self._records = records
        self._topics = topics
        self._namespaces = namespaces
        self._background = background
        self._program = program

    def leadership_changed(self, leads: bool) -> None:
        """Start a leader's duties, since this broker became the leader (True), or end them."""
        if leads:
            self._repairs.check_soon()
        elif self._records is not None:
            self._background.start("closing the leader's topics", self._close_system_topics())
        self._shedding.lead(leads)
        self._program(leads)

    def leader_changed(self, leader: LeaderBroker | None) -> None:
        """Have the records of bundles read from the new leader; None: there is none."""
        if leader is not None and self._records is not None:
            self._records.led_by(leader.broker_id)

    async def _close_system_topics(self) -> None:
        for name in [
            each for each in self._topics.loaded if self._namespaces.goes_with_leader(each)
        ]:
            await self._topics.unload_topic(name)
