"""The registered brokers and their last reports (``/loadbalance/brokers/<id>``)."""

import contextlib
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from counterpoise import metadata
from counterpoise.broker.base import paths
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats
from counterpoise.metadata.cache import MetadataCache
from counterpoise.metadata.listeners import follow
from counterpoise.metadata.own_node import put_own
from counterpoise.names.callbacks import Notify

log = logging.getLogger(__name__)

LEAVING: Final = "counterpoise.leaving"
"""A property in a broker's registration: it is handing its bundles over, and gets no more."""


class BrokerRegistry:
    """The registered brokers of the cluster, of which this one registers itself.

    Under the extensible load manager a registration has no load, only what lookups need
    (``BrokerLookupData``): addresses, listeners, load manager and version.
    """

    def __init__(
        self, store: metadata.MetadataStore, my_id: str, *, with_load: bool = True
    ) -> None:
        self.my_id: Final = my_id
        self._write: Final = write_report if with_load else write_lookup_data
        self._store = store
        self._reports = MetadataCache(store, paths.BROKERS + "/", _read_registration)
        self._active: list[str] | None = None
        self._changes = 0
        self._is_marked = False
        self._is_registered = False
        """Whether this session has registered the broker: another registration under its id is then
        another process's.
        """
        self._is_replaced = False
        """Whether the registration under its id was another process's when it was last written."""
        self._on_deleted: Notify = lambda: None
        self._unsubscribe = follow(store, self._on_change, self._on_session)

    async def register(self, report: LocalBrokerData) -> None:
        """Register this broker, or update its report; raises `StoreUnavailable`.

        A node left from before this broker's restart is replaced. A registration that another
        process has made since under this broker's id stays: if each removed the other's, neither
        would stay registered.
        """
        replaces = not self._is_registered
        try:
            if not self._is_marked:
                # First: without it, a broker that starts at this moment would take this one for
                # one of Pulsar's (`foreign_brokers`).
                await put_own(self._store, paths.own_broker(self.my_id), b"", replaces=replaces)
                self._is_marked = True
            path, value = paths.broker(self.my_id), self._write(report)
            await put_own(self._store, path, value, replaces=replaces)
        except metadata.BadVersion:
            if not self._is_replaced:
                log.warning(
                    "another broker has registered under this one's id, %s, and gets its clients: "
                    "set advertisedAddress and the ports so that each broker has an id of its own",
                    self.my_id,
                )
            self._is_replaced = True
        else:
            self._is_registered, self._is_replaced = True, False

    def when_deleted(self, listener: Notify) -> None:
        """Call ``listener`` when this broker's registration is deleted, so that it registers again.

        Another process under its id has ended, or an administrator has deleted the node.
        """
        self._on_deleted = listener

    async def announce_leaving(self, report: LocalBrokerData) -> None:
        """Mark this broker as leaving: it gets no more bundles. Raises `StoreUnavailable`.

        For the state channel, where the bundles of an unregistered broker count as a dead broker's.
        """
        if self._is_replaced:
            return
        value = write_lookup_data(report, {LEAVING: "true"})
        await put_own(self._store, paths.broker(self.my_id), value)

    async def unregister(self) -> None:
        """Delete this broker's registration: it gets no more bundles.

        Another process's under the same id stays: without it that one would count as dead.
        """
        self._is_marked = self._is_registered = False
        if self._is_replaced:
            return
        for path in (paths.broker(self.my_id), paths.own_broker(self.my_id)):
            with contextlib.suppress(metadata.NodeError):
                await self._store.delete(path)

    async def active(self) -> list[str]:
        """The ids of live brokers, sorted."""
        if self._active is not None:
            return self._active
        before = self._changes
        active = await self._store.children(paths.BROKERS)
        if before == self._changes:
            self._active = active
        return active

    async def report(self, broker_id: str) -> LocalBrokerData | None:
        """A broker's last report; None if it is not registered."""
        found = await self._reports.get(paths.broker(broker_id))
        return None if found is None else found[0]

    async def leaving(self) -> set[str]:
        """The ids of live brokers that are handing over their bundles."""
        found = {each: await self._reports.get(paths.broker(each)) for each in await self.active()}
        return {each for each, known in found.items() if known is not None and known[1]}

    async def reports(self) -> dict[str, LocalBrokerData]:
        """The reports of all live brokers by id, sorted."""
        found = {each: await self.report(each) for each in await self.active()}
        return {each: report for each, report in found.items() if report is not None}

    def close(self) -> None:
        """Stop listening to the metadata store."""
        self._reports.close()
        self._unsubscribe()

    def concerns(self, path: str) -> bool:
        """Whether a path of the metadata store is a broker's registration."""
        return path.startswith(paths.BROKERS)

    def _on_change(self, notification: metadata.Notification) -> None:
        if self.concerns(notification.path):
            self._forget()
        mine = (paths.broker(self.my_id), paths.own_broker(self.my_id))
        deleted = notification.kind is metadata.NotificationKind.DELETED
        if deleted and self._is_registered and notification.path in mine:
            self._is_marked = False
            self._on_deleted()

    def _on_session(self, event: metadata.SessionEvent) -> None:
        if event is metadata.SessionEvent.SESSION_LOST:
            self._is_marked = self._is_registered = False
        self._forget()

    def _forget(self) -> None:
        self._changes += 1
        self._active = None


