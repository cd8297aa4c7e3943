"""Reads which bundles brokers own, by requests that harm no broker.

`ownedNamespaces` lists all bundles of a broker in one response. But a broker of Apache Pulsar 4.0.7
under the modular load manager can deadlock on it while it acquires two bundles: the one thread that
handles its metadata store's results waits for such a result
(`NamespaceService.getOwnedNameSpacesStatusAsync`). It then serves no lookups until it is restarted.
So a broker that may be one of these is asked bundle by bundle, for the list of a bundle's
non-persistent topics: the owner responds, and other brokers redirect to the owner. Unlike a lookup,
this leaves an unowned bundle unowned.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final
from urllib.parse import quote, urlsplit

import orjson

from counterpoise.load.rows import BROKER, ReportRows
from counterpoise.names.bundle import BundleName, namespace_of
from counterpoise.names.load_managers import MODULAR
from counterpoise.names.namespace import bound_to_broker
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin, RefusedError
from counterpoise.pipeline.collect.settings import cluster_of
from counterpoise.pipeline.collect.words import error_text

FIRST_APACHE: Final = 2
"""The lowest major version that counts as Apache Pulsar; Counterpoise's own brokers, which may be
asked, have lower ones."""
TRIED_MOST: Final = 3
"""How many brokers are asked for a bundle's owner, one after the other, until one answers."""
BEING_UNLOADED: Final = "is being unloaded"
NOT_HERE: Final = (204, 404, 412)
"""HTTP statuses for a bundle that is unowned, is not of this cluster, or was split."""


@dataclass(frozen=True, slots=True)
class Whose:
    """What a broker answers when it is asked which broker owns a bundle."""

    owner: str = ""
    """The owner; empty if no broker owns the bundle."""
    active: bool = True
    """False while it is being released; the owner is then the broker that was asked."""


def could_be_harmed(manager: str, version: str) -> bool:
    """Whether `ownedNamespaces` could make a broker of this load manager and version hang."""
    major = version.strip().strip('"').partition(".")[0]
    ours = major.isdecimal() and int(major) < FIRST_APACHE
    return not ours and manager in ("", MODULAR)


def to_be_spared(rows: ReportRows) -> frozenset[str]:
    """The brokers in a poll that must not be asked by `ownedNamespaces` (`could_be_harmed`)."""
    those = rows["kind"] == BROKER
    columns = (rows[name][those].tolist() for name in ("broker", "load_manager", "broker_version"))
    return frozenset(
        broker
        for broker, manager, version in zip(*columns, strict=True)
        if could_be_harmed(manager, version)
    )


def owner_url(address: str, bundle: str) -> str:
    """The URL that asks a broker whether it owns a bundle: status 200 means that it does."""
    name = BundleName.parse(bundle)
    return f"{address}/admin/v2/non-persistent/{name.namespace}/{name.range}"


