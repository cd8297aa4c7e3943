"""The state channel as an ownership protocol, its records kept in the metadata store."""

from collections.abc import Collection, Mapping

from counterpoise.names.bundle import BundleName
from counterpoise.names.callbacks import MillisecondClock
from counterpoise.names.errors import InvalidName
from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData, blank
from counterpoise.ownership.channel.repairs import examine, override
from counterpoise.ownership.channel.sense import read_record, why_unbelievable
from counterpoise.ownership.channel.state import RECORDS, ChannelBundle, ChannelContext
from counterpoise.ownership.channel.table import advance
from counterpoise.ownership.events import Effects, NodeChange
from counterpoise.ownership.port import BundleLocation, OwnershipOptions, Repair
from counterpoise.ownership.records import InvalidRecord, NamespaceEphemeralData


class StateChannel:
    """The bundle protocol of PIP-192: each bundle's owner is in a record that all brokers read.

    The methods are described in `counterpoise.ownership.port.BundleProtocol`.
    """

    def __init__(self, options: OwnershipOptions, now_ms: MillisecondClock) -> None:
        self.context = ChannelContext(options, now_ms)

    @property
    def changes_by_record(self) -> bool:
        """Whether every change of a bundle is first written into a record that all brokers read."""
        return True

    @property
    def roots(self) -> tuple[str, ...]:
        """The paths below which the protocol stores its nodes, each ending in a slash."""
        return (f"{RECORDS}/",)

    def new(self, bundle: str) -> ChannelBundle:
        """The state of a bundle before its first event."""
        return ChannelBundle(self.context, bundle)

    def advance(self, state: ChannelBundle, event: object) -> tuple[ChannelBundle, Effects]:
        """The next state and the effects of one event; raises `UnexpectedEvent`."""
        return advance(state, event)

    def nodes(self, bundle: str) -> tuple[str, ...]:
        """The paths of a bundle's nodes, in the order in which to read them."""
        return (f"{RECORDS}/{bundle}",)

    def bundle_of(self, path: str) -> str | None:
        """The bundle to which a node belongs; None for other nodes."""
        name = path.removeprefix(f"{RECORDS}/")
        return name if name != path and name.count("/") == 2 else None

    def concerns_unknown(self, path: str, change: NodeChange) -> bool:
        """Whether a broker without state for the bundle must handle a change: any new record, since
        it may name this broker.
        """
        del path
        return change is NodeChange.APPEARED

    def locate(self, values: Mapping[str, bytes | None]) -> BundleLocation:
        """A bundle's owner and successor, from the values of its `nodes`; brokers by id alone."""
        ((path, value),) = values.items()
        record = _read(self.bundle_of(path) or "", value)
        if record is None or record.state in (ServiceUnitState.INIT, ServiceUnitState.FREE):
            return BundleLocation(None)
        if record.state in (ServiceUnitState.OWNED, ServiceUnitState.SPLITTING):
            splitting = record.state is ServiceUnitState.SPLITTING
            by = record.source if splitting else record.destination
            return BundleLocation(_known_by_id(by), splitting=splitting)
        if record.state is ServiceUnitState.DELETED or blank(record.destination):
            return BundleLocation(_known_by_id(record.source), changing=True)
        return BundleLocation(None, successor=record.destination, changing=True)

    def repairs(
        self, values: Mapping[str, bytes], active: Collection[str], now_ms: int
    ) -> tuple[Repair, ...]:
        """The repairs that the leader has to make, the most urgent first."""
        records = {}
        for name, value in values.items():
            record = _read(name, value)
            if record is not None:
                records[_bundle(name)] = record
        return examine(
            {bundle: record for bundle, record in records.items() if bundle is not None},
            active,
            now_ms,
            self.context.options,
        )

    def is_unbelievable(
        self, bundle: str, value: bytes, active: Collection[str], now_ms: int
    ) -> bool:
        """Whether the leader must repair a record just written: `why_unbelievable` has a reason."""
        record = _read(bundle, value)
        return record is not None and why_unbelievable(record, active, now_ms) is not None

    def repaired(self, value: bytes, successor: str | None, now_ms: int) -> bytes:
        """The record that forces a bundle to a successor; with None it frees the bundle."""
        return override(ServiceUnitStateData.from_json(value), successor, now_ms).to_json()


def _read(bundle: str, value: bytes | None) -> ServiceUnitStateData | None:
    if value is None:
        return None
    try:
        return read_record(bundle, value)
    except InvalidRecord:
        return None


def _known_by_id(broker: str | None) -> NamespaceEphemeralData | None:
    if broker is None or blank(broker):
        return None
    return NamespaceEphemeralData(native_url="", http_url=f"http://{broker}")


def _bundle(name: str) -> BundleName | None:
    try:
        return BundleName.parse(name)
    except InvalidName:
        return None
