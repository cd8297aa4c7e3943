"""Answers to "who serves this topic?"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Connect:
    """This broker serves the topic: connect there (``LookupType.Connect``)."""

    broker_id: str
    service_url: str | None
    """``pulsar://host:port``."""
    web_url: str | None
    """``http://host:port``."""
    service_url_tls: str | None = None
    web_url_tls: str | None = None


@dataclass(frozen=True, slots=True)
class Redirect:
    """Ask that broker instead (``LookupType.Redirect``)."""

    broker_id: str
    service_url: str | None
    web_url: str | None
    authoritative: bool
    """Whether the decision is made: the broker asked next takes the bundle itself."""
    service_url_tls: str | None = None
    web_url_tls: str | None = None


LookupAnswer = Connect | Redirect