class Ownership:
    """Asks brokers which bundles they own, or which broker owns a bundle."""

    def __init__(self, admin: Admin, where: Callable[[str], str]) -> None:
        """`where` returns the admin address of a broker by its id."""
        self._admin = admin
        self._where = where
        self._cluster = ""

    async def listed(
        self, brokers: Sequence[str]
    ) -> tuple[dict[str, dict[str, bool]], dict[str, str]]:
        """Ask brokers for the bundles they own (`ownedNamespaces`).

        Returns two mappings: the bundles of each broker, with whether they are active (not being
        released); and the reason for each broker that did not respond. None of `brokers` may be
        `to_be_spared`.
        """
        owned: dict[str, dict[str, bool]] = {}
        silent: dict[str, str] = {}

        async def ask(broker: str) -> None:
            try:
                owned[broker] = await self._listed(broker)
            except UNREADABLE as error:
                silent[broker] = error_text(error)

        await asyncio.gather(*map(ask, brokers))
        return owned, silent

    async def _listed(self, broker: str) -> dict[str, bool]:
        where = self._where(broker)
        if not self._cluster:
            self._cluster = await cluster_of(self._admin, where, broker)
        url = f"{where}/admin/v2/brokers/{quote(self._cluster)}/{broker}/ownedNamespaces"
        try:
            found = orjson.loads(await self._admin.get(url)) or {}
            return {
                str(bundle): bool((state or {}).get("is_active", True))
                for bundle, state in found.items()
            }
        except (ValueError, AttributeError) as error:
            raise RefusedError(f"what it owns cannot be read: {error}") from None

    async def whose(self, bundle: str, broker: str, brokers: Collection[str]) -> Whose:
        """The owner of a bundle according to a broker; raises one of `UNREADABLE`.

        `brokers` are possible owners, by whose id a redirect's address is recognised.
        """
        reply = await self._admin.ask(owner_url(self._where(broker), bundle))
        if reply.status == 200:
            return Whose(broker)
        if reply.status == 307:
            there = urlsplit(reply.headers.get("Location", "")).netloc
            owners = (each for each in brokers if urlsplit(self._where(each)).netloc == there)
            return Whose(next(owners, there))
        if BEING_UNLOADED.encode() in reply.body:
            return Whose(broker, active=False)
        if reply.status in NOT_HERE:
            return Whose()
        raise reply.refused()

    async def by_bundle(
        self, brokers: Sequence[str], reported: Mapping[str, str]
    ) -> tuple[dict[str, dict[str, bool]], dict[str, str]]:
        """Ask for the owner of one bundle after the other; returns mappings as `listed` does.

        `reported` has the owner of each bundle by load reports, which is asked about it first.
        Bundles of brokers' own namespaces are taken as reported. Raises one of `UNREADABLE` if the
        bundles cannot be listed, or if no broker answers about one of them.
        """
        owned: dict[str, dict[str, bool]] = {broker: {} for broker in brokers}
        silent: dict[str, str] = {}

        async def find_owner(number: int, bundle: str) -> None:
            start = number % len(brokers)
            others = (*brokers[start:], *brokers[:start])
            first = (reported[bundle],) if reported.get(bundle) in owned else ()
            for broker in tuple(dict.fromkeys((*first, *others)))[:TRIED_MOST]:
                try:
                    found = await self.whose(bundle, broker, brokers)
                except UNREADABLE as error:
                    silent[broker] = error_text(error)
                    continue
                if found.owner in owned:
                    owned[found.owner][bundle] = found.active
                return
            raise RefusedError(f"no broker says who owns {bundle}: {next(iter(silent.values()))}")

        there = await self._bundles(brokers[0])
        free = {each for each in reported if not bound_to_broker(namespace_of(each))}
        for bundle in reported.keys() - free:
            owned.get(reported[bundle], {})[bundle] = True
        await asyncio.gather(*(find_owner(*each) for each in enumerate(sorted(there | free))))
        return {name: owned[name] for name in brokers if name not in silent}, silent

    async def _bundles(self, broker: str) -> set[str]:
        """Read the names of all bundles of the cluster's namespaces."""
        base = f"{self._where(broker)}/admin/v2"
        tenants = await self._json(f"{base}/tenants")
        listed = (self._json(f"{base}/namespaces/{quote(str(tenant))}") for tenant in tenants)
        names = [str(name) for each in await asyncio.gather(*listed) for name in each]
        cut = (self._json(f"{base}/namespaces/{name}/bundles") for name in names)
        bundles: set[str] = set()
        for name, answer in zip(names, await asyncio.gather(*cut), strict=True):
            ends = (answer or {}).get("boundaries") or ()
            bundles |= {f"{name}/{a}_{b}" for a, b in pairwise(ends)}
        return bundles

    async def _json(self, url: str) -> Any:
        """A response as JSON; an empty tuple if what was asked for has been deleted since."""
        reply = await self._admin.ask(url, redirects=True)
        if reply.status == 404:
            return ()
        if reply.status != 200:
            raise RefusedError(f"{url}: {reply.refused()}", reply.status)
        try:
            return orjson.loads(reply.body) or ()
        except ValueError as error:
            raise RefusedError(f"{url}: {error}") from None
