"""The bundle boundaries of namespaces: read from a cluster or a file, or assumed.

Topics' series do not name bundles, so a topic's bundle is found by them. They are the present ones:
a bundle that was split in the imported time is imported as its present parts, all on the broker
that owned the bundle.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

import orjson

from counterpoise.names.bundle import NamespaceBundles
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.pipeline.collect.admin import NOT_FOUND, UNREADABLE, Admin, RefusedError
from counterpoise.pipeline.collect.words import error_text
from counterpoise.pipeline.prometheus.source import SeriesError

DEFAULT_BUNDLES: Final = 4
"""`defaultNumberOfNamespaceBundles` of Pulsar 4."""


class BundleBoundaries(Protocol):
    """A source of the bundle boundaries of namespaces."""

    async def of(self, namespace: NamespaceName) -> NamespaceBundles | None:
        """The bundle boundaries of a namespace; None if unknown. Raises `SeriesError`."""


class NamedBoundaries:
    """Bundle boundaries from a JSON file: `{"tenant/ns": 16}`, or a list of hexadecimal boundaries.

    Also reads a namespace's policies as Pulsar prints them (`{"bundles": {"boundaries": […]}}`).
    """

    def __init__(self, found: Mapping[str, Any], where: str = "") -> None:
        """`found` has a number of bundles, or boundaries, by namespace; `where` is the file's name,
        for the message of `SeriesError`, which is raised if `found` is invalid.
        """
        self._bundles: dict[str, NamespaceBundles] = {}
        for name, value in found.items():
            try:
                namespace = NamespaceName.parse(name)
                self._bundles[str(namespace)] = _bundles_of(namespace, value)
            except (InvalidName, KeyError, TypeError, AttributeError) as error:
                raise SeriesError(
                    f"{where}: the bundles of {name!r} cannot be read ({error}): expected their "
                    'number, or boundaries such as ["0x00000000", "0x80000000", "0xffffffff"]'
                ) from None

    @classmethod
    def read(cls, path: Path) -> "NamedBoundaries":
        """Read a file with bundle boundaries; raises `SeriesError`."""
        try:
            found = orjson.loads(path.read_bytes())
        except (OSError, orjson.JSONDecodeError) as error:
            why = getattr(error, "strerror", None) or f"it is no JSON: {error}"
            raise SeriesError(f"cannot read {path}: {why}") from None
        if not isinstance(found, dict):
            raise SeriesError(f"{path}: expected an object of namespaces and their bundles")
        return cls(found, str(path))

    async def of(self, namespace: NamespaceName) -> NamespaceBundles | None:
        """The bundle boundaries of a namespace; None if unknown."""
        return self._bundles.get(str(namespace))


class ClusterBoundaries:
    """Bundle boundaries from a cluster's admin API."""

    def __init__(self, admin: Admin, addresses: tuple[str, ...]) -> None:
        self._admin = admin
        self._addresses = addresses

    async def of(self, namespace: NamespaceName) -> NamespaceBundles | None:
        """The bundle boundaries of a namespace; None if unknown."""
        path = f"/admin/v2/namespaces/{quote(str(namespace))}/bundles"
        refused = []
        for address in self._addresses:
            try:
                found = orjson.loads(await self._admin.get(f"{address}{path}"))
                return _bundles_of(namespace, found)
            except RefusedError as error:
                if error.status == NOT_FOUND:
                    return None
                refused.append(f"{address}: {error_text(error)}")
            except (*UNREADABLE, ValueError, KeyError, TypeError) as error:
                refused.append(f"{address}: {error_text(error)}")
        raise SeriesError(
            f"the cluster does not give the bundles of {namespace} ({'; '.join(refused)}): see "
            "that --admin-url is right, or name the bundles in a file (--bundles)"
        )


class KnownBundles:
    """The bundles of an import's namespaces, each read once; a default number if unknown."""

    def __init__(self, source: BundleBoundaries | None, default: int = DEFAULT_BUNDLES) -> None:
        self._source = source
        self._default = default
        self._bundles: dict[NamespaceName, NamespaceBundles] = {}
        self.assumed: list[str] = []
        """The namespaces whose bundles are unknown, which got the default number."""

    def of(self, topic: TopicName) -> str | None:
        """The bundle of a topic; None before `ask` has read its namespace."""
        found = self._bundles.get(topic.namespace_name)
        return str(found.bundle_of(topic)) if found else None

    async def ask(self, namespace: NamespaceName) -> None:
        """Read and remember the bundles of a namespace; raises `SeriesError`."""
        if namespace in self._bundles:
            return
        found = await self._source.of(namespace) if self._source else None
        if found is None:
            self.assumed.append(str(namespace))
            found = NamespaceBundles.of_count(namespace, self._default)
        self._bundles[namespace] = found


def _bundles_of(namespace: NamespaceName, value: Any) -> NamespaceBundles:
    """Read a namespace's bundles from their number, their boundaries, or policies that contain
    them.
    """
    if isinstance(value, dict):
        value = value.get("bundles", value)
    if isinstance(value, dict):
        value = value["boundaries"]
    if isinstance(value, int):
        return NamespaceBundles.of_count(namespace, value)
    return NamespaceBundles.from_text(namespace, value)
