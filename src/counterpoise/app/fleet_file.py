"""Reads a fleet's file: TOML that names its clusters."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from counterpoise.app.addresses import admin_urls
from counterpoise.app.errors import UserError
from counterpoise.app.files import read_text
from counterpoise.names.options import ConfigError
from counterpoise.pipeline.fleet.fleet_watch import FleetCluster
from counterpoise.security.client import ClientSecurity, Names
from counterpoise.security.options import ClientOptions

TEXTS = frozenset(
    {"name", "admin-url", "service-url", "history", "console", "token-file"}
    | {"tls-trust-cert-path", "tls-cert-file", "tls-key-file"}
)
FLAGS = frozenset({"tls-enable-hostname-verification", "tls-allow-insecure"})
URLS: Mapping[str, tuple[str, ...]] = {
    "console": ("http://", "https://"),
    "service-url": ("pulsar://", "pulsar+ssl://"),
}
NAMES = Names("token-file", "token-file", "tls-trust-cert-path", "tls-cert-file", "tls-key-file")
NAME_MOST = 60


def read_fleet(path: str) -> tuple[FleetCluster, ...]:
    """Read the clusters of a fleet's file; raises `UserError` with the file, line and key."""
    text = read_text(path)
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not TOML: {error}") from None
    if others := found.keys() - {"cluster"}:
        raise UserError(f"{path}: {min(others)} is unknown; a fleet is [[cluster]] tables")
    tables = found.get("cluster")
    if not isinstance(tables, list) or not tables:
        raise UserError(f"{path} names no cluster: expected [[cluster]] with name and admin-url")
    fleet: list[FleetCluster] = []
    for place, table in enumerate(tables):
        entry = FleetEntry(path, text, place, table)
        cluster = entry.cluster()
        if any(each.name == cluster.name for each in fleet):
            raise entry.error("name", f"{cluster.name!r} is the name of another cluster")
        fleet.append(cluster)
    return tuple(fleet)


class FleetEntry:
    """One ``[[cluster]]`` table of a fleet's TOML file."""

    def __init__(self, path: str, text: str, place: int, table: object) -> None:
        self._path, self._text, self._place = path, text, place
        self._table: Mapping[str, object] = table if isinstance(table, dict) else {}

    def cluster(self) -> FleetCluster:
        """Make the cluster that the table describes; raises `UserError`."""
        if unknown := self._table.keys() - TEXTS - FLAGS:
            known = ", ".join(sorted(TEXTS | FLAGS))
            raise self.error(min(unknown), f"is unknown; known are {known}")
        for key in self._table.keys() & FLAGS:
            if not isinstance(self._table[key], bool):
                raise self.error(key, "expected true or false")
        name = self._given("name")
        if not name.isprintable() or len(name) > NAME_MOST:
            raise self.error("name", f"expected up to {NAME_MOST} printable characters")
        try:
            addresses = admin_urls(self._given("admin-url"))
        except UserError as error:
            raise self.error("admin-url", str(error).partition(" ")[2]) from None
        for key, schemes in URLS.items():
            url = self._value(key)
            if url and (not url.startswith(schemes) or not url.isprintable() or " " in url):
                raise self.error(key, f"{url!r}: expected {' or '.join(schemes)}…")
        return FleetCluster(
            name,
            addresses,
            self._value("history"),
            self._value("service-url"),
            self._value("console"),
            self._security(),
        )

    def _security(self) -> ClientSecurity:
        token, certificate = self._value("token-file"), self._value("tls-cert-file")
        if token and certificate:
            raise self.error("token-file", "and tls-cert-file: give one of them")
        options = ClientOptions(
            plugin="token" if token else "",
            parameters=Path(token).absolute().as_uri() if token else "",
            trust=self._value("tls-trust-cert-path"),
            certificate=certificate,
            key=self._value("tls-key-file"),
            allow_insecure=self._table.get("tls-allow-insecure") is True,
            verify_host=self._table.get("tls-enable-hostname-verification") is True,
        )
        try:
            return ClientSecurity(options, NAMES)
        except ConfigError as error:
            raise self.error("", str(error)) from None

    def _given(self, key: str) -> str:
        if not (text := self._value(key)):
            raise self.error(key, "is needed")
        return text

    def _value(self, key: str) -> str:
        value = self._table.get(key, "")
        if not isinstance(value, str):
            raise self.error(key, "expected a text in quotes")
        return value.strip()

    def error(self, key: str, what: str) -> UserError:
        """Make the error about one of the table's keys, with file and line; the caller raises it.

        ``what`` says what is wrong with the key. An empty key means the whole table.
        """
        lines = self._text.splitlines()
        heads = [n for n, line in enumerate(lines) if re.match(r"\s*\[\[\s*cluster\s*\]\]", line)]
        # An inline table (`cluster = [{…}]`) has no [[cluster]] line, so no line is named.
        if self._place >= len(heads):
            return UserError(f"{self._path}, cluster {self._place + 1}: {key} {what}")
        begin, end = heads[self._place], (*heads, len(lines))[self._place + 1]
        own = range(begin, end)
        pattern = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*=""")
        line = next((n for n in own if key and pattern.match(lines[n])), begin)
        return UserError(f"{self._path}, line {line + 1}: {f'{key} {what}'.strip()}")
