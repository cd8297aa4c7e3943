"""What brokers write about themselves into the metadata store, in Pulsar's own JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


class InvalidRecord(ValueError):
    """A value in the metadata store that is not the record its path promises."""

    def __init__(self, kind: str, value: bytes) -> None:
        super().__init__(f"not a {kind} record: {value[:200]!r}")


@dataclass(frozen=True, slots=True)
class LeaderBroker:
    """Who leads (``/loadbalance/leader``, Pulsar's ``LeaderBroker``)."""

    broker_id: str
    service_url: str
    """The leader's web service URL; the client of a redirect goes there."""

    def to_json(self) -> bytes:
        """The record's bytes."""
        return _write({"brokerId": self.broker_id, "serviceUrl": self.service_url})

    @staticmethod
    def from_json(value: bytes) -> LeaderBroker:
        """Read it; raises `InvalidRecord`."""
        read = _read("LeaderBroker", value)
        try:
            return LeaderBroker(str(read["brokerId"]), str(read.get("serviceUrl") or ""))
        except KeyError:
            raise InvalidRecord("LeaderBroker", value) from None


@dataclass(frozen=True, slots=True)
class NamespaceEphemeralData:
    """Who owns a bundle (``/namespace/<tenant>/<namespace>/<range>``, Pulsar's class of that name).

    ``destination`` is this product's own addition: while the owner drains a bundle, the broker id
    that takes it next. Pulsar ignores the field.
    """

    native_url: str
    http_url: str
    native_url_tls: str | None = None
    http_url_tls: str | None = None
    disabled: bool = False
    """The owner is about to let go: it takes no new clients."""
    advertised_listeners: Mapping[str, Any] = field(default_factory=dict)
    destination: str | None = None

    @property
    def broker_id(self) -> str:
        """The owner's id, ``host:webPort``, which is the authority of its web URL."""
        return (self.http_url or self.http_url_tls or "").rpartition("//")[2].rstrip("/")

    def draining(self, destination: str | None) -> NamespaceEphemeralData:
        """The same owner, about to let go."""
        return replace(self, disabled=True, destination=destination)

    def to_json(self) -> bytes:
        """The record's bytes, nulls omitted."""
        return _write(
            {
                "nativeUrl": self.native_url,
                "nativeUrlTls": self.native_url_tls,
                "httpUrl": self.http_url,
                "httpUrlTls": self.http_url_tls,
                "disabled": self.disabled,
                "advertisedListeners": dict(self.advertised_listeners),
                "destination": self.destination,
            }
        )

    @staticmethod
    def from_json(value: bytes) -> NamespaceEphemeralData:
        """Read it; raises `InvalidRecord`."""
        read = _read("NamespaceEphemeralData", value)
        return NamespaceEphemeralData(
            native_url=str(read.get("nativeUrl") or ""),
            http_url=str(read.get("httpUrl") or ""),
            native_url_tls=read.get("nativeUrlTls"),
            http_url_tls=read.get("httpUrlTls"),
            disabled=bool(read.get("disabled", False)),
            advertised_listeners=read.get("advertisedListeners") or {},
            destination=read.get("destination"),
        )


def _write(fields: Mapping[str, Any]) -> bytes:
    present = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(present, separators=(",", ":")).encode()


def _read(kind: str, value: bytes) -> Mapping[str, Any]:
    try:
        read = json.loads(value)
    except ValueError:
        raise InvalidRecord(kind, value) from None
    if not isinstance(read, dict):
        raise InvalidRecord(kind, value)
    return read
