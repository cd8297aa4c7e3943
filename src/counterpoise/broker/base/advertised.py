"""A broker's other addresses: ``advertisedListeners`` for clients, ``bindAddresses`` for sockets.

A listener is a name for one way to reach a broker, such as from outside its network. A client names
it in its lookups (``listenerName``), or connects to a socket that is bound for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from counterpoise.names.options import ConfigError

SERVICE_URL: Final = "brokerServiceUrl"
SERVICE_URL_TLS: Final = "brokerServiceUrlTls"
_URLS: Final = {
    "pulsar": SERVICE_URL,
    "pulsar+ssl": SERVICE_URL_TLS,
    "http": "brokerHttpUrl",
    "https": "brokerHttpsUrl",
}
_URLS_MAX: Final = 2
"""How many URLs Pulsar accepts for one listener, whatever their schemes."""

Listeners = Mapping[str, Mapping[str, Any]]
"""Listeners by name, each with its URLs, as brokers write them into their records."""
NO_LISTENERS: Final[Listeners] = MappingProxyType({})


def listeners_of(entries: Sequence[str], internal: str = "") -> dict[str, dict[str, str]]:
    """Parse ``name:pulsar://host:port`` entries to each listener's URLs, the ``internal`` listener
    first.

    Raises `ConfigError` by Pulsar's rules, and also for a missing or unknown scheme, which gives a
    listener without an address in Pulsar.
    """
    setting = "advertisedListeners"
    found: dict[str, dict[str, str]] = {}
    whose: dict[str, str] = {}
    for entry in filter(None, map(str.strip, entries)):
        name, scheme, host, port = _parse(setting, entry)
        urls = found.setdefault(name, {})
        address = f"{host}:{port}"
        if _URLS[scheme] in urls or len(urls) == _URLS_MAX:
            raise ConfigError(setting, f"listener {name} has too many addresses: {entry}")
        if whose.setdefault(address, name) != name:
            raise ConfigError(setting, f"{address} is of both {whose[address]} and {name}")
        urls[_URLS[scheme]] = f"{scheme}://{address}"
    if not found:
        return {}
    first = internal or next(iter(found))
    if first not in found:
        raise ConfigError(
            "internalListenerName", f"{internal} is none of advertisedListeners: {', '.join(found)}"
        )
    return {first: found.pop(first), **found}


def url_of(listeners: Mapping[str, Mapping[str, str]], scheme: str) -> str | None:
    """The first listener's URL of this scheme, for brokers and clients that name no listener."""
    urls = (each.get(_URLS[scheme]) for each in listeners.values())
    return next(filter(None, urls), None)


@dataclass(frozen=True, slots=True)
class BindAddress:
    """One entry of ``bindAddresses``: an additional socket and its listener."""

    listener: str
    scheme: str
    host: str
    port: int

    @property
    def tls(self) -> bool:
        """Whether clients connect to the address with TLS."""
        return self.scheme in ("pulsar+ssl", "https")

    @property
    def web(self) -> bool:
        """Whether the address serves the admin API."""
        return self.scheme in ("http", "https")


def bind_addresses_of(entries: Sequence[str]) -> tuple[BindAddress, ...]:
    """Parse ``name:pulsar://host:port`` entries of ``bindAddresses``; raises `ConfigError`."""
    parsed = (_parse("bindAddresses", each) for each in filter(None, map(str.strip, entries)))
    return tuple(BindAddress(*each) for each in parsed)


def _parse(setting: str, entry: str) -> tuple[str, str, str, int]:
    name, _, url = (part.strip() for part in entry.partition(":"))
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        scheme, host, port = "", None, None
    if not name or scheme not in _URLS or not host or port is None:
        raise ConfigError(
            setting,
            f"{entry} is not understood; write listener:scheme://host:port, the scheme one of "
            f"{', '.join(_URLS)}",
        )
    return name, scheme, f"[{host}]" if ":" in host else host, port
