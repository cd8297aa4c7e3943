"""What brokers write about themselves into the metadata store, in Pulsar's own JSON."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

R = TypeVar("R")


class InvalidRecord(ValueError):
    """A value in the metadata store cannot be parsed as the record that belongs at its path."""

    def __init__(self, kind: str, value: bytes) -> None:
        super().__init__(f"not a {kind} record: {value[:200]!r}")


@dataclass(frozen=True, slots=True)
class LeaderBroker:
    """The record of the elected leader (``/loadbalance/leader``, Pulsar's ``LeaderBroker``)."""

    broker_id: str
    service_url: str
    """The leader's web service URL, to which clients are redirected."""

    def to_json(self) -> bytes:
        """The record as JSON."""
        return _write({"brokerId": self.broker_id, "serviceUrl": self.service_url})

    @staticmethod
    def from_json(value: bytes) -> "LeaderBroker":
        """Parse the record from JSON; raises `InvalidRecord`."""
        read = _read("LeaderBroker", value, "brokerId")
        return LeaderBroker(str(read["brokerId"]), str(read.get("serviceUrl") or ""))


@dataclass(frozen=True, slots=True)
class NamespaceEphemeralData:
    """A bundle's lock (``/namespace/<bundle>``, Pulsar's class name): its owner's addresses."""

    native_url: str
    http_url: str
    native_url_tls: str | None = None
    http_url_tls: str | None = None
    disabled: bool = False
    """Whether the owner is about to release the bundle and takes no new clients; set during a
    split."""
    advertised_listeners: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def broker_id(self) -> str:
        """The owner's id, ``host:webPort``, from its web URL."""
        return (self.http_url or self.http_url_tls or "").rpartition("//")[2].rstrip("/")

    def to_json(self) -> bytes:
        """The record as JSON, without nulls."""
        return _write(
            {
                "nativeUrl": self.native_url,
                "nativeUrlTls": self.native_url_tls,
                "httpUrl": self.http_url,
                "httpUrlTls": self.http_url_tls,
                "disabled": self.disabled,
                "advertisedListeners": dict(self.advertised_listeners),
            }
        )

    @staticmethod
    def from_json(value: bytes) -> "NamespaceEphemeralData":
        """Parse the record from JSON; raises `InvalidRecord`."""
        read = _read("NamespaceEphemeralData", value)
        return NamespaceEphemeralData(
            native_url=str(read.get("nativeUrl") or ""),
            http_url=str(read.get("httpUrl") or ""),
            native_url_tls=read.get("nativeUrlTls"),
            http_url_tls=read.get("httpUrlTls"),
            disabled=bool(read.get("disabled", False)),
            advertised_listeners=read.get("advertisedListeners") or {},
        )


@dataclass(frozen=True, slots=True)
class HandOver:
    """The announcement that an owner writes before it releases a bundle, and deletes afterwards.

    Pulsar's lock protocol has none. It leaves a released bundle to the next lookup; here the
    successor is ready before the owner closes its topics.
    """

    source: str
    """The id of the broker that releases the bundle."""
    destination: str | None
    """The id of the broker that takes over; None: wherever the next lookup puts it."""

    def to_json(self) -> bytes:
        """The record as JSON, without nulls."""
        return _write({"source": self.source, "destination": self.destination})

    @staticmethod
    def from_json(value: bytes) -> "HandOver":
        """Parse the record from JSON; raises `InvalidRecord`."""
        read = _read("HandOver", value, "source")
        return HandOver(str(read["source"]), read.get("destination"))


def record_or_none(parse: Callable[[bytes], R], value: bytes | None) -> R | None:
    """Parse a node's value as a record; None if there is no node, or no valid record in it."""
    if value is None:
        return None
    try:
        return parse(value)
    except InvalidRecord:
        return None


def _write(fields: Mapping[str, Any]) -> bytes:
    present = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(present, separators=(",", ":")).encode()


def _read(kind: str, value: bytes, *required: str) -> Mapping[str, Any]:
    try:
        read = json.loads(value)
    except ValueError:
        raise InvalidRecord(kind, value) from None
    if not (isinstance(read, dict) and read.keys() >= set(required)):
        raise InvalidRecord(kind, value)
    return read