async def foreign_brokers(store: metadata.MetadataStore) -> list[str]:
    """The ids of registered brokers that are Apache Pulsar's, not Counterpoise's."""
    registered = await store.children(paths.BROKERS)
    ours = {*await store.children(paths.OWN_BROKERS)} if registered else set()
    return [each for each in registered if each not in ours]


def read_report(value: bytes) -> LocalBrokerData:
    """Parse a broker's registration, which is a load report or lookup data.

    Raises `LoadDataError` or ValueError.
    """
    read = json.loads(value)
    if isinstance(read, dict) and "brokerVersion" in read:
        read = {**read, "brokerVersionString": read["brokerVersion"]}
    return LocalBrokerData.from_json(read)


def write_report(report: LocalBrokerData) -> bytes:
    """A load report as JSON for the metadata store.

    With more bundles than fit into a node of the store, it lists the busiest that fit; its totals
    include all. For the leader the others have no load, but it moves the busiest anyway.
    """
    written = _as_json(report)
    if len(written) <= metadata.VALUE_BYTES_MAX:
        return written
    stats = report.last_stats
    kept = sorted(stats, key=lambda each: _throughput(stats[each]), reverse=True)
    while len(written) > metadata.VALUE_BYTES_MAX and kept:
        kept = kept[: min(len(kept) * metadata.VALUE_BYTES_MAX // len(written), len(kept) - 1)]
        written = _as_json(
            replace(
                report,
                last_stats={each: stats[each] for each in kept},
                bundles=tuple(kept),
                last_bundle_gains=(),
                last_bundle_losses=(),
            )
        )
    return written


def _as_json(report: LocalBrokerData) -> bytes:
    return json.dumps(report.to_json(), separators=(",", ":")).encode()


def _throughput(stats: NamespaceBundleStats) -> float:
    return stats.msg_throughput_in + stats.msg_throughput_out


def _read_registration(value: bytes) -> tuple[LocalBrokerData, bool] | None:
    """A broker's report, and whether it is leaving; None, as without one, if it is malformed."""
    try:
        report = read_report(value)
    except (ValueError, RecursionError) as error:
        log.warning("ignoring a registration in %s: %s: %.200r", paths.BROKERS, error, value)
        return None
    properties = json.loads(value).get("properties")
    return report, isinstance(properties, dict) and LEAVING in properties


def write_lookup_data(
    report: LocalBrokerData, properties: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    """A broker's lookup data as JSON, in the field order of Pulsar's ``BrokerLookupData``."""
    document = report.to_json()
    names = (
        "webServiceUrl",
        "webServiceUrlTls",
        "pulsarServiceUrl",
        "pulsarServiceUrlTls",
        "advertisedListeners",
        "protocols",
        "persistentTopicsEnabled",
        "nonPersistentTopicsEnabled",
        "loadManagerClassName",
        "startTimestamp",
    )
    written = {name: document[name] for name in names if document.get(name) is not None}
    written["brokerVersion"] = report.broker_version_string
    return json.dumps({**written, "properties": dict(properties)}, separators=(",", ":")).encode()
